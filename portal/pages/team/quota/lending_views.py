"""A team's quota page with what was lent and borrowed over time, and that as a file."""

from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.views.decorators.http import require_safe

from apps.accounts.actors import actor_of
from apps.tenants.selectors import tenant_for
from portal.pages.parts.answers import require_form
from portal.pages.team.quota import lending, quota_views


@require_form
def quota_page(request: HttpRequest, tenant: str) -> HttpResponse:
    """The team's quota page, with the picture."""
    return quota_views.quota_page(
        request, tenant, more=lambda team: lending.page(team, request.GET, now=timezone.now())
    )


@require_safe
def lending_file(request: HttpRequest, tenant: str) -> HttpResponse:
    """The picture's figures as CSV."""
    team = tenant_for(actor_of(request), tenant)
    return lending.csv_of(team, request.GET, now=timezone.now())
