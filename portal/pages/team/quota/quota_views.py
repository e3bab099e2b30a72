"""A team's quota page with its requests: parse, call, present."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.views.decorators.http import require_POST, require_safe

from apps.accounts.actors import actor_of
from apps.errors import NotFound
from apps.quotas.budgets.selectors import spending
from apps.quotas.catalogue.selectors import offers
from apps.quotas.models import QuotaRequest
from apps.quotas.requests.services import deciding
from apps.tenants.models import Tenant
from apps.tenants.selectors import tenant_for
from portal.pages.parts.answers import require_form
from portal.pages.parts.form_pages import form_page
from portal.pages.parts.htmx import redirect_after
from portal.pages.team.quota import team_quota
from portal.pages.team.quota.quota_forms import AskForm, SayForm

More = Callable[[Tenant], dict[str, Any]]


@require_form
def quota_page(request: HttpRequest, tenant: str, more: More = lambda _team: {}) -> HttpResponse:
    """What a team has and may ask for; a POST asks. `more` is added to the page's context."""
    actor, now = actor_of(request), timezone.now()
    team = tenant_for(actor, tenant)
    form = AskForm(team, request.POST or None)

    def ask() -> str:
        offer = offers.offer_for(actor, form.cleaned_data["offer"])
        made = deciding.ask(actor=actor, tenant=team, offer=offer, wish=form.wish(), now=now)
        return _url(made)

    if request.method == "POST":
        deciding.require_asker(actor, team)
    shown = lambda: team_quota.team(actor, team, now=now) | more(team)  # noqa: E731 - read only where the page is shown
    return form_page(request, "team/quota/team.html", shown, form=form, make=ask, parts=team_quota.PARTS)


@require_safe
def quota_file(request: HttpRequest, tenant: str) -> HttpResponse:
    """The bars as CSV."""
    actor = actor_of(request)
    return team_quota.csv_of(actor, tenant_for(actor, tenant))


@require_form
def request_page(request: HttpRequest, tenant: str, quota_request: UUID) -> HttpResponse:
    """One request of a team; a POST says something."""
    actor, now = actor_of(request), timezone.now()
    row = _found(request, tenant, quota_request)
    form = SayForm(request.POST or None)

    def say() -> str:
        deciding.comment(actor=actor, request=row, text=form.cleaned_data["text"], now=now)
        return request.path

    if request.method == "POST":
        deciding.require_speaker(actor, row.tenant)
    shown = lambda: team_quota.request(actor, row, now=now)  # noqa: E731 - as above
    parts = team_quota.REQUEST_PARTS
    return form_page(request, "team/quota/request.html", shown, form=form, make=say, parts=parts)


@require_POST
def withdraw(request: HttpRequest, tenant: str, quota_request: UUID) -> HttpResponse:
    """Take an open request back."""
    row = _found(request, tenant, quota_request)
    deciding.withdraw(actor=actor_of(request), request=row, now=timezone.now())
    messages.success(request, "Withdrawn. Nobody has to decide any more.")
    return redirect_after(request, _url(row))


def _found(request: HttpRequest, tenant: str, pk: UUID) -> QuotaRequest:
    """The request, if the actor sees it there; another tenant's address of it is unknown."""
    row = spending.request_for(actor_of(request), pk)
    if row.tenant.slug != tenant:
        raise NotFound
    return row


def _url(row: QuotaRequest) -> str:
    return f"/t/{row.tenant.slug}/quota/requests/{row.pk}/"
