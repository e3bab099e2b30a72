"""How a workload's pods ended, in words, from their status as the kubelet writes it. Pure."""

import signal
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from apps.workloads.status.containers import ends_of, has_ended, has_run, is_leaving, main_of, statuses_of

Body = Mapping[str, Any]

_SIGNALLED = 128
OUT_OF_MEMORY = "OOMKilled"
NOT_STARTED = ("StartError", "ContainerCannotRun")
"""Reasons of a container whose command could not be run at all (containerd and the kubelet)."""
_OF_SHELLS = {126: "its command cannot be run", 127: "its command was not found"}
"""What a shell ends with where it cannot start what it was told to."""


class _End(NamedTuple):
    """How a pod ended; of several the greatest is told."""

    is_bad: bool
    is_own: bool
    """Nobody removes it: it ended by itself, and not for another's sake."""
    at: str
    words: str


def ending_of(pods: Iterable[Body]) -> str:
    """What ended them, as a sentence; empty where nothing did, or all ended well. Where its node or the
    cluster ended a whole pod, that is the cause.

    RULE: what failed comes before what ended well, what failed by itself before what was removed for it, and
    of these the last.
    """
    ends = [end for pod in pods if (end := _end(pod))]
    return max(ends).words if ends else ""


def restarts_of(pods: Iterable[Body]) -> int:
    """How often its containers were started again in place."""
    return sum(int(each.get("restartCount") or 0) for pod in pods for each in main_of(pod))


def in_short(pod: Body) -> str:
    """The same of one pod in two words, such as `exit 1`; empty where it is not known."""
    status = pod.get("status") or {}
    if has_ended(pod) and status.get("reason"):
        return str(status["reason"])
    failed = [each for each in ends_of(pod) if _is_bad(each)]
    if not failed:
        return ""
    last = max(failed, key=_at)
    return OUT_OF_MEMORY if last.get("reason") == OUT_OF_MEMORY else f"exit {last.get('exitCode')}"


def taken(pod: Body) -> str:
    """That its node ended the pod (kubelet: status.reason, such as Evicted), or that the cluster did, as the
    condition DisruptionTarget says.
    """
    status = pod.get("status") or {}
    if status.get("phase") == "Failed" and status.get("reason"):
        return _pod_ended("Its node ended it", str(status["reason"]), str(status.get("message") or ""))
    marks = (each for each in status.get("conditions") or () if each.get("type") == "DisruptionTarget")
    mark = next((each for each in marks if each.get("status") == "True"), None)
    if mark is None:
        return ""
    return _pod_ended("The cluster ended its pod", str(mark.get("reason")), str(mark.get("message") or ""))


def ended_by_node(pod: Body) -> str:
    """What ended a pod that has failed, or that its node refused it before anything of it ran."""
    status = pod.get("status") or {}
    if status.get("reason") and not any(map(has_run, statuses_of(pod))):
        words = str(status.get("message") or status["reason"])
        return f"Its node refused it: {words.strip().rstrip('.')}."
    return ending_of([pod])


def _end(pod: Body) -> _End | None:
    ends, gone = ends_of(pod), taken(pod)
    if not ends and not gone:
        return None
    last = max([each for each in ends if _is_bad(each)] or ends or [{}], key=_at)
    words = gone or _sentence(last)
    return _End(bool(words), not is_leaving(pod), _at(last), words)


def _at(ended: Body) -> str:
    return str(ended.get("finishedAt") or "")


def _is_bad(ended: Body) -> bool:
    return bool(ended.get("exitCode")) or ended.get("reason") == OUT_OF_MEMORY


def _pod_ended(who: str, reason: str, words: str) -> str:
    return f"{who} ({reason}): {words.strip().rstrip('.')}." if words else f"{who} ({reason})."


def _sentence(ended: Body) -> str:
    code, said = int(ended.get("exitCode") or 0), str(ended.get("message") or "").strip().rstrip(".")
    if ended.get("reason") == OUT_OF_MEMORY:
        return f"It used more memory than it asked for and was killed ({OUT_OF_MEMORY}, exit code {code})."
    if ended.get("reason") in NOT_STARTED:
        return f"Its command could not be started: {said or ended['reason']}."
    if code > _SIGNALLED:
        return f"It was ended by {_signal(code - _SIGNALLED)} (exit code {code})."
    known = f": {_OF_SHELLS[code]}" if code in _OF_SHELLS else ""
    return f"It ended with exit code {code}{known}." if code else ""


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
