"""The team's page of its audit record."""

from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.views.decorators.http import require_safe

from apps.accounts.actors import actor_of
from apps.tenants.selectors import tenant_for
from portal.pages.parts.htmx import render_page
from portal.pages.team.audit import audit_pages


@require_safe
def tenant_page(request: HttpRequest, tenant: str) -> HttpResponse:
    """What was done in it."""
    actor = actor_of(request)
    shown = audit_pages.team(actor, tenant_for(actor, tenant), request.GET, now=timezone.now())
    return render_page(request, "team/audit/audit.html", shown, parts=audit_pages.PARTS)
