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


def is_leaving(pod: Body) -> bool:
    """Whether it is being removed; on a lost node that may last for ever."""
    return bool(pod.get("metadata", {}).get("deletionTimestamp"))
