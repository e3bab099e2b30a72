"""Kueue's scheduler and workload controller: reads a view, runs admission, writes the decisions.

The decisions are `admit.run`'s. One key: every change of a queue, flavor or workload asks for one more
run, and
a run whose inputs did not change is skipped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from functools import partial

from sandbox.api.cluster.client import Client
from sandbox.api.controllers.manager import Key
from sandbox.api.meta.objects import Obj, copy_of, parse_time
from sandbox.api.storage.store import Change
from sandbox.controllers.kueue import admit, names
from sandbox.controllers.kueue import status as state
from sandbox.controllers.kueue.model import Admit, Evict
from sandbox.controllers.kueue.report import Reporter
from sandbox.controllers.kueue.stopping.stopper import Stopper
from sandbox.controllers.kueue.view import Reader, View

_RUN = Key("", "run")
_RESTARTS = {
    "LocalQueueStopped": ("LocalQueueRestarted", "The LocalQueue was restarted after being stopped"),
    "ClusterQueueStopped": ("ClusterQueueRestarted", "The ClusterQueue was restarted after being stopped"),
    "Deactivated": ("Reactivated", "The workload was reactivated"),
}

_BACKS_OFF = ("PodsReadyTimeout", "AdmissionCheck")
"""Why it was sent back to be tried again by itself."""


class KueueScheduler:
    """Admits, preempts, evicts and explains."""

    name = "kueue"

    def __init__(self, client: Client, class_mapping: Mapping[str, str]) -> None:
        self._client = client
        self._reader = Reader(client, class_mapping)
        self._reporter = Reporter(client)
        self._stopper = Stopper(client, self._edit, self._event)
        self._seen: object = None

    def watches(self) -> Mapping[str, Callable[[Change], Iterable[Key]]]:
        """Everything a decision depends on."""
        return dict.fromkeys(
            (
                names.WORKLOADS,
                names.CLUSTER_QUEUES,
                names.LOCAL_QUEUES,
                names.COHORTS,
                names.FLAVORS,
                names.ADMISSION_CHECKS,
                "namespaces",
                "limitranges",
                "resourceclaimtemplates.resource.k8s.io",
            ),
            _run_again,
        )

    def reconcile(self, key: Key, now: datetime) -> float | None:
        """One run: evict what must stop, decide on what waits, write, then the queues' status."""
        del key
        view = self._reader.read()
        inputs = _inputs(view, now)
        if inputs != self._seen:
            self._stopper.stop(view, now)
            self._explain(view, now)
            self._decide(view, now)
            self._seen = inputs
        self._release(view)
        waits = [self._stopper.follow(view, now), _backed_off(view, now)]
        self._reporter.report(self._reader.read(), now)
        return min((wait for wait in waits if wait is not None), default=None)

    def _decide(self, view: View, now: datetime) -> None:
        works = [w for key, w in sorted(view.works.items()) if _admissible(view.workloads[key])]
        outcome = admit.run(list(view.specs.values()), view.cohorts, view.flavors, works)
        for decision in outcome.admitted:
            self._admit(view, decision, now)
        for eviction in outcome.evicted:
            self._preempt(view, eviction, now)
        for waiting in outcome.waiting:
            self._wait(view.workloads[waiting.key], waiting.message, now)

    def _admit(self, view: View, decision: Admit, now: datetime) -> None:
        workload, queue = view.workloads[decision.key], view.queues[decision.queue]
        waited = int((now - parse_time(workload["metadata"]["creationTimestamp"])).total_seconds())
        if self._edit(workload, now, partial(state.Edit.reserve, admit=decision, queue=queue)):
            message = f"Quota reserved in ClusterQueue {decision.queue}, wait time since queued was {waited}s"
            self._event(workload, "QuotaReserved", message)
            if state.is_admitted(self._stored(workload) or {}):
                message = f"Admitted by ClusterQueue {decision.queue}, wait time since reservation was 0s"
                self._event(workload, "Admitted", message)

    def _preempt(self, view: View, eviction: Evict, now: datetime) -> None:
        victim, by = view.workloads[eviction.key], view.workloads[eviction.by]
        if not self._edit(
            victim, now, partial(state.Edit.preempt, reason=eviction.reason, message=eviction.message)
        ):
            return
        ranks = [int(w["spec"].get("priority", 0)) for w in (by, victim)]
        words = "; ".join(
            f"{who} effective priority: {rank} (base: {rank}, boost: 0)"
            for who, rank in zip(("preemptor", "preemptee"), ranks, strict=True)
        )
        self._event(victim, "EvictedDueToPreempted", eviction.message)
        self._event(victim, "Preempted", f"{eviction.message}; {words}")
        queue = view.queue_of(victim)
        about = f"{eviction.key} (UID: {victim['metadata']['uid']}) in ClusterQueue {queue}"
        self._event(by, "PreemptedWorkload", f"Preempted workload {about}; {words}")

    def _wait(self, workload: Obj, message: str, now: datetime) -> None:
        requests = self._reader.requests(workload)
        if self._edit(workload, now, partial(state.Edit.wait, message=message, requests=requests)):
            self._event(workload, "Pending", message, kind="Warning")

    def _explain(self, view: View, now: datetime) -> None:
        """Conditions of workloads the scheduler does not even look at, and of those that may come back."""
        for key, message in view.inadmissible.items():
            self._edit(
                view.workloads[key], now, partial(state.Edit.release, reason="Inadmissible", message=message)
            )
        for key, message in view.refused.items():
            self._edit(view.workloads[key], now, partial(state.Edit.refuse, message=message))
        for key in view.works:
            requeued = state.condition(view.workloads[key], "Requeued")
            if requeued and requeued["status"] == "False" and not state.has_quota(view.workloads[key]):
                self._requeue(view, key, requeued["reason"], now)

    def _requeue(self, view: View, key: str, reason: str, now: datetime) -> None:
        """Let it back into its queue, unless it has to wait for that."""
        if reason in _BACKS_OFF:
            at = state.requeue_at(view.workloads[key])
            if at is not None and at > now:
                return
            change: Callable[[state.Edit], object] = state.Edit.try_again
        else:
            again = _RESTARTS.get(reason, ("Reactivated", "The workload can be admitted again"))
            change = partial(state.Edit.set, kind="Requeued", value="True", reason=again[0], message=again[1])
        self._edit(view.workloads[key], now, change)
        view.workloads[key] = self._stored(view.workloads[key]) or view.workloads[key]

    def _release(self, view: View) -> None:
        """Let workloads go whose owner is gone: nobody is left to take the finalizer away."""
        for workload in view.workloads.values():
            meta = workload["metadata"]
            if not meta.get("deletionTimestamp") or names.IN_USE not in (meta.get("finalizers") or ()):
                continue
            if not any(self._exists(owner, meta["namespace"]) for owner in meta.get("ownerReferences") or ()):
                drop_finalizer(self._client, workload)

    def _exists(self, owner: Obj, namespace: str) -> bool:
        resource = {"Job": "jobs.batch", "StatefulSet": "statefulsets.apps", "Pod": "pods"}.get(
            owner["kind"], ""
        )
        found = self._client.get(resource, owner["name"], namespace) if resource else None
        return found is not None and found["metadata"]["uid"] == owner["uid"]

    def _stored(self, workload: Obj) -> Obj | None:
        return self._client.get(
            names.WORKLOADS, workload["metadata"]["name"], workload["metadata"]["namespace"]
        )

    def _edit(self, workload: Obj, now: datetime, change: Callable[[state.Edit], object]) -> bool:
        stored = self._stored(workload)
        if stored is None or stored["metadata"]["uid"] != workload["metadata"]["uid"]:
            return False
        status = copy_of(stored.get("status") or {})
        change(state.Edit(stored, status, now))
        if status == stored.get("status"):
            return False
        self._client.update(names.WORKLOADS, {**stored, "status": status}, subresource="status")
        return True

    def _event(
        self,
        workload: Obj,
        reason: str,
        message: str,
        *,
        kind: str = "Normal",
        component: str = "kueue-admission",
    ) -> None:
        self._client.event(workload, reason, message, type=kind, component=component)


