"""Jobs: pods up to parallelism, completion, backoff, deadline, suspend and time to live.

The counting is `jobcount`; this module reads the store, acts, and writes the status.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from sandbox.api.cluster.client import Client
from sandbox.api.controllers.manager import Key, own_key, owner_key
from sandbox.api.meta.errors import ApiError
from sandbox.api.meta.objects import Obj, controller_of, copy_of, dig, parse_time, timestamp
from sandbox.api.storage.store import Change
from sandbox.controllers import indexed, pods
from sandbox.controllers.conditions import find, is_true, write_status
from sandbox.controllers.indexed import INDEX, finish_time, index_of, read_indexes, write_indexes

JOBS = "jobs.batch"
TRACKING = "batch.kubernetes.io/job-tracking"
FIRST_BACKOFF = 10.0
LONGEST_BACKOFF = 360.0


@dataclass
class _View:
    """One Job with its pods, and the status being built for it."""

    job: Obj
    pods: list[Obj]
    status: Obj
    now: datetime

    @property
    def active(self) -> list[Obj]:
        return [p for p in self.pods if pods.is_active(p)]

    def number(self, field: str, default: int) -> int:
        return int(dig(self.job, "spec", field, default=default))

    @property
    def completions(self) -> int | None:
        value = dig(self.job, "spec", "completions")
        return None if value is None else int(value)

    @property
    def indexed(self) -> bool:
        return bool(dig(self.job, "spec", "completionMode") == "Indexed")

    @property
    def per_index(self) -> bool:
        """Whether each index has tries of its own."""
        return self.indexed and dig(self.job, "spec", "backoffLimitPerIndex") is not None

    @property
    def suspended(self) -> bool:
        return bool(dig(self.job, "spec", "suspend", default=False))

    def condition(self, kind: str, status: str, reason: str, message: str) -> bool:
        """Write a Job condition (they carry a probe time). Returns whether its status moved."""
        conditions = self.status.setdefault("conditions", [])
        known = find(conditions, kind)
        if known is not None and known["status"] == status:
            return False
        stamp = timestamp(self.now)
        fresh = {
            "type": kind,
            "status": status,
            "reason": reason,
            "message": message,
            "lastProbeTime": stamp,
            "lastTransitionTime": stamp,
        }
        if known is None:
            conditions.append(fresh)
        else:
            known.update(fresh)
        return True


class JobController:
    """Runs batch/v1 Jobs."""

    name = "job"

    def __init__(self, client: Client) -> None:
        self._client = client

    def watches(self) -> Mapping[str, Callable[[Change], Iterable[Key]]]:
        """Own objects and the pods they control."""
        return {JOBS: own_key, pods.PODS: owner_key("Job")}

    def reconcile(self, key: Key, now: datetime) -> float | None:
        """Count ended pods, decide, act, write; the answer is when time alone changes something."""
        job = self._client.get(JOBS, key.name, key.namespace)
        if job is None or job["metadata"].get("deletionTimestamp"):
            self._let_go(key, job)
            return None
        view = _View(job, self._pods(job), copy_of(job.get("status") or {}), now)
        counted = self._count(view)
        delay = self._finished(view) if _is_over(job) else self._run(view)
        self._write(view)
        self._untrack(counted)
        return delay

    def _pods(self, job: Obj) -> list[Obj]:
        meta = job["metadata"]
        return self._client.list(pods.PODS, meta["namespace"], owner_uid=meta["uid"])

    def _count(self, view: _View) -> list[Obj]:
        """Add ended, still tracked pods to succeeded and failed; each is counted once, by its finalizer."""
        tracked = [p for p in view.pods if TRACKING in (p["metadata"].get("finalizers") or ())]
        ended = [p for p in tracked if pods.is_terminal(p) or pods.is_deleting(p)]
        succeeded = [p for p in ended if pods.phase(p) == "Succeeded"]
        failed = [p for p in ended if pods.phase(p) == "Failed"]
        if view.indexed and succeeded:
            done = read_indexes(dig(view.status, "completedIndexes", default=""))
            done |= {index_of(p) for p in succeeded}
            view.status.update(completedIndexes=write_indexes(done), succeeded=len(done))
        elif succeeded:
            view.status["succeeded"] = int(view.status.get("succeeded", 0)) + len(succeeded)
        if failed:
            view.status["failed"] = int(view.status.get("failed", 0)) + len(failed)
        if view.per_index:
            view.status["failedIndexes"] = write_indexes(indexed.failed_indexes(view.job, ended))
        return ended

    def _let_go(self, key: Key, job: Obj | None) -> None:
        """Nobody counts the pods of a Job that is gone or going: free them of the tracking finalizer."""
        alive = job["metadata"]["uid"] if job is not None else ""
        for pod in self._client.list(
            pods.PODS, key.namespace, labels=f"batch.kubernetes.io/job-name={key.name}"
        ):
            owner = controller_of(pod) or {}
            if owner.get("uid") != alive or pods.is_deleting(pod) or pods.is_terminal(pod):
                self._untrack([pod])

    def _untrack(self, counted: list[Obj]) -> None:
        for pod in counted:
            meta = pod["metadata"]
            finalizers = meta.get("finalizers") or []
            if TRACKING in finalizers:
                body = {"metadata": {"finalizers": [f for f in finalizers if f != TRACKING] or None}}
                self._client.patch(pods.PODS, meta["name"], body, namespace=meta["namespace"])

    def _run(self, view: _View) -> float | None:
        if self._fail(view) or self._complete(view):
            return None
        if view.suspended:
            self._suspend(view)
            return None
        view.status.setdefault("startTime", timestamp(view.now))
        if find(view.status.get("conditions"), "Suspended") and view.condition(
            "Suspended", "False", "JobResumed", "Job resumed"
        ):
            view.status["startTime"] = timestamp(view.now)
            self._event(view.job, "Resumed", "Job resumed")
        wait = self._create(view)
        deadline = dig(view.job, "spec", "activeDeadlineSeconds")
        if deadline is not None:
            left = int(deadline) - (view.now - parse_time(view.status["startTime"])).total_seconds()
            return max(0.0, left) if wait is None else min(wait, max(0.0, left))
        return wait

    def _suspend(self, view: _View) -> None:
        for pod in view.active:
            self._delete_pod(view, pod)
        view.status.pop("startTime", None)
        if view.condition("Suspended", "True", "JobSuspended", "Job suspended"):
            self._event(view.job, "Suspended", "Job suspended")

    def _fail(self, view: _View) -> bool:
        deadline = dig(view.job, "spec", "activeDeadlineSeconds")
        started = view.status.get("startTime")
        late = deadline is not None and not view.suspended and _age(started, view.now) >= int(deadline)
        if int(view.status.get("failed", 0)) > view.number("backoffLimit", 6):
            reason, message = "BackoffLimitExceeded", "Job has reached the specified backoff limit"
        elif late:
            reason, message = "DeadlineExceeded", "Job was active longer than specified deadline"
        elif view.per_index and (found := indexed.verdict(view.job, view.status)):
            reason, message = found
        else:
            return False
        for pod in view.active:
            self._delete_pod(view, pod)
        view.condition("FailureTarget", "True", reason, message)
        view.condition("Failed", "True", reason, message)
        self._event(view.job, reason, message, kind="Warning")
        return True

    def _complete(self, view: _View) -> bool:
        done = int(view.status.get("succeeded", 0))
        wanted = view.completions
        if (done < wanted) if wanted is not None else (not done or view.active):
            return False
        message = "Reached expected number of succeeded pods"
        view.condition("SuccessCriteriaMet", "True", "CompletionsReached", message)
        view.condition("Complete", "True", "CompletionsReached", message)
        view.status["completionTime"] = timestamp(view.now)
        self._event(view.job, "Completed", "Job completed")
        return True

    def _create(self, view: _View) -> float | None:
        """Bring active pods to what is still needed; after failures no sooner than the backoff allows."""
        active = view.active
        left = _wanted(view)
        for pod in active[left:]:
            self._delete_pod(view, pod)
        missing = left - len(active) - sum(pods.is_deleting(p) and not pods.is_terminal(p) for p in view.pods)
        if missing <= 0:
            return None
        if view.per_index:
            return self._create_tries(view, missing)
        wait = _backoff(view)
        if wait > 0:
            return wait
        for index in self._free(view)[:missing] if view.indexed else [None] * missing:
            self._create_pod(view, index)
        return None

    def _create_tries(self, view: _View, missing: int) -> float | None:
        """Pods of the first indexes that may have one now; the answer is when the next failed one may."""
        waits = []
        for index in self._free(view):
            if not missing:
                break
            failures, wait = indexed.tries_of(index, view.pods, view.now)
            if wait > 0:
                waits.append(wait)
                continue
            self._create_pod(view, index, failures)
            missing -= 1
        return min(waits, default=None)

    def _free(self, view: _View) -> list[int]:
        taken = indexed.over(view.status) | {index_of(p) for p in view.active}
        return [i for i in range(view.completions or 0) if i not in taken]

    def _create_pod(self, view: _View, index: int | None, failures: int = 0) -> None:
        job = view.job
        name, uid = job["metadata"]["name"], job["metadata"]["uid"]
        pod = pods.pod_from_template(job["spec"]["template"], job)
        meta = pod["metadata"]
        meta["generateName"] = f"{name}-" if index is None else f"{name}-{index}-"
        meta["finalizers"] = [*meta.get("finalizers", []), TRACKING]
        labels = {"batch.kubernetes.io/controller-uid": uid, "batch.kubernetes.io/job-name": name}
        meta["labels"].update(labels, **{"controller-uid": uid, "job-name": name})
        if index is not None:
            meta["labels"][INDEX] = meta["annotations"][INDEX] = str(index)
            if view.per_index:
                meta["annotations"][indexed.FAILURES] = str(failures)
            pod["spec"].setdefault("hostname", f"{name}-{index}")
            for container in pod["spec"]["containers"]:
                container.setdefault("env", []).append({"name": "JOB_COMPLETION_INDEX", "value": str(index)})
        try:
            made = self._client.create(pods.PODS, pod, job["metadata"]["namespace"])
        except ApiError as error:
            # Quota and policy refusals are the owner's to see; the manager tries again.
            self._event(job, "FailedCreate", f"Error creating: {error.message}", kind="Warning")
            raise
        view.pods.append(made)
        self._event(job, "SuccessfulCreate", f"Created pod: {made['metadata']['name']}")

    def _delete_pod(self, view: _View, pod: Obj) -> None:
        meta = pod["metadata"]
        self._client.delete(pods.PODS, meta["name"], meta["namespace"], uid=meta["uid"])
        view.pods = self._pods(view.job)
        self._event(view.job, "SuccessfulDelete", f"Deleted pod: {meta['name']}")

    def _finished(self, view: _View) -> float | None:
        ttl = dig(view.job, "spec", "ttlSecondsAfterFinished")
        if ttl is None:
            return None
        over = next(
            c
            for c in view.status["conditions"]
            if c["type"] in ("Complete", "Failed") and c["status"] == "True"
        )
        due = parse_time(over["lastTransitionTime"]) + timedelta(seconds=int(ttl))
        if view.now < due:
            return (due - view.now).total_seconds()
        meta = view.job["metadata"]
        self._client.delete(JOBS, meta["name"], meta["namespace"], uid=meta["uid"], propagation="Foreground")
        return None

    def _write(self, view: _View) -> None:
        active = view.active
        status = {**view.status, "uncountedTerminatedPods": {}}
        status["ready"] = sum(pods.is_ready(p) for p in active)
        status["terminating"] = sum(pods.is_deleting(p) and not pods.is_terminal(p) for p in view.pods)
        status.pop("active", None)
        if active and not any(c["type"] in ("Complete", "Failed") for c in status.get("conditions", ())):
            status["active"] = len(active)
        current = self._client.get(JOBS, view.job["metadata"]["name"], view.job["metadata"]["namespace"])
        if current is not None and current["metadata"]["uid"] == view.job["metadata"]["uid"]:
            write_status(self._client, JOBS, current, status)

    def _event(self, job: Obj, reason: str, message: str, *, kind: str = "Normal") -> None:
        self._client.event(job, reason, message, type=kind, component="job-controller")


def _wanted(view: _View) -> int:
    """How many pods shall be active."""
    parallelism, done = view.number("parallelism", 1), int(view.status.get("succeeded", 0))
    if view.per_index:
        done = len(indexed.over(view.status))
    if view.completions is not None:
        return min(parallelism, view.completions - done)
    return len(view.active) if done else parallelism


def _age(started: str | None, now: datetime) -> float:
    return (now - parse_time(started)).total_seconds() if started else 0.0


def _is_over(job: Obj) -> bool:
    return is_true(job, "Complete") or is_true(job, "Failed")


def _backoff(view: _View) -> float:
    """Seconds to wait before the next pod: 10 s, doubling per failure since a success, at most 6 min."""
    ends = [(p, finish_time(p)) for p in view.pods if pods.phase(p) == "Failed"]
    if not ends:
        return 0.0
    good = [finish_time(p) for p in view.pods if pods.phase(p) == "Succeeded"]
    recent = [end for _, end in ends if not good or end > max(good)]
    if not recent:
        return 0.0
    delay = min(LONGEST_BACKOFF, FIRST_BACKOFF * 2.0 ** min(len(recent) - 1, 8))
    return delay - (view.now - max(recent)).total_seconds()
