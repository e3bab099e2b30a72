"""How kubectl sums a pod up: ready containers, one word of status, restarts. Reads the pod's status only."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from sandbox.api.meta.objects import Obj, dig, parse_time

_INIT = "Init:"


def pod_ready(obj: Obj, _now: datetime) -> str:
    """`1/2`: ready of all containers."""
    statuses = dig(obj, "status", "containerStatuses", default=[])
    ready = sum(1 for item in statuses if item.get("ready") and item.get("state", {}).get("running"))
    return f"{ready}/{len(dig(obj, 'spec', 'containers', default=[]))}"


def _waits(state: Obj) -> str:
    reason = dig(state, "waiting", "reason", default="")
    if reason:
        return str(reason)
    ended = state.get("terminated")
    if not ended:
        return ""
    if ended.get("reason"):
        return str(ended["reason"])
    return f"Signal:{ended['signal']}" if ended.get("signal") else f"ExitCode:{ended.get('exitCode', 0)}"


def _initializing(obj: Obj) -> str:
    statuses = dig(obj, "status", "initContainerStatuses", default=[])
    for index, item in enumerate(statuses):
        state = item.get("state", {})
        if dig(state, "terminated", "exitCode") == 0 and state.get("terminated"):
            continue
        if state.get("terminated"):
            return _INIT + _waits(state)
        reason = dig(state, "waiting", "reason", default="")
        if reason and reason != "PodInitializing":
            return f"{_INIT}{reason}"
        return f"{_INIT}{index}/{len(dig(obj, 'spec', 'initContainers', default=[]))}"
    return ""


def pod_status(obj: Obj, _now: datetime) -> str:
    """The word in kubectl's STATUS column."""
    reason = str(dig(obj, "status", "reason", default=dig(obj, "status", "phase", default="")))
    scheduled: Obj = next(
        (item for item in dig(obj, "status", "conditions", default=[]) if item.get("type") == "PodScheduled"),
        {},
    )
    if scheduled.get("reason") == "SchedulingGated":
        reason = "SchedulingGated"
    starting = _initializing(obj)
    reason = starting or _running(obj, reason)
    if obj["metadata"].get("deletionTimestamp"):
        return "Unknown" if dig(obj, "status", "reason") == "NodeLost" else "Terminating"
    return reason


def _running(obj: Obj, reason: str) -> str:
    alive = False
    for item in reversed(dig(obj, "status", "containerStatuses", default=[])):
        state = item.get("state", {})
        reason = _waits(state) or reason
        alive = alive or bool(item.get("ready") and state.get("running"))
    if reason == "Completed" and alive:
        ready = any(
            item.get("type") == "Ready" and item.get("status") == "True"
            for item in dig(obj, "status", "conditions", default=[])
        )
        return "Running" if ready else "NotReady"
    return reason


def pod_restarts(obj: Obj, now: datetime, age: Callable[[datetime, datetime], str]) -> str:
    """`3 (5m ago)`."""
    statuses = dig(obj, "status", "containerStatuses", default=[])
    count = sum(int(item.get("restartCount", 0)) for item in statuses)
    ended = [dig(item, "lastState", "terminated", "finishedAt") for item in statuses]
    latest = max((text for text in ended if text), default="")
    return f"{count} ({age(parse_time(latest), now)} ago)" if count and latest else str(count)
