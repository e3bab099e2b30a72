"""Live hints from the writer to open pages and REST streams, over Redis publish/subscribe.

A hint names what changed and carries no content: whoever gets one asks again, with their own rights. Losing
one is harmless, so publishing never raises and never takes longer than half a second.
"""

import json
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from functools import cache
from typing import Any
from uuid import UUID

import redis
import redis.asyncio
from asgiref.sync import sync_to_async
from django.conf import settings
from django.db import close_old_connections, transaction
from django.http import StreamingHttpResponse
from redis.exceptions import RedisError

from apps.web import counters, silence

log = logging.getLogger(__name__)
CHANNEL = "allotment:live:"
ACCESS_CHANGED = "access.changed"
BEAT_SECONDS = 15.0
GATHER_SECONDS = 0.25
PATIENCE_SECONDS = 0.4

Render = Callable[[Mapping[str, Any]], bytes]
Recheck = Callable[[], Awaitable[bool]]


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
    """As `publish`, at one go for several topics: other parts for each."""
    told = [
        (CHANNEL + topic, json.dumps({"part": part, "data": dict(data)}, default=str))
        for topic, part in parts.items()
    ]
    transaction.on_commit(lambda: _send(told), robust=True)


def access_changed(user_id: UUID) -> None:
    """After the commit, make every open stream of this user check its rights again, at once."""
    publish([f"user:{user_id}"], part=None, data={"type": ACCESS_CHANGED})


def as_parts(message: Mapping[str, Any]) -> bytes:
    """For pages: one event `part` per named part."""
    parts = (message["part"] or "").split()
    return b"".join(f"event: part\ndata: {part}\n\n".encode() for part in parts)


def as_events(message: Mapping[str, Any]) -> bytes:
    """For REST: the event under its own type, with its JSON."""
    data = message["data"]
    if data.get("type") == ACCESS_CHANGED:
        return b""
    return f"event: {data['type']}\ndata: {json.dumps(data, separators=(',', ':'))}\n\n".encode()


def sse(topics: Iterable[str], render: Render, recheck: Recheck) -> StreamingHttpResponse:
    """The answer that streams these topics; the caller has checked that each is allowed."""
    response = StreamingHttpResponse(stream(topics, render, recheck), content_type="text/event-stream")
    response["Cache-Control"] = "no-store"
    response["X-Accel-Buffering"] = "no"
    return response


async def stream(topics: Iterable[str], render: Render, recheck: Recheck) -> AsyncIterator[bytes]:
    """Server-sent events until the client goes, Redis goes, or `recheck` says no.

    `recheck` is asked at every beat and whenever access changed. The first event after a pause goes out at
    once; equal ones within the quarter of a second after it become one. A stream that ends makes the browser
    connect again, and a page then refreshes every part once.
    """
    client = redis.asyncio.Redis.from_url(settings.CONFIG.redis_url, socket_connect_timeout=PATIENCE_SECONDS)
    subscription = client.pubsub(ignore_subscribe_messages=True)

    async def may_stay() -> bool:
        try:
            return await recheck()
        finally:
            # The next look is far away: its connection to the database is for others meanwhile.
            await sync_to_async(close_old_connections)()

    try:
        await subscription.subscribe(*(CHANNEL + topic for topic in topics))
        yield b"retry: 3000\n\n" + _beat()
        async for chunk in _chunks(subscription, render, may_stay):
            yield chunk
    except RedisError as error:
        log.warning("a live stream ended: %s", error)
        counters.FAILED_OPEN.labels("live stream").inc()
    finally:
        await subscription.aclose()  # type: ignore[no-untyped-call]
        await client.aclose()


async def _chunks(subscription: Any, render: Render, recheck: Recheck) -> AsyncIterator[bytes]:
    pending: dict[bytes, None] = {}
    beat_at, flush_at = time.monotonic() + BEAT_SECONDS, 0.0
    while True:
        until = min(beat_at, flush_at) if pending else beat_at
        message = await subscription.get_message(timeout=max(until - time.monotonic(), 0.001))
        if message is not None:
            content = json.loads(message["data"])
            if content["data"].get("type") == ACCESS_CHANGED and not await recheck():
                return
            pending[render(content)] = None
        now = time.monotonic()
        # What has come together goes out together; a storm that never pauses goes out all the same.
        if pending and now >= flush_at and (message is None or now >= flush_at + GATHER_SECONDS):
            yield b"".join(pending) or b": nothing\n\n"
            pending, flush_at = {}, now + GATHER_SECONDS
        if now >= beat_at:
            if not await recheck():
                return
            beat_at = now + BEAT_SECONDS
            yield _beat()


def _beat() -> bytes:
    return f"event: beat\ndata: {int(time.time())}\n\n".encode()


@cache
def _publisher() -> "redis.Redis":
    return redis.Redis.from_url(
        settings.CONFIG.redis_url, socket_connect_timeout=PATIENCE_SECONDS, socket_timeout=PATIENCE_SECONDS
    )


def _send(told: Iterable[tuple[str, str]]) -> None:
    if silence.holds():
        counters.FAILED_OPEN.labels("live hint").inc()
        return
    try:
        pipe = _publisher().pipeline(transaction=False)
        for channel, message in told:
            pipe.publish(channel, message)
        pipe.execute()
    except RedisError as error:
        # A hint: pages poll when none comes.
        silence.note()
        log.warning("a live hint was lost: %s", error)
        counters.FAILED_OPEN.labels("live hint").inc()
