"""How a pod's container ended, in words, from its status as the kubelet writes it. Pure."""

import signal
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

Body = Mapping[str, Any]

_SIGNALLED = 128
OUT_OF_MEMORY = "OOMKilled"


def ending_of(pods: Iterable[Body]) -> str:
    """How the container that ended last ended, as a sentence; empty where none did, or ended well."""
    ended = sorted(_terminated(pods), key=lambda each: str(each.get("finishedAt") or ""))
    return _sentence(ended[-1]) if ended else ""


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
