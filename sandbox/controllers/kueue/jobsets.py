"""Kueue's JobSet integration: one workload with a pod set for each replicated job; all start or none."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime

from sandbox.api.cluster.client import Client
from sandbox.api.controllers.manager import Key, own_key, owner_key
from sandbox.api.meta.objects import Obj, copy_of, dig
from sandbox.api.storage.store import Change
from sandbox.controllers.conditions import controller_reference, find
from sandbox.controllers.jobsets import JOBSETS
from sandbox.controllers.kueue import admission, names
from sandbox.controllers.kueue import status as state
from sandbox.controllers.kueue.framework import Framework


class JobSetIntegration:
    """Queues JobSets that carry a queue label; their Jobs follow them."""

    name = "kueue-jobset"

    def __init__(self, client: Client) -> None:
        self._client = client
        self._kueue = Framework(client, "jobset.x-k8s.io/jobset-kueue-controller")

    def watches(self) -> Mapping[str, Callable[[Change], Iterable[Key]]]:
        """JobSets and their workloads."""
        return {JOBSETS: own_key, names.WORKLOADS: owner_key("JobSet")}

    def reconcile(self, key: Key, now: datetime) -> float | None:
        """Finish, create, stop or start, in that order."""
        job_set = self._client.get(JOBSETS, key.name, key.namespace)
        if job_set is None or not self._kueue.manages(job_set):
            return None
        workload, over = self._kueue.workload_of(job_set), _over(job_set)
        if workload is not None and (over or state.is_finished(workload)):
            self._kueue.finish(job_set, workload, now, over or (False, ""))
        elif workload is not None and workload["metadata"].get("deletionTimestamp"):
            self._stop(job_set, workload, "Workload is deleted")
            self._kueue.release(workload)
        elif not over and not job_set["metadata"].get("deletionTimestamp"):
            self._drive(job_set, workload, now)
        return None

    def _drive(self, job_set: Obj, workload: Obj | None, now: datetime) -> None:
        if workload is None:
            self._create(job_set)
            return
        self._kueue.follow(job_set, workload)
        ready = _pods_ready(job_set)
        self._kueue.edit(workload, now, lambda edit: edit.pods_ready(ready=ready))
        evicted, is_suspended = state.condition(workload, "Evicted"), dig(job_set, "spec", "suspend")
        if evicted is not None and evicted["status"] == "True":
            self._stop(job_set, workload, evicted["message"])
            if state.has_quota(workload) and not _is_active(job_set):
                self._kueue.edit(workload, now, lambda edit: edit.stopped())
        elif is_suspended and state.is_admitted(workload):
            self._start(job_set, workload)
        elif not is_suspended and not state.is_admitted(workload):
            self._stop(job_set, workload, "Not admitted by cluster queue")

    def _create(self, job_set: Obj) -> None:
        if not dig(job_set, "spec", "suspend"):
            self._client.patch(
                JOBSETS, job_set["metadata"]["name"], {"spec": {"suspend": True}},
                namespace=job_set["metadata"]["namespace"],
            )  # fmt: skip
            return
        if _is_active(job_set):
            return
        extra = {"finalizers": [names.IN_USE], "ownerReferences": [controller_reference(job_set)]}
        self._kueue.create_of(job_set, [_pod_set(role) for role in job_set["spec"]["replicatedJobs"]], extra)

    def _start(self, job_set: Obj, workload: Obj) -> None:
        body = copy_of(job_set)
        body["spec"]["suspend"] = False
        for place, role in enumerate(body["spec"]["replicatedJobs"]):
            template = role["template"]["spec"]["template"]
            info = self._kueue.pod_info(workload, place)
            admission.inject(template.setdefault("metadata", {}), template["spec"], info)
        self._client.update(JOBSETS, body)
        queue = workload["status"]["admission"]["clusterQueue"]
        self._kueue.event(job_set, "Started", f"Admitted by clusterQueue {queue}")

    def _stop(self, job_set: Obj, workload: Obj, message: str) -> None:
        if dig(job_set, "spec", "suspend"):
            return
        body = copy_of(job_set)
        body["spec"]["suspend"] = True
        for role, pod_set in zip(body["spec"]["replicatedJobs"], workload["spec"]["podSets"], strict=True):
            admission.restore(role["template"]["spec"]["template"], pod_set["template"])
        self._client.update(JOBSETS, body)
        self._kueue.event(job_set, "Stopped", message)


def _pod_set(role: Obj) -> Obj:
    spec = role["template"]["spec"]
    pods = int(spec.get("parallelism", 1))
    count = min(pods, int(spec.get("completions", pods))) * int(role.get("replicas", 1))
    return {"name": role["name"], "count": count, "template": copy_of(spec["template"])}


def _is_active(job_set: Obj) -> bool:
    told = dig(job_set, "status", "replicatedJobsStatus", default=[])
    return any(each.get("active") for each in told)


def _pods_ready(job_set: Obj) -> bool:
    told = {each["name"]: each for each in dig(job_set, "status", "replicatedJobsStatus", default=[])}
    wanted = ((told.get(r["name"], {}), int(r.get("replicas", 1))) for r in job_set["spec"]["replicatedJobs"])
    return all(each.get("ready", 0) + each.get("succeeded", 0) >= count for each, count in wanted)


def _over(job_set: Obj) -> tuple[bool, str] | None:
    for kind in ("Completed", "Failed"):
        told = find(dig(job_set, "status", "conditions", default=[]), kind)
        if told is not None and told["status"] == "True":
            return kind == "Completed", told["message"]
    return None
