"""What may be asked for: offers, prices and quotas as an actor sees them, and the specs manifests are made
from.

Reads our own rows; what the cluster says about them is added by `apps.quotas.standing`.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from uuid import UUID

from django.db.models import DateTimeField, Q, QuerySet, UUIDField
from django.utils import timezone

from apps.accounts.specs import Actor
from apps.cluster.request_cache import memo
from apps.prepared import Prepared
from apps.quotas import catalogue, ledger, prices, spending, trust
from apps.quotas.models import Flavor, Grant, Offer, Price, Quota, TenantQueue
from apps.quotas.prices import Listed
from apps.quotas.specs import FlavorSpec, OfferQuota, OfferSpec, Priced, QueueSpec, SharingMode
from apps.ranges import DEVICES
from apps.tenants import selectors as tenancy
from apps.tenants.models import Tenant
from apps.tenants.specs import TrustLevel
from apps.web.lookups import by_id, one, slug_or_id


def flavors_for(actor: Actor) -> QuerySet[Flavor]:
    """The flavors of the clusters in which the actor has a tenant; all for platform and auditors."""
    found = Flavor.objects.filter(deleted_at=None).select_related("cluster")
    if actor.sees_everything:
        return found
    return found.filter(_not_another_s("tenant", actor), cluster__in=_clusters_of(actor))


def offers_for(actor: Actor) -> QuerySet[Offer]:
    """The offers of the actor's clusters, the enabled ones; all of them for platform and auditors.

    What lies on one tenant's nodes is seen by that tenant alone.
    """
    found = Offer.objects.filter(deleted_at=None).select_related("flavor", "cluster")
    if actor.sees_everything:
        return found
    return found.filter(
        _not_another_s("flavor__tenant", actor), cluster__in=_clusters_of(actor), enabled=True
    )


def _not_another_s(path: str, actor: Actor) -> Q:
    return Q(**{path: None}) | Q(**{f"{path}__in": tenancy.seen_by(actor)})


def _clusters_of(actor: Actor) -> QuerySet[Tenant, UUID]:
    return Tenant.objects.filter(Q(pk__in=tenancy.seen_by(actor))).values_list("cluster", flat=True)


def flavor_for(actor: Actor, key: str | UUID, *, lock: bool = False) -> Flavor:
    """The flavor with that slug or id, if the actor sees it; raises NotFound."""
    return one(flavors_for(actor).filter(slug_or_id(key)), lock=lock)


def offer_for(actor: Actor, key: str | UUID, *, lock: bool = False) -> Offer:
    """The offer with that slug or id, if the actor sees it; raises NotFound."""
    return one(offers_for(actor).filter(slug_or_id(key)), lock=lock)


def named(offers: Iterable[Offer], key: str) -> Offer | None:
    """The offer of that slug or id among these."""
    try:
        wanted = UUID(key)
    except ValueError:
        return next((offer for offer in offers if offer.slug == key), None)
    return next((offer for offer in offers if offer.pk == wanted), None)


def offers_of(tenant: Tenant) -> QuerySet[Offer]:
    """The enabled offers of the tenant's cluster, allowed or not, cheapest share first; not those on nodes
    that serve another tenant.
    """
    mine = Q(flavor__tenant=None) | Q(flavor__tenant=tenant)
    found = Offer.objects.filter(mine, cluster=tenant.cluster_id, enabled=True, deleted_at=None)
    return found.select_related("flavor").order_by("flavor__slug", "gpu_memory_bytes", "slug")


def offers_known(tenant: Tenant) -> list[Offer]:
    """`offers_of`; inside a request read once for all who ask about the cluster."""
    mine = (None, tenant.pk)
    return [o for o in offers_in(tenant.cluster_id) if o.enabled and o.flavor.tenant_id in mine]


def offers_in(cluster: UUID) -> list[Offer]:
    """Every offer of a cluster, for whomever, in the order of `offers_of`."""
    return memo(("offers in", cluster), lambda: _IN_CLUSTER(cluster))


_IN_CLUSTER = Prepared(
    lambda cluster: (
        Offer.objects.filter(cluster=cluster, deleted_at=None)
        .select_related("flavor")
        .order_by("flavor__slug", "gpu_memory_bytes", "slug")
    ),
    UUIDField(),
)


def quotas_for(actor: Actor) -> QuerySet[Quota]:
    """The quotas of the tenants the actor sees."""
    found = Quota.objects.select_related("tenant__department", "offer__flavor")
    return found.filter(tenant__in=tenancy.tenants_for(actor))


def quota_for(actor: Actor, pk: str | UUID) -> Quota:
    """One quota by id, if the actor sees it; raises NotFound."""
    return by_id(quotas_for(actor), pk)


def prices_for(actor: Actor) -> QuerySet[Price]:
    """The prices, past and future, of the offers the actor sees, and of CPU, memory and storage: those for
    everybody and those for the tenants that the actor sees.
    """
    mine = Q(tenant=None) | Q(tenant__in=tenancy.tenants_for(actor))
    seen = Q(offer=None) | Q(offer__in=offers_for(actor))
    return Price.objects.filter(seen, mine).select_related("offer__flavor", "tenant")


def price_for(actor: Actor, pk: str | UUID) -> Price:
    """One price by id, if the actor sees its offer; raises NotFound."""
    return by_id(prices_for(actor), pk)


def price_at(offer: Offer, at: datetime, tenant: Tenant | None = None) -> Decimal | None:
    """What one device of the offer costs per hour at a moment, for everybody or for a tenant; None while no
    price is in force.
    """
    return prices_at([offer], at, tenant).get(offer.pk)


def prices_at(offers: Iterable[Offer], at: datetime, tenant: Tenant | None = None) -> Mapping[UUID, Decimal]:
    """`price_at` for many offers in one query; offers without a price in force are absent.

    The capacity type is that of the flavor's nodes; where they are of several kinds, the price for any.
    """
    labels = {offer.pk: offer.flavor.node_labels for offer in offers}
    marks = {pk: str(found.get(catalogue.CAPACITY_LABEL, "")) for pk, found in labels.items()}
    whose = tenant.pk if tenant else None
    found = {
        pk: prices.in_force(listed, tenant=whose, capacity=marks.get(pk, ""), at=at)
        for pk, listed in book_of(labels).items()
    }
    return {pk: price.hourly for pk, price in found.items() if price is not None}


def book_of(offers: Iterable[UUID]) -> dict[UUID, list[Listed]]:
    """Every price of these offers, of whatever lane."""
    chosen = frozenset(offers)
    return memo(("prices", chosen), lambda: _book_of(chosen))


_PRICES = Prepared(lambda offers: Price.objects.filter(offer__pk__in=offers), UUIDField())


def _book_of(offers: Iterable[UUID]) -> dict[UUID, list[Listed]]:
    book: dict[UUID, list[Listed]] = {}
    for row in _PRICES(list(offers)):
        if row.offer_id:
            book.setdefault(row.offer_id, []).append(_listed(row))
    return book


def moving_offers(begins: datetime, ends: datetime) -> list[UUID]:
    """The offers that have a price which begins or ends in (begins, ends), or counts in units longer than a
    second.
    """
    moves = (
        Q(least_seconds__gt=1)
        | Q(valid_from__gt=begins, valid_from__lt=ends)
        | Q(valid_until__gt=begins, valid_until__lt=ends)
    )
    return list(Price.objects.filter(moves, offer__isnull=False).values_list("offer", flat=True).distinct())


def book_of_resources() -> dict[Priced, list[Listed]]:
    """Every price of a core, and of a GiB of memory or storage."""
    book: dict[Priced, list[Listed]] = {}
    for row in Price.objects.filter(offer=None):
        book.setdefault(Priced(row.resource), []).append(_listed(row))
    return book


def _listed(row: Price) -> Listed:
    return Listed(row.hourly, row.valid_from, row.valid_until, row.tenant_id, row.capacity, row.least_seconds)


def refusal_of(offer: Offer, tenant: Tenant) -> str:
    """Empty when the tenant's trust level allows the offer; else why not, in words."""
    return trust.refusal(
        offer=offer.name,
        mode=SharingMode(offer.sharing_mode),
        minimum=TrustLevel(offer.min_trust_level),
        tenant=tenant.slug,
        trust=TrustLevel(tenant.trust_level),
        on_own_nodes=offer.flavor.tenant_id is not None,
    )


