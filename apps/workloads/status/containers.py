"""What the kubelet says of a pod and of its containers, init containers among them. Pure.

Source: core/v1 PodStatus and ContainerStatus.
"""

from collections.abc import Mapping
from typing import Any

Body = Mapping[str, Any]
PLAIN = (None, "ContainerCreating", "PodInitializing")
"""Why a container waits that starts as it should."""


def main_of(pod: Body) -> list[Body]:
    """The statuses of its containers without those that run before them."""
    return (pod.get("status") or {}).get("containerStatuses") or []


def statuses_of(pod: Body) -> list[Body]:
    """The statuses of all its containers, those that run first before the others."""
    return [*((pod.get("status") or {}).get("initContainerStatuses") or []), *main_of(pod)]


def has_run(status: Body) -> bool:
    """Whether a container runs or has run."""
    state, before = status.get("state") or {}, status.get("lastState") or {}
    return any(each.get(name) for each in (state, before) for name in ("running", "terminated"))


def failed_before(pod: Body) -> str:
    """The first of its init containers that failed and keeps the others from running; empty: none does."""
    if any(map(has_run, main_of(pod))):
        return ""
    inits = (pod.get("status") or {}).get("initContainerStatuses") or []
    return next((str(each.get("name", "")) for each in inits if _failed(each)), "")


def _failed(status: Body) -> bool:
    """RULE: in the state that it is in, or before it was started again; one that then succeeded did not."""
    state, before = status.get("state") or {}, status.get("lastState") or {}
    ended = state.get("terminated") or before.get("terminated") or {}
    return bool(ended.get("exitCode") or ended.get("signal"))


def waiting_of(pod: Body) -> list[Body]:
    """Of each of its containers why it waits; empty of one that does not."""
    return [(container.get("state") or {}).get("waiting") or {} for container in statuses_of(pod)]


def stuck(pod: Body) -> Body | None:
    """Why the first of its containers that cannot start waits."""
    return next((waiting for waiting in waiting_of(pod) if waiting.get("reason") not in PLAIN), None)


def ends_of(pod: Body) -> list[Body]:
    """How each of its containers ended last: in the state that it is in, or in the one before, from which the
    kubelet has started it again.
    """
    states = ([each.get("state") or {}, each.get("lastState") or {}] for each in statuses_of(pod))
    known = (
        next((state["terminated"] for state in pair if state.get("terminated")), None) for pair in states
    )
    return [ended for ended in known if ended]


def has_ended(pod: Body) -> bool:
    """Whether nothing of it runs any more, nor will."""
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def has_failed(pod: Body) -> bool:
    """Whether it has ended, and not well."""
    return (pod.get("status") or {}).get("phase") == "Failed"


def is_leaving(pod: Body) -> bool:
    """Whether it is being removed; on a lost node that may last for ever."""
    return bool(pod.get("metadata", {}).get("deletionTimestamp"))
