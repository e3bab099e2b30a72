"""A small fleet in a simulated cluster, and what Kueue and the scheduler would say about its use."""

from typing import Any

from tests.controlplane.fleet import FLEETS, nodes, resource_slices
from tests.tenants.in_process import InProcess

STORY = FLEETS["story"]
READY = [{"type": "Ready", "status": "True"}]


def with_fleet(gateway: InProcess) -> InProcess:
    """gpu-01: one H100 cut 1g.10gb + 3g.40gb; gpu-02: two whole H100; gpu-03: one L4."""
    admin = gateway.simulated.client()
    uids = {}
    for node in nodes(STORY):
        made = admin.create("nodes", node)
        uids[node["metadata"]["name"]] = made["metadata"]["uid"]
        admin.patch(
            "nodes",
            node["metadata"]["name"],
            {"status": {**node["status"], "conditions": READY}},
            subresource="status",
        )
    for published in resource_slices(STORY, uids):
        admin.create("resourceslices.resource.k8s.io", published)
    admin.create(
        "namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "allotment-access"}}
    )
    return gateway


def reserve(gateway: InProcess, queue: str, flavor: str, **devices: int) -> None:
    """Kueue's word that a ClusterQueue has this reserved; `h100_1g_10gb=2` is 2 of
    allotment.dev/h100-1g-10gb.
    """
    resources = [
        {"name": f"allotment.dev/{name.replace('_', '-')}", "total": str(count), "borrowed": "0"}
        for name, count in devices.items()
    ]
    status = {"flavorsReservation": [{"name": flavor, "resources": resources}]}
    kueue = gateway.simulated.client(manager="kueue")
    kueue.patch("clusterqueues.kueue.x-k8s.io", queue, {"status": status}, subresource="status")


def allocate(gateway: InProcess, pool: str, device: str, namespace: str = "default") -> None:
    """The scheduler's word that a claim has this device."""
    result = {"request": "r", "driver": "gpu.nvidia.com", "pool": pool, "device": device}
    admin = gateway.simulated.client()
    request = {"name": "r", "exactly": {"deviceClassName": "c"}}
    claim: dict[str, Any] = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": f"{pool}-{device}", "namespace": namespace},
        "spec": {"devices": {"requests": [request]}},
    }
    admin.create("resourceclaims.resource.k8s.io", claim, namespace)
    status = {"allocation": {"devices": {"results": [result]}}}
    admin.patch(
        "resourceclaims.resource.k8s.io",
        f"{pool}-{device}",
        {"status": status},
        namespace=namespace,
        subresource="status",
    )
