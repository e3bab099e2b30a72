"""What approving a quota request would change, shown before anybody decides. What it writes to look ahead is
rolled back.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from apps.accounts.specs import Actor
from apps.quotas.allowances.selectors import effect, standing
from apps.quotas.allowances.selectors.effect import Moved
from apps.quotas.allowances.services.quota_changes import Amounts
from apps.quotas.catalogue.rules import room
from apps.quotas.catalogue.selectors import stock
from apps.quotas.models import Grant, Quota, QuotaRequest
from apps.quotas.specs import RequestKind
from apps.ranges import DEVICES
from apps.tenants.models import Tenant
from apps.web.requests.rehearsals import rehearsal

MOST_NAMED = 3


@dataclass(frozen=True)
class Forecast:
    """Devices of the offer: guaranteed to all tenants before and after, how many the cluster has, and what
    else is to be known, in sentences.
    """

    promised_before: int
    promised_after: int
    owned: int
    sentences: tuple[str, ...]

    @property
    def is_beyond_stock(self) -> bool:
        """Whether the decision promises more than there is."""
        return self.promised_after > max(self.owned, self.promised_before)

    @property
    def message(self) -> str:
        """All of it as one text."""
        return " ".join(self.sentences)


def of_request(row: QuotaRequest, given: int, *, actor: Actor, now: datetime) -> Forecast:
    """The sum against the inventory, where the tenant stands, who would start and who would lose what it
    borrows, if this many were given now; names as far as the actor may see.
    """
    offer, tenant = row.offer, row.tenant
    more = given if row.kind == RequestKind.GUARANTEED else 0
    before, owned = stock.promised(offer, now=now), stock.capacity_of(offer)
    stands = standing.standings(tenant, now=now).get(offer.pk)
    sentences = [_sum(before, more, owned, offer.name)]
    if stands:
        sentences.append(_stands(stands, tenant))
    sentences += _moved(effect.seen_by(actor, _look_ahead(row, given, now)), row)
    return Forecast(before, before + more, owned, tuple(sentences))


def raised(row: QuotaRequest, given: int) -> Amounts:
    """The tenant's quota with what is given for good on top; no limit stays no limit."""
    had = Quota.objects.filter(tenant=row.tenant_id, offer=row.offer_id).first()
    now = Amounts(had.nominal_quota, had.borrowing_limit, had.lending_limit) if had else Amounts(0)
    if row.kind == RequestKind.GUARANTEED:
        return replace(now, nominal_quota=now.nominal_quota + given)
    limit = None if now.borrowing_limit is None else now.borrowing_limit + given
    return replace(now, borrowing_limit=limit)


def _look_ahead(row: QuotaRequest, given: int, now: datetime) -> effect.Effect:
    with rehearsal():
        if row.duration_seconds:
            ends_at = now + timedelta(seconds=row.duration_seconds)
            count = DEVICES.within(given)
            Grant.objects.create(
                tenant=row.tenant, offer=row.offer, count=count, starts_at=now, ends_at=ends_at
            )
        else:
            amounts = raised(row, given)
            # Beyond the largest amount that can be stored, the rehearsal shows that amount.
            values = {
                "nominal_quota": DEVICES.within(amounts.nominal_quota),
                "borrowing_limit": DEVICES.within_or_none(amounts.borrowing_limit),
            }
            Quota.objects.update_or_create(tenant=row.tenant, offer=row.offer, defaults=values)
        return effect.preview_quota_effect(row.tenant, row.offer, before=0, now=now)


def _sum(before: int, more: int, owned: int, name: str) -> str:
    words = f"{before + more} of {owned} {name} would be guaranteed; {before} are now."
    if before + more > owned:
        return f"{words} That is more than there is: not everybody could have it at once."
    return words


def _stands(stands: standing.Standing, tenant: Tenant) -> str:
    quota = stands.own.quota
    limit = "without a limit" if quota.borrowing_limit is None else f"up to {quota.borrowing_limit}"
    return f"{tenant.slug} is guaranteed {quota.nominal}, borrows {limit} and uses {stands.own.used}."


def _moved(found: effect.Effect, row: QuotaRequest) -> list[str]:
    """RULE: what quota lets in starts only where its pods find room, each on one node; what others lose makes
    room for it.
    """
    if found.unknown:
        return [found.unknown]
    free = stock.places_free(row.offer, row.tenant.cluster)
    starts = [each for each in found.starts if found.loses or _finds_room(each, free)]
    sentences = []
    if starts:
        own = [each for each in starts if each.tenant == row.tenant.slug]
        sentences.append(f"Would start at once: {_names(own or starts)}.")
    elif not found.loses:
        sentences.append("No waiting work would start at once, and nobody would lose a device.")
    if still := [each for each in found.starts if each not in starts]:
        there = f"{sum(free)} {row.offer.name} are free, at most {max(free, default=0)} of them on one node"
        sentences.append(f"Would have the quota and wait for devices: {_names(still)}; {there}.")
    if found.loses:
        sentences.append(f"Would lose borrowed devices: {_names(found.loses)}.")
    return sentences


def _finds_room(each: Moved, free: Sequence[int]) -> bool:
    return room.fits(free, -(-each.devices // each.pods), each.pods)


def _names(moved: Sequence[Moved]) -> str:
    told = ", ".join(f"{each.name} of {each.tenant} ({each.devices})" for each in moved[:MOST_NAMED])
    return told if len(moved) <= MOST_NAMED else f"{told} and {len(moved) - MOST_NAMED} more"
