"""The scheduler: binds pods that nothing gates to nodes with room and devices, least allocated node first.

Keeps what pods use per node from the watch; looks at a pod again only when something it may need changed.
Does not preempt pods.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime

from sandbox.api.cluster.client import Client
from sandbox.api.controllers.manager import Key
from sandbox.api.meta.objects import Obj, copy_of, dig, timestamp
from sandbox.api.storage.store import Change
from sandbox.controllers import pods
from sandbox.controllers.conditions import find
from sandbox.controllers.dra.binding import Binder, Plan
from sandbox.controllers.dra.selectors import SelectorError
from sandbox.controllers.nodefit import CANNOT_ALLOCATE, NodeView, Refusal, refusal, unschedulable_message
from sandbox.controllers.requests import Requests, add, pod_requests

NODES = "nodes"
# Pods that name another scheduler are that one's to place.
SCHEDULER = "default-scheduler"
_ROUND = Key("", "schedule")
# One round serves so many pods, then lets requests through.
_BATCH = 20
_TOPOLOGY = ("topology.kubernetes.io/region", "topology.kubernetes.io/zone")


class Scheduler:
    """default-scheduler for the simulated nodes."""

    name = "scheduler"

    def __init__(self, client: Client) -> None:
        self._client = client
        self._binder = Binder(client)
        self._bound: dict[str, tuple[str, Requests]] = {}
        self._used: dict[str, Requests] = {}
        self._count: dict[str, int] = {}
        self._waiting: set[Key] = set()
        self._active: set[Key] = set()

    def watches(self) -> Mapping[str, Callable[[Change], Iterable[Key]]]:
        """Pods, and everything that may make room for one."""
        return {
            pods.PODS: self._on_pod,
            NODES: self._on_node,
            "resourceclaims.resource.k8s.io": self._on_claim,
            "resourceslices.resource.k8s.io": self._wake,
            "deviceclasses.resource.k8s.io": self._wake,
        }

    def _on_pod(self, change: Change) -> Iterable[Key]:
        pod, meta = change.obj, change.obj["metadata"]
        key = Key(meta["namespace"], meta["name"])
        node = pod["spec"].get("nodeName", "")
        gone = change.type == "DELETED" or pods.is_terminal(pod)
        freed = self._forget(meta["uid"]) if gone else False
        if node and not gone:
            self._remember(meta["uid"], node, pod)
        if gone or node or pods.is_deleting(pod) or pod["spec"].get("schedulerName") != SCHEDULER:
            self._waiting.discard(key)
            self._active.discard(key)
            return self._wake(change) if freed else ()
        if pods.is_gated(pod) or (
            change.type == "MODIFIED" and key in self._waiting and not _spec_changed(change)
        ):
            return ()
        self._waiting.add(key)
        self._active.add(key)
        return (_ROUND,)

    def _remember(self, uid: str, node: str, pod: Obj) -> None:
        if uid in self._bound:
            return
        requests = pod_requests(pod["spec"])
        self._bound[uid] = (node, requests)
        add(self._used.setdefault(node, {}), requests)
        self._count[node] = self._count.get(node, 0) + 1

    def _forget(self, uid: str) -> bool:
        known = self._bound.pop(uid, None)
        if known is None:
            return False
        add(self._used[known[0]], known[1], -1)
        self._count[known[0]] -= 1
        return True

    def _on_node(self, change: Change) -> Iterable[Key]:
        if (
            change.type == "MODIFIED"
            and change.old is not None
            and _node_shape(change.obj) == _node_shape(change.old)
        ):
            return ()
        return self._wake(change)

    def _on_claim(self, change: Change) -> Iterable[Key]:
        held = change.old is not None and dig(change.old, "status", "allocation") is not None
        free = change.type == "DELETED" or dig(change.obj, "status", "allocation") is None
        return self._wake(change) if free or not held else ()

    def _wake(self, change: Change) -> Iterable[Key]:
        del change
        self._active |= self._waiting
        return (_ROUND,) if self._active else ()

    def reconcile(self, key: Key, now: datetime) -> float | None:
        """Schedule every pod worth looking at, highest priority and oldest first."""
        del key
        found = [self._client.get(pods.PODS, k.name, k.namespace) for k in self._active]
        ready = [p for p in found if p is not None and not p["spec"].get("nodeName") and pods.is_active(p)]
        ready.sort(
            key=lambda p: (
                -int(p["spec"].get("priority", 0)),
                p["metadata"]["creationTimestamp"],
                p["metadata"]["name"],
            )
        )
        for pod in ready[:_BATCH]:
            if not pods.is_gated(pod):
                self._schedule(pod, now)
        left = {Key(p["metadata"]["namespace"], p["metadata"]["name"]) for p in ready[_BATCH:]}
        self._active = left & self._waiting
        return 0.0 if self._active else None

    def _schedule(self, pod: Obj, now: datetime) -> None:
        missing = self._binder.missing_claims(pod)
        if missing:
            self._fail(pod, "Unschedulable", missing, now)
            return
        requests = pod_requests(pod["spec"])
        try:
            feasible, refusals = self._filter(pod, requests)
        except SelectorError as error:
            self._fail(pod, "SchedulerError", f'running "DynamicResources" filter plugin: {error}', now)
            return
        if not feasible:
            self._fail(pod, "Unschedulable", unschedulable_message(refusals), now)
            return
        view, plan = min(feasible, key=lambda pair: (pair[0].load(), pair[0].name))
        self._bind(pod, view, plan, now)

    def _filter(self, pod: Obj, requests: Requests) -> tuple[list[tuple[NodeView, Plan]], list[Refusal]]:
        feasible, refusals = [], []
        for node in self._client.list(NODES):
            name = node["metadata"]["name"]
            view = NodeView(node, self._used.get(name, {}), self._count.get(name, 0))
            by_claim = self._binder.served_by_claims(pod, view.allocatable)
            refused = refusal(pod, view, requests, by_claim)
            plan = None if refused else self._binder.plan(pod, name, view.allocatable)
            if plan is None:
                refusals.append(refused or Refusal(CANNOT_ALLOCATE))
            else:
                feasible.append((view, plan))
        return feasible, refusals

    def _bind(self, pod: Obj, view: NodeView, plan: Plan, now: datetime) -> None:
        meta = pod["metadata"]
        status = self._binder.reserve(pod, view.name, plan, now)
        conditions = copy_of(dig(pod, "status", "conditions", default=[]))
        _scheduled(conditions, {"status": "True"}, now)
        self._client.patch(
            pods.PODS,
            meta["name"],
            {"status": {**status, "conditions": conditions}},
            namespace=meta["namespace"],
            subresource="status",
        )
        labels = view.node["metadata"].get("labels") or {}
        topology = {key: labels[key] for key in _TOPOLOGY if key in labels}
        patch = {"metadata": {"labels": topology}, "spec": {"nodeName": view.name}}
        self._client.patch(pods.PODS, meta["name"], patch, namespace=meta["namespace"])
        message = f"Successfully assigned {meta['namespace']}/{meta['name']} to {view.name}"
        self._client.event(pod, "Scheduled", message, component=SCHEDULER)

    def _fail(self, pod: Obj, reason: str, message: str, now: datetime) -> None:
        meta = pod["metadata"]
        conditions = copy_of(dig(pod, "status", "conditions", default=[]))
        if _scheduled(conditions, {"status": "False", "reason": reason, "message": message}, now):
            self._client.patch(
                pods.PODS,
                meta["name"],
                {"status": {"conditions": conditions}},
                namespace=meta["namespace"],
                subresource="status",
            )
        self._client.event(pod, "FailedScheduling", message, type="Warning", component=SCHEDULER)


def _scheduled(conditions: list[Obj], state: Obj, now: datetime) -> bool:
    known = find(conditions, "PodScheduled")
    fresh = {"type": "PodScheduled", "lastProbeTime": None, **state}
    if known is not None and {k: v for k, v in known.items() if k != "lastTransitionTime"} == fresh:
        return False
    moved = known is None or known["status"] != state["status"]
    stamp = timestamp(now) if moved or known is None else known["lastTransitionTime"]
    rest = [c for c in conditions if c["type"] != "PodScheduled"]
    conditions[:] = [*rest, {**fresh, "lastTransitionTime": stamp}]
    return True


def _spec_changed(change: Change) -> bool:
    return (
        change.old is None
        or change.old["spec"] != change.obj["spec"]
        or (
            dig(change.old, "status", "resourceClaimStatuses")
            != dig(change.obj, "status", "resourceClaimStatuses")
        )
    )


def _node_shape(node: Obj) -> tuple[Obj, Obj, Obj, bool]:
    ready = find(dig(node, "status", "conditions", default=[]), "Ready")
    return (
        node.get("spec") or {},
        node["metadata"].get("labels") or {},
        dig(node, "status", "allocatable", default={}),
        ready is not None and ready["status"] == "True",
    )
