"""Where a tenant stands now: quota against what the mirror of the cluster says is used, lent, waiting and
free.

Reads only, and never asks the cluster itself.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from uuid import UUID

from django.conf import settings
from django.db.models import CharField, Sum, UUIDField

from apps.accounts.specs import Actor
from apps.cluster import request_cache
from apps.cluster import selectors as inventory
from apps.cluster.inventory import DeviceView, NodeView
from apps.cluster.models import Cluster
from apps.cluster.names import LABEL_TENANT
from apps.cluster.quantities import whole_number
from apps.cluster.queueing import QueueState
from apps.cluster.specs import Body
from apps.errors import FieldProblem, Invalid, OfferNotAllowed
from apps.prepared import Prepared
from apps.quotas import budget, ledger, observation, selectors
from apps.quotas.models import Grant, Offer, Quota
from apps.quotas.specs import GPU_DRIVER, Mechanism, SharingMode
from apps.tenants import selectors as tenancy
from apps.tenants.models import Tenant


@dataclass(frozen=True)
class Supply:
    """An offer's devices in the whole cluster: how many there are, are given out, and are free on nodes that
    work.
    """

    capacity: int
    allocated: int
    free: int


@dataclass(frozen=True)
class Standing:
    """A tenant's quota and use of one offer beside those of the rest of its department; `free` is what it
    could take.
    """

    offer: Offer
    own: ledger.Use
    others: tuple[ledger.Use, ...]
    supply: Supply

    @property
    def free(self) -> int:
        """Devices that both quota and hardware let the tenant take at this moment."""
        return min(ledger.available(self.own, self.others), self.supply.free)

    def verdict(self, count: int, tenant: str) -> ledger.Verdict:
        """Whether `count` devices start now, wait, or never can."""
        others = [use.quota for use in self.others]
        return ledger.verdict(
            count, self.own.quota, others=others, used=self.own.used, free_in_cohort=self.free, tenant=tenant
        )


@dataclass(frozen=True)
class QuotaBar:
    """One offer of one tenant in devices. `used` is all it runs, `borrowed` included; a limit of None is no
    limit.

    `lent` is what of the guarantee others run on, `pending` what waits in the queue, `supply` what the fleet
    has of it, `free` what the tenant could take now.
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


@dataclass(frozen=True)
class OfferChoice:
    """An offer as a tenant may choose it: `hourly` None means no price is in force, `reason` why it is
    refused.
    """

    offer: Offer
    hourly: Decimal | None
    currency: str
    capacity: int
    free_now: int
    allowed: bool
    reason: str
    starts_now: bool

    @property
    def isolation(self) -> str:
        """What sharing the device isolates, in words."""
        return SharingMode(self.offer.sharing_mode).isolation

    @property
    def compute_share(self) -> str:
        """The part of a physical GPU, such as "1/7"; "1" for a whole one."""
        whole = self.offer.share_numerator == self.offer.share_denominator
        return "1" if whole else f"{self.offer.share_numerator}/{self.offer.share_denominator}"


def supply(cluster: Cluster) -> dict[UUID, Supply]:
    """Every offer of the cluster with its devices, from the mirrored ResourceSlices and ResourceClaims.

    A device counts for an offer by model, MIG profile and the flavor's node labels; it is free when no claim
    has it, it carries no taint, and its node is ready and not cordoned. Shares of a device plugin are counted
    on the nodes: what is allocatable, less what their pods ask for.
    """
    return request_cache.memo(("supply", cluster.pk), lambda: _supply(cluster))


def _supply(cluster: Cluster) -> dict[UUID, Supply]:
    nodes = inventory.nodes(cluster)
    working = {node.name for node in nodes if node.schedulable}
    held = inventory.held_devices(cluster).keys()
    alike: dict[tuple[str, str], list[DeviceView]] = {}
    for device in inventory.devices(cluster):
        alike.setdefault((device.model, device.profile), []).append(device)
    found = {}
    for offer in selectors.offers_in(cluster.pk):
        if offer.mechanism == Mechanism.DEVICE_PLUGIN:
            found[offer.pk] = _shares(cluster, offer, [node for node in nodes if carries(node, offer)])
            continue
        own = [d for d in alike.get((offer.flavor.model, offer.profile), ()) if is_of(d, offer)]
        taken = sum(1 for device in own if device.key in held)
        free = sum(1 for d in own if d.key not in held and d.node in working and not d.tainted)
        found[offer.pk] = Supply(len(own), taken, free)
    return found