@dataclass(frozen=True)
class Entitlement:
    """What one tenant may have of one offer at a moment: its quota with the grants that count then."""

    tenant: Tenant
    offer: Offer
    quota: OfferQuota


def entitlements(department: UUID, *, now: datetime | None = None) -> list[Entitlement]:
    """What every living tenant of a department may have at a moment (None: this one), by offer and tenant.

    A tenant with a grant and no quota of an offer has the grant alone and borrows nothing. What is closed to
    it counts for those it lends to.
    """
    at = now or timezone.now()
    tenants = {tenant.pk: tenant for tenant in _TENANTS(department)}
    offers = {o.pk: o for cluster in {t.cluster_id for t in tenants.values()} for o in offers_in(cluster)}
    quotas = {(q.tenant_id, q.offer_id): q for q in _QUOTAS(department)}
    granted: dict[tuple[UUID, UUID], list[Grant]] = {}
    for grant in _GRANTS(department, at):
        key = (grant.tenant_id, grant.offer_id)
        granted.setdefault(key, []).append(grant)
        quotas.setdefault(key, Quota(nominal_quota=0, borrowing_limit=0))
    found = []
    for (tenant, offer), row in quotas.items():
        if tenant in tenants and offer in offers:
            row.offer = offers[offer]
            row.tenant = tenants[tenant]
            effective = _entitled(row, granted.get((tenant, offer), []), at)
            found.append(Entitlement(row.tenant, row.offer, effective))
    totals: Counter[UUID] = Counter()
    for each in found:
        totals[each.offer.pk] += each.quota.nominal
    found.sort(key=lambda each: (each.offer.slug, each.tenant.slug))
    return [replace(e, quota=replace(e.quota, cohort_total=totals[e.offer.pk])) for e in found]


