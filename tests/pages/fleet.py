"""A small fleet as the watcher would have written it: rows made through the mirror's own writer."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

from django.db import transaction

from apps.cluster.mirror.rules.mirror_columns import Sighting
from apps.cluster.mirror.services import mirror_table
from apps.cluster.models import Cluster
from apps.cluster.objects import names
from apps.quotas.models import Offer
from apps.tenants.models import Tenant
from apps.workloads.models import Workload
from apps.workloads.specs import Phase
from tests.controlplane.fleet import DRIVER, H100, L4, FleetNode, Gpu, nodes, resource_slices

MIXED = (("1g.10gb", 0), ("1g.10gb", 1), ("2g.20gb", 2), ("3g.40gb", 4))
SLICES = tuple(("1g.10gb", place) for place in range(7))
FLEET = (
    FleetNode("gpu-01", (Gpu(H100, MIXED), Gpu(H100, SLICES))),
    FleetNode("gpu-02", (Gpu(H100), Gpu(H100))),
    FleetNode("gpu-03", (Gpu(L4),)),
)
Body = dict[str, Any]


def see(cluster: Cluster, kind: str, bodies: list[Body], *, now: datetime) -> None:
    with transaction.atomic():
        mirror_table.record_seen(cluster, [Sighting(kind, body) for body in bodies], now=now)


def show_fleet(
    cluster: Cluster, *, now: datetime, sick: str = "", seen: tuple[FleetNode, ...] = FLEET
) -> None:
    shown = nodes(seen)
    for body in shown:
        ready = "False" if body["metadata"]["name"] == sick else "True"
        body["metadata"] |= {"uid": str(uuid4()), "resourceVersion": "10"}
        body["status"]["conditions"] = [{"type": "Ready", "status": ready}]
    slices = resource_slices(seen, {body["metadata"]["name"]: body["metadata"]["uid"] for body in shown})
    for body in slices:
        body["metadata"] |= {"uid": str(uuid4()), "resourceVersion": "11"}
    see(cluster, "Node", shown, now=now)
    see(cluster, "ResourceSlice", slices, now=now)


def meta(name: str, *, namespace: str = "", at: datetime, row: Workload | None = None) -> Body:
    labels = names.owner_labels(owner="workload", uid=str(row.pk), tenant=row.tenant.slug) if row else {}
    stamp = at.strftime("%Y-%m-%dT%H:%M:%SZ")
    found: Body = {"name": name, "uid": str(uuid4()), "resourceVersion": "20", "creationTimestamp": stamp}
    return found | {"labels": labels, **({"namespace": namespace} if namespace else {})}


def reserve(tenant: Tenant, used: Mapping[Offer, int], *, now: datetime) -> None:
    """The tenant's ClusterQueue with what it has reserved."""
    resources = [{"name": offer.resource_name, "total": str(count)} for offer, count in used.items()]
    status = {
        "flavorsReservation": [{"name": "any", "resources": resources}],
        "conditions": [{"type": "Active", "status": "True"}],
    }
    body = {"metadata": meta(tenant.object_name, at=now), "status": status}
    see(tenant.cluster, "ClusterQueue", [body], now=now)


def run(row: Workload, device: tuple[str, str], *, now: datetime, started: timedelta) -> None:
    """Let it run on `device` (pool, name) since `started` ago."""
    node, name = device
    pod = f"{row.object_name}-0"
    claim = {
        "metadata": meta(f"{pod}-gpu", namespace=row.tenant.object_name, at=now, row=row),
        "spec": {},
        "status": {
            "allocation": {"devices": {"results": [{"driver": DRIVER, "pool": node, "device": name}]}},
            "reservedFor": [{"resource": "pods", "name": pod, "uid": str(uuid4())}],
        },
    }
    see(row.cluster, "ResourceClaim", [claim], now=now)
    see(row.cluster, "Workload", [_reserved(row)], now=now)
    row.phase, row.started_at = Phase.RUNNING, now - started
    row.stops_at = row.started_at + timedelta(hours=8)
    row.placement = [_placed(row, node, f"{node}/{name}", pod)]
    said = {
        "QuotaReserved": "Quota reserved in ClusterQueue",
        "Admitted": "The workload is admitted",
        "DevicesAllocated": "Devices are allocated",
        "Ready": "It runs.",
    }
    row.conditions = [condition(kind, "True", words, row.started_at) for kind, words in said.items()]
    row.save()


def _placed(row: Workload, node: str, device: str, pod: str) -> Body:
    return {
        "cluster": row.cluster.slug,
        "namespace": row.tenant.object_name,
        "pod": pod,
        "node": node,
        "flavor": row.offer.flavor.slug,
        "devices": [{"id": f"MIG-{uuid4()}", "name": device}],
    }


def _reserved(row: Workload) -> Body:
    since = row.created_at.isoformat()
    assigned = {
        "name": "main",
        "count": 1,
        "flavors": {row.offer.resource_name: row.offer.flavor.object_name},
        "resourceUsage": {row.offer.resource_name: "1"},
    }
    return {
        "metadata": meta(f"wl-{row.slug}", namespace=row.tenant.object_name, at=row.created_at, row=row),
        "spec": {"active": True, "queueName": "gpu", "podSets": []},
        "status": {
            "conditions": [
                {"type": "QuotaReserved", "status": "True", "lastTransitionTime": since},
                {"type": "Admitted", "status": "True", "lastTransitionTime": since},
            ],
            "admission": {"clusterQueue": row.tenant.object_name, "podSetAssignments": [assigned]},
        },
    }


def wait(row: Workload, *, now: datetime) -> None:
    """Let it stand in its tenant's queue."""
    count = row.spec.get("count", 1)
    container = {"name": "main", "limits": {row.offer.resource_name: str(count)}}
    body = {
        "metadata": meta(f"wl-{row.slug}", namespace=row.tenant.object_name, at=row.created_at, row=row),
        "spec": {
            "active": True,
            "priority": 0,
            "queueName": "gpu",
            "podSets": [
                {
                    "name": "main",
                    "count": 1,
                    "template": {
                        "spec": {
                            "containers": [{"name": "main", "resources": {"limits": container["limits"]}}]
                        }
                    },
                }
            ],
        },
        "status": {"conditions": []},
    }
    see(row.cluster, "Workload", [body], now=now)
    words = "couldn't assign flavors to pod set main: insufficient unused quota"
    row.conditions = [condition("QuotaReserved", "False", words, now, reason="Pending")]
    row.save()


def condition(kind: str, status: str, message: str, since: datetime, *, reason: str = "") -> Body:
    return {
        "type": kind,
        "status": status,
        "reason": reason or kind,
        "message": message,
        "observed_generation": 1,
        "since": f"{since:%Y-%m-%dT%H:%M:%SZ}",
    }
