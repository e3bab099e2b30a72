"""The fleet inside a cluster: nodes, slices and device classes as objects, heartbeats, lost nodes.

Idempotent: what exists is left as users changed it (labels, cordons); what is missing is made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime

from sandbox.api.cluster.client import Client
from sandbox.api.cluster.simulated import Cluster
from sandbox.api.controllers.manager import Key, Manager
from sandbox.api.meta.objects import Obj, copy_of, dig, parse_time, timestamp
from sandbox.api.storage.store import Change
from sandbox.fleet import faults
from sandbox.fleet.nodes import node_conditions, node_object
from sandbox.fleet.slices import DRIVER, device_classes, resource_slices
from sandbox.fleet.spec import Fleet, load_fleet

NODES = "nodes"
SLICES = "resourceslices.resource.k8s.io"
CLASSES = "deviceclasses.resource.k8s.io"
HEARTBEAT_SECONDS = 300.0
FACT = "fleet"
UNKNOWN = ("Unknown", "NodeStatusUnknown", "Kubelet stopped posting node status.")


def install_plant(
    cluster: Cluster, manager: Manager, fleet: str, seed: int, *, heartbeat: float = HEARTBEAT_SECONDS
) -> Fleet:
    """Make the objects of a fleet by name or file and start its heartbeat (seconds); the answer is the
    fleet.
    """
    plan = load_fleet(fleet)
    kubelet, driver = cluster.client("system:node", "kubelet"), cluster.client(f"system:{DRIVER}", DRIVER)
    now = cluster.clock.now()
    cluster.store.remember(FACT, fleet)
    for device_class in device_classes():
        _ensure(driver, CLASSES, device_class)
    for name, _ in plan.node_pools():
        node = _ensure(kubelet, NODES, node_object(plan, name, seed, now))
        for published in resource_slices(plan, name, seed):
            owner = {
                "apiVersion": "v1",
                "kind": "Node",
                "name": name,
                "uid": node["metadata"]["uid"],
                "controller": True,
            }
            published["metadata"]["ownerReferences"] = [owner]
            _ensure(driver, SLICES, published)
    manager.add(NodeController(kubelet, heartbeat))
    return plan


def stored_fleet(cluster: Cluster) -> Fleet | None:
    """The fleet that was installed into this cluster, also after a restart."""
    known = cluster.store.fact(FACT)
    return load_fleet(known) if known else None


def _ensure(client: Client, resource: str, body: Obj) -> Obj:
    found = client.get(resource, body["metadata"]["name"])
    if found is not None:
        return found
    made = client.create(resource, body)
    if "status" in body:
        made = client.update(resource, {**made, "status": body["status"]}, subresource="status")
    return made


class NodeController:
    """Kubelet heartbeats, and the node controller's part when a node is lost: unreachable taint, pods
    evicted.
    """

    name = "node"

    def __init__(self, client: Client, heartbeat: float) -> None:
        self._client = client
        self._heartbeat = heartbeat

    def watches(self) -> Mapping[str, Callable[[Change], Iterable[Key]]]:
        """Nodes when they appear, are lost, come back or are cordoned."""
        return {NODES: _changed}

    def reconcile(self, key: Key, now: datetime) -> float | None:
        """Post the node's conditions; a lost node turns Unknown and its pods go after their toleration."""
        node = self._client.get(NODES, key.name)
        if node is None:
            return None
        waiting = self._spot(node, now)
        node = self._client.get(NODES, key.name) or node
        lost = bool(dig(node, "metadata", "annotations", faults.LOST))
        self._taint(node, lost=lost)
        node = self._client.get(NODES, key.name) or node
        status = copy_of(node.get("status") or {})
        status["conditions"] = _conditions(status.get("conditions") or [], now, lost=lost)
        if status != node.get("status"):
            self._client.update(NODES, {**node, "status": status}, subresource="status")
        if lost:
            return self._evict(key.name, status, now)
        return self._heartbeat if waiting is None else min(waiting, self._heartbeat)

    def _spot(self, node: Obj, now: datetime) -> float | None:
        """Seconds until a spot node is taken back; when they are over the node is lost with its pods."""
        ends = dig(node, "metadata", "annotations", faults.SPOT)
        if not ends or dig(node, "metadata", "annotations", faults.LOST):
            return None
        left = (parse_time(ends) - now).total_seconds()
        if left > 0:
            return left
        name = node["metadata"]["name"]
        self._client.patch(NODES, name, {"metadata": {"annotations": {faults.LOST: timestamp(now)}}})
        for pod in self._client.list("pods"):
            if pod["spec"].get("nodeName") == name:
                meta = pod["metadata"]
                self._client.delete("pods", meta["name"], meta["namespace"], uid=meta["uid"], grace=0)
        return None

    def _taint(self, node: Obj, *, lost: bool) -> None:
        wanted = []
        if lost:
            wanted += [
                {"key": "node.kubernetes.io/unreachable", "effect": e} for e in ("NoSchedule", "NoExecute")
            ]
        if dig(node, "spec", "unschedulable"):
            wanted.append({"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"})
        taints = dig(node, "spec", "taints", default=[])
        kept = [t for t in taints if not t["key"].startswith("node.kubernetes.io/un")]
        if [(t["key"], t["effect"]) for t in taints] != [(t["key"], t["effect"]) for t in (*kept, *wanted)]:
            patch = {"spec": {"taints": [*kept, *wanted] or None}}
            self._client.patch(NODES, node["metadata"]["name"], patch)

    def _evict(self, name: str, status: Obj, now: datetime) -> float | None:
        ready = next(c for c in status["conditions"] if c["type"] == "Ready")
        since = (now - parse_time(ready["lastTransitionTime"])).total_seconds()
        waits = []
        for pod in self._client.list("pods"):
            if pod["spec"].get("nodeName") != name or pod["metadata"].get("deletionTimestamp"):
                continue
            seconds = next(
                (
                    t.get("tolerationSeconds")
                    for t in pod["spec"].get("tolerations") or ()
                    if t.get("key", "").endswith("/unreachable")
                ),
                0,
            )
            if seconds is None:
                continue
            if since >= seconds:
                meta = pod["metadata"]
                self._client.event(
                    pod,
                    "TaintManagerEviction",
                    f"Marking for deletion Pod {meta['namespace']}/{meta['name']}",
                )
                self._client.delete("pods", meta["name"], meta["namespace"], uid=meta["uid"], grace=0)
            else:
                waits.append(seconds - since)
        return min(waits, default=None)


def _conditions(known: list[Obj], now: datetime, *, lost: bool) -> list[Obj]:
    before = {c["type"]: c for c in known}
    if lost:
        status, reason, message = UNKNOWN
        fresh = [
            {**c, "status": status, "reason": reason, "message": message}
            for c in known or node_conditions(now)
        ]
    else:
        fresh = node_conditions(now)
    for condition in fresh:
        old = before.get(condition["type"])
        moved = old is None or old["status"] != condition["status"]
        condition["lastTransitionTime"] = (
            timestamp(now) if moved or old is None else old["lastTransitionTime"]
        )
    return fresh


def _changed(change: Change) -> Iterable[Key]:
    if change.type == "DELETED":
        return ()
    if change.old is not None and _signals(change.old) == _signals(change.obj):
        return ()
    return (Key("", change.obj["metadata"]["name"]),)


def _signals(node: Obj) -> tuple[object, ...]:
    annotations = dig(node, "metadata", "annotations", default={})
    return annotations.get(faults.LOST), annotations.get(faults.SPOT), dig(node, "spec", "unschedulable")
