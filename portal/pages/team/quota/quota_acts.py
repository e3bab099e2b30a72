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
from django.views.decorators.http import require_POST

from apps.accounts.actors import actor_of
from apps.accounts.specs import Actor
from apps.errors import NotFound
from apps.quotas.allowances.selectors.effect import Effect
from apps.quotas.allowances.services import granting, moving
from apps.quotas.budgets.selectors import spending
from apps.quotas.budgets.services import budgeting, holding
from apps.quotas.catalogue.selectors import offers
from apps.quotas.models import Grant
from apps.tenants.models import Tenant
from apps.tenants.selectors import tenant_for
from portal.pages.parts.answers import require_form
from portal.pages.parts.form_pages import form_page, preview_page
from portal.pages.parts.forms import OnceForm
from portal.pages.parts.htmx import redirect_after, render_page
from portal.pages.team.quota import team_quota
from portal.pages.team.quota.quota_forms import BudgetForm, GrantForm, HoldForm, MoveForm

Do = Callable[[Actor, Tenant, Any, datetime], None]
ACT = "team/quota/act.html"


@dataclass(frozen=True)
class Act:
    """A form with what it does; `allow` raises for those who may not, before anything is read. `told` is the
    effect that is shown before it is done.
    """

    title: str
    words: str
    button: str
    form: type[Any]
    allow: Callable[[Actor, Tenant], None]
    do: Do
    told: Callable[[Actor, Tenant, Any, datetime], Effect] | None = None

    @property
    def has_effect(self) -> bool:
        """Whether its effect is shown before it is done."""
        return self.told is not None


@require_form
def act_page(request: HttpRequest, tenant: str, act: str) -> HttpResponse:
    """One act's form; a POST does it, where it has an effect to show once that was seen, and leads back."""
    actor, known = actor_of(request), ACTS.get(act)
    if known is None:
        raise NotFound
    team = tenant_for(actor, tenant)
    known.allow(actor, team)
    form = known.form(team, request.POST or None)
    shown = lambda: {"tenant": team, "act": known}  # noqa: E731 - read only where it is shown
    if known.told and request.method == "POST" and request.POST.get("confirm") != "yes":
        told = partial(_told, known, actor, team, form)
        return preview_page(request, ACT, shown, form=form, told=told)
    return form_page(request, ACT, shown, form=form, make=partial(_make, known, actor, team, form))


def _told(act: Act, actor: Actor, team: Tenant, form: Any) -> dict[str, Any]:
    return {"effect": act.told(actor, team, form, timezone.now()) if act.told else None}


def _make(act: Act, actor: Actor, team: Tenant, form: Any) -> str:
    act.do(actor, team, form, timezone.now())
    return f"/t/{team.slug}/quota/"


@require_form
def move_page(request: HttpRequest, tenant: str) -> HttpResponse:
    """Move guarantee to a neighbour: a POST previews, and does it once confirmed."""
    actor = actor_of(request)
    team = tenant_for(actor, tenant)
    moving.require_mover(actor, team)
    form = MoveForm(team, team_quota.neighbours(actor, team), request.POST or None)
    shown = lambda: {"tenant": team}  # noqa: E731 - read only where it is shown
    if request.method == "POST" and request.POST.get("confirm") != "yes":
        told = partial(_moved, actor, form)
        return preview_page(request, "team/quota/move.html", shown, form=form, told=told)
    return form_page(request, "team/quota/move.html", shown, form=form, make=partial(_move, actor, form))


def _moved(actor: Actor, form: MoveForm) -> dict[str, Any]:
    move = form.move()
    return {"effect": moving.preview_move(actor=actor, move=move, now=timezone.now()), "move": move}


def _move(actor: Actor, form: MoveForm) -> str:
    left = moving.move_quota(actor=actor, move=form.move(), now=timezone.now())
    return f"/t/{left.tenant.slug}/quota/"


@require_POST
def end_grant(request: HttpRequest, tenant: str, grant: UUID) -> HttpResponse:
    """What ending a grant of the team now does; confirmed, it ends."""
    actor, now = actor_of(request), timezone.now()
    found = spending.grant_for(actor, grant)
    if found.tenant.slug != tenant:
        raise NotFound
    if request.POST.get("confirm") != "yes":
        told = granting.preview_end(actor=actor, grant=found, now=now)
        return render_page(request, ACT, _ending(found) | {"effect": told})
    granting.end_grant(actor=actor, grant=found, now=now)
    messages.success(request, f"Ended: {found.count} more {found.offer.name}. Running work stays.")
    return redirect_after(request, f"/t/{tenant}/quota/")


def _ending(grant: Grant) -> dict[str, Any]:
    """The page that asks before a grant is ended."""
    what = f"{grant.count} more {grant.offer.name}"
    act = {
        "title": f"End now: {what}",
        "words": "Running work stays until it ends.",
        "button": "End it now",
    }
    return {"tenant": grant.tenant, "act": act, "form": OnceForm()}


def _grant_effect(actor: Actor, team: Tenant, form: Any, now: datetime) -> Effect:
    offer = offers.offer_for(actor, form.cleaned_data["offer"])
    return granting.preview_give(actor=actor, tenant=team, offer=offer, wish=form.wish(), now=now)


def _grant(actor: Actor, team: Tenant, form: Any, now: datetime) -> None:
    offer = offers.offer_for(actor, form.cleaned_data["offer"])
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
        "It counts on top of the quota from now on. When it ends, running work stays.",
        "Give it",
        GrantForm,
        granting.require_giver,
        _grant,
        _grant_effect,
    ),
    "budget": Act(
        "Set the budget",
        "Per calendar month (UTC). Leave both limits empty to remove the budget.",
        "Set it",
        BudgetForm,
        budgeting.require_budgeter,
        write_budget,
    ),
    "hold": Act(
        "Hold the queue",
        "Nothing new starts, whoever made it. Running work continues.",
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
