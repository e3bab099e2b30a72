"""How many replicas of a service answer, from its Deployment and its pods. Pure."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypedDict

from apps.cluster.objects.quantities import whole_number

Body = Mapping[str, Any]


class Replicas(TypedDict):
    """`wanted` shall answer, `ready` do, `updated` are as asked for now, `waiting` are in the queue."""

    wanted: int
    ready: int
    updated: int
    waiting: int


def count(
    controller: Body | None, pods: Iterable[Body], *, wanted: int, is_ready: Callable[[Body], bool]
) -> Replicas:
    """RULE: a pod that goes still ends what it has begun, and counts no more."""
    staying = [pod for pod in pods if not pod.get("metadata", {}).get("deletionTimestamp")]
    return Replicas(
        wanted=wanted,
        ready=sum(map(is_ready, staying)),
        updated=whole_number((controller or {}).get("status", {}).get("updatedReplicas", 0)),
        waiting=sum(bool(pod.get("spec", {}).get("schedulingGates")) for pod in staying),
    )


def words(found: Replicas | None) -> str:
    """`2 of 3 replicas answer. 1 waits in the queue.`; empty of what has none."""
    if found is None:
        return ""
    wanted, waits = found["wanted"], found["waiting"]
    said = f"{found['ready']} of {wanted} replicas answer." if wanted > 1 else "It answers."
    return f"{said} {waits} wait{'' if waits > 1 else 's'} in the queue." if waits else said
