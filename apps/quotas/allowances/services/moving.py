"""Moves what is guaranteed from one tenant to another of its department, whose sum stays as it is.

Records intent only, in rows; the reconcile reaches the cluster.
"""

from dataclasses import dataclass, replace
from datetime import datetime

from django.db import transaction

from apps.accounts.specs import Actor, system_actor
from apps.audit import services as audit
from apps.errors import FieldProblem, Invalid, NotAllowed
from apps.notices import services as notices
from apps.notices.specs import Kind
from apps.quotas import policies
from apps.quotas.allowances.selectors import effect
from apps.quotas.allowances.selectors.effect import Effect
from apps.quotas.allowances.services import quota_changes
from apps.quotas.allowances.services.quota_changes import Amounts
from apps.quotas.models import Offer, Quota
from apps.quotas.wake.selectors import audience
from apps.tenants.models import Tenant
from apps.web.requests.rehearsals import rehearsal


@dataclass(frozen=True)
class Move:
    """`count` devices of the offer's guarantee, from `giver` to `taker`."""

    giver: Tenant
    taker: Tenant
    offer: Offer
    count: int
    reason: str = ""


@transaction.atomic
def move_quota(*, actor: Actor, move: Move, now: datetime) -> Quota:
    """Takes guarantee from one tenant and gives it to the other; answers what the giver has left.

    Rule: managers of the department and platform engineers, between two tenants of that department, at most
    what the giver is guaranteed: the department's sum never grows. What the taker may have is judged as in
    `services.set_quota`. Limits stay; only what the giver must lend is cut to what it keeps. A cut below what
    runs stops nothing. The leads of both are told.
    """
    require_mover(actor, move.giver)
    require_mover(actor, move.taker)
    pair = sorted((move.giver, move.taker), key=lambda tenant: tenant.pk)
    lock_both(*pair)
    had = {tenant.pk: _amounts(tenant, move.offer) for tenant in pair}
    _check(move, had[move.giver.pk].nominal_quota)
    given, taken = had[move.giver.pk], had[move.taker.pk]
    left = given.nominal_quota - move.count
    lends = None if given.lending_limit is None else min(given.lending_limit, left)
    wanted = {
        move.giver.pk: replace(given, nominal_quota=left, lending_limit=lends),
        move.taker.pk: replace(taken, nominal_quota=taken.nominal_quota + move.count),
    }
    # Who may move may not set: the move's own record names who did it and why.
    who = actor if policies.can_set_quota(actor, move.giver) else system_actor("move")
    quotas = [
        quota_changes.set_quota(
            actor=who, tenant=tenant, offer=move.offer, amounts=wanted[tenant.pk], now=now
        )
        for tenant in pair
    ]
    changes = {"tenant": [move.giver.slug, move.taker.slug], "count": [None, move.count]}
    for tenant, quota in zip(pair, quotas, strict=True):
        audit.record(actor, "quota.move", quota, now=now, changes=changes, reason=move.reason)
        _tell(actor, move, tenant, (had[tenant.pk].nominal_quota, wanted[tenant.pk].nominal_quota), now=now)
    return Quota.objects.select_related("tenant", "offer").get(tenant=move.giver, offer=move.offer)


def preview_move(*, actor: Actor, move: Move, now: datetime) -> Effect:
    """What `move_quota` would do, with its checks and refusals; nothing is kept."""
    with rehearsal():
        move_quota(actor=actor, move=move, now=now)
        return effect_of(actor=actor, move=move, now=now)


def effect_of(*, actor: Actor, move: Move, now: datetime) -> Effect:
    """What a move that stands in the rows does, as far as the actor may know of other tenants."""
    return effect.seen_by(actor, effect.of_move(move.giver, move.taker, move.offer, now=now))


def require_mover(actor: Actor, tenant: Tenant) -> None:
    """Raises NotAllowed unless the actor may move quota from and to this tenant."""
    if not policies.can_decide(actor, tenant):
        raise NotAllowed("Only a platform engineer or a manager of the department moves its quota.")


def lock_both(giver: Tenant, taker: Tenant) -> None:
    """Keeps others from changing the quota of either until the transaction ends."""
    # In one order for everybody, or two moves against each other would wait for ever.
    list(Tenant.objects.select_for_update().filter(pk__in=[giver.pk, taker.pk]).order_by("pk"))


def _amounts(tenant: Tenant, offer: Offer) -> Amounts:
    row = Quota.objects.filter(tenant=tenant, offer=offer).first()
    return Amounts(row.nominal_quota, row.borrowing_limit, row.lending_limit) if row else Amounts(0)


def _check(move: Move, guaranteed: int) -> None:
    problems = []
    if move.taker.department_id != move.giver.department_id or move.taker.pk == move.giver.pk:
        words = f"Quota moves to another tenant of {move.giver.department.slug}."
        problems.append(FieldProblem("/to", "reference_not_found", words))
    if not 1 <= move.count <= guaranteed:
        words = f"{move.giver.slug} is guaranteed {guaranteed} {move.offer.name}: move 1 to that many."
        problems.append(FieldProblem("/count", "out_of_range", words))
    if problems:
        raise Invalid(problems)


def _tell(actor: Actor, move: Move, tenant: Tenant, guaranteed: tuple[int, int], *, now: datetime) -> None:
    """Tells a team what it had and has; how the other stands is for it to know."""
    before, after = guaranteed
    because = f": {move.reason.strip().rstrip('.')}." if move.reason.strip() else "."
    message = (
        f"{actor.username} moved {move.count} {move.offer.name} guaranteed "
        f"from {move.giver.slug} to {move.taker.slug}{because} "
        f"{tenant.slug} is guaranteed {after} now, {before} before."
    )
    people = [pk for pk in audience.leads(tenant) if pk != actor.user_id]
    url = f"/t/{tenant.slug}/quota/"
    notices.tell(people, kind=Kind.QUOTA_MOVED, message=message, url=url, at=now, tenant=tenant.slug)
