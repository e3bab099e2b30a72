"""Where a Kueue Workload stands and in which order its queue is served. Pure.

Source: Kueue v0.19 v1beta2, `workload.Ordering` and the queue's heap. Admits nothing: Kueue does.
"""

from collections.abc import Mapping
from typing import Any

from apps.words import Word

_HIGHEST = 2**31
MOST_ASKED = 256
"""Of the letters that are kept of what one asks for: an offer's name has a third of them at most."""
CORES_OF = "coresOf"
"""Of a pod set in the mirror: the flavor on whose cores it asked to run without a device."""
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


def asks_of(workload: Mapping[str, Any]) -> str:
    """The devices that a trimmed one asks for, by resource name, or on which flavor's cores it runs. RULE
    (BestEffortFIFO): only who asks for the same waits behind it.
    """
    pod_sets = workload.get("spec", {}).get("podSets") or ()
    asked = {
        name
        for pod_set in pod_sets
        for container in pod_set.get("resources") or ()
        for name in {**(container.get("requests") or {}), **(container.get("limits") or {})}
        if "/" in name
    }
    asked |= {f"cpu/{pod_set[CORES_OF]}" for pod_set in pod_sets if CORES_OF in pod_set}
    return " ".join(sorted(asked))[:MOST_ASKED]


def at_priority(rank: str, priority: int) -> str:
    """The rank that the same one would have with another priority."""
    _, _, place = rank.partition(" ")
    return f"{_HIGHEST - priority:010d} {place}"


def _true(workload: Mapping[str, Any]) -> set[str]:
    conditions = workload.get("status", {}).get("conditions") or ()
    return {condition["type"] for condition in conditions if condition.get("status") == "True"}
