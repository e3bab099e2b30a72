"""Grants: more guarantee for a while. Gives them, ends them early, and announces their end a day before.

Nothing is switched at a start or an end: queues are due then, and `ledger.effective` says what counts.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import F

from apps.accounts.specs import Actor
from apps.audit import services as audit
from apps.errors import Conflict, FieldProblem, Invalid, NotAllowed, OfferNotAllowed
from apps.notices import services as notices
from apps.notices.specs import Kind
from apps.quotas import policies
from apps.quotas.allowances.selectors import effect, entitlements
from apps.quotas.allowances.selectors.effect import Effect
from apps.quotas.catalogue.selectors import offers, stock
from apps.quotas.models import Grant, Offer
from apps.quotas.specs import MOST_OFFERS_PER_QUEUE
from apps.quotas.wake.selectors import audience
from apps.quotas.wake.services import queue_hints
from apps.ranges import MORE_DEVICES
from apps.tenants.models import Tenant
from apps.web.requests.rehearsals import rehearsal

WARNED_BEFORE = timedelta(hours=24)
LONGEST = timedelta(days=366)


@dataclass(frozen=True)
class GrantWish:
    """`count` devices in [starts_at, ends_at); `starts_at` None is now."""

    count: int
    ends_at: datetime
    starts_at: datetime | None = None
    reason: str = ""


@transaction.atomic
def give_grant(*, actor: Actor, tenant: Tenant, offer: Offer, wish: GrantWish, now: datetime) -> Grant:
    """Guarantees a tenant more of an offer for a while, on top of its quota.

    Rule: platform engineers and managers of the department, the latter within what the cluster has; the offer
    is of the tenant's cluster and allowed by its trust level; it ends after it starts, in the future, and
    lasts a year at most. When it ends, running work stays; nothing new starts on it.
    """
    require_giver(actor, tenant)
    locked = Tenant.objects.select_for_update(of=("self",)).select_related("department").get(pk=tenant.pk)
    starts_at = wish.starts_at or now
    _check(locked, offer, wish, starts_at=starts_at, now=now)
    require_stock(actor, locked, offer, wish.count, since=max(starts_at, now), until=wish.ends_at)
    grant = Grant.objects.create(
        tenant=locked, offer=offer, count=wish.count, starts_at=starts_at, ends_at=wish.ends_at,
        reason=wish.reason, created_by=actor.username,
    )  # fmt: skip
    _changed(actor, grant, "grant.give", now=now, before=None)
    words = f"{locked.slug} has {grant.count} more {offer.name} {_period(grant, now)}."
    _tell(grant, Kind.GRANT_GIVEN, words, now)
    return grant


@transaction.atomic
def end_grant(*, actor: Actor, grant: Grant, now: datetime) -> Grant:
    """Ends a grant now; one that has not begun never does. What runs on it stays.

    Rule: as `give_grant`; what has ended already is refused.
    """
    require_giver(actor, grant.tenant)
    row = Grant.objects.select_for_update(of=("self",)).select_related("tenant__department", "offer").get(
        pk=grant.pk
    )  # fmt: skip
    if row.ends_at <= now:
        raise Conflict(f"It ended {row.ends_at:%Y-%m-%d %H:%M} UTC.", hint="Give a new one.")
    before = row.ends_at
    row.starts_at, row.ends_at = min(row.starts_at, now), now
    row.generation += 1
    row.save(update_fields=["starts_at", "ends_at", "generation", "updated_at"])
    _changed(actor, row, "grant.end", now=now, before=before)
    return row


def preview_give(*, actor: Actor, tenant: Tenant, offer: Offer, wish: GrantWish, now: datetime) -> Effect:
    """What `give_grant` would do now, with its checks and refusals; nothing is kept."""
    with rehearsal():
        grant = give_grant(actor=actor, tenant=tenant, offer=offer, wish=wish, now=now)
        return effect_of(grant, actor=actor, before=0, now=now)


def preview_end(*, actor: Actor, grant: Grant, now: datetime) -> Effect:
    """What `end_grant` would do, with its checks and refusals; nothing is kept."""
    before = counts_at(grant, now)
    with rehearsal():
        row = end_grant(actor=actor, grant=grant, now=now)
        return effect_of(row, actor=actor, before=before, now=now)


def effect_of(grant: Grant, *, actor: Actor, before: int, now: datetime) -> Effect:
    """What the grant's present row does, against the `before` devices that it gave; names as far as the actor
    may see.
    """
    found = effect.of_grant(grant, gives=counts_at(grant, now) - before, now=now)
    return effect.seen_by(actor, found)


def counts_at(grant: Grant, now: datetime) -> int:
    """How many devices it gives at a moment."""
    return grant.count if grant.starts_at <= now < grant.ends_at else 0


def warn_of_ends(now: datetime) -> int:
    """Tells the teams whose grant ends within 24 hours, each once; answers how many grants. A grant shorter
    than that was announced with its end when it was given; of a tenant that is being deleted nobody is told.
    """
    ending = Grant.objects.filter(
        warned_at=None, ends_at__gt=now, ends_at__lte=now + WARNED_BEFORE, tenant__deleting_at=None
    )
    long_enough = ending.filter(ends_at__gt=F("starts_at") + WARNED_BEFORE)
    told = 0
    for pk in long_enough.values_list("pk", flat=True):
        told += _warn(pk, now)
    return told


@transaction.atomic
def _warn(pk: Any, now: datetime) -> int:
    if not Grant.objects.filter(pk=pk, warned_at=None).update(warned_at=now):
        return 0
    row = Grant.objects.select_related("tenant__department", "offer").get(pk=pk)
    words = (
        f"{row.tenant.slug} loses {row.count} {row.offer.name} at {row.ends_at:%-d %b %H:%M} UTC: the grant "
        "ends. Running work stays; new work waits for the quota that is left. A lead may ask for more."
    )
    _tell(row, Kind.GRANT_ENDING, words, now)
    return 1


def require_giver(actor: Actor, tenant: Tenant) -> None:
    """Raises NotAllowed unless the actor may give and end grants of this tenant."""
    if not policies.can_decide(actor, tenant):
        raise NotAllowed("Only a platform engineer or a manager of the department gives grants.")


def require_stock(
    actor: Actor, tenant: Tenant, offer: Offer, more: int, *, since: datetime, until: datetime | None = None
) -> None:
    """Raises NotAllowed where a manager would guarantee more of an offer than its cluster has, at any moment
    in [since, until); None: ever after.
    """
    if policies.may_promise_beyond_stock(actor, tenant):
        return
    # One at a time for each offer, after the tenant's row as everywhere: two at once would each count as free
    # what the other gives.
    Offer.objects.select_for_update(no_key=True).get(pk=offer.pk)
    promised, owned = stock.most_promised(offer, since=since, until=until) + more, stock.capacity_of(offer)
    if promised > owned:
        words = f"{promised} {offer.name} would be guaranteed, but there are only {owned}."
        raise NotAllowed(words, hint="Only a platform engineer may guarantee more than there is.")


def _check(tenant: Tenant, offer: Offer, wish: GrantWish, *, starts_at: datetime, now: datetime) -> None:
    problems = []
    if not MORE_DEVICES.holds(wish.count):
        words = f"A grant gives 1 to {MORE_DEVICES.most} devices."
        problems.append(FieldProblem("/spec/count", "out_of_range", words))
    if wish.ends_at <= max(starts_at, now):
        words = "A grant must end in the future and after it starts."
        problems.append(FieldProblem("/spec/ends_at", "out_of_range", words))
    elif wish.ends_at - starts_at > LONGEST:
        words = f"A grant lasts {LONGEST.days} days at most: change the quota instead."
        problems.append(FieldProblem("/spec/ends_at", "out_of_range", words))
    problems += entitlements.misfits(tenant, offer, now=now)
    if len({*entitlements.offers_kept(tenant, now=now), offer.pk}) > MOST_OFFERS_PER_QUEUE:
        words = f"A queue covers at most {MOST_OFFERS_PER_QUEUE} offers."
        problems.append(FieldProblem("/spec/offer", "out_of_range", words))
    if problems:
        raise Invalid(problems)
    if reason := offers.refusal_of(offer, tenant):
        raise OfferNotAllowed(reason, hint="Raise the tenant's trust level, or take another offer.")


def _period(grant: Grant, now: datetime) -> str:
    until = f"until {grant.ends_at:%-d %b %H:%M} UTC"
    return until if grant.starts_at <= now else f"from {grant.starts_at:%-d %b %H:%M} {until}"


def _tell(grant: Grant, kind: Kind, words: str, now: datetime) -> None:
    tenant = grant.tenant
    url = f"/t/{tenant.slug}/quota/"
    notices.tell(audience.members(tenant), kind=kind, message=words, url=url, at=now, tenant=tenant.slug)


def _changed(actor: Actor, grant: Grant, action: str, *, now: datetime, before: datetime | None) -> None:
    queue_hints.wake_queues(grant.tenant, grant.offer)
    queue_hints.tell_pages(grant.tenant, str(grant.pk))
    counted = [None if before is None else grant.count, grant.count]
    changes = {"count": counted, "ends_at": [before, grant.ends_at]}
    audit.record(actor, action, grant, now=now, changes=changes, reason=grant.reason)
