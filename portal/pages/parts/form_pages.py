"""A page with one form: how it is shown, taken, refused and sent on. Knows no form and no rule."""

from collections.abc import Callable, Mapping
from typing import Any

from django.http import HttpRequest, HttpResponse

from apps.errors import DomainError, Invalid
from apps.web.problems import answers
from apps.web.requests.idempotency import once
from portal.pages.parts.answers import with_status
from portal.pages.parts.htmx import redirect_after, render_page

Shown = Mapping[str, Any]


def form_page(
    request: HttpRequest,
    template: str,
    shown: Callable[[], Shown],
    *,
    form: Any,
    make: Callable[[], str],
    parts: frozenset[str] = frozenset(),
) -> HttpResponse:
    """A valid POST is made once and leads to the address that `make` answers; an invalid or refused one comes
    back with the words and what was typed.
    """
    status, context = 200, {**shown(), "form": form}
    if request.method == "POST":
        status, context = 422, context | {"failed": True}
        if form.is_valid():
            try:
                return redirect_after(request, once(request, make))
            except DomainError as error:
                status, context = error.status, context | _refused(request, form, error)
    return with_status(render_page(request, template, context, parts=parts), status)


def secret_page(
    request: HttpRequest,
    template: str,
    shown: Callable[[], Shown],
    *,
    form: Any,
    make: Callable[[], Shown],
    parts: frozenset[str] = frozenset(),
) -> HttpResponse:
    """A page whose form leads to a secret: it stands in this answer and nowhere else."""
    status, context = 200, {"form": form}
    # Before anything is made: whoever may not see the page is told that there is none.
    shown()
    if request.method == "POST":
        status, context = 422, context | {"failed": True}
        if form.is_valid():
            try:
                status, context = 200, {"form": form, **make()}
            except DomainError as error:
                status, context = error.status, context | _refused(request, form, error)
    return with_status(render_page(request, template, {**shown(), **context}, parts=parts), status)


def preview_page(
    request: HttpRequest, template: str, shown: Callable[[], Shown], *, form: Any, told: Callable[[], Shown]
) -> HttpResponse:
    """A POST that keeps nothing: the page with what `told` says of the typed values, or what is wrong."""
    status, context = 422, {**shown(), "form": form}
    if not form.is_valid():
        return with_status(render_page(request, template, context | {"failed": True}), status)
    try:
        status, context = 200, {**context, **told()}
    except DomainError as error:
        status, context = error.status, context | {"failed": True} | _refused(request, form, error)
    return with_status(render_page(request, template, context), status)


def _refused(request: HttpRequest, form: Any, error: DomainError) -> dict[str, Any]:
    """Problems of the form's own fields stand beside them; any other refusal stands above the form."""
    if isinstance(error, Invalid) and error.problems:
        shown = {field.name for field in form.visible_fields()}
        placed = [(problem.pointer.strip("/"), problem.detail) for problem in error.problems]
        if all(name in shown for name, _ in placed):
            for name, detail in placed:
                form.add_error(name, detail)
            return {}
    return {"refusal": answers.problem_for(error, request)}
