"""What Kueue says besides quota and order: that it took a workload out of its queue, waits for a check, sent
it back, or takes nothing in; with what ends that. Pure.

Source: Kueue v0.19 v1beta2, workload_types.go, admissioncheck_types.go, clusterqueue_types.go and
localqueue_types.go; DeactivatedDueTo is pkg/workload/evict.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from apps.cluster.mirror.rules.mirror_columns import moment
from apps.cluster.objects.queueing import QueueState, state_of
from apps.web.shapes.durations import clock
from apps.words import ordinal
from apps.workloads.status.derivation import condition_of, is_true
from apps.workloads.status.waits import BY_HAND, BY_KUEUE
from apps.workloads.waiting.rules.situation import Cause, Stop

Body = Mapping[str, Any]

_AGAIN = "Start it again once that is corrected: it then queues anew."
_BY_HAND = "Start it again, which sets it to true; ask first whoever set it, where that is known."
_OUT_BY_HAND = "It was taken out of its queue: spec.active of its Kueue Workload is false."
_UNSAID = "Whoever set it can set it to true again; or stop it and start it."
_ENGINEERS = "Platform engineers can change it; then it goes on by itself."
_OTHER_OFFER = "Platform engineers can change it; or take another offer."
_BY_ITSELF = "It goes on by itself."
_UNKNOWN = "What ends that is not known here; platform engineers can help."
DEACTIVATED: Mapping[str, tuple[str, str]] = {
    "RequeuingLimitExceeded": (
        "its pods did not become ready in time, as often as Kueue tries",
        f"Its events and its log say why they were not. {_AGAIN}",
    ),
    "MaximumExecutionTimeExceeded": (
        "it ran as long as it may",
        "Start it again: it then has its time anew.",
    ),
    "AdmissionCheck": ("a check of the cluster rejected it", f"Platform engineers know the check. {_AGAIN}"),
}
"""What follows DeactivatedDueTo: why, and the cure."""
CHECKS: Mapping[str, tuple[str, str]] = {
    "Pending": ("has not answered yet", "It starts once the check passes; how long that takes is not known."),
    "Retry": ("cannot pass at present", "Kueue gives its quota back and tries again by itself."),
    "Rejected": ("was rejected", f"It will not pass by itself: platform engineers know the check. {_AGAIN}"),
}
"""State of an admission check that is not Ready: what it says, and what ends it."""
SENT_BACK: Mapping[str, str] = {
    "PodsReadyTimeout": "its pods did not become ready in time",
    "AdmissionCheck": "a check of the cluster did not pass",
    "ClusterQueueStopped": "its team's queue was stopped",
    "LocalQueueStopped": "its namespace's queue was stopped",
    "NodeFailures": "its nodes failed",
    "FlavorMigration": "it moves to devices that suit it better",
    "EvictedOnManagerCluster": "the cluster that manages it took it back",
    "WorkloadSliceReplaced": "another size of it takes its place",
    "Preempted": "others took its place",
}
"""Reason of an eviction that Kueue follows up by itself."""
ORDINARY = frozenset(
    {"", "Pending", "Waiting", "WaitingForQuota", "PendingEvaluation", "WaitingForPreemptedWorkloads",
     "WaitingForPodsReady", "ExceedsMaxQuota", "Preempted"}
)  # fmt: skip
"""Reasons without quota that are quota and order: figures say more of these."""
NOT_TAKEN_IN: Mapping[str, tuple[str, str]] = {
    "Inadmissible": ("Kueue does not take it in.", _ENGINEERS),
    "Misconfigured": ("Its queue is not set up.", _ENGINEERS),
    "Suspended": ("Its queue takes nothing in.", _ENGINEERS),
    "OnHold": ("It is on hold: it asked for no pod.", "Start it again."),
    "AdmissionGated": ("Something in the cluster holds its admission back.", _ENGINEERS),
    "NoMatchingFlavor": ("No device that it may use matches what it asks for.", _OTHER_OFFER),
    "TopologyPlacementFailed": ("There is no room for it close together.", _BY_ITSELF),
}  # fmt: skip
"""Why quota is not reserved (condition QuotaReserved), besides quota and order."""
QUEUE: Mapping[str, str] = {
    "Stopped": "it is stopped",
    "Terminating": "it is being removed",
    "FlavorNotFound": "it names devices (a ResourceFlavor) that are not there",
    "AdmissionCheckNotFound": "it names a check (an AdmissionCheck) that is not there",
    "AdmissionCheckInactive": "a check of it (an AdmissionCheck) does not work",
    "TopologyNotFound": "it names a Topology that is not there",
    "MultipleMultiKueueAdmissionChecks": "it has more than one check of MultiKueue",
    "MultiKueueAdmissionCheckAppliedPerFlavor": "its check of MultiKueue is for some devices alone",
    "MultiKueueWithProvisioningRequest": "it has checks that do not go together",
    "ClusterQueueIsInactive": "the team's queue behind it does not work",
    "ClusterQueueDoesNotExist": "the team's queue behind it is not there",
    "Unknown": "Kueue does not say why",
}
"""Why a ClusterQueue or LocalQueue is not Active."""


def stop_of(queued: Body | None, queues: Iterable[Body], now: datetime) -> Stop | None:
    """What keeps a Kueue Workload that is not admitted, besides quota and order; `queues`: its LocalQueue and
    ClusterQueue. None where Kueue says nothing of the kind.
    """
    if queued is None:
        return _inactive(queues)
    if is_true(queued, "Admitted") or is_true(queued, "Finished"):
        return None
    if state_of(queued) == QueueState.HELD or is_true(queued, "DeactivationTarget"):
        return _deactivated(queued)
    rules = (
        _checked(queued),
        _backs_off(queued, now),
        _inactive(queues),
        _not_taken_in(queued),
        _reserved(queued),
    )
    return next(filter(None, rules), None)


def deactivated_at(queued: Body) -> datetime | None:
    """When Kueue itself took it out of its queue, where it is out of it now."""
    evicted = condition_of(queued, "Evicted") or {}
    is_kueues = evicted.get("status") == "True" and str(evicted.get("reason", "")).startswith(BY_KUEUE)
    is_out = state_of(queued) == QueueState.HELD
    return moment(evicted.get("lastTransitionTime")) if is_kueues and is_out else None


def out_since(queued: Body, *, is_ours: bool = False) -> datetime | None:
    """Since when Kueue, or somebody in the cluster by hand, has it out of its queue; `is_ours`: the platform
    has written `spec.active`, so what is not Kueue's is its own hold.

    RULE: Kueue says since when, as of any eviction; until it does, that is not known.
    """
    at = deactivated_at(queued)
    if at is not None or is_ours or state_of(queued) != QueueState.HELD:
        return at
    evicted = condition_of(queued, "Evicted") or {}
    is_said = evicted.get("status") == "True" and evicted.get("reason") == BY_HAND
    return moment(evicted.get("lastTransitionTime")) if is_said else None


def starts_again(queued: Body, asked_at: datetime, *, is_ours: bool = False) -> bool:
    """Whether it was asked for again since it was taken out: then it is put back."""
    at = out_since(queued, is_ours=is_ours)
    return at is not None and at <= asked_at


def _deactivated(queued: Body) -> Stop:
    target, evicted = condition_of(queued, "DeactivationTarget"), condition_of(queued, "Evicted")
    said: Body = target if target and target.get("status") == "True" else evicted or {}
    if said.get("status") == "True" and said.get("reason", "") not in ("", BY_HAND):
        return taken_out(said)
    return _stop(Cause.DEACTIVATED, _OUT_BY_HAND, {}, _BY_HAND if out_since(queued) else _UNSAID)


def taken_out(said: Body) -> Stop:
    """That Kueue took it out, by the condition that says why; also where its Kueue Workload is gone."""
    if said.get("reason") == BY_HAND:
        return _stop(Cause.DEACTIVATED, _OUT_BY_HAND, {}, _BY_HAND)
    reason = str(said.get("reason", "")).removeprefix(BY_KUEUE)
    if reason in DEACTIVATED:
        why, frees = DEACTIVATED[reason]
        return _stop(Cause.DEACTIVATED, f"Kueue took it out of its queue: {why}.", said, frees)
    words = f"Kueue took it out of its queue ({reason})."
    return _stop(Cause.DEACTIVATED, words, said, f"{_UNKNOWN[:-1]}, or start it again.")


def _checked(queued: Body) -> Stop | None:
    """RULE: a check that will not pass comes before one that cannot now, and that before one that is open."""
    checks = (queued.get("status") or {}).get("admissionChecks") or ()
    is_reserved = is_true(queued, "QuotaReserved")
    open_ones = [
        each
        for each in checks
        if each.get("state") != "Ready" and (is_reserved or each.get("state") != "Pending")
    ]
    if not open_ones:
        return None
    worst = max(open_ones, key=lambda each: ("Pending", "Retry", "Rejected").index(each["state"])
                if each.get("state") in CHECKS else -1)  # fmt: skip
    says, frees = CHECKS.get(str(worst.get("state")), (f"says {worst.get('state')}", _UNKNOWN))
    quota = "Its quota is reserved, but the" if is_reserved else "The"
    words = f"{quota} cluster's check {worst.get('name')} {says}."
    return _stop(Cause.CHECKED, words, worst, frees)


def _backs_off(queued: Body, now: datetime) -> Stop | None:
    """That Kueue waits before it tries again."""
    again = (queued.get("status") or {}).get("requeueState") or {}
    at, evicted = moment(again.get("requeueAt")), condition_of(queued, "Evicted") or {}
    if at is None or at <= now or evicted.get("status") != "True":
        return None
    reason = str(evicted.get("reason", ""))
    why = SENT_BACK.get(reason, f"Kueue says {reason}")
    tries = f", for the {ordinal(int(again['count']))} time" if int(again.get("count") or 0) > 1 else ""
    frees = f"Kueue tries it again at {clock(at, now)}; its events and its log say what went wrong."
    return _stop(Cause.SENT_BACK, f"It was sent back{tries}: {why}.", {}, frees)


def _inactive(queues: Iterable[Body]) -> Stop | None:
    """RULE: a LocalQueue that only repeats that its ClusterQueue does not work says nothing of its own."""
    inactive = [
        said for body in queues if (said := condition_of(body, "Active")) and said.get("status") != "True"
    ]
    said = min(
        inactive, key=lambda each: str(each.get("reason", "")).startswith("ClusterQueue"), default=None
    )
    if said is None:
        return None
    why = QUEUE.get(str(said.get("reason", "")), f"Kueue says {said.get('reason')}")
    return _stop(Cause.NOT_TAKEN_IN, f"Its queue takes nothing in: {why}.", said, _ENGINEERS)


def _not_taken_in(queued: Body) -> Stop | None:
    said, requeued = condition_of(queued, "QuotaReserved") or {}, condition_of(queued, "Requeued") or {}
    if is_true(queued, "BlockedOnPreemptionGates"):
        gate = condition_of(queued, "BlockedOnPreemptionGates") or {}
        return _stop(Cause.NOT_TAKEN_IN, "It may not take others' place yet.", gate, _ENGINEERS)
    if requeued.get("status") == "False" and requeued.get("reason") == "Inadmissible":
        said = requeued  # what it asks of the cluster's device classes cannot be counted
    reason = str(said.get("reason", ""))
    if said.get("status") == "True" or reason in ORDINARY or reason in SENT_BACK:
        return None
    lead, frees = NOT_TAKEN_IN.get(reason, (f"Kueue does not take it in ({reason}).", _UNKNOWN))
    return _stop(Cause.NOT_TAKEN_IN, lead, said, frees)


def _reserved(queued: Body) -> Stop | None:
    """Quota is reserved, no check is open, and it is not admitted all the same."""
    if not is_true(queued, "QuotaReserved"):
        return None
    said = condition_of(queued, "Admitted") or {}
    if said.get("reason") == "PendingDelayedTopologyRequests":
        return _stop(
            Cause.CHECKED, "Its quota is reserved; Kueue looks for room close together.", said, _BY_ITSELF
        )
    words = "Its quota is reserved, and Kueue has not admitted it yet."
    return _stop(Cause.CHECKED, words, said, _UNKNOWN)


def _stop(cause: Cause, lead: str, said: Body, frees: str) -> Stop:
    message = " ".join(str(said.get("message") or "").split())[:300].rstrip(".")
    says = f" Kueue says: {message}." if message else ""
    return Stop(cause, f"{lead}{says} {frees}", frees, is_of_its_offer=frees == _OTHER_OFFER)
