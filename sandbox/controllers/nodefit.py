"""Whether a pod fits a node, and the scheduler's words when it fits none.

Pure: a view of a node and a pod in, reasons out. Devices are `dra.allocate`'s matter.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from sandbox.api.meta.objects import Obj, dig
from sandbox.controllers.affinity import node_matches, required_terms, untolerated
from sandbox.controllers.amounts import amount
from sandbox.controllers.conditions import is_true
from sandbox.controllers.requests import Requests

UNSCHEDULABLE_TAINT = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
CANNOT_ALLOCATE = "cannot allocate all claims"
_HELPFUL = "No preemption victims found for incoming pod"
_NOT_HELPFUL = "Preemption is not helpful for scheduling"


@dataclass(frozen=True)
class NodeView:
    """A node with what its pods already use."""

    node: Obj
    used: Mapping[str, int]
    pods: int

    @property
    def name(self) -> str:
        """The name."""
        return str(self.node["metadata"]["name"])

    @property
    def allocatable(self) -> Mapping[str, str]:
        """What the node offers pods."""
        found: Mapping[str, str] = dig(self.node, "status", "allocatable", default={})
        return found

    def load(self) -> float:
        """Mean share of CPU and memory in use: the least allocated node is preferred."""
        shares = []
        for name in ("cpu", "memory"):
            room = amount(name, self.allocatable.get(name, "0"))
            shares.append(self.used.get(name, 0) / room if room else 1.0)
        return sum(shares) / len(shares)


@dataclass(frozen=True)
class Refusal:
    """Why one node does not take the pod; `preemptible` when fewer pods there would help."""

    reason: str
    preemptible: bool = False


def refusal(pod: Obj, view: NodeView, requests: Requests, by_claim: set[str]) -> Refusal | None:
    """The scheduler's filters in its order; `by_claim` are resource names that devices will serve."""
    spec, meta = pod["spec"], view.node["metadata"]
    tolerations = spec.get("tolerations") or ()
    if dig(view.node, "spec", "unschedulable") and untolerated([UNSCHEDULABLE_TAINT], tolerations):
        return Refusal("node(s) were unschedulable")
    if not is_true(view.node, "Ready") or untolerated(
        dig(view.node, "spec", "taints", default=[]), tolerations
    ):
        return Refusal("node(s) had untolerated taint(s)")
    terms = required_terms(spec.get("affinity") or {})
    if not node_matches(spec.get("nodeSelector") or {}, terms, meta.get("labels") or {}, meta["name"]):
        return Refusal("node(s) didn't match Pod's node affinity/selector")
    if view.pods + 1 > amount("pods", view.allocatable.get("pods", "110")):
        return Refusal("Too many pods", preemptible=True)
    for name, wanted in sorted(requests.items()):
        room = amount(name, view.allocatable.get(name, "0"))
        if name not in by_claim and wanted and view.used.get(name, 0) + wanted > room:
            return Refusal(f"Insufficient {name}", preemptible=wanted <= room)
    return None


def unschedulable_message(refusals: list[Refusal]) -> str:
    """The FailedScheduling text over all nodes."""
    total = len(refusals)
    if not total:
        return "no nodes available to schedule pods"
    reasons = _counted(Counter(r.reason for r in refusals))
    after = _counted(Counter(_HELPFUL if r.preemptible else _NOT_HELPFUL for r in refusals))
    note = (
        "still not schedulable"
        if any(r.reason == CANNOT_ALLOCATE for r in refusals)
        else "no new claims to deallocate"
    )
    none = f"0/{total} nodes are available:"
    return f"{none} {reasons}. {note}, preemption: {none} {after}."


def _counted(reasons: Counter[str]) -> str:
    return ", ".join(sorted(f"{count} {reason}" for reason, count in reasons.items()))
