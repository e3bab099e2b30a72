"""Tells queues, and pages of quota, that something they depend on has changed."""

from django.db.models import F, Q

from apps.cluster.models import Cluster
from apps.cluster.reconciling.services import wake
from apps.quotas.models import Offer, Quota, TenantQueue
from apps.tenants.models import Tenant
from apps.web.streams import events

PARTS = "quota hold rows needs"


def wake_queues(tenant: Tenant, offer: Offer) -> None:
    """Brings the tenant's queue up to a change of quota or grants, and those of its department whose CPU
    follows the cohort's total of the offer.
    """
    TenantQueue.objects.get_or_create(tenant=tenant, defaults={"cluster": tenant.cluster})
    unlimited = Quota.objects.filter(
        tenant__department=tenant.department_id, offer=offer, borrowing_limit=None
    )
    affected = TenantQueue.objects.filter(tenant__in=[tenant.pk, *unlimited.values_list("tenant", flat=True)])
    affected = affected.filter(deleted_at=None)
    affected.update(generation=F("generation") + 1)
    for pk in affected.values_list("pk", flat=True):
        wake.hint("queue", str(pk))


def queues_follow(cluster: Cluster, which: Q | None = None) -> None:
    """Brings every queue of the cluster (or those of `which`) up to a change of its offers. No hints: there
    may be thousands, and the sweep takes them in portions.
    """
    rows = TenantQueue.objects.filter(which or Q(), cluster=cluster, deleted_at=None)
    pks = list(rows.values_list("pk", flat=True))
    TenantQueue.objects.filter(pk__in=pks).update(generation=F("generation") + 1)


def having(offer: Offer) -> Q:
    """The queues of tenants with quota or a grant of the offer."""
    return Q(tenant__quotas__offer=offer) | Q(tenant__grants__offer=offer)


def tell_pages(tenant: Tenant, pk: str) -> None:
    """After the commit: whoever has a page of the tenant's quota open."""
    data = {"type": "quota.updated", "object": "quota", "id": pk, "tenant": tenant.slug}
    events.publish([f"tenant:{tenant.slug}", "console"], part=PARTS, data=data)
