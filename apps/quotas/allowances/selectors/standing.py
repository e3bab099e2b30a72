"""Where a tenant stands now: quota against what the mirror of the cluster says is used, lent, waiting and
free.

Reads only, and never asks the cluster itself.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from functools import cached_property
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db.models import CharField, QuerySet, UUIDField

from apps.accounts.specs import Actor
from apps.cluster import request_cache
from apps.cluster.mirror.selectors import inventory
from apps.cluster.models import Cluster, MirrorObject
from apps.cluster.objects.queueing import QueueState
from apps.cluster.specs import Body
from apps.errors import FieldProblem, Invalid, OfferNotAllowed
from apps.prepared import Prepared
from apps.quotas.allowances.rules import fit
from apps.quotas.allowances.selectors import entitlements
from apps.quotas.budgets.rules import budget
from apps.quotas.catalogue.rules import room
from apps.quotas.catalogue.selectors import offers as catalogue_offers
from apps.quotas.catalogue.selectors import price_book
from apps.quotas.catalogue.selectors.stock import NOTHING, Supply, supply
from apps.quotas.kueue import observation
from apps.quotas.models import Offer
from apps.quotas.specs import SharingMode
from apps.tenants import selectors as tenancy
from apps.tenants.models import Tenant


@dataclass(frozen=True)
class Standing:
    """A tenant's quota and use of one offer beside those of the rest of its department; `free` is what it
    could take. The first `ahead` of the others stand before it in the order of names.
    """

    offer: Offer
    own: fit.Use
    others: tuple[fit.Use, ...]
    supply: Supply
    ahead: int = 0

    @property
    def lent(self) -> int:
        """Devices of its guarantee that others run on."""
        return fit.lent(self.own, self.others, ahead=self.ahead)

    @cached_property
    def free(self) -> int:
        """Devices that both quota and hardware let the tenant take at this moment."""
        return min(fit.available(self.own, self.others), self.supply.free)

    @property
    def free_on_one_node(self) -> int | None:
        """How many of these it could take in one pod; None: not known."""
        return None if self.supply.most is None else min(self.free, self.supply.most)

    def verdict(self, count: int, tenant: str) -> fit.Verdict:
        """Whether `count` devices start now, wait, or never can."""
        others = [use.quota for use in self.others]
        return fit.verdict(
            count, self.own.quota, others=others, used=self.own.used, free_in_cohort=self.free, tenant=tenant
        )


@dataclass(frozen=True)
class QuotaBar:
    """One offer of one tenant in devices. `used` is all it runs, `borrowed` included; a limit of None is no
    limit.

    `lent` is what of the guarantee others run on, `pending` what waits in the queue, `supply` what the fleet
    has of it, `free` what the tenant could take now, `free_on_one_node` how many of these in one pod (None:
    not known).
    """

    offer: Offer
    guaranteed: int
    used: int
    lent: int
    borrowed: int
    borrow_limit: int | None
    pending: int
    supply: int
    free: int
    free_on_one_node: int | None

    @property
    def one_node(self) -> str:
        """How many of what is free one pod could have, in words; empty: all of them."""
        return room.one_node(self.free, self.free_on_one_node)


@dataclass(frozen=True)
class OfferChoice:
    """An offer as a tenant may choose it: `hourly` None means no price is in force, `reason` why it is
    refused. `free_on_one_node` is how many of what is free one pod could have; None: not known.
    """

    offer: Offer
    hourly: Decimal | None
    currency: str
    capacity: int
    free_now: int
    free_on_one_node: int | None
    allowed: bool
    reason: str
    starts_now: bool

    @property
    def one_node(self) -> str:
        """How many of what is free one pod could have, in words; empty: all of them."""
        return room.one_node(self.free_now, self.free_on_one_node)

    @property
    def isolation(self) -> str:
        """What sharing the device isolates, in words."""
        return SharingMode(self.offer.sharing_mode).isolation

    @property
    def compute_share(self) -> str:
        """The part of a physical GPU, such as "1/7"; "1" for a whole one, "0" for none."""
        if self.offer.is_cores:
            return "0"
        whole = self.offer.share_numerator == self.offer.share_denominator
        return "1" if whole else f"{self.offer.share_numerator}/{self.offer.share_denominator}"


def standings(tenant: Tenant, *, now: datetime) -> dict[UUID, Standing]:
    """Where the tenant stands with each offer that it has quota or a grant of at a moment, by the offer's
    id.
    """
    return request_cache.memo(("standings", tenant.pk, now), lambda: _standings(tenant, now))


def _standings(tenant: Tenant, now: datetime) -> dict[UUID, Standing]:
    department, supplied = tenant.department_id, supply(tenant.cluster)
    uses = request_cache.memo(("uses", department, tenant.cluster_id, now), lambda: _uses(tenant, now))
    return {
        offer.pk: _standing(offer, tenant.pk, held, supplied)
        for offer, held in uses
        if any(holder == tenant.pk for holder, _ in held)
    }


def _uses(tenant: Tenant, now: datetime) -> list[tuple[Offer, list[tuple[UUID, fit.Use]]]]:
    """What every tenant of the department may have and uses, by offer."""
    entitled = entitlements.entitlements(tenant.department_id, now=now)
    queues = _cluster_queues(tenant.cluster, {each.tenant.object_name for each in entitled})
    reserved = {name: observation.reserved(body) for name, body in queues.items()}
    found: dict[UUID, tuple[Offer, list[tuple[UUID, fit.Use]]]] = {}
    for each in entitled:
        used = reserved.get(each.tenant.object_name, Counter())[each.offer.resource_name]
        held = found.setdefault(each.offer.pk, (each.offer, []))[1]
        held.append((each.tenant.pk, fit.Use(each.quota, used)))
    return list(found.values())


def _standing(
    offer: Offer, tenant: UUID, uses: Sequence[tuple[UUID, fit.Use]], supplied: Mapping[UUID, Supply]
) -> Standing:
    """Of uses in the order of their tenants' names."""
    ahead = [holder for holder, _ in uses].index(tenant)
    others = tuple(use for holder, use in uses if holder != tenant)
    return Standing(offer, uses[ahead][1], others, supplied.get(offer.pk, NOTHING), ahead)


