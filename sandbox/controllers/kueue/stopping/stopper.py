"""Kueue's workload controller: what ends an admission besides preemption, and what completes one.

Stopped queues, deactivation, admission checks, the maximum execution time, and pods that do not get ready. Of
the last, Kueue's configuration is two annotations of the ClusterQueue here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from functools import partial

from sandbox.api.cluster.client import Client
from sandbox.api.meta.objects import Obj, dig, parse_time
from sandbox.controllers.kubelet import duration_seconds
from sandbox.controllers.kueue import names
from sandbox.controllers.kueue import status as state
from sandbox.controllers.kueue.stopping import checks
from sandbox.controllers.kueue.view import View

PODS_READY_TIMEOUT = "sandbox.allotment.dev/pods-ready-timeout"
"""Kueue's `waitForPodsReady.timeout` for a ClusterQueue, such as 60s; without it nothing is timed."""
REQUEUING_LIMIT = "sandbox.allotment.dev/requeuing-limit"
"""Kueue's `waitForPodsReady.requeuingStrategy.backoffLimitCount`; without it there is no limit."""
CONTROLLER = "kueue-workload-controller"
FIRST_BACKOFF, LONGEST_BACKOFF = 60, 3600
"""Seconds until what was sent back is tried again, doubled each time (Kueue's defaults)."""

Edit = Callable[[Obj, datetime, Callable[[state.Edit], object]], bool]
Event = Callable[..., None]


