"""JobSets: the Jobs of one, made, suspended, restarted and ended together, under one headless Service.

After JobSet 0.12: names, labels, failure policy, conditions. What is not simulated: startup order,
dependencies, time to live, and success by some of the Jobs alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sandbox.api.cluster.client import Client
from sandbox.api.controllers.manager import Key, own_key, owner_key
from sandbox.api.meta.objects import Obj, copy_of, dig
from sandbox.api.storage.store import Change
from sandbox.controllers.conditions import controller_reference, find, is_true, set_condition, write_status
from sandbox.controllers.job import JOBS

JOBSETS = "jobsets.jobset.x-k8s.io"
PREFIX = "jobset.sigs.k8s.io/"
SET_NAME, ROLE_NAME, ATTEMPT = (
    f"{PREFIX}jobset-name",
    f"{PREFIX}replicatedjob-name",
    f"{PREFIX}restart-attempt",
)
_FOREVER = "RestartJobSetAndIgnoreMaxRestarts"
_TOO_OFTEN = "jobset failed due to reaching max number of restarts"
_INJECTED = ("nodeSelector", "tolerations", "schedulingGates")


@dataclass
class _View:
    """One JobSet, its Jobs of the present attempt, and the status being built."""

    job_set: Obj
    every: list[Obj]
    status: Obj
    now: datetime

    @property
    def attempt(self) -> int:
        return int(self.status.get("restarts", 0))

    @property
    def jobs(self) -> list[Obj]:
        return [job for job in self.every if job["metadata"]["labels"].get(ATTEMPT) == str(self.attempt)]

    @property
    def roles(self) -> list[Obj]:
        found: list[Obj] = dig(self.job_set, "spec", "replicatedJobs", default=[])
        return found

    @property
    def suspended(self) -> bool:
        return bool(dig(self.job_set, "spec", "suspend", default=False))

    def say(self, kind: str, status: str, reason: str, message: str) -> bool:
        conditions = self.status.setdefault("conditions", [])
        told = {"type": kind, "status": status, "reason": reason, "message": message}
        return set_condition(conditions, told, self.now)


class JobSetController:
    """Runs jobset.x-k8s.io JobSets."""

    name = "jobset"

    def __init__(self, client: Client) -> None:
        self._client = client

    def watches(self) -> Mapping[str, Callable[[Change], Iterable[Key]]]:
        """Own objects and the Jobs they control."""
        return {JOBSETS: own_key, JOBS: owner_key("JobSet")}

    def reconcile(self, key: Key, _now: datetime) -> float | None:
        """End, restart, suspend or run it as a whole, and tell how its Jobs stand."""
        job_set = self._client.get(JOBSETS, key.name, key.namespace)
        if job_set is None or job_set["metadata"].get("deletionTimestamp"):
            return None
        uid = job_set["metadata"]["uid"]
        every = self._client.list(JOBS, key.namespace, owner_uid=uid)
        view = _View(job_set, every, copy_of(job_set.get("status") or {}), self._client.now())
        self._act(view)
        view.every = self._client.list(JOBS, key.namespace, owner_uid=uid)
        view.status["replicatedJobsStatus"] = [_told(role["name"], view.jobs) for role in view.roles]
        current = self._client.get(JOBSETS, key.name, key.namespace)
        if current is not None and current["metadata"]["uid"] == uid:
            write_status(self._client, JOBSETS, current, view.status)
        return None

    def _act(self, view: _View) -> None:
        if is_over(view.job_set):
            self._delete(job for job in view.every if not _has_ended(job))
            return
        self._delete(job for job in view.every if job not in view.jobs)
        failed = [job for job in view.jobs if is_true(job, "Failed")]
        if failed:
            self._fail(view, failed[0])
        elif view.jobs and len(view.jobs) == len(list(_wanted(view))) and all(map(_is_done, view.jobs)):
            view.say("Completed", "True", "AllJobsCompleted", "jobset completed successfully")
            view.status["terminalState"] = "Completed"
            self._event(view, "AllJobsCompleted", "jobset completed successfully")
        else:
            self._run(view)

    def _fail(self, view: _View, job: Obj) -> None:
        """By the failure policy: begin the whole set again, or end it."""
        told = find(dig(job, "status", "conditions", default=[]), "Failed") or {}
        policy = dig(view.job_set, "spec", "failurePolicy", default={})
        action = _action(policy, str(told.get("reason", "")))
        counted = int(view.status.get("restartsCountTowardsMax", 0))
        may_restart = action == _FOREVER or counted < int(policy.get("maxRestarts", 0))
        if action != "FailJobSet" and may_restart:
            view.status["restarts"] = view.attempt + 1
            view.status["restartsCountTowardsMax"] = counted + (action != _FOREVER)
            self._event(view, "JobSetRestart", f"restarting jobset, attempt {view.attempt}", kind="Warning")
            self._delete(view.every)
            return
        most = int(policy.get("maxRestarts", 0))
        reason, words = ("ReachedMaxRestarts", _TOO_OFTEN) if most and action != "FailJobSet" else (
            "FailedJobs", "jobset failed due to one or more job failures")  # fmt: skip
        message = f"{words} (first failed job: {job['metadata']['name']})"
        view.say("Failed", "True", reason, message)
        view.status["terminalState"] = "Failed"
        self._event(view, reason, message, kind="Warning")
        self._delete(each for each in view.every if not _has_ended(each))

    def _run(self, view: _View) -> None:
        self._serve(view)
        known = {job["metadata"]["name"] for job in view.every}
        for role, index in _wanted(view):
            # One of an attempt before has the same name, until it is gone.
            if _job_name(view.job_set, role, index) not in known:
                self._client.create(JOBS, _job(view, role, index), view.job_set["metadata"]["namespace"])
        for job in view.jobs:
            self._follow(view, job)
        state = ("True", "SuspendedJobs", "jobset is suspended") if view.suspended else (
            "False", "ResumeJobs", "jobset is resumed")  # fmt: skip
        if view.suspended or find(view.status.get("conditions"), "Suspended"):
            view.say("Suspended", *state)

    def _follow(self, view: _View, job: Obj) -> None:
        """A Job is suspended with its set; resumed, it takes over what admission put into the set's."""
        if _has_ended(job) or bool(dig(job, "spec", "suspend", default=False)) == view.suspended:
            return
        body = copy_of(job)
        body["spec"]["suspend"] = view.suspended
        if not view.suspended:
            role = next(r for r in view.roles if r["name"] == job["metadata"]["labels"][ROLE_NAME])
            _take_over(body["spec"]["template"], dig(role, "template", "spec", "template", default={}))
        self._client.update(JOBS, body)

    def _serve(self, view: _View) -> None:
        """The Service by whose name the pods find each other."""
        meta, network = view.job_set["metadata"], dig(view.job_set, "spec", "network", default={})
        name = str(network.get("subdomain") or meta["name"])
        if not network.get("enableDNSHostnames", True) or self._client.get(
            "services", name, meta["namespace"]
        ):
            return
        body = {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {
                "name": name,
                "namespace": meta["namespace"],
                "labels": {SET_NAME: meta["name"]},
                "ownerReferences": [controller_reference(view.job_set)],
            },
            "spec": {
                "clusterIP": "None",
                "selector": {SET_NAME: meta["name"]},
                "publishNotReadyAddresses": bool(network.get("publishNotReadyAddresses", True)),
            },
        }
        self._client.create("services", body, meta["namespace"])

    def _delete(self, jobs: Iterable[Obj]) -> None:
        for job in jobs:
            meta = job["metadata"]
            if not meta.get("deletionTimestamp"):
                self._client.delete(
                    JOBS, meta["name"], meta["namespace"], uid=meta["uid"], propagation="Foreground"
                )

    def _event(self, view: _View, reason: str, message: str, *, kind: str = "Normal") -> None:
        self._client.event(view.job_set, reason, message, type=kind, component="jobset")


