"""The scheduler's part of DRA: which claims a pod needs, whether a node can serve them, and the writes.

Special claims for extended resources are made when the node is chosen; template claims exist already.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from sandbox.api.cluster.client import Client
from sandbox.api.meta.objects import Obj, copy_of, dig, timestamp
from sandbox.controllers.dra import extended
from sandbox.controllers.dra.allocate import Allocator, CannotAllocate, SelectorCache
from sandbox.controllers.dra.pools import consumed, stock_of, taken_devices

CLAIMS = "resourceclaims.resource.k8s.io"
SLICES = "resourceslices.resource.k8s.io"
CLASSES = "deviceclasses.resource.k8s.io"
NODES = "nodes"
PROTECTION = "resource.kubernetes.io/delete-protection"
_SAYS_WHEN = 36


@dataclass
class Plan:
    """What binding to one node would write: allocations by claim name, and the special claim if any."""

    allocations: dict[str, list[Obj]] = field(default_factory=dict)
    reserve_only: list[str] = field(default_factory=list)
    special: Obj | None = None
    special_results: list[Obj] = field(default_factory=list)
    mappings: list[Obj] = field(default_factory=list)


def claim_names(pod: Obj) -> dict[str, str]:
    """The ResourceClaim behind each of the pod's `resourceClaims`, "" while it is not made yet."""
    generated = {
        s["name"]: s.get("resourceClaimName", "")
        for s in dig(pod, "status", "resourceClaimStatuses", default=[])
    }
    return {
        item["name"]: item.get("resourceClaimName") or generated.get(item["name"], "")
        for item in pod["spec"].get("resourceClaims") or ()
    }


class Binder:
    """Plans and writes device allocations."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._match = SelectorCache()

    def missing_claims(self, pod: Obj) -> str:
        """The scheduler's words for a claim that does not exist yet, "" when all do."""
        namespace = pod["metadata"]["namespace"]
        for short, name in claim_names(pod).items():
            if not name:
                return f'waiting for dynamic resource controller to create the resourceclaim for "{short}"'
            if self._client.get(CLAIMS, name, namespace) is None:
                return f'resourceclaim "{name}" not found'
        return ""

    def served_by_claims(self, pod: Obj, allocatable: Mapping[str, str]) -> set[str]:
        """Extended resource names that devices, not the node's own capacity, will serve there."""
        names = {resource for _, _, resource, _ in extended.container_requests(pod)} - set(allocatable)
        classes = self._classes() if names else {}
        return {name for name in names if extended.class_for(name, classes.values())}

    def plan(self, pod: Obj, node: str, allocatable: Mapping[str, str]) -> Plan | None:
        """Devices for all claims on this node; None when they are not free there. Raises SelectorError."""
        classes = self._classes()
        special, mappings = extended.special_claim(pod, allocatable, classes)
        namespace, names = pod["metadata"]["namespace"], [n for n in claim_names(pod).values() if n]
        plan = Plan(special=special, mappings=mappings)
        if special is None and not names:
            return plan
        wanting: dict[str, Obj] = {}
        for name in names:
            claim = self._client.get(CLAIMS, name, namespace)
            if claim is None or not _usable(claim, node):
                return None
            if dig(claim, "status", "allocation"):
                plan.reserve_only.append(name)
            else:
                wanting[name] = claim
        asked = [*wanting.values(), *([] if special is None else [special])]
        try:
            results = self._allocator(node, classes).allocate(asked)
        except CannotAllocate:
            return None
        plan.allocations = dict(zip(wanting, results, strict=False))
        plan.special_results = [] if special is None else results[-1]
        return plan

    def _allocator(self, node: str, classes: Mapping[str, Obj]) -> Allocator:
        stock = stock_of(self._client.list(SLICES), node)
        claims = self._client.list(CLAIMS)
        taken = taken_devices(claims)
        return Allocator(stock.candidates, classes, taken, self._match, stock.left(taken), consumed(claims))

    def reserve(self, pod: Obj, node: str, plan: Plan, now: datetime) -> Obj:
        """Write allocations and reservations; the answer is the pod status that names the special claim."""
        namespace = pod["metadata"]["namespace"]
        for name, results in plan.allocations.items():
            self._allocate(pod, name, node=node, results=results, now=now)
        for name in plan.reserve_only:
            self._allocate(pod, name, node=node, results=None, now=now)
        if plan.special is None:
            return {}
        made = self._client.create(CLAIMS, plan.special, namespace)
        self._allocate(pod, made["metadata"]["name"], node=node, results=plan.special_results, now=now)
        special = {"resourceClaimName": made["metadata"]["name"], "requestMappings": plan.mappings}
        return {"extendedResourceClaimStatus": special}

    def _allocate(self, pod: Obj, name: str, *, node: str, results: list[Obj] | None, now: datetime) -> None:
        namespace = pod["metadata"]["namespace"]
        claim = self._client.get(CLAIMS, name, namespace)
        if claim is None:
            return
        finalizers = claim["metadata"].get("finalizers") or []
        if results is not None and PROTECTION not in finalizers:
            patch = {"metadata": {"finalizers": [*finalizers, PROTECTION]}}
            claim = self._client.patch(CLAIMS, name, patch, namespace=namespace)
        status = copy_of(claim.get("status") or {})
        if results is not None:
            term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
            status["allocation"] = {
                "devices": {"results": results},
                "nodeSelector": {"nodeSelectorTerms": [term]},
            }
            if self._says_when(node):
                status["allocation"]["allocationTimestamp"] = timestamp(now)
        consumer = {"resource": "pods", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}
        reserved = status.setdefault("reservedFor", [])
        if consumer not in reserved:
            reserved.append(consumer)
        self._client.update(CLAIMS, {**claim, "status": status}, subresource="status")

    def _says_when(self, node: str) -> bool:
        """Whether a scheduler of the node's version writes when it allocated: by default since 1.36
        (feature gate DRADeviceBindingConditions).
        """
        version = dig(self._client.get(NODES, node) or {}, "status", "nodeInfo", "kubeletVersion", default="")
        minor = version.split(".")[1:2]
        return not minor or int(minor[0]) >= _SAYS_WHEN

    def _classes(self) -> dict[str, Obj]:
        return {c["metadata"]["name"]: c for c in self._client.list(CLASSES)}


def _usable(claim: Obj, node: str) -> bool:
    """Not being deleted, and if allocated, reachable from the node."""
    if claim["metadata"].get("deletionTimestamp"):
        return False
    terms = dig(claim, "status", "allocation", "nodeSelector", "nodeSelectorTerms", default=[])
    named = [f["values"] for term in terms for f in term.get("matchFields") or ()]
    return not named or any(node in values for values in named)
