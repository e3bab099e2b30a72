"""When which device was held by whom: claims and pods in, half-open intervals out. Pure.

Source: resource.k8s.io/v1 ResourceClaim `status.allocation` and the pod it is reserved for.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from operator import eq
from typing import Any

from apps.cluster.mirror.rules.hardware import GPU_DRIVER, consumed

Body = Mapping[str, Any]
_NEVER = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True)
class Fact:
    """One device given to one claim, or the cores of a pod (`cores`, else 0), in [started_at, ended_at); open
    while `ended_at` is None. `is_shared`: others may hold what is called so at the same time.
    `is_start_seen`: the start is when it was seen, because the cluster does not say when it was. `memory`: of
    shares of a device (consumable capacity) the bytes that they consume, else None.
    """

    claim_uid: str
    device: str
    node: str
    started_at: datetime
    ended_at: datetime | None
    cores: int = 0
    is_shared: bool = False
    is_start_seen: bool = False
    memory: int | None = None


@dataclass(frozen=True)
class Claim:
    """A claim as the mirror knows it.

    `owner` is the workload's id, `gone_at` when its deletion was seen, `pod` the one it was made for,
    `seen_at` when it was first seen as it is.
    """

    uid: str
    owner: str
    body: Body
    gone_at: datetime | None
    pod: Body | None
    pod_gone_at: datetime | None
    seen_at: datetime | None = None


@dataclass(frozen=True)
class Shares:
    """A pod that holds shares of a device plugin: `count` of what the plugin calls `resource`."""

    uid: str
    resource: str
    count: int
    body: Body
    gone_at: datetime | None


def share_facts(pods: Iterable[Shares]) -> list[Fact]:
    """RULE: a share is held from the pod's start on its node until its last container has ended, or until
    the pod is gone.

    Which GPU the kubelet took is not told: each share is a line of its own, named by node and resource. The
    pod's uid stands for the claim that there is none of.
    """
    return [fact for pod in pods for fact in _shares_of(pod)]


def core_facts(pods: Iterable[Shares]) -> list[Fact]:
    """RULE: a pod without a device holds what it asked for, `count` cores, as long as shares are held."""
    return [
        replace(fact, device=f"{fact.node}/{pod.resource}", cores=pod.count)
        for pod in pods
        for fact in _shares_of(replace(pod, count=1))
    ]


def _shares_of(pod: Shares) -> list[Fact]:
    node = str((pod.body.get("spec") or {}).get("nodeName", ""))
    started_at = _time((pod.body.get("status") or {}).get("startTime"))
    if not node or started_at is None:
        return []
    ended_at = min((at for at in (_pod_end(pod.body), pod.gone_at) if at), default=None)
    if ended_at is not None:
        ended_at = max(started_at, ended_at)
    return [
        Fact(pod.uid, f"{node}/{pod.resource}#{index}", node, started_at, ended_at, is_shared=True)
        for index in range(pod.count)
    ]


def facts(claims: Iterable[Claim]) -> list[Fact]:
    """RULE: an interval begins at the claim's allocationTimestamp; where it has none, with its pod or when
    the claim was seen, whichever is first. It ends when its pod has ended, or when pod or claim is gone,
    whichever is first. What was never allocated is nothing; a claim's shares of one device are one interval.

    The field "is not guaranteed to be set": the scheduler writes it where the feature gates
    DRADeviceBindingConditions and DRAResourceClaimDeviceStatus are on (resource.k8s.io/v1 AllocationResult).
    """
    return [fact for claim in claims for fact in _of(claim)]


def before_the_next(held: Iterable[Fact], are_one: Callable[[str, str], bool] = eq) -> list[Fact]:
    """Those that end later than the device's next holder begins, ended where that begins. `are_one` tells of
    two devices whether nobody can have one while somebody has the other.

    RULE: an end is at most the start of the next holder. A start is the scheduler's word, in whole seconds;
    an end is seen late; and the scheduler gives a device to nobody before its holder has let go.
    """
    in_order = sorted(held, key=lambda fact: (fact.started_at, fact.ended_at or _NEVER))
    cut = (_cut(fact, in_order[place:], are_one) for place, fact in enumerate(in_order, 1))
    return [fact for fact in cut if fact]


def _cut(fact: Fact, later: Iterable[Fact], are_one: Callable[[str, str], bool]) -> Fact | None:
    for each in later:
        if fact.ended_at is None or each.started_at >= fact.ended_at:
            break
        if are_one(fact.device, each.device):
            return replace(fact, ended_at=each.started_at)
    return None


def _of(claim: Claim) -> list[Fact]:
    allocation = _allocation(claim.body)
    given_at = _time(allocation.get("allocationTimestamp"))
    started_at = given_at or _seen(claim)
    if started_at is None:
        return []
    ended_at = _end(claim)
    if ended_at is not None:
        ended_at = max(started_at, ended_at)
    node = str(((claim.pod or {}).get("spec") or {}).get("nodeName", ""))
    results = (allocation.get("devices") or {}).get("results") or ()
    shares = consumed(results)
    return [
        Fact(
            claim.uid,
            f"{pool}/{device}",
            node or pool,
            started_at,
            ended_at,
            is_shared=(driver, pool, device) in shares,
            is_start_seen=given_at is None,
            memory=shares.get((driver, pool, device)),
        )
        for driver, pool, device in dict.fromkeys((r["driver"], r["pool"], r["device"]) for r in results)
        if driver == GPU_DRIVER
    ]


def _allocation(body: Body) -> Body:
    """What it holds, or held: the server clears the allocation before it deletes the claim."""
    held = (body.get("status") or {}).get("allocation")
    return held or (body.get("released") or {}).get("allocation") or {}


def _seen(claim: Claim) -> datetime | None:
    """When it was held at the latest."""
    began = _time(((claim.pod or {}).get("status") or {}).get("startTime"))
    return min((at for at in (began, claim.seen_at) if at), default=None)


def _end(claim: Claim) -> datetime | None:
    released_at = _time((claim.body.get("released") or {}).get("at"))
    known = [
        at for at in (_pod_end(claim.pod), claim.pod_gone_at, released_at, claim.gone_at) if at is not None
    ]
    return min(known, default=None)


def _pod_end(pod: Body | None) -> datetime | None:
    """When its last container ended, for a pod that will not run again; the kubelet's own times."""
    status = (pod or {}).get("status") or {}
    if status.get("phase") not in ("Succeeded", "Failed"):
        return None
    ends = [
        _time(((container.get("state") or {}).get("terminated") or {}).get("finishedAt"))
        for container in status.get("containerStatuses") or ()
    ]
    return max((at for at in ends if at), default=None)


def _time(value: object) -> datetime | None:
    return datetime.fromisoformat(value) if isinstance(value, str) and value else None
