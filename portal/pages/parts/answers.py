"""Helpers for views: which methods a form takes, the posted data, a message with the next page, a status."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, QueryDict
from django.views.decorators.http import require_http_methods

from portal.pages.parts.htmx import redirect_after

require_form = require_http_methods(["GET", "HEAD", "POST"])
"""A page that shows a form and takes it."""


def sent(request: HttpRequest) -> QueryDict | None:
    """What was posted; None where nothing was."""
    return request.POST if request.method == "POST" else None


def done(request: HttpRequest, words: str, url: str) -> HttpResponse:
    """A message, and the page that shows it."""
    messages.success(request, words)
    return redirect_after(request, url)


def with_status(response: HttpResponse, status: int) -> HttpResponse:
    """The same page with another status."""
    response.status_code = status
    return response
