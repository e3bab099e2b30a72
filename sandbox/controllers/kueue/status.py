"""A Workload's status over its life: reserved, admitted, waiting, evicted, requeued, finished.

Edits a private copy of the status with the reasons and messages Kueue writes. Reads and writes no store.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from sandbox.api.meta.objects import Obj, dig, parse_time, timestamp
from sandbox.controllers.amounts import render
from sandbox.controllers.conditions import find, is_true, set_condition
from sandbox.controllers.kueue.model import Admit
from sandbox.controllers.kueue.stopping import checks

NOT_READY = "Not all pods are ready or succeeded"
READY = "All pods reached readiness and the workload is running"
RECOVERING = "At least one pod has failed, waiting for recovery"


def condition(workload: Obj, kind: str) -> Obj | None:
    """The workload's condition of that type."""
    return find((workload.get("status") or {}).get("conditions"), kind)


def has_quota(workload: Obj) -> bool:
    """Quota is reserved."""
    return is_true(workload, "QuotaReserved")


def is_admitted(workload: Obj) -> bool:
    """Quota is reserved and every check passed."""
    return is_true(workload, "Admitted")


def is_evicted(workload: Obj) -> bool:
    """It must stop; quota is held until its pods are gone."""
    return is_true(workload, "Evicted")


def is_finished(workload: Obj) -> bool:
    """It ended for good."""
    return is_true(workload, "Finished")


def requeue_at(workload: Obj) -> datetime | None:
    """When what was sent back is tried again; None: it need not wait."""
    at = dig(workload, "status", "requeueState", "requeueAt")
    return parse_time(at) if at else None


def is_on_hold(workload: Obj) -> bool:
    """A StatefulSet at 0 replicas keeps its workload out of the queue."""
    known = condition(workload, "QuotaReserved")
    return known is not None and known["status"] == "False" and known["reason"] == "OnHold"


