"""A department's budget page with its burn-down, and the burn-down as a file."""

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_safe

from apps.accounts.actors import actor_of
from portal.pages.console.quotas import department_views
from portal.pages.parts.answers import require_form
from portal.pages.team.quota.team_quota import department_of
from portal.pages.team.usage import burn


@require_form
def department_page(request: HttpRequest, department: str) -> HttpResponse:
    """The department's budget page, with the burn-down."""
    file = reverse("console-department-budget-file", args=[department])
    return department_views.budget_page(
        request,
        department,
        more=lambda row: {"burns": burn.of_department(row, now=timezone.now()), "burn_file": file},
    )


@require_safe
def department_file(request: HttpRequest, department: str) -> HttpResponse:
    """The burn-down's figures as CSV."""
    row = department_of(actor_of(request), department)
    return burn.file_of_department(row, now=timezone.now())
