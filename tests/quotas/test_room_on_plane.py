"""What fits now, against what the real kube-scheduler gives out of boards that are cut on demand."""

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from sandbox.fleet.slices import device_classes
from tests.controlplane.plane import ControlPlane
from tests.patience import until
from tests.quotas import on_demand
from tests.quotas.on_demand import Body

pytestmark = [pytest.mark.plane, pytest.mark.exhaustive, pytest.mark.timeout(600)]

NAMESPACE = "cut-on-demand"
SEEDS = (0, 3, 5)
"""Of each as many devices are held as the seed says: none, few, most of the two boards."""


@dataclass(frozen=True)
class Case:
    """One size on one node of its own, in one state."""

    node: str
    size: str
    slices: list[Body]
    held: list[str]

    @property
    def free(self) -> int:
        return on_demand.room(self.slices, self.held, self.size)

    def objects(self) -> list[Body]:
        """The node, what it publishes, and one pod more than the product says fit."""
        pods = [self._pod(number) for number in range(self.free + 1)]
        spec = {"spec": on_demand.claim_of(self.size)}
        template = _named("resource.k8s.io/v1", "ResourceClaimTemplate", self.node, spec=spec)
        return [_node(self.node), *self.slices, template, *pods]

    def holder(self) -> Body:
        """The claim that has what is held."""
        asked = on_demand.claim_of(on_demand.WHOLE)
        return _named("resource.k8s.io/v1", "ResourceClaim", f"held-{self.node}", spec=asked)

    def _pod(self, number: int) -> Body:
        use = {"claims": [{"name": "gpu"}]}
        return _named(
            "v1", "Pod", f"{self.node}-{number}", labels={"case": self.node},
            spec={
                "terminationGracePeriodSeconds": 0,
                "nodeSelector": {"kubernetes.io/hostname": self.node},
                "containers": [{"name": "c", "image": "python:3.13", "resources": use}],
                "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": self.node}],
            },
        )  # fmt: skip


def _named(version: str, kind: str, name: str, labels: dict[str, str] | None = None, **body: Any) -> Body:
    metadata = {"name": name, "namespace": NAMESPACE, "labels": labels or {}}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **body}


def _node(name: str) -> Body:
    amounts = {"cpu": "64", "memory": "512Gi", "pods": "110"}
    metadata = {
        "name": name,
        "labels": {"kubernetes.io/hostname": name, "test": NAMESPACE},
        "annotations": {"kwok.x-k8s.io/node": "fake"},
    }
    status = {"capacity": amounts, "allocatable": amounts}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": status}


@pytest.fixture
def cases(control_plane: ControlPlane) -> Iterator[list[Case]]:
    """A node for each state and size, with its pods; everything of it is gone afterwards."""
    found = list(_cases())
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    control_plane.apply([namespace, *device_classes()])
    _hold(control_plane, found)
    try:
        control_plane.apply([body for case in found for body in case.objects()])
        yield found
    finally:
        control_plane.kubectl("delete", "namespace", NAMESPACE)
        control_plane.kubectl("delete", "nodes", "-l", f"test={NAMESPACE}")
        names = [body["metadata"]["name"] for case in found for body in case.slices]
        control_plane.kubectl("delete", "resourceslices", *names, "--ignore-not-found")
        classes = [body["metadata"]["name"] for body in device_classes()]
        control_plane.kubectl("delete", "deviceclasses", *classes)


def _cases() -> Iterator[Case]:
    every = [(seed, size) for seed in SEEDS for size in on_demand.sizes(on_demand.fleet(1))]
    plan = on_demand.fleet(len(every))
    for (node, _), (seed, size) in zip(plan.node_pools(), every, strict=True):
        slices = on_demand.published(plan, node)
        yield Case(node, size, slices, on_demand.held(slices, seed, most=seed))


def _hold(plane: ControlPlane, cases: list[Case]) -> None:
    """What is held is written before anything else is there that could be given out."""
    holders = [case.holder() for case in cases if case.held]
    plane.apply(holders)
    for case in (case for case in cases if case.held):
        patch = json.dumps({"status": on_demand.holding(case.held, case.node)})
        plane.kubectl(
            "-n", NAMESPACE, "patch", "resourceclaim", f"held-{case.node}",
            "--subresource=status", "--type=merge", "-p", patch,
        )  # fmt: skip


def test_what_is_free_is_what_the_scheduler_gives_out(control_plane: ControlPlane, cases: list[Case]) -> None:
    """RULE: of one pod more than fit, as many have their node as the product says are free."""

    def pods() -> list[Any]:
        listed = json.loads(control_plane.kubectl("-n", NAMESPACE, "get", "pods", "-o", "json"))["items"]
        decided = [pod for pod in listed if pod["spec"].get("nodeName") or _is_refused(pod)]
        return decided if len(decided) == sum(case.free + 1 for case in cases) else []

    decided = until(pods, "the scheduler's answer for each pod", 120)
    given = Counter(pod["metadata"]["labels"]["case"] for pod in decided if pod["spec"].get("nodeName"))
    said = {case.node: case.free for case in cases}
    assert {case.node: given[case.node] for case in cases} == said
    assert len(set(said.values())) > 4, "from nothing to a board full of the smallest"


def _is_refused(pod: Any) -> bool:
    """For want of a device, not because its claim is not there yet: nothing is given back meanwhile."""
    conditions = pod["status"].get("conditions") or ()
    return any("cannot allocate all claims" in each.get("message", "") for each in conditions)
