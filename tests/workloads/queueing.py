"""A queue as the watcher would have told of it: Kueue's Workloads of stored rows, in the mirror."""

from datetime import datetime, timedelta
from typing import Any

from apps.accounts.models import User
from apps.cluster.mirror.rules.mirror_columns import Sighting
from apps.cluster.mirror.services import mirror_table
from apps.cluster.models import MirrorObject
from apps.cluster.objects.names import owner_labels
from apps.quotas.models import Offer
from apps.tenants.models import Tenant
from apps.workloads.models import Workload
from tests.factories import NOW, make_workload
from tests.workloads import bodies


def waits(
    tenant: Tenant,
    owner: User,
    offer: Offer,
    slug: str,
    *,
    age: timedelta = timedelta(),
    priority: int = 1000,
) -> Workload:
    """A stored workload whose Kueue Workload waits in its tenant's queue."""
    row = make_workload(tenant, owner, offer, slug=slug)
    asked_at = NOW - age
    Workload.objects.filter(pk=row.pk).update(asked_at=asked_at, observed_generation=row.generation)
    tell(row, bodies.waiting(), created=asked_at, priority=priority)
    row.refresh_from_db()
    return row


def tell(
    row: Workload, body: dict[str, Any], *, created: datetime = NOW, priority: int = 1000, version: int = 0
) -> MirrorObject:
    """What the watcher saw of a row's Kueue Workload."""
    name = f"wl-{row.slug}"
    metadata = body["metadata"] | {
        "name": name,
        "namespace": row.tenant.object_name,
        "uid": f"uid-{row.slug}",
        "resourceVersion": str(version or 1 + MirrorObject.objects.count()),
        "creationTimestamp": f"{created:%Y-%m-%dT%H:%M:%SZ}",
        "labels": owner_labels(owner="workload", uid=row.pk),
    }
    spec = body["spec"] | {"priority": priority, "podSets": [_pods(row)]}
    told = {**body, "metadata": metadata, "spec": spec}
    mirror_table.record_seen(row.cluster, [Sighting("Workload", told)], now=NOW)
    return MirrorObject.objects.get(kind="Workload", name=name)


def _pods(row: Workload) -> dict[str, Any]:
    container = {"name": "main", "resources": {"limits": {row.offer.resource_name: "1"}}}
    return {"name": "main", "count": 1, "template": {"spec": {"containers": [container]}}}