def capacity_of(offer: Offer) -> int:
    """How many devices of the offer its cluster has, working or not."""
    return supply(offer.cluster).get(offer.pk, Supply(0, 0, 0)).capacity


def promised(offer: Offer, *, now: datetime) -> int:
    """How many devices of the offer all tenants together are guaranteed at a moment, grants included."""
    alive = {"offer": offer, "tenant__deleted_at": None}
    quotas = Quota.objects.filter(**alive).aggregate(total=Sum("nominal_quota"))["total"] or 0
    grants = Grant.objects.filter(**alive, starts_at__lte=now, ends_at__gt=now)
    return quotas + (grants.aggregate(total=Sum("count"))["total"] or 0)


def is_of(device: DeviceView, offer: Offer) -> bool:
    """Whether a device is one of the offer's: by driver, model, MIG profile and the flavor's node labels.

    A device on one tenant's nodes is none of an offer to everybody.
    """
    same = (device.driver, device.model, device.profile) == (GPU_DRIVER, offer.flavor.model, offer.profile)
    return same and _suits(device.labels, offer)


def carries(node: NodeView, offer: Offer) -> bool:
    """Whether a node's shares are the offer's: by the flavor's node labels and the plugin's name for them."""
    return _suits(node.labels, offer) and offer.resource_name in node.resources


def _suits(labels: Mapping[str, str], offer: Offer) -> bool:
    wanted = offer.flavor.node_labels
    same_tenant = labels.get(LABEL_TENANT, "") == wanted.get(LABEL_TENANT, "")
    return same_tenant and bool(wanted.items() <= labels.items())


def _shares(cluster: Cluster, offer: Offer, nodes: Sequence[NodeView]) -> Supply:
    asked = Counter({node.name: 0 for node in nodes})
    pods = inventory.objects(cluster, "Pod").filter(body__spec__nodeName__in=list(asked))
    for body in pods.exclude(body__status__phase__in=["Succeeded", "Failed"]).values_list("body", flat=True):
        asked[body["spec"]["nodeName"]] += observation.limit_of(body, offer.resource_name)
    sizes = {node.name: whole_number(node.resources[offer.resource_name]) for node in nodes}
    free = sum(max(0, sizes[node.name] - asked[node.name]) for node in nodes if node.schedulable)
    return Supply(sum(sizes.values()), asked.total(), free)


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


def _uses(tenant: Tenant, now: datetime) -> list[tuple[Offer, list[tuple[UUID, ledger.Use]]]]:
    """What every tenant of the department may have and uses, by offer."""
    entitled = selectors.entitlements(tenant.department_id, now=now)
    queues = _cluster_queues(tenant.cluster, {each.tenant.object_name for each in entitled})
    reserved = {name: observation.reserved(body) for name, body in queues.items()}
    found: dict[UUID, tuple[Offer, list[tuple[UUID, ledger.Use]]]] = {}
    for each in entitled:
        used = reserved.get(each.tenant.object_name, Counter())[each.offer.resource_name]
        held = found.setdefault(each.offer.pk, (each.offer, []))[1]
        held.append((each.tenant.pk, ledger.Use(each.quota, used)))
    return list(found.values())


def _standing(
    offer: Offer, tenant: UUID, uses: Iterable[tuple[UUID, ledger.Use]], supplied: Mapping[UUID, Supply]
) -> Standing:
    (own,) = (use for holder, use in uses if holder == tenant)
    others = tuple(use for holder, use in uses if holder != tenant)
    return Standing(offer, own, others, supplied.get(offer.pk, Supply(0, 0, 0)))


def verdict_for(tenant: Tenant, offer: Offer, count: int, *, now: datetime) -> ledger.Verdict:
    """Whether a request for `count` devices of the offer starts now, waits, or never can."""
    standing = standings(tenant, now=now).get(offer.pk) or _without_quota(offer)
    return standing.verdict(count, tenant.slug)


def pending(tenant: Tenant) -> Counter[str]:
    """Devices by resource name that wait in the tenant's queue."""
    found: Counter[str] = Counter()
    queued = inventory.objects(tenant.cluster, "Workload", namespace=tenant.object_name)
    for body in queued.filter(queue_state=QueueState.WAITS).values_list("body", flat=True):
        found += observation.requested(body)
    return found


