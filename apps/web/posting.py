"""Pages with one form: a valid POST leads on, an invalid or refused one comes back with the words."""

from collections.abc import Callable, Mapping
from typing import Any

from django.http import HttpRequest, HttpResponse

from apps.errors import DomainError
from apps.web import problems
from apps.web.htmx import redirect_after, render_page
from apps.web.idempotency import once

PARTS = frozenset({"rows"})
Shown = Mapping[str, Any]


def form_page(
    request: HttpRequest,
    template: str,
    shown: Callable[[], Shown],
    *,
    form: Any,
    make: Callable[[], str],
    name: str = "form",
) -> HttpResponse:
    """A page with one form: a valid POST leads on, an invalid or refused one comes back with the words."""
    status, context = 200, shown()
    more: dict[str, Any] = {}
    if request.method == "POST":
        status, more = 422, {"failed": True}
        if form.is_valid():
            try:
                return redirect_after(request, once(request, make))
            except DomainError as error:
                status = error.status
                more |= {"refusal": problems.problem_for(error, request)}
    page = render_page(request, template, {**context, name: form, **more}, parts=PARTS)
    page.status_code = status
    return page


def secret_page(
    request: HttpRequest,
    template: str,
    shown: Callable[[], Shown],
    *,
    form: Any,
    make: Callable[[], Shown],
) -> HttpResponse:
    """A page whose form leads to a secret: it stands in this answer and nowhere else."""
    status = 200
    more: dict[str, Any] = {}
    # Before anything is made: whoever may not see the page is told that there is none.
    shown()
    if request.method == "POST":
        status, more = 422, {"failed": True}
        if form.is_valid():
            try:
                status, more = 200, dict(make())
            except DomainError as error:
                status = error.status
                more |= {"refusal": problems.problem_for(error, request)}
    page = render_page(request, template, {"form": form, **shown(), **more}, parts=PARTS)
    page.status_code = status
    return page
