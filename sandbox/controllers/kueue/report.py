"""The status of ClusterQueues and LocalQueues, their finalizers, and pending positions.

Counts and sums what a view shows. Decides nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from sandbox.api.cluster.client import Client
from sandbox.api.meta.objects import Obj, copy_of
from sandbox.controllers.amounts import render
from sandbox.controllers.conditions import set_condition
from sandbox.controllers.kueue import convert, names
from sandbox.controllers.kueue import status as state
from sandbox.controllers.kueue.model import FlavorResource, QueueSpec
from sandbox.controllers.kueue.stopping import checks
from sandbox.controllers.kueue.view import View, pending

READY = "Ready"
_BY_HAND = ("Active", "People answer this check by hand")


class Reporter:
    """Writes what queues hold."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def report(self, view: View, now: datetime) -> None:
        """Status and finalizers of every queue and flavor."""
        for name, queue in view.queues.items():
            mine = [w for w in view.workloads.values() if view.queue_of(w) == name]
            self._finalize(names.CLUSTER_QUEUES, queue, in_use=any(_holds(w) for w in mine))
            self._cluster_queue(view, queue, mine, now)
        for (namespace, name), local in view.local_queues.items():
            mine = [
                w
                for w in view.workloads.values()
                if w["metadata"]["namespace"] == namespace and w["spec"].get("queueName") == name
            ]
            self._local_queue(view, local, mine, now)
        used = {f for spec in view.specs.values() for g in spec.groups for f in g.flavors}
        for flavor in self._client.list(names.FLAVORS):
            self._finalize(names.FLAVORS, flavor, in_use=flavor["metadata"]["name"] in used)
        asked = {name for queue in view.queues.values() for name in checks.named(queue)}
        for check in self._client.list(names.ADMISSION_CHECKS):
            self._finalize(names.ADMISSION_CHECKS, check, in_use=check["metadata"]["name"] in asked)
            if check["spec"]["controllerName"] == checks.BY_HAND:
                self._write(names.ADMISSION_CHECKS, check, {}, active=_BY_HAND, now=now)

    def _finalize(self, resource: str, obj: Obj, *, in_use: bool) -> None:
        meta = obj["metadata"]
        finalizers = list(meta.get("finalizers") or ())
        deleting = bool(meta.get("deletionTimestamp"))
        if not deleting and names.IN_USE not in finalizers:
            self._client.patch(
                resource, meta["name"], {"metadata": {"finalizers": [*finalizers, names.IN_USE]}}
            )
        elif deleting and not in_use and names.IN_USE in finalizers:
            left = [f for f in finalizers if f != names.IN_USE]
            self._client.patch(resource, meta["name"], {"metadata": {"finalizers": left or None}})

    def _cluster_queue(self, view: View, queue: Obj, mine: list[Obj], now: datetime) -> None:
        spec = view.specs[queue["metadata"]["name"]]
        reason, message = convert.inactive_reason(queue, view.flavors, view.checks)
        status = _counts(mine, spec, borrowed=True)
        self._write(names.CLUSTER_QUEUES, queue, status, active=(reason, message), now=now)

    def _local_queue(self, view: View, local: Obj, mine: list[Obj], now: datetime) -> None:
        name = local["spec"].get("clusterQueue", "")
        spec = view.specs.get(name)
        status = _counts(mine, spec or QueueSpec(name), borrowed=False)
        if local["spec"].get("stopPolicy", "None") != "None":
            active = ("Stopped", "LocalQueue is stopped")
        elif spec is None:
            active = ("ClusterQueueDoesNotExist", "Can't submit new workloads to clusterQueue")
        elif not spec.active:
            active = ("ClusterQueueIsInactive", "Can't submit new workloads to clusterQueue")
        else:
            active = (READY, "Can submit new workloads to localQueue")
        self._write(names.LOCAL_QUEUES, local, status, active=active, now=now)

    def _write(self, resource: str, obj: Obj, counts: Obj, *, active: tuple[str, str], now: datetime) -> None:
        meta = obj["metadata"]
        stored = self._client.get(resource, meta["name"], meta.get("namespace", ""))
        if stored is None:
            return
        status = {**copy_of(stored.get("status") or {}), **counts}
        reason, message = active
        fresh = {
            "type": "Active",
            "status": "True" if active in (_BY_HAND, (READY, message)) else "False",
            "reason": reason,
            "message": message,
            "observedGeneration": meta.get("generation", 1),
        }
        set_condition(status.setdefault("conditions", []), fresh, now)
        if status != stored.get("status"):
            self._client.update(resource, {**stored, "status": status}, subresource="status")


def _holds(workload: Obj) -> bool:
    return state.has_quota(workload) and not state.is_finished(workload)


def _counts(mine: Iterable[Obj], spec: QueueSpec, *, borrowed: bool) -> Obj:
    workloads = list(mine)
    reserving = [w for w in workloads if _holds(w)]
    admitted = [w for w in reserving if state.is_admitted(w)]
    return {
        "pendingWorkloads": sum(pending(w) for w in workloads),
        "reservingWorkloads": len(reserving),
        "admittedWorkloads": len(admitted),
        "flavorsReservation": _usage(reserving, spec, borrowed=borrowed),
        "flavorsUsage": _usage(admitted, spec, borrowed=borrowed),
    }


def _usage(workloads: list[Obj], spec: QueueSpec, *, borrowed: bool) -> list[Obj]:
    used: dict[FlavorResource, int] = {}
    for workload in workloads:
        for fr, value in convert.admitted_usage(workload).items():
            used[fr] = used.get(fr, 0) + value
    listed = []
    for group in spec.groups:
        for flavor in group.flavors:
            resources = []
            for resource in sorted(group.covered):
                fr = FlavorResource(flavor, resource)
                total = used.get(fr, 0)
                item = {"name": resource, "total": render(resource, total)}
                if borrowed:
                    over = max(0, total - spec.quotas[fr].nominal) if spec.cohort and fr in spec.quotas else 0
                    item["borrowed"] = render(resource, over)
                resources.append(item)
            listed.append({"name": flavor, "resources": resources})
    return listed
