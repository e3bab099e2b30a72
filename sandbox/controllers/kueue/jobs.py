"""Kueue's batch/job integration: one workload per Job, `spec.suspend` driven by admission."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime

from sandbox.api.cluster.client import Client
from sandbox.api.controllers.manager import Key, own_key, owner_key
from sandbox.api.meta.objects import Obj, copy_of, dig
from sandbox.api.storage.store import Change
from sandbox.controllers import pods
from sandbox.controllers.conditions import controller_reference, find
from sandbox.controllers.job import JOBS
from sandbox.controllers.kueue import admission, names
from sandbox.controllers.kueue import status as state
from sandbox.controllers.kueue.framework import Framework

_GENERATED_LABELS = ("controller-uid", "job-name", "batch.kubernetes.io/controller-uid")


class JobIntegration:
    """Queues Jobs that carry a queue label."""

    name = "kueue-job"

    def __init__(self, client: Client) -> None:
        self._client = client
        self._kueue = Framework(client, "batch/job-kueue-controller")

    def watches(self) -> Mapping[str, Callable[[Change], Iterable[Key]]]:
        """Jobs and their workloads."""
        return {JOBS: own_key, names.WORKLOADS: owner_key("Job")}

    def reconcile(self, key: Key, now: datetime) -> float | None:
        """Finish, create, stop or start, in that order."""
        job = self._client.get(JOBS, key.name, key.namespace)
        if job is None or not self._kueue.manages(job):
            return None
        workload = self._kueue.workload_of(job)
        over = _over(job)
        if workload is not None and (over or state.is_finished(workload)):
            self._kueue.finish(job, workload, now, over or (False, ""))
        elif workload is not None and workload["metadata"].get("deletionTimestamp"):
            self._stop(job, workload, "Workload is deleted")
            self._kueue.release(workload)
        elif not over and not job["metadata"].get("deletionTimestamp"):
            self._drive(job, workload, now)
        return None

    def _drive(self, job: Obj, workload: Obj | None, now: datetime) -> None:
        if workload is None:
            self._create(job)
            return
        self._kueue.follow(job, workload)
        if state.has_quota(workload):
            self._kueue.edit(workload, now, lambda edit: edit.reclaim(_reclaimable(job)))
        ready = _pods_ready(job)
        self._kueue.edit(workload, now, lambda edit: edit.pods_ready(ready=ready))
        evicted = state.condition(workload, "Evicted")
        if evicted is not None and evicted["status"] == "True":
            self._stop(job, workload, evicted["message"])
            if state.has_quota(workload) and not dig(job, "status", "active"):
                self._kueue.edit(workload, now, lambda edit: edit.stopped())
        elif dig(job, "spec", "suspend") and state.is_admitted(workload):
            self._start(job, workload)
        elif not dig(job, "spec", "suspend") and not state.is_admitted(workload):
            self._stop(job, workload, "Not admitted by cluster queue")

    def _create(self, job: Obj) -> None:
        if not dig(job, "spec", "suspend"):
            self._patch(job, {"spec": {"suspend": True}})
            return
        if dig(job, "status", "active"):
            return
        template = copy_of(job["spec"]["template"])
        labels = dig(template, "metadata", "labels", default={})
        kept = {k: v for k, v in labels.items() if k not in _GENERATED_LABELS}
        template.setdefault("metadata", {})["labels"] = kept
        extra = {"finalizers": [names.IN_USE], "ownerReferences": [controller_reference(job)]}
        self._kueue.create(job, template, _pod_count(job), extra)

    def _start(self, job: Obj, workload: Obj) -> None:
        body = copy_of(job)
        body["spec"]["suspend"] = False
        template = body["spec"]["template"]
        admission.inject(
            template.setdefault("metadata", {}), template["spec"], self._kueue.pod_info(workload)
        )
        self._client.update(JOBS, body)
        queue = workload["status"]["admission"]["clusterQueue"]
        self._kueue.event(job, "Started", f"Admitted by clusterQueue {queue}")

    def _stop(self, job: Obj, workload: Obj, message: str) -> None:
        if not dig(job, "spec", "suspend"):
            self._patch(job, {"spec": {"suspend": True}})
            self._kueue.event(job, "Stopped", message)
            return
        body = copy_of(job)
        admission.restore(body["spec"]["template"], workload["spec"]["podSets"][0]["template"])
        if body["spec"]["template"] != job["spec"]["template"] and not dig(job, "status", "startTime"):
            self._client.update(JOBS, body)

    def _patch(self, job: Obj, patch: Obj) -> None:
        self._client.patch(JOBS, job["metadata"]["name"], patch, namespace=job["metadata"]["namespace"])


def _over(job: Obj) -> tuple[bool, str] | None:
    for kind in ("Complete", "Failed"):
        condition = find(dig(job, "status", "conditions", default=[]), kind)
        if condition is not None and condition["status"] == "True":
            return kind == "Complete", condition["message"]
    return None


def _pod_count(job: Obj) -> int:
    parallelism = int(dig(job, "spec", "parallelism", default=1))
    return min(parallelism, int(dig(job, "spec", "completions", default=parallelism)))


def _reclaimable(job: Obj) -> int:
    """Pods that will not be replaced: parallel slots the remaining completions cannot fill."""
    parallelism = int(dig(job, "spec", "parallelism", default=1))
    done = int(dig(job, "status", "succeeded", default=0))
    remaining = max(0, int(dig(job, "spec", "completions", default=parallelism)) - done)
    return max(0, parallelism - remaining) if parallelism > 1 and done else 0


def _pods_ready(job: Obj) -> bool:
    status = job.get("status") or {}
    return int(status.get("succeeded", 0)) + int(status.get("ready", 0)) >= _pod_count(job)


class PodIntegration:
    """Queues single pods: plain ones with a queue label, and each pod of a queued Deployment."""

    name = "kueue-pod"

    def __init__(self, client: Client) -> None:
        self._client = client
        self._kueue = Framework(client, "pod-kueue-controller")

    def watches(self) -> Mapping[str, Callable[[Change], Iterable[Key]]]:
        """Pods that Kueue manages on their own, and their workloads."""
        return {
            pods.PODS: lambda c: own_key(c) if is_single(c.obj) else (),
            names.WORKLOADS: owner_key("Pod"),
        }

    def reconcile(self, key: Key, now: datetime) -> float | None:
        """Create the workload, open the gate when admitted, delete the pod when evicted, finish with it."""
        pod = self._client.get(pods.PODS, key.name, key.namespace)
        if pod is None or not is_single(pod):
            return None
        workload = self._kueue.workload_of(pod)
        if pods.is_terminal(pod) or pods.is_deleting(pod):
            self._end(pod, workload, now)
        elif workload is None:
            template = {
                "metadata": {"labels": dict(pod["metadata"].get("labels") or {})},
                "spec": copy_of(pod["spec"]),
            }
            for field in ("schedulingGates", "nodeName"):
                template["spec"].pop(field, None)
            extra = {"finalizers": [names.IN_USE], "ownerReferences": [controller_reference(pod)]}
            self._kueue.create(pod, template, 1, extra)
        else:
            self._drive(pod, workload, now)
        return None

    def _drive(self, pod: Obj, workload: Obj, now: datetime) -> None:
        self._kueue.edit(workload, now, lambda edit: edit.pods_ready(ready=pods.is_ready(pod)))
        evicted = state.condition(workload, "Evicted")
        if evicted is not None and evicted["status"] == "True":
            self._stop(pod, workload, evicted, now)
        elif state.is_admitted(workload) and admission.is_held(pod):
            start_pod(self._client, pod, self._kueue.pod_info(workload))
            queue = workload["status"]["admission"]["clusterQueue"]
            self._kueue.event(pod, "Started", f"Admitted by clusterQueue {queue}")

    def _stop(self, pod: Obj, workload: Obj, evicted: Obj, now: datetime) -> None:
        """RULE (Kueue, podSuspended): a pod whose gate is closed stays, and so does its workload."""
        if not admission.is_held(pod):
            stop_pod(self._client, pod, evicted)
            self._kueue.event(pod, "Stopped", evicted["message"])
        elif state.has_quota(workload):
            self._kueue.edit(workload, now, lambda edit: edit.stopped())

    def _end(self, pod: Obj, workload: Obj | None, now: datetime) -> None:
        if workload is not None and not workload["metadata"].get("deletionTimestamp"):
            message = str(dig(pod, "status", "message", default=""))
            self._kueue.finish(pod, workload, now, (pods.phase(pod) == "Succeeded", message))
        elif workload is not None:
            self._kueue.release(workload)
        finalizers = pod["metadata"].get("finalizers") or []
        if names.MANAGED in finalizers:
            left = [f for f in finalizers if f != names.MANAGED] or None
            meta = pod["metadata"]
            self._client.patch(
                pods.PODS, meta["name"], {"metadata": {"finalizers": left}}, namespace=meta["namespace"]
            )


def is_single(pod: Obj) -> bool:
    """A managed pod whose workload is its own, not its StatefulSet's."""
    meta = pod["metadata"]
    managed = (meta.get("labels") or {}).get(names.MANAGED) == "true"
    return managed and (meta.get("annotations") or {}).get(names.SUSPENDING_PARENT) != "statefulset"


def start_pod(client: Client, pod: Obj, info: Obj) -> None:
    """Open the gates and put in what admission decided."""
    body = copy_of(pod)
    admission.inject(body["metadata"], body["spec"], info)
    client.update(pods.PODS, body)


def stop_pod(client: Client, pod: Obj, evicted: Obj) -> None:
    """Say why on the pod, then delete it; its controller, if any, makes a gated one."""
    meta = pod["metadata"]
    conditions = [c for c in dig(pod, "status", "conditions", default=[]) if c["type"] != "TerminationTarget"]
    target = {
        "type": "TerminationTarget",
        "status": "True",
        "reason": "WorkloadEvicted",
        "message": evicted["message"],
        "lastTransitionTime": evicted["lastTransitionTime"],
    }
    patch = {"status": {"conditions": [*conditions, target]}}
    client.patch(pods.PODS, meta["name"], patch, namespace=meta["namespace"], subresource="status")
    client.delete(pods.PODS, meta["name"], meta["namespace"], uid=meta["uid"])
