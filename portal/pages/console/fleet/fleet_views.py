"""The console's first page and its files."""

from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.views.decorators.http import require_safe

from apps.accounts.actors import actor_of
from apps.cluster import request_cache
from portal.pages.console.fleet import fleet
from portal.pages.parts.htmx import render_page


@require_safe
def fleet_page(request: HttpRequest) -> HttpResponse:
    """The console's first page: waste, use, supply, demand, what is sick."""
    with request_cache.scope():
        shown = fleet.page(actor_of(request), request.GET, now=timezone.now())
        return render_page(request, "console/fleet/fleet.html", shown, parts=fleet.PARTS)


@require_safe
def fleet_file(request: HttpRequest, chart: str) -> HttpResponse:
    """One of its pictures or tables as CSV."""
    return fleet.csv_of(actor_of(request), chart, request.GET, now=timezone.now())
