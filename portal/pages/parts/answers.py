"""Helpers for views: which methods a form takes, the posted data, a message with the next page, a status."""

from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, QueryDict
from django.utils import timezone
from django.views.decorators.http import require_http_methods

from apps.tenants.people.services.inviting import Invited
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


def link_of(invited: Invited) -> str:
    """The one-time link's address; empty if no account was made."""
    return f"{settings.CONFIG.url}/invite/{invited.link}/" if invited.link else ""


def asked_to(what: str) -> str:
    """RULE: a message stays while the page moves on, so it says what was asked and never how things stand."""
    return f"Asked at {timezone.now():%H:%M} to {what}."


def see_other(url: str) -> HttpResponse:
    """Go there with a GET, whatever this was."""
    response = HttpResponseRedirect(url)
    response.status_code = 303
    return response


def with_status(response: HttpResponse, status: int) -> HttpResponse:
    """The same page with another status."""
    response.status_code = status
    return response
