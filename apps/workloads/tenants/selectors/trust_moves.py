"""What a lower trust level would make illegal in a tenant, and where each thing could move. Reads only.

Nothing is stopped by lowering it: running work stays until it ends. The cluster starts nothing on such an
offer any more (`quotas.manifests`).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from uuid import UUID

from apps.cluster.models import MirrorObject
from apps.cluster.objects.queueing import QueueState
from apps.cluster.specs import Body
from apps.quotas.allowances.rules import fit
from apps.quotas.allowances.selectors import standing
from apps.quotas.catalogue.rules import trust
from apps.quotas.catalogue.selectors import offers as catalogue_offers
from apps.quotas.catalogue.selectors import price_book
from apps.quotas.kueue import observation
from apps.quotas.models import Grant, Offer, Quota
from apps.quotas.specs import SharingMode
from apps.tenants.models import Tenant
from apps.tenants.specs import TrustLevel
from apps.workloads.models import Workload
from apps.workloads.selectors import reading
from apps.workloads.specs import Phase
from apps.workloads.waiting.selectors import waiting

_OVER = tuple(phase for phase in Phase if phase.is_final)


@dataclass(frozen=True)
class Move:
    """A workload on an offer that becomes illegal, and the offer of its next start instead."""

    workload: Workload
    target: Offer | None
    before: Decimal | None
    after: Decimal | None


@dataclass(frozen=True)
class Past:
    """Work made with kubectl on such an offer: nobody moves it. `state` is what it does to the queue."""

    name: str
    offer: Offer
    state: QueueState


@dataclass(frozen=True)
class TrustMoves:
    """All that the level would make illegal: offers, the quotas and grants of them, the work on them with its
    moves, and what was made there with kubectl.
    """

    level: TrustLevel
    offers: tuple[Offer, ...] = ()
    quotas: tuple[Quota, ...] = ()
    grants: tuple[Grant, ...] = ()
    moves: tuple[Move, ...] = ()
    past: tuple[Past, ...] = ()


def moves_for(tenant: Tenant, level: TrustLevel, *, now: datetime) -> TrustMoves:
    """Rule: an offer is illegal below the trust that its sharing mode and its own minimum ask for.

    A move goes to what was chosen for its next start if that is legal, else to the cheapest legal offer with
    at least as much GPU memory of which the tenant can hold as many; None: there is none.
    """
    offers = list(catalogue_offers.offers_of(tenant))
    illegal = [offer for offer in offers if not _is_legal(offer, level)]
    held = Quota.objects.filter(tenant=tenant, offer__in=illegal).select_related("offer")
    given = tenant.grants.filter(offer__in=illegal, ends_at__gt=now).select_related("offer")
    work = Workload.objects.filter(tenant=tenant, offer__in=illegal, deleted_at=None, deleting_at=None)
    found = work.exclude(phase__in=_OVER).select_related("offer", "owner", "next_offer").order_by("slug")
    prices = price_book.prices_at(offers, now, tenant)
    reach = _reach(tenant, now)
    legal = [offer for offer in offers if _is_legal(offer, level) and offer.pk in reach]
    legal.sort(key=lambda offer: prices.get(offer.pk, Decimal("Infinity")))
    moves = tuple(_move(row, legal, reach, prices) for row in found)
    past = tuple(_past(tenant, illegal))
    return TrustMoves(level, tuple(illegal), tuple(held), tuple(given), moves, past)


def words(found: TrustMoves) -> list[str]:
    """The same in sentences; none where everything stays allowed."""
    if not found.offers:
        return []
    named = ", ".join(offer.name for offer in found.offers)
    told = [f"No longer allowed with trust {found.level.value}: {named}. Running work goes on until it ends."]
    if found.quotas:
        kept = ", ".join(f"{quota.nominal_quota} x {quota.offer.name}" for quota in found.quotas)
        told.append(f"Meanwhile the rest of the department uses the quota on them: {kept}.")
    if found.grants:
        kept = ", ".join(
            f"{g.count} x {g.offer.name} until {g.ends_at:%-d %b %H:%M} UTC" for g in found.grants
        )
        told.append(f"Grants of them too: {kept}.")
    if found.past:
        made = ", ".join(f"{each.name} ({each.state.label.lower()})" for each in found.past)
        told.append(f"Made with kubectl, so the portal cannot move it: {made}.")
    stuck = [move.workload.name for move in found.moves if move.target is None]
    if stuck:
        told.append(f"No legal offer with quota holds {', '.join(stuck)}.")
    return told


def _past(tenant: Tenant, offers: Sequence[Offer]) -> Iterator[Past]:
    """By the Kueue Workloads of its namespace that no row of ours owns."""
    named = {offer.resource_name: offer for offer in offers}
    rows = MirrorObject.objects.filter(
        cluster=tenant.cluster_id, kind="Workload", namespace=tenant.object_name, gone_at=None,
        queue_state__in=list(QueueState),
    ).exclude(owner_kind="workload")  # fmt: skip
    for row in rows.order_by("created_at", "name"):
        offer = next((named[name] for name in observation.requested(row.body) if name in named), None)
        if offer is not None:
            owner: Body = next(iter(row.body["metadata"].get("ownerReferences") or ()), {})
            yield Past(owner.get("name", row.name), offer, QueueState(row.queue_state))


def _reach(tenant: Tenant, now: datetime) -> Mapping[UUID, int]:
    """How many devices of each offer the tenant could hold at most."""
    stands = standing.standings(tenant, now=now)
    return {
        pk: fit.reachable(each.own.quota, [use.quota for use in each.others]) for pk, each in stands.items()
    }


def _move(
    row: Workload, legal: Sequence[Offer], reach: Mapping[UUID, int], prices: Mapping[UUID, Decimal]
) -> Move:
    asked = reading.spec_of(row).devices
    holds = [offer for offer in legal if reach[offer.pk] >= asked]
    target = next((each for each in holds if waiting.is_as_large(each, row.offer)), None)
    if row.next_offer in holds:
        target = row.next_offer
    return Move(row, target, prices.get(row.offer.pk), prices.get(target.pk) if target else None)


def _is_legal(offer: Offer, level: TrustLevel) -> bool:
    return trust.needed(SharingMode(offer.sharing_mode), TrustLevel(offer.min_trust_level)).rank <= level.rank