def drop_finalizer(client: Client, workload: Obj) -> None:
    """Take Kueue's finalizer off a workload."""
    meta = workload["metadata"]
    left = [f for f in meta.get("finalizers") or () if f != names.IN_USE]
    if len(left) != len(meta.get("finalizers") or ()):
        patch = {"metadata": {"finalizers": left or None}}
        client.patch(names.WORKLOADS, meta["name"], patch, namespace=meta["namespace"])


def _run_again(change: Change) -> Iterable[Key]:
    del change
    return (_RUN,)


def _admissible(workload: Obj) -> bool:
    """A stopped workload waits until a condition says it may requeue."""
    if state.has_quota(workload):
        return True
    requeued = state.condition(workload, "Requeued")
    return requeued is None or requeued["status"] == "True"


def _inputs(view: View, now: datetime) -> object:
    """What the decisions depend on, comparable: specs, and the part of each workload's status that counts."""
    return (
        {
            name: (q["metadata"].get("generation"), q["metadata"].get("deletionTimestamp"))
            for name, q in view.queues.items()
        },
        {key: q["metadata"].get("generation") for key, q in view.local_queues.items()},
        view.flavors,
        dict(view.checks),
        view.cohorts,
        dict(view.works),
        dict(view.inadmissible),
        dict(view.refused),
        {
            key: (w["metadata"]["uid"], w["spec"].get("active"), _requeue_state(w, now))
            for key, w in view.workloads.items()
            if not state.is_finished(w)
        },
    )


def _requeue_state(workload: Obj, now: datetime) -> tuple[str, ...]:
    requeued, at = state.condition(workload, "Requeued"), state.requeue_at(workload)
    waits = "waits" if at is not None and at > now else ""
    return (requeued["status"], requeued["reason"], waits) if requeued else ()


def _backed_off(view: View, now: datetime) -> float | None:
    """Seconds until the first of those that were sent back is tried again."""
    times = [state.requeue_at(workload) for workload in view.workloads.values()]
    return min(((at - now).total_seconds() for at in times if at is not None and at > now), default=None)
