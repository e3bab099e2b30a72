"""What the pages of the records show. Reads only."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from django.apps import apps
from django.contrib.admin.templatetags.admin_list import result_headers
from django.contrib.admin.utils import unquote
from django.contrib.admin.views.main import ChangeList
from django.db.models import Model
from django.http import HttpRequest
from django.urls import reverse
from django.utils.text import capfirst

from apps.accounts.specs import Actor
from apps.audit.specs import Target
from apps.errors import NotFound
from portal.pages.console.records import cells, columns, record_site
from portal.pages.console.records.record_site import SITE, Records
from portal.pages.console.records.withheld import is_listed, is_withheld
from portal.pages.team.audit.audit_lines import OF_TEAM, pages_of

if TYPE_CHECKING:
    from portal.pages.console.records.withheld import Column

ACRONYMS = {"api": "API", "ssh": "SSH"}
BY_ID = {
    "drift": "console-drift-repair",
    "quota_request": "console-request",
    "invitation": "console-invitation",
}
"""Kinds of things that the console has a page of for each."""
OF_TENANT = {**OF_TEAM, "tenant": "console-tenant"}
YES_NO = (("1", "yes"), ("0", "no"))


@dataclass(frozen=True)
class Place:
    """Something that a page leads to."""

    words: str
    url: str


def index() -> dict[str, Any]:
    """Every model, by app."""
    by_app: dict[str, list[Place]] = {}
    for model in sorted(SITE._registry, key=title_of):
        by_app.setdefault(model._meta.app_label, []).append(Place(title_of(model), list_of(model)))
    return {"apps": [(capfirst(app), by_app[app]) for app in sorted(by_app)], "missing": missing()}


def missing() -> list[str]:
    """The models of the product without pages here."""
    ours = [each for each in apps.get_models() if each.__module__.startswith("apps.") and not is_listed(each)]
    return sorted(title_of(each) for each in ours)


def title_of(model: type[Model]) -> str:
    """Its rows, as a heading."""
    *first, last = [ACRONYMS.get(word, word) for word in str(model._meta.verbose_name).split()]
    many = f"{last[:-1]}ies" if last[-2:] in ("ty", "cy") else f"{last}s"
    return capfirst(" ".join([*first, many]))


def list_of(model: type[Model], query: str = "") -> str:
    """The address of its list."""
    return reverse("records-list", args=[model._meta.app_label, model._meta.model_name]) + query


def listing(records: Records, request: HttpRequest) -> dict[str, Any]:
    """A page of a list."""
    asked = records.listing(request)
    rows = list(asked.result_list)
    fields = [each for each in columns.ordered(records.model) if each.name in asked.list_display]
    names = cells.names_behind(rows, fields)
    lines = [cells.led(each, _line(each, fields, names)) for each in rows]
    return {
        "title": title_of(records.model), "heads": list(result_headers(asked)), "lines": lines,
        "asked": asked, "filters": list(_filters(records, asked)), "kept": _kept(asked),
        "is_narrowed": bool(asked.query or asked.get_filters_params()), "most": record_site.MOST_ROWS,
        "is_cut": asked.result_count >= record_site.MOST_ROWS, "whole": records.is_whole(request),
        "searched": _searched(records, request),
        "newer": _page(asked, -1), "older": _page(asked, 1),
    }  # fmt: skip


def _line(row: Model, fields: list[Column], names: cells.Names) -> list[cells.Cell]:
    return [cells.cell(row, field, names, cells.LONGEST_IN_A_LIST) for field in fields]


def _filters(records: Records, asked: ChangeList) -> Iterator[dict[str, Any]]:
    """What a list is narrowed by, with the values that there are."""
    for each in columns.ordered(records.model):
        if each.name in asked.list_filter:
            name = f"{each.name}__exact"
            values = [(str(value), words) for value, words in each.flatchoices or YES_NO]
            yield {
                "name": name, "title": capfirst(str(each.verbose_name)), "values": values,
                "chosen": asked.params.get(name, ""),
            }  # fmt: skip


def _kept(asked: ChangeList) -> list[tuple[str, str]]:
    """What a form keeps of the address beside its own fields."""
    own = {"q", *(f"{name}__exact" for name in asked.list_filter)}
    return sorted((name, value) for name, value in asked.params.items() if name not in own)


def _searched(records: Records, request: HttpRequest) -> list[str]:
    fields = columns.searched(records.model, whole=records.is_whole(request))
    return [str(each.verbose_name) for each in fields]


def _page(asked: ChangeList, step: int) -> str:
    number = asked.page_num + step
    return asked.get_query_string({"p": str(number)}) if 1 <= number <= asked.paginator.num_pages else ""


def row(records: Records, request: HttpRequest, key: str, actor: Actor) -> dict[str, Any]:
    """A row: every column but those that are withheld, what points to it, and its page. Raises NotFound."""
    found: Model | None = records.get_object(request, unquote(key))
    if found is None:
        raise NotFound
    fields = columns.ordered(records.model)
    names = cells.names_behind([found], fields)
    hidden = [str(each.verbose_name) for each in records.model._meta.concrete_fields if is_withheld(each)]
    return {
        "title": title_of(records.model), "list": list_of(records.model), "key": str(found.pk),
        "name": str(getattr(found, columns.name_of(records.model) or "pk")),
        "cells": [cells.cell(found, each, names) for each in fields], "hidden": hidden,
        "pointing": sorted(_pointing(records.model, found), key=itemgetter(0)), "pages": _pages(found, actor),
    }  # fmt: skip


def _pointing(model: type[Model], found: Model) -> Iterator[tuple[str, str]]:
    for field in columns.pointing(model):
        if is_listed(field.model):
            query = f"?{field.name}={found.pk}"
            yield f"{title_of(field.model)}, {field.verbose_name}", list_of(field.model, query)


def _pages(found: Model, actor: Actor) -> list[Place]:
    """Where it is changed, and what was done with it."""
    target: Target | None = getattr(found, "audit_target", None)
    if target is None:
        return []
    page = _page_of(target, actor)
    own = [Place("Its page", page)] if page else []
    return [*own, Place("In the audit record", f"{reverse('console-audit')}?target={target.key}")]


def _page_of(target: Target, actor: Actor) -> str:
    if target.kind in BY_ID:
        return reverse(BY_ID[target.kind], args=[target.key])
    if target.kind in OF_TENANT and target.tenant:
        return reverse(OF_TENANT[target.kind], args=[target.tenant])
    return pages_of(actor, target.kind, [str(target.key)]).get(str(target.key), "")
