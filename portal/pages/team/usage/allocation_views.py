"""The pages of allocations: what a tenant or a workload held, and what of it counts."""

from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.views.decorators.http import require_safe

from apps.accounts.actors import actor_of
from apps.tenants.selectors import tenant_for
from portal.pages.parts.htmx import render_page
from portal.pages.team.usage import corrections, held


@require_safe
def team_allocations_page(request: HttpRequest, tenant: str, workload: UUID) -> HttpResponse:
    """The same for the tenant that pays for them."""
    shown = corrections.of_team(actor_of(request), tenant, workload, now=timezone.now())
    return render_page(request, "console/fleet/allocations.html", shown)


@require_safe
def tenant_page(request: HttpRequest, tenant: str) -> HttpResponse:
    """What a tenant held in a month, what was made with kubectl as well."""
    actor = actor_of(request)
    shown = held.page(actor, tenant_for(actor, tenant), request.GET, now=timezone.now())
    return render_page(request, "team/usage/allocations.html", shown)


@require_safe
def tenant_file(request: HttpRequest, tenant: str) -> HttpResponse:
    """The same as CSV, all of it."""
    actor = actor_of(request)
    return held.csv_of(actor, tenant_for(actor, tenant), request.GET, now=timezone.now())