class Edit:
    """One change of a workload's status at a moment."""

    def __init__(self, workload: Obj, status: Obj, now: datetime) -> None:
        self._generation = workload["metadata"].get("generation", 1)
        self.status = status
        self._now = now
        status.setdefault("conditions", [])

    def set(self, kind: str, value: str, reason: str, message: str) -> bool:
        """Write one condition."""
        fresh = {
            "type": kind,
            "status": value,
            "reason": reason,
            "message": message,
            "observedGeneration": self._generation,
        }
        return set_condition(self.status["conditions"], fresh, self._now)

    def reserve(self, admit: Admit, queue: Obj) -> None:
        """Quota reserved and, where every check of the queue has passed, admitted in the same write."""
        self.status["admission"] = {
            "clusterQueue": admit.queue,
            "podSetAssignments": [
                {
                    "name": p.name,
                    "count": p.count,
                    "flavors": dict(p.flavors),
                    "resourceUsage": {name: render(name, value) for name, value in p.usage.items()},
                }
                for p in admit.pod_sets
            ],
        }
        self.status.pop("resourceRequests", None)
        self.set("QuotaReserved", "True", "QuotaReserved", f"Quota reserved in ClusterQueue {admit.queue}")
        for kind in ("Evicted", "Preempted"):
            known = find(self.status["conditions"], kind)
            if known is not None and known["status"] == "True":
                self.set(kind, "False", "QuotaReserved", f"Previously: {known['message']}")
        self.keep_checks(checks.required(queue, self.status["admission"]))
        if checks.are_ready(self.status.get("admissionChecks") or ()):
            self.admit()

    def admit(self) -> None:
        """Quota is reserved and every check passed."""
        self.set("Admitted", "True", "Admitted", "The workload is admitted")

    def keep_checks(self, wanted: Iterable[str]) -> None:
        """The states of the checks that it must pass, a new one pending."""
        self._put(
            "admissionChecks", checks.synced(self.status.get("admissionChecks") or (), wanted, self._now)
        )

    def _put(self, field: str, value: object) -> None:
        """Write a field of the status; one that would be empty goes."""
        if value:
            self.status[field] = value
        else:
            self.status.pop(field, None)

    def release(self, reason: str, message: str) -> None:
        """No quota (any more): QuotaReserved False with the cause, and Admitted follows."""
        self.set("QuotaReserved", "False", reason, message)
        self.status.pop("admission", None)
        admitted = find(self.status["conditions"], "Admitted")
        if admitted is not None and admitted["status"] == "True":
            ran = (self._now - parse_time(admitted["lastTransitionTime"])).total_seconds()
            past = int(self.status.get("accumulatedPastExecutionTimeSeconds", 0))
            if int(ran) + past:
                self.status["accumulatedPastExecutionTimeSeconds"] = past + int(ran)
            self.set("Admitted", "False", "NoReservation", "The workload has no reservation")

    def wait(self, message: str, requests: Mapping[str, Mapping[str, int]]) -> None:
        """The scheduler's verdict on a pending workload."""
        self.release("Pending", message)
        self.status["resourceRequests"] = [
            {"name": name, "resources": {r: render(r, v) for r, v in totals.items()}}
            for name, totals in requests.items()
        ]

    def evict(self, reason: str, message: str, cause: str = "") -> None:
        """Mark it evicted and count it; its checks are asked again."""
        is_out = reason == "Deactivated"
        self.set("Evicted", "True", f"{reason}DueTo{cause}" if is_out and cause else reason, message)
        self._put("admissionChecks", checks.reset(self.status.get("admissionChecks") or (), self._now))
        if is_out:
            self.status.pop("requeueState", None)
        evictions = self.status.setdefault("schedulingStats", {}).setdefault("evictions", [])
        known = next((e for e in evictions if (e["reason"], e["underlyingCause"]) == (reason, cause)), None)
        if known is None:
            evictions.append({"reason": reason, "underlyingCause": cause, "count": 1})
        else:
            known["count"] += 1

    def back_off(self, until: datetime, count: int | None = None) -> None:
        """It is tried again after a while, and not before; `count` is how often that happened."""
        known = self.status.get("requeueState") or {}
        self.status["requeueState"] = (
            known | {"requeueAt": timestamp(until)} | ({} if count is None else {"count": count})
        )

    def try_again(self) -> None:
        """The while is over."""
        known = self.status.get("requeueState") or {}
        self._put("requeueState", {key: value for key, value in known.items() if key != "requeueAt"})
        self.set("Requeued", "True", "BackoffFinished", "The workload backoff was finished")

    def preempt(self, reason: str, message: str) -> None:
        """Evicted for another workload; `reason` says by which right."""
        self.set("Preempted", "True", reason, message)
        self.evict("Preempted", message)

    def forget_time(self) -> None:
        """The time that it ran counts afresh if it is activated again."""
        self.status.pop("accumulatedPastExecutionTimeSeconds", None)

    def refuse(self, message: str) -> None:
        """Not admissible whatever quota is free, until its own claims or classes change."""
        self.release("Inadmissible", message)
        self.set("Requeued", "False", "Inadmissible", message)

    def reclaim(self, count: int) -> None:
        """Give back the quota of pods that are done and need no replacement."""
        if count:
            self.status["reclaimablePods"] = [{"name": "main", "count": count}]
        else:
            self.status.pop("reclaimablePods", None)

    def stopped(self) -> None:
        """Its pods are gone: the quota goes back, and only a preempted workload requeues by itself."""
        evicted = find(self.status["conditions"], "Evicted")
        if evicted is None:
            return
        again = "True" if evicted["reason"] in ("Preempted", "NodeFailures") else "False"
        self.set("Requeued", again, evicted["reason"], evicted["message"])
        self.release("Pending", evicted["message"])

    def finish(self, reason: str, message: str) -> None:
        """It ended; quota is free at once, the admission stays for the record."""
        self.set("Finished", "True", reason, message)

    def pods_ready(self, *, ready: bool) -> bool:
        """The PodsReady condition by Kueue's transitions. Returns whether it changed."""
        known = find(self.status["conditions"], "PodsReady")
        admitted = find(self.status["conditions"], "Admitted")
        if admitted is None or admitted["status"] != "True":
            return self.set("PodsReady", "False", "WaitForStart", NOT_READY)
        if ready:
            again = known is not None and known["reason"] in ("WaitForRecovery", "Recovered")
            return self.set("PodsReady", "True", "Recovered" if again else "Started", READY)
        was_up = known is not None and (known["status"] == "True" or known["reason"] == "WaitForRecovery")
        if was_up:
            return self.set("PodsReady", "False", "WaitForRecovery", RECOVERING)
        return self.set("PodsReady", "False", "WaitForStart", NOT_READY)