def verdict_for(tenant: Tenant, offer: Offer, count: int, *, now: datetime) -> fit.Verdict:
    """Whether a request for `count` devices of the offer starts now, waits, or never can."""
    standing = standings(tenant, now=now).get(offer.pk) or _without_quota(offer)
    return standing.verdict(count, tenant.slug)


def pending(tenant: Tenant) -> Counter[str]:
    """Devices by resource name that wait in the tenant's queue."""
    found: Counter[str] = Counter()
    for body in _QUEUED(tenant.cluster_id, tenant.object_name):
        found += observation.requested(body)
    return found


@request_cache.scope()
def quota_bars(actor: Actor, tenant: Tenant, *, now: datetime) -> list[QuotaBar]:
    """One bar per offer that the tenant has quota or a grant of; empty for an actor who does not see the
    tenant.
    """
    return _bars(tenant, pending(tenant), now) if tenancy.sees(actor, tenant) else []


@request_cache.scope()
def bars_of_cluster(actor: Actor, cluster: Cluster, *, now: datetime) -> dict[UUID, list[QuotaBar]]:
    """The same of every tenant of the cluster that the actor sees, by the tenant's id. What waits is read for
    all at once.
    """
    waiting: dict[str, Counter[str]] = {}
    for namespace, body in _queued(cluster.pk).values_list("namespace", "body"):
        waiting.setdefault(namespace, Counter()).update(observation.requested(body))
    tenants = tenancy.tenants_for(actor).filter(cluster=cluster)
    return {each.pk: _bars(each, waiting.get(each.object_name, Counter()), now) for each in tenants}


def _bars(tenant: Tenant, waiting: Mapping[str, int], now: datetime) -> list[QuotaBar]:
    return [
        QuotaBar(
            offer=standing.offer,
            guaranteed=standing.own.quota.nominal,
            used=standing.own.used,
            lent=standing.lent,
            borrowed=fit.borrowed(standing.own),
            borrow_limit=standing.own.quota.borrowing_limit,
            pending=waiting.get(standing.offer.resource_name, 0),
            supply=standing.supply.capacity,
            free=standing.free,
            free_on_one_node=standing.free_on_one_node,
        )
        for standing in standings(tenant, now=now).values()
    ]


