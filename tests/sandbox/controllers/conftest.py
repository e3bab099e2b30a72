"""A cluster with all controllers and the laptop fleet, on a clock that moves when told."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

import pytest

from sandbox import controllers, fleet
from sandbox.api.cluster.client import Client
from sandbox.api.cluster.simulated import Cluster
from sandbox.api.controllers import lifecycle
from sandbox.api.controllers.manager import Manager
from tests.sandbox.controllers.bodies import (
    ATTRIBUTES,
    NAMESPACE,
    SLICE,
    Obj,
    cluster_queue,
    device_class,
    kueue,
)


@dataclass
class World:
    cluster: Cluster
    manager: Manager
    client: Client

    def create(self, resource: str, body: Obj, namespace: str = NAMESPACE) -> Obj:
        made = self.client.create(resource, body, namespace)
        self.manager.drain()
        return made

    def wait(self, seconds: float) -> None:
        self.manager.advance(seconds)

    def pod(self, name: str) -> Obj:
        found = self.client.get("pods", name, NAMESPACE)
        assert found is not None, f"no pod {name}"
        return found

    def pods_of(self, owner: Obj) -> list[Obj]:
        return self.client.list("pods", NAMESPACE, owner_uid=owner["metadata"]["uid"])

    def workload(self, kind: str, name: str) -> Obj:
        found = [
            w
            for w in self.client.list("workloads.kueue.x-k8s.io", NAMESPACE)
            if w["metadata"]["name"].startswith(f"{kind}-{name}-")
        ]
        assert len(found) == 1, [w["metadata"]["name"] for w in found]
        return found[0]

    def conditions(self, kind: str, name: str) -> dict[str, tuple[str, str, str]]:
        status = self.workload(kind, name).get("status", {})
        return {c["type"]: (c["status"], c["reason"], c["message"]) for c in status.get("conditions", ())}

    def events(self, reason: str) -> list[str]:
        return [e["message"] for e in self.client.list("events", NAMESPACE) if e["reason"] == reason]


@pytest.fixture
def world() -> World:
    cluster = Cluster.in_memory(seed=7, start=datetime(2026, 11, 21, 10, tzinfo=UTC))
    manager = Manager(cluster)
    lifecycle.install(cluster, manager)
    controllers.install(cluster, manager)
    fleet.install(cluster, manager, "laptop", 7)
    made = World(cluster, manager, cluster.client("tester", "tester"))
    labels = {"allotment.dev/managed": "true", "allotment.dev/tenant": NAMESPACE}
    meta = {"name": NAMESPACE, "labels": labels}
    made.create("namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": meta}, "")
    return made


@pytest.fixture
def queued(world: World) -> World:
    """With an offer for 3g.40gb slices and a queue that holds one of them."""
    chosen = f"{ATTRIBUTES}.type == 'mig' && {ATTRIBUTES}.profile == '3g.40gb'"
    world.create("deviceclasses.resource.k8s.io", device_class("h100-3g", SLICE, chosen), "")
    flavor = kueue(
        "ResourceFlavor", "h100", {"nodeLabels": {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}}
    )
    world.create("resourceflavors.kueue.x-k8s.io", flavor, "")
    quota = {"cpu": "64", "memory": "256Gi", SLICE: 1}
    queue = cluster_queue(
        "team-a", quota, cohortName="research", preemption={"withinClusterQueue": "LowerPriority"}
    )
    world.create("clusterqueues.kueue.x-k8s.io", queue, "")
    world.create("localqueues.kueue.x-k8s.io", kueue("LocalQueue", "gpu", {"clusterQueue": "team-a"}))
    urgent = {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "WorkloadPriorityClass",
        "metadata": {"name": "urgent"},
        "value": 1000,
    }
    world.create("workloadpriorityclasses.kueue.x-k8s.io", urgent, "")
    return world
