"""A workload's state from what the cluster shows: observed objects in, conditions and phase out. Pure.

The objects are plain dicts as the API server sends them, trimmed by the mirror. The words for why it waits
are in `apps.workloads.waiting.rules.explain`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from apps.cluster.objects.conditions import condition, find
from apps.quotas.kueue import observation
from apps.workloads import items, registry
from apps.workloads.specs import Kind, Phase
from apps.workloads.status import readiness, scheduling, waits
from apps.workloads.status.arrays import MOST, Progress, progress_of
from apps.workloads.status.endings import ended_by_node, ending_of
from apps.workloads.status.placing import device_names, placement
from apps.workloads.status.replicas import Replicas, count, words
from apps.workloads.status.tally import Tally, tally

Body = Mapping[str, Any]
Fact = dict[str, str]
RESTING = (Phase.STOPPING, Phase.STOPPED, Phase.DELETING)
ON = (Phase.PENDING, Phase.STARTING, Phase.RUNNING)

KUEUE_PATIENCE = timedelta(seconds=30)
"""Kueue makes its Workload within a second; after this long it is said to be silent."""
KUEUE_SILENT = "KueueUnavailable"
NOT_QUEUED = "Kueue has not queued it yet. What you asked for is stored."
"""All that is known when there is no Workload in time: why is said where the cluster is looked at."""
KUEUE_SENTENCE = "Kueue does not answer: no pod can start. What you asked for is stored."
WAITED_TOO_LONG = "MaxWaitExceeded"
NO_REPLICA = "ReplicaFailure"
"""Condition of a Deployment: the API server refuses its pods."""
BAD_IMAGE = frozenset(
    {
        "ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull",
        "ImageInspectError", "RegistryUnavailable",
    }
)  # fmt: skip
"""Reasons of a waiting container (kubelet, pkg/kubelet/images)."""


@dataclass(frozen=True)
class ObservedWorkload:
    """The live objects of one workload.

    `remains` counts controllers, pods and Kueue Workloads that must be gone before it may be called stopped,
    or before it may be started again; `lost`: the Kueue Workload that it ran under, where all of the run is
    gone at once; `failed`: its pod that has failed, where nothing in the cluster makes another.
    """

    controller: Body | None = None
    queued: Body | None = None
    pods: tuple[Body, ...] = ()
    claims: tuple[Body, ...] = ()
    remains: int = 0
    lost: Body | None = None
    failed: Body | None = None


@dataclass(frozen=True)
class Facts:
    """What the row says; `device_ids` maps pool/device to the device's uuid, `items` an array's index to the
    item that it is (none: no array).
    """

    kind: Kind
    generation: int
    cluster: str
    flavor: str
    wanted: bool
    deleting: bool
    phase: Phase
    asked_at: datetime
    max_wait_seconds: int | None = None
    conditions: Sequence[Any] = ()
    started_at: datetime | None = None
    ended_at: datetime | None = None
    device_ids: Mapping[str, str] = field(default_factory=dict)
    items: tuple[int, ...] = ()
    pods: int = 1  # that should run at once
    has_devices: bool = True
    failures: int = 0  # in a row, of pods that are made anew


@dataclass(frozen=True)
class Transition:
    """One line for the story."""

    at: datetime
    source: str
    type: str
    reason: str
    message: str


@dataclass(frozen=True)
class Derived:
    """What the reconcile stores."""

    phase: Phase
    conditions: list[Fact]
    queue: dict[str, Any] | None
    placement: list[dict[str, Any]]
    started_at: datetime | None
    ended_at: datetime | None
    items: Progress | None
    replicas: Replicas | None
    events: tuple[Transition, ...]


def derive(seen: ObservedWorkload, facts: Facts, *, now: datetime) -> Derived:
    """RULE: the phase follows from the objects alone, except that Succeeded and Failed are final.

    Sources: Kueue v1beta2 Workload conditions, core/v1 Pod conditions, batch/v1 Job conditions,
    resource.k8s.io/v1 claim allocation. Absent conditions are normal on a fresh Workload.
    """
    phase = Phase.FAILED if has_waited_too_long(seen, facts, now=now) else _phase(seen, facts)
    started_at = _started_at(seen, facts, phase, now)
    ended_at = facts.ended_at or (
        _ended_at(seen, facts, now) if phase.is_final or phase is Phase.STOPPED else None
    )
    conditions = _conditions(seen, facts, phase, now)
    answer = _queue_answer(seen, conditions) if phase is Phase.PENDING else None
    return Derived(
        phase=phase,
        conditions=conditions,
        queue={"reason": answer["reason"], "message": answer["message"]} if answer else None,
        placement=[] if phase in (Phase.PENDING, Phase.STOPPED) else placement(seen, facts) or [],
        started_at=started_at,
        ended_at=None if phase in ON else ended_at,
        items=progress_of(seen.controller, facts.items),
        replicas=_replicas(seen, facts) if phase in ON else None,
        events=(*_failure(seen, facts, now), *_events(facts, phase, conditions, now)),
    )


def time_of(value: object) -> datetime | None:
    """A timestamp of the API server; None where there is none."""
    return datetime.fromisoformat(value) if isinstance(value, str) and value else None


def condition_of(body: Body | None, name: str) -> Body | None:
    """The condition of that type in an object's status."""
    found = (body or {}).get("status", {}).get("conditions") or []
    return next((c for c in found if c.get("type") == name), None)