@request_cache.scope()
def quota_bars(actor: Actor, tenant: Tenant, *, now: datetime) -> list[QuotaBar]:
    """One bar per offer that the tenant has quota or a grant of; empty for an actor who does not see the
    tenant.
    """
    if not tenancy.sees(actor, tenant):
        return []
    waiting = pending(tenant)
    return [
        QuotaBar(
            offer=standing.offer,
            guaranteed=standing.own.quota.nominal,
            used=standing.own.used,
            lent=ledger.lent(standing.own, standing.others),
            borrowed=ledger.borrowed(standing.own),
            borrow_limit=standing.own.quota.borrowing_limit,
            pending=waiting[standing.offer.resource_name],
            supply=standing.supply.capacity,
            free=standing.free,
        )
        for standing in standings(tenant, now=now).values()
    ]


def prices(tenant: Tenant, *, now: datetime) -> Mapping[UUID, Decimal]:
    """What a device of each offer of the tenant's cluster costs it per hour, by the offer's id."""
    offers = _offers(tenant)
    return request_cache.memo(("prices", tenant.pk, now), lambda: selectors.prices_at(offers, now, tenant))


def _offers(tenant: Tenant) -> list[Offer]:
    return request_cache.memo(("offers", tenant.pk), lambda: selectors.offers_known(tenant))


def hold_words(tenant: Tenant) -> str:
    """Why nothing new starts in the tenant's queue, whatever is free, and who can change it; "": it may."""
    queue = getattr(tenant, "queue", None)
    known = queue.hold_detail if queue else ""
    return known or budget.hold(suspend=tenancy.suspension_of(tenant), exhausted=(), manual="").detail


def offer_choices(tenant: Tenant, *, now: datetime) -> list[OfferChoice]:
    """Every enabled offer of the tenant's cluster: what starts now first, then the cheapest; refused ones
    last. Nothing starts now while the tenant's queue is held.
    """
    costs = prices(tenant, now=now)
    known, supplied = standings(tenant, now=now), supply(tenant.cluster)
    choices = [
        _choice(known.get(offer.pk) or _without_quota(offer), tenant, supplied[offer.pk], costs.get(offer.pk))
        for offer in _offers(tenant)
    ]
    if hold_words(tenant):
        choices = [replace(choice, starts_now=False) for choice in choices]
    return sorted(choices, key=lambda c: (not c.allowed, not c.starts_now, c.hourly is None, c.hourly or 0))


def _without_quota(offer: Offer) -> Standing:
    return Standing(offer, ledger.Use(selectors.no_quota(offer), 0), (), Supply(0, 0, 0))


def _choice(standing: Standing, tenant: Tenant, supplied: Supply, hourly: Decimal | None) -> OfferChoice:
    verdict = standing.verdict(1, tenant.slug)
    no_quota = verdict.words if verdict.kind is ledger.VerdictKind.NOT_OFFERED else ""
    reason = selectors.refusal_of(standing.offer, tenant) or no_quota
    return OfferChoice(
        offer=standing.offer,
        hourly=hourly,
        currency=settings.CONFIG.currency,
        capacity=supplied.capacity,
        free_now=standing.free,
        allowed=not reason,
        reason=reason,
        starts_now=not reason and verdict.kind is ledger.VerdictKind.NOW,
    )


def allowed_offer(tenant: Tenant, key: str, *, now: datetime) -> Offer:
    """The offer of that slug or id, if the tenant may ask for it.

    Raises Invalid for an unknown one, and OfferNotAllowed with what it may ask for instead.
    """
    offer = selectors.named(_offers(tenant), key)
    if offer is None:
        raise Invalid([FieldProblem("/spec/offer", "reference_not_found", f"There is no offer {key}.")])
    has = standings(tenant, now=now)
    no_quota = "" if offer.pk in has else f"{tenant.slug} has no quota of {offer.name}."
    reason = selectors.refusal_of(offer, tenant) or no_quota
    if reason:
        others = [each for each in _offers(tenant) if each.pk in has and each.pk != offer.pk]
        taken = [{"offer": other.slug} for other in others if not selectors.refusal_of(other, tenant)]
        raise OfferNotAllowed(reason, alternatives=taken)
    return offer


def _cluster_queues(cluster: Cluster, names: set[str]) -> dict[str, Body]:
    return dict(_QUEUES(cluster.pk, sorted(names)))


_QUEUES = Prepared(
    lambda cluster, names: inventory.named(cluster, "ClusterQueue", names).values_list("name", "body"),
    UUIDField(),
    CharField(),
)
