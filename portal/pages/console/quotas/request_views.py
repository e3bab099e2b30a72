"""The console's quota requests: parse, call, present."""

from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.views.decorators.http import require_safe

from apps.accounts.actors import actor_of
from apps.quotas.budgets.selectors import spending
from apps.quotas.requests.services import deciding
from portal.pages.parts.answers import require_form
from portal.pages.parts.form_pages import form_page
from portal.pages.parts.htmx import render_page
from portal.pages.team.quota import team_quota
from portal.pages.team.quota.quota_forms import DecideForm


@require_safe
def requests_page(request: HttpRequest) -> HttpResponse:
    """What waits for a decision, quota and invitations, oldest first."""
    shown = team_quota.console(actor_of(request), now=timezone.now())
    return render_page(
        request, "console/quotas/requests.html", shown, parts=frozenset({"rows", "invitations"})
    )


@require_form
def decide_page(request: HttpRequest, quota_request: UUID) -> HttpResponse:
    """One request with what it would change; a POST decides."""
    actor, now = actor_of(request), timezone.now()
    team_quota.require_console(actor)
    row = spending.request_for(actor, quota_request)
    form = DecideForm(request.POST or None, initial={"count": row.count, "decision": "approve"})

    def decide() -> str:
        typed = form.cleaned_data
        given = {"actor": actor, "request": row, "reason": typed["reason"], "now": now}
        if typed["decision"] == "approve":
            deciding.approve(**given, count=typed["count"])
        else:
            deciding.decline(**given)
        return "/console/requests/"

    if request.method == "POST":
        deciding.require_decider(actor, row.tenant)
    shown = lambda: team_quota.request(actor, row, now=now)  # noqa: E731 - as above
    parts = team_quota.REQUEST_PARTS
    return form_page(request, "console/quotas/request.html", shown, form=form, make=decide, parts=parts)
