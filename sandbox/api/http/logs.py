"""pods/log: tail, since, limitBytes, timestamps and follow over the cluster's log source.

Makes up no line itself.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from sandbox.api.http.requests import Request
from sandbox.api.meta import errors
from sandbox.api.meta.objects import Obj, dig, name_of, parse_time
from sandbox.api.storage.store import Place

if TYPE_CHECKING:
    from sandbox.api.cluster.simulated import Cluster

_POLL_SECONDS = 0.5
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Wanted:
    """Which lines, and how."""

    pod: Obj
    container: str
    since: datetime
    tail: int | None
    limit: int | None
    stamps: bool
    follow: bool
    previous: bool


def container_of(pod: Obj, asked: str) -> str:
    """The container asked for, else the only one; 400 as on the real server."""
    names = [
        item["name"]
        for item in (
            *dig(pod, "spec", "initContainers", default=[]),
            *dig(pod, "spec", "containers", default=[]),
        )
    ]
    main = [item["name"] for item in dig(pod, "spec", "containers", default=[])]
    if not asked and len(main) > 1:
        raise errors.bad_request(
            f"a container name must be specified for pod {name_of(pod)}, choose one of: [{' '.join(main)}]"
        )
    chosen = asked or main[0]
    if chosen not in names:
        raise errors.bad_request(f"container {chosen} is not valid for pod {name_of(pod)}")
    return chosen


def wanted(cluster: Cluster, request: Request) -> Wanted | None:
    """Read the query; None for a pod that no node runs (the real server answers 204 then)."""
    entry = cluster.store.get("pods", Place(request.info.namespace, request.info.name))
    if entry is None:
        raise errors.not_found("pods", "", request.info.name)
    query, pod = request.query, entry.obj
    container = container_of(pod, query.get("container", ""))
    if not dig(pod, "spec", "nodeName"):
        return None
    _started(pod, container)
    since = _EPOCH
    if query.get("sinceSeconds"):
        since = cluster.clock.now() - timedelta(seconds=int(query["sinceSeconds"]))
    elif query.get("sinceTime"):
        since = parse_time(query["sinceTime"])
    tail, limit = _amount(request, "tailLines", 0), _amount(request, "limitBytes", 1)
    return Wanted(
        pod,
        container,
        since,
        tail,
        limit,
        request.flag("timestamps"),
        request.flag("follow"),
        request.flag("previous"),
    )


def _amount(request: Request, key: str, least: int) -> int | None:
    """A number of the query; 400 for none, 422 for too small a one."""
    text = request.query.get(key)
    if not text:
        return None
    if not text.lstrip("-").isdigit():
        raise errors.bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax')
    if int(text) < least:
        problem = errors.invalid_value(key, int(text), f"must be greater than or equal to {least}")
        raise errors.invalid("PodLogOptions", "", request.info.name, [problem])
    return int(text)


def _state(pod: Obj, container: str) -> Obj:
    statuses = (
        *dig(pod, "status", "initContainerStatuses", default=[]),
        *dig(pod, "status", "containerStatuses", default=[]),
    )
    return next((item for item in statuses if item["name"] == container), {})


def _started(pod: Obj, container: str) -> None:
    state = _state(pod, container)
    if not state or (dig(state, "state", "waiting") and not dig(state, "lastState", "terminated")):
        reason = dig(state, "state", "waiting", "reason", default="ContainerCreating")
        raise errors.bad_request(
            f'container "{container}" in pod "{name_of(pod)}" is waiting to start: {reason}'
        )


def _window(asked: Wanted, now: datetime) -> tuple[datetime, datetime]:
    """When the container (or the one before it) ran."""
    status = _state(asked.pod, asked.container)
    if asked.previous:
        last = dig(status, "lastState", "terminated")
        if last is None:
            raise errors.bad_request(
                f'previous terminated container "{asked.container}" in pod "{name_of(asked.pod)}" not found'
            )
        return parse_time(last["startedAt"]), parse_time(last["finishedAt"])
    state = status.get("state", {})
    began = (
        dig(state, "running", "startedAt")
        or dig(state, "terminated", "startedAt")
        or asked.pod["metadata"]["creationTimestamp"]
    )
    ended = dig(state, "terminated", "finishedAt")
    # Times have whole seconds: the last words were written within the one in which the container ended.
    return parse_time(began), parse_time(ended) + timedelta(seconds=1) if ended else now


def _format(asked: Wanted, lines: Iterator[tuple[datetime, str]]) -> Iterator[bytes]:
    for moment, text in lines:
        stamp = moment.strftime("%Y-%m-%dT%H:%M:%S.%f000Z ") if asked.stamps else ""
        yield f"{stamp}{text}\n".encode()


async def stream(cluster: Cluster, asked: Wanted) -> AsyncIterator[bytes]:
    """The log, and with follow its growth until the container ends."""
    source = cluster.logs
    if source is None:
        return
    start, end = _window(asked, cluster.clock.now())
    lines = _format(asked, source.lines(asked.pod, asked.container, max(start, asked.since), end))
    first = b"".join(deque(lines, maxlen=asked.tail) if asked.tail is not None else lines)
    yield first[: asked.limit] if asked.limit is not None else first
    while asked.follow:
        await asyncio.sleep(_POLL_SECONDS)
        place = Place(asked.pod["metadata"]["namespace"], name_of(asked.pod))
        entry = cluster.store.get("pods", place)
        now = cluster.clock.now()
        state = {} if entry is None else _state(entry.obj, asked.container).get("state", {})
        finished = dig(state, "terminated", "finishedAt")
        upto = parse_time(finished) + timedelta(seconds=1) if finished else now
        chunk = (
            b"".join(_format(asked, source.lines(asked.pod, asked.container, end, upto)))
            if upto > end
            else b""
        )
        end = max(end, upto)
        if chunk:
            yield chunk
        if entry is None or "running" not in state:
            return