def is_true(body: Body | None, name: str) -> bool:
    """Whether the object's condition of that type is True; an absent one is not."""
    return (condition_of(body, name) or {}).get("status") == "True"


def reserved_devices(queued: Body, resource_name: str) -> int:
    """How many devices of a resource, or cores of a flavor, a Kueue Workload holds quota for; 0 unless
    reserved and unfinished.
    """
    if not is_true(queued, "QuotaReserved") or is_true(queued, "Finished"):
        return 0
    return observation.held(queued, resource_name)


def has_waited_too_long(seen: ObservedWorkload, facts: Facts, *, now: datetime) -> bool:
    """Whether it was not admitted in the time it may wait (`waits.latest`); then it fails for good."""
    if facts.phase is Phase.FAILED:
        return _said(facts.conditions, "Ready").get("reason") == WAITED_TOO_LONG
    latest = waits.latest(facts)
    if latest is None or not facts.wanted or facts.deleting or facts.phase is not Phase.PENDING:
        return False
    return not is_true(seen.queued, "Admitted") and now >= latest


def _phase(seen: ObservedWorkload, facts: Facts) -> Phase:
    if facts.deleting:
        return Phase.DELETING
    if facts.phase.is_final:
        return facts.phase
    if not facts.wanted:
        return Phase.STOPPING if seen.remains else Phase.STOPPED
    kind = registry.of(facts.kind)
    if is_true(seen.controller, kind.ends.done):
        return Phase.SUCCEEDED
    if is_true(seen.controller, kind.ends.failed):
        return Phase.FAILED
    if kind.runs(sum(map(kind.is_ready, seen.pods)), facts.pods) and is_true(seen.queued, "Admitted"):
        return Phase.RUNNING
    # What fits no node holds its quota, and waits all the same.
    is_coming = is_true(seen.queued, "Admitted") and not scheduling.fits_no_node(seen.pods)
    return Phase.STARTING if is_coming else Phase.PENDING


def _queue_answer(seen: ObservedWorkload, conditions: Sequence[Fact]) -> Body | None:
    """What keeps it: the queue, or the scheduler once the queue has let it in."""
    name = scheduling.POD_SCHEDULED if is_true(seen.queued, "Admitted") else "QuotaReserved"
    return find(conditions, name)


def _started_at(seen: ObservedWorkload, facts: Facts, phase: Phase, now: datetime) -> datetime | None:
    """When the present run began: kept while it lasts, forgotten when it has to queue again."""
    is_admitted = phase in (Phase.PENDING, Phase.STARTING) and is_true(seen.queued, "Admitted")
    if is_admitted and registry.of(facts.kind).time_is_ours:
        since = _run_since(seen, facts)
        is_same = facts.started_at and (since is None or facts.started_at >= since)
        return facts.started_at if is_same else None
    if phase in (Phase.PENDING, Phase.STARTING):
        return None
    if facts.started_at or phase not in (Phase.RUNNING, Phase.SUCCEEDED, Phase.FAILED):
        return facts.started_at
    begun = [time_of(pod.get("status", {}).get("startTime")) for pod in seen.pods]
    begun.append(time_of((seen.controller or {}).get("status", {}).get("startTime")))
    known = [at for at in begun if at]
    if known:
        return min(known)
    return now if phase is Phase.RUNNING else None


def _run_since(seen: ObservedWorkload, facts: Facts) -> datetime | None:
    """Its pods begin again; the run, whose time the portal counts, is the one that was admitted. Where pods
    are replaced, each is admitted by itself: the run is that of their controller.
    """
    if registry.of(facts.kind).rolls:
        return time_of((seen.controller or {}).get("metadata", {}).get("creationTimestamp"))
    return time_of((condition_of(seen.queued, "Admitted") or {}).get("lastTransitionTime"))


