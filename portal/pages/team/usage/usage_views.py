"""The pages of use, of a workload and of a team, and their files."""

from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.views.decorators.http import require_safe

from apps.accounts.actors import actor_of
from apps.cluster import request_cache
from apps.tenants.selectors import tenant_for
from apps.workloads.selectors.reading import workload_for
from portal.pages.parts.htmx import render_page
from portal.pages.team.usage import team_usage, use
from portal.pages.team.workloads import workload_detail


@require_safe
@request_cache.scope()
def workload_page(request: HttpRequest, tenant: str, workload: UUID) -> HttpResponse:
    """Where it stands, why, until when, what it does with its devices, what it costs."""
    actor, now = actor_of(request), timezone.now()
    row = workload_for(actor, workload, tenant)
    shown = workload_detail.page(actor, row, now=now) | use.of_workload(actor, row, request.GET, now=now)
    return render_page(request, "team/workloads/detail.html", shown, parts=workload_detail.PARTS | use.PARTS)


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
    with request_cache.scope():
        shown = team_usage.page(actor, tenant_for(actor, tenant), request.GET, now=timezone.now())
        return render_page(request, "team/usage/team.html", shown, parts=team_usage.PARTS)


@require_safe
def usage_file(request: HttpRequest, tenant: str, chart: str) -> HttpResponse:
    """One of its pictures or tables as CSV."""
    actor = actor_of(request)
    return team_usage.csv_of(actor, tenant_for(actor, tenant), chart, request.GET, now=timezone.now())
