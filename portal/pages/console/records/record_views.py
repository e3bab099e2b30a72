"""The console's records: parse, call, present."""

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from apps.accounts.actors import actor_of
from apps.accounts.specs import Actor
from apps.errors import NotFound
from portal.pages.console.records import record_pages
from portal.pages.console.records.record_site import records_of
from portal.pages.parts.htmx import render_page


def engineer_of(request: HttpRequest) -> Actor:
    """The platform engineer who asks; for everybody else there is no such page."""
    actor = actor_of(request)
    if not actor.is_platform:
        raise NotFound
    return actor


@require_safe
def index_page(request: HttpRequest) -> HttpResponse:
    """Every table."""
    engineer_of(request)
    return render_page(request, "console/records/index.html", record_pages.index())


@require_safe
def list_page(request: HttpRequest, app: str, model: str) -> HttpResponse:
    """The rows of one."""
    engineer_of(request)
    context = record_pages.listing(records_of(app, model), request)
    return render_page(request, "console/records/list.html", context)


@require_safe
def row_page(request: HttpRequest, app: str, model: str, key: str) -> HttpResponse:
    """One row."""
    actor = engineer_of(request)
    context = record_pages.row(records_of(app, model), request, key, actor)
    return render_page(request, "console/records/row.html", context)