class Stopper:
    """Evicts, deactivates and admits; `edit` and `event` write on a workload."""

    def __init__(self, client: Client, edit: Edit, event: Event) -> None:
        self._client = client
        self._edit = edit
        self._event = event

    def stop(self, view: View, now: datetime) -> None:
        """What somebody stopped: the workload itself, also while it waits, its LocalQueue or its
        ClusterQueue.
        """
        for workload in view.workloads.values():
            if not _is_over(workload) and workload["spec"].get("active") is False:
                self._evict(workload, "Deactivated", "The workload is deactivated", now)
        for workload in _reserved(view):
            local, queue = view.local_queue(workload) or {}, view.queues.get(view.queue_of(workload), {})
            policies = [dig(each, "spec", "stopPolicy", default="None") for each in (local, queue)]
            if workload["spec"].get("active") is False:
                continue
            if not state.is_admitted(workload):
                self._hold(workload, (local, queue), policies, now)
            elif policies[0] == "HoldAndDrain":
                self._evict(workload, "LocalQueueStopped", "The LocalQueue is stopped", now)
            elif policies[1] == "HoldAndDrain":
                self._evict(workload, "ClusterQueueStopped", "The ClusterQueue is stopped", now)

    def follow(self, view: View, now: datetime) -> float | None:
        """What time and answers change; the answer is when the next change by time is due, in seconds."""
        waits: list[float] = []
        self._sync_checks(view, now)
        for workload in _reserved(view):
            if workload["spec"].get("active") is False or self._answered(workload, now):
                continue
            if state.is_admitted(workload):
                waits += self._over_time(workload, now)
                waits += self._not_ready(workload, view.queues.get(view.queue_of(workload), {}), now)
        return min(waits, default=None)

    def _hold(self, workload: Obj, queues: tuple[Obj, Obj], policies: list[str], now: datetime) -> None:
        """What only has its quota yet goes back, however a queue is stopped."""
        for kind, queue, policy in zip(("LocalQueue", "ClusterQueue"), queues, policies, strict=True):
            if policy != "None":
                message = f"{kind} {queue['metadata']['name']} is stopped"
                change = partial(state.Edit.release, reason="Inadmissible", message=message)
                self._edit(workload, now, change)
                return

    def _sync_checks(self, view: View, now: datetime) -> None:
        asking = {name for name, queue in view.queues.items() if checks.named(queue)}
        for workload in view.workloads.values():
            name, states = view.queue_of(workload), dig(workload, "status", "admissionChecks", default=[])
            if (name not in asking and not states) or name not in view.queues:
                continue
            if state.is_finished(workload) or workload["spec"].get("active") is False:
                continue
            wanted = checks.required(view.queues[name], dig(workload, "status", "admission"))
            if wanted != [each["name"] for each in states]:
                self._edit(workload, now, partial(state.Edit.keep_checks, wanted=wanted))

    def _answered(self, workload: Obj, now: datetime) -> bool:
        """Act on what the checks say. Returns whether that took or gave the workload its place."""
        states = dig(workload, "status", "admissionChecks", default=[])
        if rejected := checks.told(states, checks.REJECTED):
            self._event(
                workload, "AdmissionCheckRejected", f"Deactivated due to {rejected}", kind="Warning",
                component=CONTROLLER,
            )  # fmt: skip
            self._deactivate(workload, "AdmissionCheck", rejected, now)
            return True
        if again := checks.told(states, checks.RETRY):
            at = checks.retry_at(states)
            if at is not None and at > now:
                self._edit(workload, now, partial(state.Edit.back_off, until=at))
            self._evict(workload, "AdmissionCheck", f"Evicted due to {again}", now)
            return True
        if state.is_admitted(workload) or not checks.are_ready(states):
            return False
        reserved = state.condition(workload, "QuotaReserved") or {}
        waited = int((now - parse_time(reserved["lastTransitionTime"])).total_seconds())
        if self._edit(workload, now, state.Edit.admit):
            queue = dig(workload, "status", "admission", "clusterQueue")
            message = f"Admitted by ClusterQueue {queue}, wait time since reservation was {waited}s"
            self._event(workload, "Admitted", message)
        return True

    def _over_time(self, workload: Obj, now: datetime) -> list[float]:
        """Deactivate what ran over its maximum execution time, or say when it is due."""
        most, admitted = workload["spec"].get("maximumExecutionTimeSeconds"), _since(workload, "Admitted")
        if most is None or admitted is None:
            return []
        past = int(dig(workload, "status", "accumulatedPastExecutionTimeSeconds", default=0))
        left = int(most) - past - (now - admitted).total_seconds()
        if left > 0:
            return [left]
        message = f"The maximum execution time ({int(most)}s) exceeded"
        self._event(workload, "MaximumExecutionTimeExceeded", message, kind="Warning", component=CONTROLLER)
        self._edit(workload, now, state.Edit.forget_time)
        self._deactivate(
            workload, "MaximumExecutionTimeExceeded", "exceeding the maximum execution time", now
        )
        return []

    def _not_ready(self, workload: Obj, queue: Obj, now: datetime) -> list[float]:
        """Send back what does not get ready in time, at last for good, or say when it is due."""
        settings = dig(queue, "metadata", "annotations", default={})
        timeout = duration_seconds(settings.get(PODS_READY_TIMEOUT, ""))
        ready = state.condition(workload, "PodsReady") or {}
        recovers = ready.get("reason") == "WaitForRecovery"
        since = _since(workload, "PodsReady" if recovers else "Admitted")
        if not timeout or since is None or ready.get("status") == "True":
            return []
        left = timeout - (now - since).total_seconds()
        if left > 0:
            return [left]
        limit = settings.get(REQUEUING_LIMIT, "")
        tries = 1 + int(dig(workload, "status", "requeueState", "count", default=0))
        if limit.isdigit() and tries > int(limit):
            why = "exceeding the maximum number of re-queuing retries"
            self._deactivate(workload, "RequeuingLimitExceeded", why, now)
            return []
        meta = workload["metadata"]
        message = f"Exceeded the PodsReady timeout {meta['namespace']}/{meta['name']}"
        pause = timedelta(seconds=min(FIRST_BACKOFF * 2 ** (tries - 1), LONGEST_BACKOFF))
        cause = "WaitForRecovery" if recovers else "WaitForStart"
        self._edit(workload, now, partial(state.Edit.back_off, count=tries, until=now + pause))
        self._evict(workload, "PodsReadyTimeout", message, now, cause=cause)
        return []

    def _deactivate(self, workload: Obj, cause: str, why: str, now: datetime) -> None:
        """Take it out of its queue for good."""
        meta = workload["metadata"]
        patch = {"spec": {"active": False}}
        self._client.patch(names.WORKLOADS, meta["name"], patch, namespace=meta["namespace"])
        self._evict(workload, "Deactivated", f"The workload is deactivated due to {why}", now, cause=cause)

    def _evict(self, workload: Obj, reason: str, message: str, now: datetime, *, cause: str = "") -> None:
        self._edit(workload, now, partial(state.Edit.evict, reason=reason, message=message, cause=cause))
        told = f"{reason}DueTo{cause}" if cause and reason == "Deactivated" else reason
        self._event(workload, f"EvictedDueTo{told}", message, component=CONTROLLER)


def _reserved(view: View) -> Iterable[Obj]:
    """The workloads that hold quota and neither go nor have ended."""
    return [
        workload
        for workload in view.workloads.values()
        if state.has_quota(workload) and not _is_over(workload)
    ]


def _is_over(workload: Obj) -> bool:
    return state.is_evicted(workload) or state.is_finished(workload)


def _since(workload: Obj, kind: str) -> datetime | None:
    known = state.condition(workload, kind)
    return parse_time(known["lastTransitionTime"]) if known else None
