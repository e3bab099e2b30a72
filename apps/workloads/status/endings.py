"""How a pod's container ended, in words, from its status as the kubelet writes it. Pure."""

import signal
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

Body = Mapping[str, Any]

_SIGNALLED = 128
OUT_OF_MEMORY = "OOMKilled"


def ending_of(pods: Iterable[Body]) -> str:
    """How the container that ended last ended, as a sentence; empty where none did, or ended well. Where its
    node or the cluster ended the whole pod, that is the cause.
    """
    known = list(pods)
    ended = [(str(each.get("finishedAt") or ""), pod, each) for pod in known for each in _terminated([pod])]
    if not ended:
        return next(filter(None, map(_taken, known)), "")
    _, pod, last = max(ended, key=lambda each: each[0])
    return _taken(pod) or _sentence(last)


def restarts_of(pods: Iterable[Body]) -> int:
    """How often its containers were started again in place."""
    return sum(int(each.get("restartCount") or 0) for each in _containers(pods))


def _containers(pods: Iterable[Body]) -> Iterator[Body]:
    for pod in pods:
        yield from pod.get("status", {}).get("containerStatuses") or []


def _terminated(pods: Iterable[Body]) -> Iterator[Body]:
    """Both the state that a container is in and the one before: the kubelet may have started it again."""
    for container in _containers(pods):
        for state in ("state", "lastState"):
            ended = (container.get(state) or {}).get("terminated")
            if ended:
                yield ended


def _taken(pod: Body) -> str:
    """That its node ended the pod (kubelet: status.reason, such as Evicted), or that the cluster did, as the
    condition DisruptionTarget says.
    """
    status = pod.get("status", {})
    if status.get("phase") == "Failed" and status.get("reason"):
        return _pod_ended("Its node ended it", str(status["reason"]), str(status.get("message") or ""))
    marks = (each for each in status.get("conditions") or () if each.get("type") == "DisruptionTarget")
    mark = next((each for each in marks if each.get("status") == "True"), None)
    if mark is None:
        return ""
    return _pod_ended("The cluster ended its pod", str(mark.get("reason")), str(mark.get("message") or ""))


def _pod_ended(who: str, reason: str, words: str) -> str:
    return f"{who} ({reason}): {words.strip().rstrip('.')}." if words else f"{who} ({reason})."


def _sentence(ended: Body) -> str:
    code = int(ended.get("exitCode") or 0)
    if ended.get("reason") == OUT_OF_MEMORY:
        return f"It used more memory than it asked for and was killed ({OUT_OF_MEMORY}, exit code {code})."
    if code > _SIGNALLED:
        return f"It was ended by {_signal(code - _SIGNALLED)} (exit code {code})."
    return f"It ended with exit code {code}." if code else ""


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
