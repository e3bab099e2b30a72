"""What Kueue's integrations share: making a workload for an owner, its priority, finishing and status
edits.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from sandbox.api.cluster.client import Client
from sandbox.api.meta.objects import Obj, copy_of
from sandbox.controllers.kueue import admission, names
from sandbox.controllers.kueue import status as state
from sandbox.controllers.kueue.scheduler import drop_finalizer

ARRIVALS = {"Job": "batch.kubernetes.io/job-completion-index", "StatefulSet": "apps.kubernetes.io/pod-index"}


def priority_class(owner: Obj) -> str:
    """The WorkloadPriorityClass that the owner's label names, "" for none."""
    return str((owner["metadata"].get("labels") or {}).get(names.PRIORITY_LABEL, ""))


class Framework:
    """Store access for one integration; `component` is the source of its events."""

    def __init__(self, client: Client, component: str) -> None:
        self.client = client
        self.component = component

    def workload_of(self, owner: Obj) -> Obj | None:
        """The workload of an owner, by its job-uid label's index: an owner reference."""
        meta = owner["metadata"]
        found = self.client.list(names.WORKLOADS, meta["namespace"], owner_uid=meta["uid"])
        live = [
            w
            for w in found
            if any(o["uid"] == meta["uid"] for o in w["metadata"].get("ownerReferences") or ())
        ]
        return live[0] if live else None

    def manages(self, obj: Obj) -> bool:
        """Whether the object names a queue in a namespace that Kueue manages."""
        namespace = self.client.get("namespaces", obj["metadata"]["namespace"])
        return bool(names.queue_name(obj)) and names.namespace_managed(namespace)

    def create(self, owner: Obj, template: Obj, count: int, extra: Obj) -> Obj | None:
        """Create the owner's workload; `extra` is merged into its metadata. None where the owner's priority
        class is not there: Kueue refuses it a workload.
        """
        pod_set: Obj = {"name": names.MAIN, "count": count, "template": template}
        if owner["kind"] in ARRIVALS:
            pod_set["topologyRequest"] = {"podIndexLabel": ARRIVALS[owner["kind"]]}
        return self.create_of(owner, [pod_set], extra)

    def create_of(self, owner: Obj, pod_sets: list[Obj], extra: Obj) -> Obj | None:
        """As `create`, of several pod sets: quota is reserved for all of them or none."""
        meta, wanted = owner["metadata"], priority_class(owner)
        if wanted and self.client.get(names.PRIORITY_CLASSES, wanted) is None:
            return None
        body: Obj = {
            "apiVersion": names.API_VERSION,
            "kind": "Workload",
            "metadata": {
                "name": names.workload_name(owner),
                "namespace": meta["namespace"],
                "labels": {names.JOB_UID_LABEL: meta["uid"]},
                **extra,
            },
            "spec": {
                "active": True,
                "queueName": names.queue_name(owner),
                "podSets": pod_sets,
                **self.priority(owner),
            },
        }
        seconds = (meta.get("labels") or {}).get(names.MAX_TIME_LABEL, "")
        if seconds.isdigit():
            body["spec"]["maximumExecutionTimeSeconds"] = int(seconds)
        made = self.client.create(names.WORKLOADS, body, meta["namespace"])
        self.event(
            owner, "CreatedWorkload", f"Created Workload: {meta['namespace']}/{made['metadata']['name']}"
        )
        return made

    def priority(self, owner: Obj) -> Obj:
        """Give priority and priorityClassRef from the owner's label; 0 without one."""
        name = priority_class(owner)
        known = self.client.get(names.PRIORITY_CLASSES, name) if name else None
        if known is None:
            return {"priority": 0}
        reference = {"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": name}
        return {"priority": int(known["value"]), "priorityClassRef": reference}

    def follow(self, owner: Obj, workload: Obj) -> None:
        """Carry a changed queue or priority label over to the workload. A priority that somebody wrote on the
        workload itself stays: Kueue looks at the class's name alone.
        """
        named = (workload["spec"].get("priorityClassRef") or {}).get("name", "")
        wanted = self.priority(owner) if named != priority_class(owner) else {}
        if not state.has_quota(workload):
            wanted["queueName"] = names.queue_name(owner)
        if any(workload["spec"].get(key) != value for key, value in wanted.items()):
            meta = workload["metadata"]
            self.client.patch(names.WORKLOADS, meta["name"], {"spec": wanted}, namespace=meta["namespace"])

    def edit(self, workload: Obj, now: datetime, change: Callable[[state.Edit], object]) -> bool:
        """Edit the stored status of a workload. Returns whether it was written."""
        meta = workload["metadata"]
        stored = self.client.get(names.WORKLOADS, meta["name"], meta["namespace"])
        if stored is None:
            return False
        status = copy_of(stored.get("status") or {})
        change(state.Edit(stored, status, now))
        if status == stored.get("status"):
            return False
        self.client.update(names.WORKLOADS, {**stored, "status": status}, subresource="status")
        return True

    def finish(self, owner: Obj, workload: Obj, now: datetime, verdict: tuple[bool, str]) -> None:
        """Mark the workload finished and let it go; `verdict` is (succeeded, message)."""
        good, message = verdict
        if self.edit(workload, now, lambda edit: edit.finish("Succeeded" if good else "Failed", message)):
            meta = workload["metadata"]
            words = f"Workload '{meta['namespace']}/{meta['name']}' is declared finished"
            self.event(owner, "FinishedWorkload", words)
        self.release(workload)

    def release(self, workload: Obj) -> None:
        """Take Kueue's finalizer off the workload, if it is still there."""
        meta = workload["metadata"]
        stored = self.client.get(names.WORKLOADS, meta["name"], meta["namespace"])
        if stored is not None:
            drop_finalizer(self.client, stored)

    def pod_info(self, workload: Obj, place: int = 0) -> Obj:
        """What the workload's admission injects into the pods of one pod set."""
        return admission.pod_info(workload, lambda name: self.client.get(names.FLAVORS, name), place)

    def event(self, obj: Obj, reason: str, message: str) -> None:
        """A Normal event of this integration."""
        self.client.event(obj, reason, message, component=self.component)