def is_over(job_set: Obj) -> bool:
    """It ended for good, well or not."""
    return is_true(job_set, "Completed") or is_true(job_set, "Failed")


def _action(policy: Mapping[str, Any], reason: str) -> str:
    """What the first rule for this reason says; without one the set begins again."""
    for rule in policy.get("rules") or ():
        if not rule.get("onJobFailureReasons") or reason in rule["onJobFailureReasons"]:
            return str(rule["action"])
    return "RestartJobSet"


def _wanted(view: _View) -> Iterator[tuple[Obj, int]]:
    for role in view.roles:
        for index in range(int(role.get("replicas", 1))):
            yield role, index


def _job_name(job_set: Obj, role: Obj, index: int) -> str:
    return f"{job_set['metadata']['name']}-{role['name']}-{index}"


def _job(view: _View, role: Obj, index: int) -> Obj:
    meta, name = view.job_set["metadata"], _job_name(view.job_set, role, index)
    labels = {
        SET_NAME: meta["name"],
        ROLE_NAME: role["name"],
        ATTEMPT: str(view.attempt),
        f"{PREFIX}jobset-uid": meta["uid"],
        f"{PREFIX}replicatedjob-replicas": str(role.get("replicas", 1)),
        f"{PREFIX}job-index": str(index),
    }
    spec = copy_of(dig(role, "template", "spec", default={}))
    spec["suspend"] = view.suspended
    spec.setdefault("completionMode", "Indexed")
    template = spec["template"]
    template["metadata"] = {**(template.get("metadata") or {})}
    template["metadata"]["labels"] = {**(template["metadata"].get("labels") or {}), **labels}
    network = dig(view.job_set, "spec", "network", default={})
    if network.get("enableDNSHostnames", True):
        template["spec"]["subdomain"] = str(network.get("subdomain") or meta["name"])
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name,
            "namespace": meta["namespace"],
            "labels": labels,
            "ownerReferences": [controller_reference(view.job_set)],
        },
        "spec": spec,
    }


def _take_over(template: Obj, source: Obj) -> None:
    """What may change on a suspended Job, as the set has it."""
    meta = template.setdefault("metadata", {})
    for key in ("labels", "annotations"):
        kept = {**(meta.get(key) or {}), **(dig(source, "metadata", key, default={}) or {})}
        if kept:
            meta[key] = kept
    for key in _INJECTED:
        if value := dig(source, "spec", key):
            template["spec"][key] = copy_of(value)
        else:
            template["spec"].pop(key, None)


def _is_done(job: Obj) -> bool:
    return is_true(job, "Complete")


def _has_ended(job: Obj) -> bool:
    return is_true(job, "Complete") or is_true(job, "Failed")


def _told(name: str, jobs: Iterable[Obj]) -> Obj:
    own = [job for job in jobs if job["metadata"]["labels"].get(ROLE_NAME) == name]
    ready = [job for job in own if not _has_ended(job) and _all_ready(job)]
    return {
        "name": name,
        "ready": len(ready),
        "succeeded": sum(map(_is_done, own)),
        "failed": sum(is_true(job, "Failed") for job in own),
        "active": sum(bool(dig(job, "status", "active")) for job in own),
        "suspended": sum(bool(dig(job, "spec", "suspend")) for job in own),
    }


def _all_ready(job: Obj) -> bool:
    status = job.get("status") or {}
    there = int(status.get("ready", 0)) + int(status.get("succeeded", 0))
    return there >= int(dig(job, "spec", "parallelism", default=1))
