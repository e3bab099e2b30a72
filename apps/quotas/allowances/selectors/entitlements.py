"""What tenants may have: quotas with their grants, and the specs their queues are made of. Reads only."""

from collections import Counter
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID

from django.db.models import DateTimeField, QuerySet, UUIDField
from django.utils import timezone

from apps.accounts.specs import Actor
from apps.cluster.models import OF_THE_RECONCILE
from apps.errors import FieldProblem
from apps.prepared import Prepared
from apps.quotas.allowances.rules import fit
from apps.quotas.budgets.selectors import spending
from apps.quotas.catalogue.selectors.offers import offers_in, refusal_of
from apps.quotas.models import Grant, Offer, Quota, TenantQueue
from apps.quotas.specs import Mechanism, OfferQuota, QueueSpec
from apps.ranges import DEVICES
from apps.tenants import selectors as tenancy
from apps.tenants.models import Tenant
from apps.web.requests.lookups import by_id


def quotas_for(actor: Actor) -> QuerySet[Quota]:
    """The quotas of the tenants the actor sees."""
    found = Quota.objects.select_related("tenant__department", "offer__flavor")
    return found.filter(tenant__in=tenancy.tenants_for(actor))


def quota_for(actor: Actor, pk: str | UUID) -> Quota:
    """One quota by id, if the actor sees it; raises NotFound."""
    return by_id(quotas_for(actor), pk)


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
    found, totals = list[Entitlement](), Counter[UUID]()
    for (tenant, offer), row in quotas.items():
        if tenant in tenants and offer in offers:
            quota = _quota(row, tenants[tenant], offers[offer])
            quota = fit.effective(quota, spending.spans(granted.get((tenant, offer), ())), now=at)
            found.append(Entitlement(tenants[tenant], offers[offer], quota))
            totals[offer] += quota.nominal
    found.sort(key=lambda each: (each.offer.slug, each.tenant.slug))
    return [Entitlement(e.tenant, e.offer, replace(e.quota, cohort_total=totals[e.offer.pk])) for e in found]


_TENANTS = Prepared(
    lambda department: Tenant.objects.filter(department=department, deleted_at=None).defer(
        *OF_THE_RECONCILE, "conditions", "egress_allow", "vcluster"
    ),
    UUIDField(),
)
_QUOTAS = Prepared(lambda department: Quota.objects.filter(tenant__department=department), UUIDField())
_GRANTS = Prepared(
    lambda department, at: Grant.objects.filter(
        tenant__department=department, starts_at__lte=at, ends_at__gt=at
    ),
    UUIDField(),
    DateTimeField(),
)


def offers_held(tenant: Tenant, *, now: datetime | None = None) -> set[UUID]:
    """The offers that a tenant has quota or a grant of at a moment (None: this one)."""
    at = now or timezone.now()
    granted = tenant.grants.filter(starts_at__lte=at, ends_at__gt=at).values_list("offer", flat=True)
    return {*tenant.quotas.values_list("offer", flat=True), *granted}


def offers_kept(tenant: Tenant, *, now: datetime) -> set[UUID]:
    """The offers that a tenant has quota of, or a grant that has not ended."""
    granted = tenant.grants.filter(ends_at__gt=now).values_list("offer", flat=True)
    return {*tenant.quotas.values_list("offer", flat=True), *granted}


def misfits(tenant: Tenant, offer: Offer, *, now: datetime) -> list[FieldProblem]:
    """Why an offer can be nothing of a tenant's, whatever its trust level.

    Rule: it is of the tenant's cluster, not being deleted, not on another tenant's own nodes, and bears no
    name that a node gives to what the tenant has already: Kueue could not tell the two apart.
    """
    problems = []
    if offer.deleting_at or offer.deleted_at:
        words = f"{offer.slug} is being deleted or is gone: take another offer."
        problems.append(FieldProblem("/spec/offer", "reference_not_found", words))
    if offer.cluster_id != tenant.cluster_id:
        words = f"{offer.slug} is not an offer of {tenant.slug}'s cluster."
        problems.append(FieldProblem("/spec/offer", "reference_not_found", words))
    if offer.flavor.tenant_id not in (None, tenant.pk):
        words = f"{offer.slug} is only on nodes that serve another tenant."
        problems.append(FieldProblem("/spec/offer", "reference_not_found", words))
    if has_namesake(tenant, offer, now=now):
        words = f"{tenant.slug} has another offer that its node calls {offer.resource_name} too."
        problems.append(FieldProblem("/spec/offer", "invalid_value", words))
    return problems


def has_namesake(tenant: Tenant, offer: Offer, *, now: datetime) -> bool:
    """Whether the tenant has another offer by the same resource name."""
    kept = Offer.objects.filter(pk__in=offers_kept(tenant, now=now), resource_name=offer.resource_name)
    return kept.exclude(pk=offer.pk).exists()


def _quota(quota: Quota, tenant: Tenant, offer: Offer) -> OfferQuota:
    """A quota as ledger and manifests take it, without grants; an amount that is none (stored before amounts
    had bounds) counts as the nearest that is.
    """
    return OfferQuota(
        offer=offer.name,
        resource_name=offer.resource_name,
        flavor=offer.flavor.object_name,
        nominal=DEVICES.within(quota.nominal_quota),
        borrowing_limit=DEVICES.within_or_none(quota.borrowing_limit),
        lending_limit=DEVICES.within_or_none(quota.lending_limit),
        cpu_millis=offer.cpu_millis,
        memory_bytes=offer.memory_bytes,
        closed=not offer.enabled or bool(refusal_of(offer, tenant)),
        is_cores=offer.is_cores,
    )


def no_quota(offer: Offer) -> OfferQuota:
    """What a tenant has of an offer that nobody gave it: nothing, not even by borrowing."""
    return OfferQuota(
        offer.name, offer.resource_name, offer.flavor.object_name, 0, 0, None, is_cores=offer.is_cores
    )


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
        fit.next_change(spending.spans(grants), now=now),
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
    others = others.exclude(mechanism=Mechanism.NODE)
    return tuple(others.order_by("resource_name").values_list("resource_name", flat=True))