def prices(tenant: Tenant, *, now: datetime) -> Mapping[UUID, Decimal]:
    """What a device of each offer of the tenant's cluster costs it per hour, by the offer's id."""
    offers = _offers(tenant)
    return request_cache.memo(("prices", tenant.pk, now), lambda: price_book.prices_at(offers, now, tenant))


def _offers(tenant: Tenant) -> list[Offer]:
    return request_cache.memo(("offers", tenant.pk), lambda: catalogue_offers.offers_known(tenant))


def hold_words(tenant: Tenant) -> str:
    """Why nothing new starts in the tenant's queue, whatever is free, and who can change it; "": it may."""
    queue = getattr(tenant, "queue", None)
    known = queue.hold_detail if queue else ""
    return known or budget.hold(suspend=tenancy.suspension_of(tenant), exhausted=(), manual="").detail


def offer_choices(tenant: Tenant, *, now: datetime) -> list[OfferChoice]:
    """Every enabled offer of the tenant's cluster: what starts now first, then the cheapest; behind those
    with a GPU the ones without, and refused ones last. Nothing starts now while the tenant's queue is held.
    """
    costs = prices(tenant, now=now)
    known, supplied = standings(tenant, now=now), supply(tenant.cluster)
    choices = [
        _choice(known.get(offer.pk) or _without_quota(offer), tenant, supplied[offer.pk], costs.get(offer.pk))
        for offer in _offers(tenant)
    ]
    if hold_words(tenant):
        choices = [replace(choice, starts_now=False) for choice in choices]
    return sorted(
        choices,
        key=lambda c: (not c.allowed, c.offer.is_cores, not c.starts_now, c.hourly is None, c.hourly or 0),
    )


def _without_quota(offer: Offer) -> Standing:
    return Standing(offer, fit.Use(entitlements.no_quota(offer), 0), (), NOTHING)


def _choice(standing: Standing, tenant: Tenant, supplied: Supply, hourly: Decimal | None) -> OfferChoice:
    verdict = standing.verdict(1, tenant.slug)
    no_quota = verdict.words if verdict.kind is fit.VerdictKind.NOT_OFFERED else ""
    reason = catalogue_offers.refusal_of(standing.offer, tenant) or no_quota
    return OfferChoice(
        offer=standing.offer,
        hourly=hourly,
        currency=settings.CONFIG.currency,
        capacity=supplied.capacity,
        free_now=standing.free,
        free_on_one_node=standing.free_on_one_node,
        allowed=not reason,
        reason=reason,
        starts_now=not reason and verdict.kind is fit.VerdictKind.NOW,
    )


def allowed_offer(tenant: Tenant, key: str, *, now: datetime) -> Offer:
    """The offer of that slug or id, if the tenant may ask for it.

    Raises Invalid for an unknown one, and OfferNotAllowed with what it may ask for instead.
    """
    offer = catalogue_offers.named(_offers(tenant), key)
    if offer is None:
        raise Invalid([FieldProblem("/spec/offer", "reference_not_found", f"There is no offer {key}.")])
    has = standings(tenant, now=now)
    no_quota = "" if offer.pk in has else f"{tenant.slug} has no quota of {offer.name}."
    reason = catalogue_offers.refusal_of(offer, tenant) or no_quota
    if reason:
        others = [each for each in _offers(tenant) if each.pk in has and each.pk != offer.pk]
        taken = [{"offer": other.slug} for other in others if not catalogue_offers.refusal_of(other, tenant)]
        raise OfferNotAllowed(reason, alternatives=taken)
    return offer


def _cluster_queues(cluster: Cluster, names: set[str]) -> dict[str, Body]:
    return dict(_QUEUES(cluster.pk, sorted(names)))


def _queued(cluster: Any) -> QuerySet[MirrorObject]:
    """What waits in the cluster's queues."""
    return inventory.objects(cluster, "Workload").filter(queue_state=QueueState.WAITS)


_QUEUED = Prepared(
    lambda cluster, namespace: _queued(cluster).filter(namespace=namespace).values_list("body", flat=True),
    UUIDField(),
    CharField(),
)
_QUEUES = Prepared(
    lambda cluster, names: inventory.named(cluster, "ClusterQueue", names).values_list("name", "body"),
    UUIDField(),
    CharField(),
)
