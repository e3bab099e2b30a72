"""A workload's state from what the cluster shows: observed objects in, conditions and phase out. Pure.

The objects are plain dicts as the API server sends them, trimmed by the mirror. The words for why it waits
are in `apps.workloads.waiting.rules.explain`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from apps.cluster.objects.conditions import condition, find
from apps.cluster.objects.quantities import whole_number
from apps.workloads.specs import Kind, Phase

Body = Mapping[str, Any]
Fact = dict[str, str]
RESTING = (Phase.STOPPING, Phase.STOPPED, Phase.DELETING)

KUEUE_PATIENCE = timedelta(seconds=30)
"""Kueue makes its Workload within a second; after this long it is said to be silent."""
KUEUE_SILENT = "KueueUnavailable"
KUEUE_SENTENCE = "Kueue does not answer: no pod can start. What you asked for is stored."
WAITED_TOO_LONG = "MaxWaitExceeded"


@dataclass(frozen=True)
class ObservedWorkload:
    """The live objects of one workload.

    `remains` counts controllers, pods and Kueue Workloads that must be gone before it may be called stopped,
    or before it may be started again.
    """

    controller: Body | None = None
    queued: Body | None = None
    pods: tuple[Body, ...] = ()
    claims: tuple[Body, ...] = ()
    remains: int = 0


@dataclass(frozen=True)
class Facts:
    """What the row says; `device_ids` maps pool/device to the device's uuid."""

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
    events: tuple[Transition, ...]


