"""Where a Kueue Workload stands and in which order its queue is served. Pure.

Source: Kueue v0.19 v1beta2, `workload.Ordering` and the queue's heap. Admits nothing: Kueue does.
"""

from collections.abc import Mapping
from typing import Any

from apps.words import Word

_HIGHEST = 2**31
_SENT_BACK = ("PodsReadyTimeout", "AdmissionCheck")


class QueueState(Word):
    """What a Kueue Workload does to its queue; a finished one does nothing."""

    WAITS = "waits", "Waits for quota"
    HOLDS = "holds", "Holds quota"
    HELD = "held", "Held: it does not queue"


def state_of(workload: Mapping[str, Any]) -> str:
    """A QueueState, or "" once it is finished."""
    true = _true(workload)
    if "Finished" in true:
        return ""
    if "QuotaReserved" in true:
        return QueueState.HOLDS
    return QueueState.WAITS if workload.get("spec", {}).get("active", True) else QueueState.HELD


def rank_of(workload: Mapping[str, Any]) -> str:
    """Sorts a queue as text: higher priority first, then whoever came first, then by uid.

    RULE (Kueue): who was sent back because its pods did not become ready queues from that moment on.
    """
    metadata, spec = workload.get("metadata", {}), workload.get("spec", {})
    since = metadata.get("creationTimestamp") or ""
    for condition in workload.get("status", {}).get("conditions") or ():
        if (condition.get("type"), condition.get("status")) == ("Evicted", "True"):
            since = condition.get("lastTransitionTime") if condition.get("reason") in _SENT_BACK else since
    return at_priority(f" {since} {metadata.get('uid', '')}", int(spec.get("priority") or 0))


def at_priority(rank: str, priority: int) -> str:
    """The rank that the same one would have with another priority."""
    _, _, place = rank.partition(" ")
    return f"{_HIGHEST - priority:010d} {place}"


def _true(workload: Mapping[str, Any]) -> set[str]:
    conditions = workload.get("status", {}).get("conditions") or ()
    return {condition["type"] for condition in conditions if condition.get("status") == "True"}
