"""What somebody does to our objects with kubectl."""

from datetime import timedelta
from typing import Any

from apps.workloads.models import Workload
from tests.drills.world import World

KUBECTL = "kubectl-edit"


def kubectl(world: World, resource: str, name: str, change: dict[str, Any], namespace: str = "") -> None:
    client = world.door.simulated.client("person", KUBECTL)
    client.patch(resource, name, change, namespace=namespace)


CHANGES: dict[str, tuple[str, dict[str, Any]]] = {
    "the ports of its service": (
        "services",
        {"spec": {"ports": [{"name": "http", "port": 8000, "targetPort": 1}]}},
    ),
    "a label of ours taken away": ("services", {"metadata": {"labels": {"allotment.dev/tenant": None}}}),
    "its generation": ("pods", {"metadata": {"annotations": {"allotment.dev/generation": "0"}}}),
    "what lets the door in": ("pods", {"metadata": {"labels": {"allotment.dev/ingress": None}}}),
}


def flip(world: World, row: Workload, value: str) -> None:
    change = {"metadata": {"annotations": {"allotment.dev/generation": value}}}
    kubectl(world, "services", row.object_name, change, world.tenant.object_name)
    world.watch.deliver()
    world.sweep(later=timedelta(seconds=70))
    world.work()


def forced(world: World) -> int:
    return sum(write.verb == "force" for write in world.gateway.writes)
