"""One page, and the parts of it that refresh alone: `?part=why` of a page is its partial `#why`."""

from collections.abc import Mapping
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from apps.errors import NotFound


def render_page(
    request: HttpRequest, template: str, context: Mapping[str, Any], *, parts: frozenset[str] = frozenset()
) -> HttpResponse:
    """The page, or for htmx asking `?part=<p>` the partial `<template>#<p>`; a part not in `parts` is 404."""
    part = request.GET.get("part")
    if part is not None and request.headers.get("HX-Request") == "true":
        if part not in parts:
            raise NotFound
        template = f"{template}#{part}"
    response = render(request, template, dict(context))
    response["Vary"] = "HX-Request"
    response["Cache-Control"] = "no-store"
    return response


def redirect_after(request: HttpRequest, url: str) -> HttpResponse:
    """Where to go after a form was accepted: 204 with HX-Redirect for htmx, else 303."""
    if request.headers.get("HX-Request") == "true":
        return HttpResponse(status=204, headers={"HX-Redirect": url})
    return HttpResponse(status=303, headers={"Location": url})
