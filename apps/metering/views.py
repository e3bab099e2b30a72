"""The pages of use: of a workload, of a team, of the fleet, their files, and how figures are computed."""

from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.views.decorators.http import require_safe

from apps.accounts.actors import actor_of
from apps.cluster.selectors import one_look
from apps.metering import formulas
from apps.metering.pages import fleet, team, use
from apps.tenants.selectors import tenant_for
from apps.web.htmx import render_page
from apps.workloads.pages import detail
from apps.workloads.selectors import workload_for


@require_safe
def workload_page(request: HttpRequest, tenant: str, workload: UUID) -> HttpResponse:
    """Where it stands, why, until when, what it does with its devices, what it costs."""
    actor, now = actor_of(request), timezone.now()
    row = workload_for(actor, workload, tenant)
    shown = detail.page(actor, row, now=now) | use.of_workload(actor, row, request.GET, now=now)
    return render_page(request, "workloads/detail.html", shown, parts=detail.PARTS | use.PARTS)


@require_safe
def workload_file(request: HttpRequest, tenant: str, workload: UUID) -> HttpResponse:
    """The figures of its picture as CSV."""
    actor = actor_of(request)
    row = workload_for(actor, workload, tenant)
    return use.file_of_workload(actor, row, request.GET, now=timezone.now())


@require_safe
def usage_page(request: HttpRequest, tenant: str) -> HttpResponse:
    """What a team held and did, and who wasted what."""
    actor = actor_of(request)
    with one_look():
        shown = team.page(actor, tenant_for(actor, tenant), request.GET, now=timezone.now())
        return render_page(request, "metering/team.html", shown, parts=team.PARTS)


@require_safe
def usage_file(request: HttpRequest, tenant: str, chart: str) -> HttpResponse:
    """One of its pictures or tables as CSV."""
    actor = actor_of(request)
    return team.csv_of(actor, tenant_for(actor, tenant), chart, request.GET, now=timezone.now())


@require_safe
def fleet_page(request: HttpRequest) -> HttpResponse:
    """The console's first page: waste, use, supply, demand, what is sick."""
    with one_look():
        shown = fleet.page(actor_of(request), request.GET, now=timezone.now())
        return render_page(request, "console/fleet.html", shown, parts=fleet.PARTS)


@require_safe
def fleet_file(request: HttpRequest, chart: str) -> HttpResponse:
    """One of its pictures or tables as CSV."""
    return fleet.csv_of(actor_of(request), chart, request.GET, now=timezone.now())


@require_safe
def how_page(request: HttpRequest) -> HttpResponse:
    """How every figure of use and cost is computed."""
    return render_page(request, "metering/how.html", {"formula": formulas.present()})
