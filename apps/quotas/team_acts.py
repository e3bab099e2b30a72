"""The pages on which a manager or platform engineer changes what a team has: grants, its budget, its hold."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_POST

from apps.accounts.actors import actor_of
from apps.accounts.specs import Actor
from apps.errors import NotFound
from apps.quotas import budgeting, granting, holding, moving, selectors, spending, team_pages
from apps.quotas.team_forms import BudgetForm, GrantForm, HoldForm, MoveForm
from apps.tenants.models import Tenant
from apps.tenants.selectors import tenant_for
from apps.web.form_pages import form_page, preview_page
from apps.web.htmx import redirect_after

Do = Callable[[Actor, Tenant, Any, datetime], None]


@dataclass(frozen=True)
class Act:
    """A form with what it does; `allow` raises for those who may not, before anything is read."""

    title: str
    words: str
    button: str
    form: type[Any]
    allow: Callable[[Actor, Tenant], None]
    do: Do


@require_http_methods(["GET", "HEAD", "POST"])
def act_page(request: HttpRequest, tenant: str, act: str) -> HttpResponse:
    """One act's form; a POST does it and leads back to the team's quota."""
    actor, now = actor_of(request), timezone.now()
    team, known = tenant_for(actor, tenant), ACTS.get(act)
    if known is None:
        raise NotFound
    known.allow(actor, team)
    form = known.form(team, request.POST or None)

    def make() -> str:
        known.do(actor, team, form, now)
        return f"/t/{team.slug}/quota/"

    return form_page(request, "quotas/act.html", lambda: {"tenant": team, "act": known}, form=form, make=make)


@require_http_methods(["GET", "HEAD", "POST"])
def move_page(request: HttpRequest, tenant: str) -> HttpResponse:
    """Move guarantee to a neighbour: a POST previews, and does it once confirmed."""
    actor = actor_of(request)
    team = tenant_for(actor, tenant)
    moving.require_mover(actor, team)
    form = MoveForm(team, team_pages.neighbours(actor, team), request.POST or None)
    shown = lambda: {"tenant": team}  # noqa: E731 - read only where it is shown
    if request.method == "POST" and request.POST.get("confirm") != "yes":
        told = partial(_moved, actor, form)
        return preview_page(request, "quotas/move.html", shown, form=form, told=told)
    return form_page(request, "quotas/move.html", shown, form=form, make=partial(_move, actor, form))


def _moved(actor: Actor, form: MoveForm) -> dict[str, Any]:
    move = form.move()
    return {"effect": moving.preview_move(actor=actor, move=move, now=timezone.now()), "move": move}


def _move(actor: Actor, form: MoveForm) -> str:
    left = moving.move_quota(actor=actor, move=form.move(), now=timezone.now())
    return f"/t/{left.tenant.slug}/quota/"


@require_POST
def end_grant(request: HttpRequest, tenant: str, grant: UUID) -> HttpResponse:
    """End a grant of the team now."""
    actor = actor_of(request)
    found = spending.grant_for(actor, grant)
    if found.tenant.slug != tenant:
        raise NotFound
    granting.end_grant(actor=actor, grant=found, now=timezone.now())
    messages.success(request, f"Ended: {found.count} more {found.offer.name}. What runs stays.")
    return redirect_after(request, f"/t/{tenant}/quota/")


def _grant(actor: Actor, team: Tenant, form: Any, now: datetime) -> None:
    offer = selectors.offer_for(actor, form.cleaned_data["offer"])
    granting.give_grant(actor=actor, tenant=team, offer=offer, wish=form.wish(), now=now)


def write_budget(actor: Actor, owner: budgeting.Owner, form: Any, now: datetime) -> None:
    """What was typed on a valid `BudgetForm`; both limits empty takes the budget in that unit away."""
    limits = form.limits()
    row = owner.budgets.filter(unit=limits.unit).first()
    if limits.soft is None and limits.hard is None and row is not None:
        budgeting.delete_budget(actor=actor, row=row, now=now)
    else:
        budgeting.set_budget(actor=actor, owner=owner, limits=limits, now=now)


def _hold(actor: Actor, team: Tenant, form: Any, now: datetime) -> None:
    holding.hold_queue(actor=actor, tenant=team, reason=form.cleaned_data["reason"], now=now)


def _release(actor: Actor, team: Tenant, form: Any, now: datetime) -> None:
    holding.release_queue(actor=actor, tenant=team, reason=form.cleaned_data["reason"], now=now)


ACTS = {
    "grant": Act(
        "Give more for a while",
        "It counts on top of the quota from now on. When it ends, what runs stays.",
        "Give it",
        GrantForm,
        granting.require_giver,
        _grant,
    ),
    "budget": Act(
        "Set the budget",
        "Per calendar month (UTC). Both limits empty takes the budget away.",
        "Set it",
        BudgetForm,
        budgeting.require_budgeter,
        write_budget,
    ),
    "hold": Act(
        "Hold the queue",
        "Nothing new starts, whoever made it. What runs goes on.",
        "Hold it",
        HoldForm,
        holding.require_holder,
        _hold,
    ),
    "release": Act(
        "Release the queue",
        "What waits may start, unless a budget or a suspension still holds it.",
        "Release it",
        HoldForm,
        holding.require_holder,
        _release,
    ),
}
