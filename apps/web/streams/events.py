"""Live hints from the writer to open pages and REST streams, over a stream in Redis (`apps.web.streams.hub`).

A hint names what changed and carries no content: whoever gets one asks again, with their own rights. Losing
one is harmless, so publishing never raises and never takes longer than half a second.
"""

import json
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import asdict, dataclass
from datetime import datetime
from functools import cache
from threading import Event
from typing import Any
from uuid import UUID

import redis
from django.conf import settings
from django.db import transaction
from redis.exceptions import RedisError

from apps.web import counters
from apps.web.stores import outage, silence
from apps.web.streams.hub import GAP, KEPT, KEPT_SECONDS, LOST, MOST_KEPT, PATIENCE_SECONDS, Ear, Heard, hub
from apps.web.streams.streaming import beat

ACCESS_CHANGED = "access.changed"
RESET = b"event: reset\ndata: {}\n\n"
BEAT_SECONDS = 15.0
GATHER_SECONDS = 0.25

Render = Callable[[Heard], bytes]
Hurry = Callable[[], None]
_gap = Event()


@dataclass(frozen=True)
class Fact:
    """REST's event in full: null where nothing is known. A hint only; whoever hears it fetches the object."""

    type: str
    at: datetime
    object: str
    id: str | None = None
    tenant: str | None = None
    generation: int | None = None
    phase: str | None = None

    def as_data(self) -> dict[str, Any]:
        """What `publish` takes."""
        return asdict(self) | {"at": self.at.isoformat()}


def publish(topics: Iterable[str], *, part: str | None, data: Mapping[str, Any]) -> None:
    """After the commit, tell whoever listens to one of the topics (`workload:<uuid>`, `tenant:<slug>`, ...).

    `part` names the page's parts that changed, separated by spaces; `data` is REST's event with its `type`.
    """
    publish_parts(dict.fromkeys(topics, part), data=data)


def publish_parts(parts: Mapping[str, str | None], *, data: Mapping[str, Any]) -> None:
    """As `publish` for several topics at once, with different parts for each."""
    publish_all([(parts, data)])


def publish_all(hints: Sequence[tuple[Mapping[str, str | None], Mapping[str, Any]]]) -> None:
    """As `publish_parts`, of several hints in one trip to Redis."""
    told = [
        {
            "topics": " ".join(parts),
            "parts": json.dumps(parts),
            "data": json.dumps(dict(data), default=str),
        }
        for parts, data in hints
    ]
    if told:
        transaction.on_commit(lambda: _send(told), robust=True)


def access_changed(user_id: UUID) -> None:
    """After the commit, have the rights of this user's open streams looked at, at once: they would be anyway,
    see `apps.tenants.live.services.stream_guard`.
    """
    publish([f"user:{user_id}"], part=None, data={"type": ACCESS_CHANGED})


def as_parts(heard: Heard) -> bytes:
    """For pages: one event `part` per named part."""
    parts = dict.fromkeys(heard.part.split())
    return b"".join(f"event: part\ndata: {part}\n\n".encode() for part in parts)


def as_events(heard: Heard) -> bytes:
    """For REST: the event under its own type, with its JSON."""
    told = json.dumps(heard.data, separators=(",", ":"))
    return f"event: {heard.data['type']}\ndata: {told}\n\n".encode()


async def stream(
    topics: Iterable[str], render: Render, hurry: Hurry, *, has_ids: bool = False, since: str | None = None
) -> AsyncGenerator[bytes, None]:
    """Server-sent events until Redis goes or the client is too far behind; the guard is hurried when access
    changed.

    The first event after a pause goes out at once; equal ones within the quarter of a second after it become
    one. A stream that ends makes the client connect again: a page then refreshes every part once, REST says
    with `since` which id it has heard last, and gets what came after it, or `reset` where that is not known
    in full.
    """
    told = _Told(render, hurry, has_ids)
    try:
        async with hub().listen(topics) as ear:
            yield b"retry: 3000\n\n"
            if since is not None:
                missed = await ear.missed(since)
                yield RESET if missed is None else told.together(missed)
            yield told.at(ear.position, beat())
            async with aclosing(_chunks(ear, told)) as chunks:
                async for chunk in chunks:
                    yield chunk
    except RedisError as error:
        outage.redis.note(error)
        counters.FAILED_OPEN.labels("live stream").inc()


@dataclass(frozen=True)
class _Told:
    """How entries are told to one client."""

    render: Render
    hurry: Hurry
    has_ids: bool

    def together(self, entries: Iterable[Heard]) -> bytes:
        """Equal ones once, at the place of the last."""
        bodies: dict[bytes, str] = {}
        for heard in entries:
            if heard.data.get("type") == ACCESS_CHANGED:
                self.hurry()
            elif body := self._body(heard):
                bodies.pop(body, None)
                bodies[body] = heard.id
        return b"".join(self.at(place, body) for body, place in bodies.items())

    def _body(self, heard: Heard) -> bytes:
        if heard.data == LOST:
            return RESET if self.has_ids else b""
        return self.render(heard)

    def at(self, place: str, body: bytes) -> bytes:
        """With the id from which the client goes on."""
        return f"id: {place}\n".encode() + body if self.has_ids and place else body


async def _chunks(ear: Ear, told: _Told) -> AsyncGenerator[bytes, None]:
    pending: list[Heard] = []
    beat_at, flush_at = time.monotonic() + BEAT_SECONDS, 0.0
    while not ear.ended:
        until = min(beat_at, flush_at) if pending else beat_at
        heard = await ear.take(until - time.monotonic())
        pending += [heard] if heard else []
        now = time.monotonic()
        # What has come together goes out together; a storm that never pauses goes out all the same.
        if pending and now >= flush_at and (heard is None or now >= flush_at + GATHER_SECONDS):
            if chunk := told.together(pending):
                yield chunk
                flush_at = now + GATHER_SECONDS
            pending = []
        if now >= beat_at and not pending:
            beat_at = now + BEAT_SECONDS
            yield told.at(ear.position, beat())


@cache
def _publisher() -> "redis.Redis":
    return redis.Redis.from_url(
        settings.CONFIG.redis_url, socket_connect_timeout=PATIENCE_SECONDS, socket_timeout=PATIENCE_SECONDS
    )


def _send(told: Sequence[Mapping[str, str]]) -> None:
    if silence.holds():
        _lost()
        return
    oldest = int((time.time() - KEPT_SECONDS) * 1000)
    try:
        pipe = _publisher().pipeline(transaction=False)
        if _gap.is_set():
            pipe.xadd(KEPT, {GAP: "1"})
        for hint in told:
            pipe.xadd(KEPT, dict(hint.items()), maxlen=MOST_KEPT)
        pipe.xtrim(KEPT, minid=str(oldest))
        pipe.execute()
    except RedisError as error:
        # A hint: pages poll when none comes.
        silence.note(error)
        _lost()
    else:
        _gap.clear()


def _lost() -> None:
    """Marks the next entry, so that listeners start over."""
    _gap.set()
    counters.FAILED_OPEN.labels("live hint").inc()