def derive(seen: ObservedWorkload, facts: Facts, *, now: datetime) -> Derived:
    """RULE: the phase follows from the objects alone, except that Succeeded and Failed are final.

    Sources: Kueue v1beta2 Workload conditions, core/v1 Pod conditions, batch/v1 Job conditions,
    resource.k8s.io/v1 claim allocation. Absent conditions are normal on a fresh Workload.
    """
    phase = Phase.FAILED if has_waited_too_long(seen, facts, now=now) else _phase(seen, facts)
    started_at = _started_at(seen, facts, phase, now)
    ended_at = facts.ended_at or (_ended_at(seen, now) if phase.is_final or phase is Phase.STOPPED else None)
    conditions = _conditions(seen, facts, phase, now)
    waits = phase is Phase.PENDING
    reserved = find(conditions, "QuotaReserved")
    return Derived(
        phase=phase,
        conditions=conditions,
        queue={"reason": reserved["reason"], "message": reserved["message"]} if waits and reserved else None,
        placement=[] if phase in (Phase.PENDING, Phase.STOPPED) else placement(seen, facts) or [],
        started_at=started_at,
        ended_at=None if phase in (Phase.PENDING, Phase.STARTING, Phase.RUNNING) else ended_at,
        events=_events(facts, phase, conditions, now),
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
    """How many devices of a resource a Kueue Workload holds quota for; 0 unless reserved and unfinished."""
    if not is_true(queued, "QuotaReserved") or is_true(queued, "Finished"):
        return 0
    assignments = queued.get("status", {}).get("admission", {}).get("podSetAssignments") or []
    return sum(whole_number(a.get("resourceUsage", {}).get(resource_name, 0)) for a in assignments)


def has_waited_too_long(seen: ObservedWorkload, facts: Facts, *, now: datetime) -> bool:
    """Whether it was not admitted within `max_wait_seconds` of being asked for; then it fails for good."""
    if facts.phase is Phase.FAILED:
        return _said(facts.conditions, "Ready").get("reason") == WAITED_TOO_LONG
    if (
        facts.max_wait_seconds is None
        or not facts.wanted
        or facts.deleting
        or facts.phase is not Phase.PENDING
    ):
        return False
    latest = facts.asked_at + timedelta(seconds=facts.max_wait_seconds)
    return not is_true(seen.queued, "Admitted") and now >= latest


def placement(seen: ObservedWorkload, facts: Facts) -> list[dict[str, Any]]:
    """Where its pods are and which devices their claims got, named pool/device as the driver does."""
    rows = []
    for pod in seen.pods:
        meta = pod.get("metadata", {})
        node = pod.get("spec", {}).get("nodeName")
        if node:
            rows.append(
                {
                    "cluster": facts.cluster,
                    "namespace": meta.get("namespace", ""),
                    "pod": meta.get("name", ""),
                    "node": node,
                    "flavor": facts.flavor,
                    "devices": [
                        {"id": facts.device_ids.get(name), "name": name}
                        for claim in _claims_of(pod, seen.claims)
                        for name in device_names(claim)
                    ],
                }
            )
    return rows


def device_names(claim: Body) -> list[str]:
    """pool/device of everything a ResourceClaim was given; empty while it is not allocated."""
    allocation = claim.get("status", {}).get("allocation") or {}
    return [f"{r['pool']}/{r['device']}" for r in (allocation.get("devices") or {}).get("results") or []]


def _claims_of(pod: Body, claims: Iterable[Body]) -> list[Body]:
    uid = pod.get("metadata", {}).get("uid")
    return [claim for claim in claims if uid in owners(claim)]


def owners(body: Body) -> set[str]:
    """The uids of an object's owners."""
    return {o.get("uid", "") for o in body.get("metadata", {}).get("ownerReferences") or []}


def _phase(seen: ObservedWorkload, facts: Facts) -> Phase:
    if facts.deleting:
        return Phase.DELETING
    if facts.phase.is_final:
        return facts.phase
    if not facts.wanted:
        return Phase.STOPPING if seen.remains else Phase.STOPPED
    if is_true(seen.controller, "Complete"):
        return Phase.SUCCEEDED
    if is_true(seen.controller, "Failed"):
        return Phase.FAILED
    if not is_true(seen.queued, "Admitted"):
        return Phase.PENDING
    return Phase.RUNNING if any(_is_ready(pod, facts.kind) for pod in seen.pods) else Phase.STARTING


def _is_ready(pod: Body, kind: Kind) -> bool:
    """A notebook is there when it can be opened; a job's pod as soon as it runs."""
    if kind is Kind.NOTEBOOK:
        return is_true(pod, "Ready") and not pod.get("metadata", {}).get("deletionTimestamp")
    return pod.get("status", {}).get("phase") in ("Running", "Succeeded")


def _started_at(seen: ObservedWorkload, facts: Facts, phase: Phase, now: datetime) -> datetime | None:
    """When the present run began: kept while it lasts, forgotten when it has to queue again."""
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


def _ended_at(seen: ObservedWorkload, now: datetime) -> datetime:
    status = (seen.controller or {}).get("status", {})
    failed = condition_of(seen.controller, "Failed") or {}
    return time_of(status.get("completionTime")) or time_of(failed.get("lastTransitionTime")) or now


def _conditions(seen: ObservedWorkload, facts: Facts, phase: Phase, now: datetime) -> list[Fact]:
    return [*_queue_facts(seen, facts, phase, now), _allocated(seen), _ready(seen, facts, phase)]


def _queue_facts(seen: ObservedWorkload, facts: Facts, phase: Phase, now: datetime) -> list[Fact]:
    if phase in RESTING or phase.is_final:
        if seen.queued and not phase.is_final:
            return []  # what it held until now still stands
        return [
            condition(name, False, str(phase), "It holds no quota.") for name in ("QuotaReserved", "Admitted")
        ]
    rows = [_queue_fact(seen, name, now) for name in ("QuotaReserved", "Admitted")]
    evicted = condition_of(seen.queued, "Evicted")
    if evicted:
        rows.append(_copied(evicted))
    elif find(facts.conditions, "Evicted"):
        rows.append(condition("Evicted", False, "NotEvicted", "It was not evicted in this run."))
    return rows


def _queue_fact(seen: ObservedWorkload, name: str, now: datetime) -> Fact:
    found = condition_of(seen.queued, name)
    if found:
        return _copied(found)
    if seen.remains:
        return condition(name, False, "PreviousRunEnding", "Its previous run is still being removed.")
    since = time_of((seen.controller or {}).get("metadata", {}).get("creationTimestamp"))
    if not seen.queued and since and now - since > KUEUE_PATIENCE:
        return condition(name, False, KUEUE_SILENT, KUEUE_SENTENCE)
    return condition(name, False, "Pending", "It was handed to the queue.")


def _copied(found: Body) -> Fact:
    """Kueue's own words under its own name; a condition that is neither True nor False stays Unknown."""
    status = {"True": True, "False": False}.get(str(found.get("status")))
    return condition(str(found["type"]), status, str(found.get("reason", "")), str(found.get("message", "")))


def _allocated(seen: ObservedWorkload) -> Fact:
    given = [name for claim in seen.claims for name in device_names(claim)]
    if given and all(device_names(claim) for claim in seen.claims):
        return condition("DevicesAllocated", True, "Allocated", ", ".join(given))
    return condition("DevicesAllocated", False, "Waiting", "No device is allocated.")


def _ready(seen: ObservedWorkload, facts: Facts, phase: Phase) -> Fact:
    if phase is Phase.RUNNING:
        return condition("Ready", True, "Running", "It runs.")
    if phase is Phase.FAILED and facts.phase is Phase.FAILED:
        kept = _said(facts.conditions, "Ready")
        return condition("Ready", False, str(kept.get("reason", "Failed")), str(kept.get("message", "")))
    reason, message = _not_ready(seen, facts, phase)
    return condition("Ready", False, reason, message)


def _not_ready(seen: ObservedWorkload, facts: Facts, phase: Phase) -> tuple[str, str]:
    """The most telling reason: a container that cannot start, a pod that finds no node."""
    if phase is Phase.FAILED and not is_true(seen.controller, "Failed"):
        return WAITED_TOO_LONG, f"It did not start within {facts.max_wait_seconds} s, as asked."
    if phase is Phase.FAILED:
        failed = condition_of(seen.controller, "Failed") or {}
        return str(failed.get("reason", "Failed")), str(failed.get("message", "The job failed."))
    if phase is Phase.STARTING:
        for pod in seen.pods:
            for container in pod.get("status", {}).get("containerStatuses") or []:
                waiting = container.get("state", {}).get("waiting") or {}
                if waiting.get("reason") not in (None, "ContainerCreating", "PodInitializing"):
                    return str(waiting["reason"]), str(waiting.get("message", ""))
            scheduled = condition_of(pod, "PodScheduled") or {}
            if scheduled.get("status") == "False" and scheduled.get("reason") != "SchedulingGated":
                return str(scheduled.get("reason", "Unschedulable")), str(scheduled.get("message", ""))
    return _PLAIN[phase]


_PLAIN = {
    Phase.PENDING: ("Waiting", "It waits for quota."),
    Phase.STARTING: ("Starting", "Its pod is being started."),
    Phase.STOPPING: ("Stopping", "Its pod is being removed."),
    Phase.STOPPED: ("Stopped", "It was stopped; its volumes are kept."),
    Phase.SUCCEEDED: ("Finished", "The job finished."),
    Phase.DELETING: ("Deleting", "It is being removed."),
}


def _said(conditions: Sequence[Any], name: str) -> Body:
    return find(conditions, name) or {}


def _events(facts: Facts, phase: Phase, conditions: Sequence[Any], now: datetime) -> tuple[Transition, ...]:
    """A line for every change of phase, and one for an eviction with Kueue's own words."""
    lines = []
    before, evicted = _said(facts.conditions, "Evicted"), _said(conditions, "Evicted")
    # A hold of ours deactivates it; the service has told that already.
    is_news = evicted.get("status") == "True" and before.get("status") != "True"
    if is_news and evicted.get("reason") != "Deactivated":
        lines.append(Transition(now, "kueue", "Warning", str(evicted["reason"]), str(evicted["message"])))
    if phase is not facts.phase:
        ready = _said(conditions, "Ready")
        warns = phase is Phase.FAILED
        lines.append(
            Transition(
                now, "allotment", "Warning" if warns else "Normal", str(phase), str(ready.get("message", ""))
            )
        )
    return tuple(lines)
