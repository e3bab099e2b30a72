"""Whether the scheduler finds a node for a workload's pods. Pure.

Source: core/v1 PodCondition PodScheduled and its reasons PodReasonUnschedulable and PodReasonSchedulingGated.
The reason decides; the message is only shown.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from apps.cluster.objects.conditions import Fact, condition, find

Body = Mapping[str, Any]
POD_SCHEDULED = "PodScheduled"
UNSCHEDULABLE = "Unschedulable"
GATED = "SchedulingGated"


def refusal(pods: Iterable[Body]) -> Body | None:
    """The condition of the first pod that the scheduler has looked at and could not place; None: no such."""
    known = (find(_status(pod).get("conditions") or [], POD_SCHEDULED) for pod in _living(pods))
    refused = (each for each in known if each and each["status"] == "False")
    return next((each for each in refused if each.get("reason") != GATED), None)


def fits_no_node(pods: Iterable[Body]) -> bool:
    """RULE: the scheduler has no place for a pod of it, and none of its pods is on a node. What fits in part
    holds devices already: it is starting.
    """
    living = _living(pods)
    is_placed = any((pod.get("spec") or {}).get("nodeName") for pod in living)
    return not is_placed and (refusal(living) or {}).get("reason") == UNSCHEDULABLE


def fact(refused: Body | None, before: Iterable[Any]) -> list[Fact]:
    """As a row keeps it, so that it knows since when. Nothing of what was never refused."""
    if refused is not None:
        reason, message = str(refused.get("reason", "")), str(refused.get("message", ""))
        return [condition(POD_SCHEDULED, False, reason, message)]
    if find(before, POD_SCHEDULED):
        return [condition(POD_SCHEDULED, None, "NoneWaits", "No pod of it waits for a node.")]
    return []


def is_unschedulable(conditions: Iterable[Any]) -> bool:
    """Whether Kueue let it in and the scheduler finds no place for a pod of it, by a row's conditions."""
    known = find(conditions, POD_SCHEDULED)
    return known is not None and (known["status"], known["reason"]) == ("False", UNSCHEDULABLE)


def _living(pods: Iterable[Body]) -> list[Body]:
    return [
        pod
        for pod in pods
        if not pod.get("metadata", {}).get("deletionTimestamp")
        and _status(pod).get("phase") not in ("Succeeded", "Failed")
    ]


def _status(pod: Body) -> Body:
    status: Body = pod.get("status") or {}
    return status