_TENANTS = Prepared(
    lambda department: Tenant.objects.filter(department=department, deleted_at=None), UUIDField()
)
_QUOTAS = Prepared(lambda department: Quota.objects.filter(tenant__department=department), UUIDField())
_GRANTS = Prepared(
    lambda department, at: Grant.objects.filter(
        tenant__department=department, starts_at__lte=at, ends_at__gt=at
    ),
    UUIDField(),
    DateTimeField(),
)


def _entitled(row: Quota, grants: Sequence[Grant], at: datetime) -> OfferQuota:
    effective = ledger.effective(offer_quota(row), spending.spans(grants), now=at)
    return replace(effective, closed=not row.offer.enabled or bool(refusal_of(row.offer, row.tenant)))


def offers_held(tenant: Tenant, *, now: datetime | None = None) -> set[UUID]:
    """The offers that a tenant has quota or a grant of at a moment (None: this one)."""
    at = now or timezone.now()
    granted = tenant.grants.filter(starts_at__lte=at, ends_at__gt=at).values_list("offer", flat=True)
    return {*tenant.quotas.values_list("offer", flat=True), *granted}


def offer_quota(quota: Quota, *, cohort_total: int = 0) -> OfferQuota:
    """A quota as ledger and manifests take it, without grants; an amount that is none (stored before amounts
    had bounds) counts as the nearest that is.
    """
    offer = quota.offer
    return OfferQuota(
        offer=offer.name,
        resource_name=offer.resource_name,
        flavor=offer.flavor.object_name,
        nominal=DEVICES.within(quota.nominal_quota),
        borrowing_limit=DEVICES.within_or_none(quota.borrowing_limit),
        lending_limit=DEVICES.within_or_none(quota.lending_limit),
        cpu_millis=offer.cpu_millis,
        memory_bytes=offer.memory_bytes,
        cohort_total=cohort_total,
    )


def no_quota(offer: Offer) -> OfferQuota:
    """What a tenant has of an offer that nobody gave it: nothing, not even by borrowing."""
    return OfferQuota(offer.name, offer.resource_name, offer.flavor.object_name, 0, 0, None)


def queue_of(tenant: Tenant) -> TenantQueue:
    """The tenant's queue; one not stored yet where it has no quota: nothing holds it by hand or budget."""
    queue = TenantQueue.objects.select_related("tenant__department").filter(tenant=tenant).first()
    return queue or TenantQueue(tenant=tenant, cluster=tenant.cluster)


def next_change(queue: TenantQueue, now: datetime) -> datetime | None:
    """When the queue's manifests change by themselves: a grant of its department begins or ends, or a spent
    budget's month is over.
    """
    grants = Grant.objects.filter(tenant__department=queue.tenant.department_id, ends_at__gt=now)
    moments = (
        ledger.next_change(spending.spans(grants), now=now),
        spending.next_hold_change(queue, now),
    )
    return min(filter(None, moments), default=None)


def queue_spec(queue: TenantQueue, *, namespace_is_there: bool, now: datetime | None = None) -> QueueSpec:
    """All that the queue's manifests depend on at a moment (None: this one). A tenant on its way out starts
    nothing new: its queue is held.
    """
    tenant, at = queue.tenant, now or timezone.now()
    own = [e.quota for e in entitlements(tenant.department_id, now=at) if e.tenant.pk == tenant.pk]
    return QueueSpec(
        id=str(queue.pk),
        tenant=tenant.slug,
        object_name=tenant.object_name,
        cohort=tenant.department.object_name,
        generation=queue.generation,
        suspend=tenancy.suspension_of(tenant),
        quotas=tuple(own),
        namespace_is_there=namespace_is_there,
        held=spending.hold_of(queue, at).is_held,
        fair_weight=queue.fair_weight,
        not_given=_not_given(queue, {quota.resource_name for quota in own}),
    )


def _not_given(queue: TenantQueue, given: set[str]) -> tuple[str, ...]:
    others = Offer.objects.filter(cluster=queue.cluster_id, deleted_at=None).exclude(resource_name__in=given)
    return tuple(others.order_by("resource_name").values_list("resource_name", flat=True))


def flavor_spec(flavor: Flavor) -> FlavorSpec:
    """All that the flavor's manifest depends on."""
    tolerations = tuple(dict(toleration) for toleration in flavor.tolerations)
    return FlavorSpec(str(flavor.pk), flavor.object_name, flavor.generation, flavor.node_labels, tolerations)


def offer_spec(offer: Offer) -> OfferSpec:
    """All that the offer's manifest depends on."""
    return OfferSpec(
        id=str(offer.pk),
        object_name=offer.object_name,
        resource_name=offer.resource_name,
        generation=offer.generation,
        model=offer.flavor.model,
        profile=offer.profile,
    )