def _ended_at(seen: ObservedWorkload, facts: Facts, now: datetime) -> datetime:
    status, ends = (seen.controller or {}).get("status", {}), registry.of(facts.kind).ends
    said = [condition_of(seen.controller, name) or {} for name in (ends.failed, ends.done)]
    told = (time_of(each.get("lastTransitionTime")) for each in said if each.get("status") == "True")
    return time_of(status.get("completionTime")) or next(filter(None, told), now)


def _conditions(seen: ObservedWorkload, facts: Facts, phase: Phase, now: datetime) -> list[Fact]:
    refused = scheduling.fact(_unscheduled(seen, phase), facts.conditions)
    ready = _ready(seen, facts, phase)
    return [*_queue_facts(seen, facts, phase, now), *refused, _allocated(seen, facts), ready]


def _unscheduled(seen: ObservedWorkload, phase: Phase) -> Body | None:
    """The scheduler's refusal of a pod that Kueue has let in."""
    is_coming = phase in (Phase.PENDING, Phase.STARTING) and is_true(seen.queued, "Admitted")
    return scheduling.refusal(seen.pods) if is_coming else None


def _queue_facts(seen: ObservedWorkload, facts: Facts, phase: Phase, now: datetime) -> list[Fact]:
    if phase in RESTING or phase.is_final:
        if seen.queued and not phase.is_final:
            return []  # what it held until now still stands
        return [
            condition(name, False, str(phase), "It holds no quota.") for name in ("QuotaReserved", "Admitted")
        ]
    rows = [_queue_fact(seen, name, now) for name in ("QuotaReserved", "Admitted")]
    evicted = condition_of(seen.queued or seen.lost, "Evicted")
    if evicted:
        rows.append(_copied(evicted))
    elif (before := find(facts.conditions, "Evicted")) and not _waits_since(before, seen, facts):
        rows.append(condition("Evicted", False, "NotEvicted", "It was not evicted in this run."))
    return rows


def _waits_since(eviction: Mapping[str, Any], seen: ObservedWorkload, facts: Facts) -> bool:
    """Whether it has waited since then for a place: that stands until it has one, or is asked for anew. A pod
    that is made anew has another Workload, which says nothing of it.
    """
    is_of_this = eviction["observed_generation"] == facts.generation or waits.taken_out(facts) is not None
    return eviction["status"] == "True" and is_of_this and not is_true(seen.queued, "Admitted")


def _queue_fact(seen: ObservedWorkload, name: str, now: datetime) -> Fact:
    found = condition_of(seen.queued, name)
    if found:
        return _copied(found)
    if seen.remains:
        return condition(name, False, "PreviousRunEnding", "Its previous run is still being removed.")
    refused = condition_of(seen.controller, NO_REPLICA)
    if refused and refused.get("status") == "True":
        return condition(name, False, str(refused.get("reason", "")), str(refused.get("message", "")))
    since = time_of((seen.controller or {}).get("metadata", {}).get("creationTimestamp"))
    if not seen.queued and since and now - since > KUEUE_PATIENCE:
        return condition(name, False, KUEUE_SILENT, NOT_QUEUED)
    return condition(name, False, "Pending", "It was handed to the queue.")


def _copied(found: Body) -> Fact:
    """Kueue's own words under its own name; a condition that is neither True nor False stays Unknown."""
    status = {"True": True, "False": False}.get(str(found.get("status")))
    return condition(str(found["type"]), status, str(found.get("reason", "")), str(found.get("message", "")))


def _allocated(seen: ObservedWorkload, facts: Facts) -> Fact:
    if not facts.has_devices:
        return condition("DevicesAllocated", True, "NoneAsked", "It asked for no device.")
    given = [name for claim in seen.claims for name in device_names(claim)]
    if given and all(device_names(claim) for claim in seen.claims):
        return condition("DevicesAllocated", True, "Allocated", ", ".join(given))
    return condition("DevicesAllocated", False, "Waiting", "No device is allocated.")


