"""The console's page of a department's budget: parse, call, present."""

from collections.abc import Callable
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.utils import timezone

from apps.accounts.actors import actor_of
from apps.quotas.budgets.services import budgeting
from apps.tenants.models import Department
from portal.pages.parts.answers import require_form
from portal.pages.parts.form_pages import form_page
from portal.pages.team.quota import quota_acts, team_quota
from portal.pages.team.quota.quota_forms import BudgetForm

More = Callable[[Department], dict[str, Any]]


@require_form
def budget_page(request: HttpRequest, department: str, more: More = lambda _row: {}) -> HttpResponse:
    """What the department may spend and has; a POST sets it, for platform engineers. `more` is added to the
    page's context.
    """
    actor, now = actor_of(request), timezone.now()
    row = team_quota.department_of(actor, department)
    form = BudgetForm(row, request.POST or None)

    def make() -> str:
        quota_acts.write_budget(actor, row, form, now)
        return request.path

    if request.method == "POST":
        budgeting.require_budgeter(actor, row)
    shown = lambda: team_quota.department(actor, row, now=now) | more(row)  # noqa: E731 - read only where it is shown
    return form_page(request, "console/quotas/department.html", shown, form=form, make=make)
