"""How a cluster's Kueue shares what nobody is guaranteed, in words. Read from what its queues say, never from
a version.
"""

from dataclasses import dataclass
from decimal import Decimal
from uuid import UUID

from apps.cluster.mirror.selectors import inventory as mirror
from apps.cluster.models import Cluster
from apps.quotas.models import Offer, TenantQueue
from apps.quotas.specs import RECLAIM_SENTENCE
from apps.tenants.models import Department, Tenant

UNWEIGHED = Decimal(1)
FAIR = "Fair sharing is on: of what is lent, a tenant of weight 2 gets twice as much as one of weight 1."
NOT_FAIR = (
    "Kueue does not share fairly here (its configuration has no fairSharing): weights are kept and decide "
    "nothing; what is lent goes to the higher priority class, then to whoever asked first."
)
REMEMBERS = (
    "Kueue remembers use (admissionFairSharing): among the queues of one tenant, the one that used less "
    "lately is served first. A tenant has one queue, so nothing changes between tenants."
)
FORGETS = "Use is not remembered: who used much yesterday waits no longer today."


@dataclass(frozen=True)
class Sharing:
    """`is_fair`: fair sharing between queues is on; `remembers`: past use counts."""

    is_fair: bool
    remembers: bool

    @property
    def sentences(self) -> tuple[str, ...]:
        """What the page says: the reclaim policy, then weights, then remembered use."""
        return (
            RECLAIM_SENTENCE,
            FAIR if self.is_fair else NOT_FAIR,
            REMEMBERS if self.remembers else FORGETS,
        )


@dataclass(frozen=True)
class OfferBound:
    """What a department borrows of an offer from its parent and lends to it; None: no limit."""

    offer: Offer
    borrowing: int | None
    lending: int | None


def of_cluster(cluster: Cluster) -> Sharing:
    """What the cluster's queues say: a queue has `status.fairSharing` only while Kueue shares fairly, and a
    local queue's has `admissionFairSharingStatus` only while it remembers use.
    """
    fair = mirror.objects(cluster, "ClusterQueue").filter(body__status__has_key="fairSharing").exists()
    key = "admissionFairSharingStatus"
    local = mirror.objects(cluster, "LocalQueue").filter(body__status__fairSharing__has_key=key).exists()
    return Sharing(is_fair=fair, remembers=local)


def weight_of(tenant: Tenant) -> Decimal:
    """The tenant's weight; 1 until somebody set another."""
    found = TenantQueue.objects.filter(tenant=tenant).values_list("fair_weight", flat=True).first()
    return UNWEIGHED if found is None else found


def weights_of(cluster: Cluster) -> dict[UUID, Decimal]:
    """Of the tenants of a cluster those that have a queue, by the tenant's id."""
    return dict(TenantQueue.objects.filter(tenant__cluster=cluster).values_list("tenant", "fair_weight"))


def bounds_of(department: Department) -> list[OfferBound]:
    """The department's bounds by offer."""
    named = {bound["resource"]: bound for bound in department.bounds}
    offers = Offer.objects.filter(cluster=department.cluster_id, resource_name__in=named).order_by("slug")
    return [
        OfferBound(o, named[o.resource_name]["borrowing"], named[o.resource_name]["lending"]) for o in offers
    ]
