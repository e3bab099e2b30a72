"""Helpers for views: the posted data, a message with the next page, a status."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, QueryDict

from portal.pages.parts.htmx import redirect_after


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
