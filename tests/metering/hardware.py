"""Nodes as a cluster tells of them."""

from typing import Any

from apps.cluster.mirror.rules.mirror_columns import Sighting
from apps.cluster.mirror.services import mirror_table
from apps.workloads.models import Workload
from tests.metering.books import AT

VERSION = [0]


def tell(row: Workload, *seen: dict[str, Any]) -> None:
    for body in seen:
        VERSION[0] += 1
        body = {**body, "metadata": {**body["metadata"], "resourceVersion": str(VERSION[0])}}  # noqa: PLW2901
        mirror_table.record_seen(row.cluster, [Sighting(body["kind"], body)], now=AT)


def node(
    name: str = "gpu-01", *, ready: bool = True, cordoned: bool = False, **labels: str
) -> dict[str, Any]:
    return {
        "kind": "Node",
        "metadata": {"name": name, "uid": f"node-{name}", "labels": labels},
        "spec": {"unschedulable": True} if cordoned else {},
        "status": {
            "allocatable": {"cpu": "8", "memory": "64Gi"},
            "conditions": [{"type": "Ready", "status": "True" if ready else "Unknown"}],
        },
    }


def device(name: str, uuid: str, **more: str) -> dict[str, Any]:
    about = {"type": "mig" if more else "gpu", "uuid": uuid, "productName": "NVIDIA H100 80GB HBM3", **more}
    return {
        "name": name,
        "attributes": {key: {"string": value} for key, value in about.items()},
        "capacity": {"memory": {"value": "80Gi"}},
    }


def gpus(*devices: dict[str, Any], generation: int = 1) -> dict[str, Any]:
    return {
        "kind": "ResourceSlice",
        "metadata": {"name": "gpu-01-slice", "uid": "slice-1"},
        "spec": {
            "driver": "gpu.nvidia.com",
            "nodeName": "gpu-01",
            "pool": {"name": "gpu-01", "generation": generation, "resourceSliceCount": 1},
            "devices": list(devices),
        },
    }


WHOLE = gpus(device("gpu-0", "GPU-a"))


CUT = gpus(
    device("gpu-0-mig-1", "MIG-1", parentUUID="GPU-a", profile="3g.40gb"),
    device("gpu-0-mig-2", "MIG-2", parentUUID="GPU-a", profile="3g.40gb"),
    generation=2,
)