def _ready(seen: ObservedWorkload, facts: Facts, phase: Phase) -> Fact:
    if phase is Phase.RUNNING:
        reason, message = readiness.running(seen.pods, _tally(seen, facts), words(_replicas(seen, facts)))
        return condition("Ready", reason != readiness.NOT_READY, reason, message)
    # What ended it may be seen only after the job was seen to fail, and not once its pods are gone.
    is_known = phase is Phase.FAILED and facts.phase is Phase.FAILED
    if is_known and not (seen.pods and _has_failed(seen, facts)):
        kept = _said(facts.conditions, "Ready")
        return condition("Ready", False, str(kept.get("reason", "Failed")), str(kept.get("message", "")))
    reason, message = _not_ready(seen, facts, phase)
    return condition("Ready", False, reason, message)


def _not_ready(seen: ObservedWorkload, facts: Facts, phase: Phase) -> tuple[str, str]:
    """The most telling reason: a container that cannot start, a pod that finds no node, one that was lost."""
    if phase is Phase.FAILED and not _has_failed(seen, facts):
        within = f"within {facts.max_wait_seconds} s" if facts.max_wait_seconds else "at once"
        return WAITED_TOO_LONG, f"It did not start {within}, as asked."
    if phase is Phase.FAILED:
        failed = condition_of(seen.controller, registry.of(facts.kind).ends.failed) or {}
        words = str(failed.get("message", "The job failed."))
        return str(failed.get("reason", "Failed")), readiness.joined(ending_of(seen.pods), words)
    refused = _unscheduled(seen, phase)
    if phase is Phase.STARTING:
        return readiness.start(seen.pods, _tally(seen, facts), refused)
    if refused:
        return str(refused.get("reason", "")), str(refused.get("message", ""))
    is_again = seen.failed is not None or waits.was_let_in(facts)
    return waits.AGAIN if phase is Phase.PENDING and is_again else _PLAIN[phase]


def _tally(seen: ObservedWorkload, facts: Facts) -> Tally:
    kind, status = registry.of(facts.kind), (seen.controller or {}).get("status") or {}
    over = items.numbers(str(status.get("failedIndexes") or ""), most=MOST)
    return tally(seen.pods, wanted=facts.pods, is_ready=kind.is_ready, over=over)


def _has_failed(seen: ObservedWorkload, facts: Facts) -> bool:
    return is_true(seen.controller, registry.of(facts.kind).ends.failed)


def _replicas(seen: ObservedWorkload, facts: Facts) -> Replicas | None:
    """None of what is no service: nothing else replaces its pods one by one."""
    kind = registry.of(facts.kind)
    if not kind.rolls:
        return None
    return count(seen.controller, seen.pods, wanted=facts.pods, is_ready=kind.is_ready)


_PLAIN = {
    Phase.PENDING: ("Waiting", "It waits for quota."),
    Phase.STOPPING: ("Stopping", "Its pod is being removed."),
    Phase.STOPPED: ("Stopped", "It was stopped; its volumes are kept."),
    Phase.SUCCEEDED: ("Finished", "The job finished."),
    Phase.DELETING: ("Deleting", "It is being removed."),
}


def _said(conditions: Sequence[Any], name: str) -> Body:
    return find(conditions, name) or {}


def _failure(seen: ObservedWorkload, facts: Facts, now: datetime) -> tuple[Transition, ...]:
    """A line for the first in a row of its pods that failed: the next ones would fill its story."""
    if seen.failed is None or facts.failures or not facts.wanted:
        return ()
    reason = str((seen.failed.get("status") or {}).get("reason") or "Failed")
    return (Transition(now, "allotment", "Warning", reason, ended_by_node(seen.failed)),)


def _events(facts: Facts, phase: Phase, conditions: Sequence[Any], now: datetime) -> tuple[Transition, ...]:
    """A line for every change of phase, and one for an eviction with Kueue's own words."""
    lines = []
    before, evicted = _said(facts.conditions, "Evicted"), _said(conditions, "Evicted")
    # A hold of ours deactivates what waits; the service has told that already.
    is_hold = evicted.get("reason") == waits.BY_HAND and facts.phase is Phase.PENDING
    if evicted.get("status") == "True" and before.get("status") != "True" and not is_hold:
        lines.append(Transition(now, "kueue", "Warning", str(evicted["reason"]), str(evicted["message"])))
    is_repeated = facts.failures > 0 and {phase, facts.phase} == {Phase.PENDING, Phase.STARTING}
    if phase is not facts.phase and not is_repeated:
        ready = _said(conditions, "Ready")
        warns = phase is Phase.FAILED
        lines.append(
            Transition(
                now, "allotment", "Warning" if warns else "Normal", str(phase), str(ready.get("message", ""))
            )
        )
    return tuple(lines)
