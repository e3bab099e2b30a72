"""Live hints over a real Redis."""

import asyncio
import json
import time
from collections.abc import Callable
from typing import Any

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.db import transaction

from apps.web import counters, events

pytestmark = pytest.mark.django_db(transaction=True)
UPDATED = {"type": "workload.updated", "id": "1"}


async def heard(
    render: events.Render,
    say: Callable[[], None],
    *,
    hurry: Callable[[], None] = lambda: None,
    seconds: float = 0.8,
    **how: Any,
) -> tuple[bytes, bool]:
    """What one listener of workload:1 gets, and whether the stream ended by itself."""
    stream = events.stream(["workload:1", "user:7"], render, hurry, **how)
    chunks = [await anext(stream)]
    while b"event: beat" not in chunks[-1]:
        chunks.append(await anext(stream))
    await sync_to_async(say)()
    until = time.monotonic() + seconds
    ended = False
    pending = asyncio.ensure_future(anext(stream, None))
    while not ended and time.monotonic() < until:
        done, _ = await asyncio.wait([pending], timeout=max(until - time.monotonic(), 0.01))
        if not done:
            break
        chunk = pending.result()
        ended = chunk is None
        chunks.append(chunk or b"")
        if not ended:
            pending = asyncio.ensure_future(anext(stream, None))
    if not pending.done():
        pending.cancel()
        await asyncio.wait([pending])
    return b"".join(chunks), ended


def listen(render: events.Render, say: Callable[[], None], **how: Any) -> tuple[bytes, bool]:
    return async_to_sync(heard)(render, say, **how)


def test_a_page_hears_the_names_of_its_parts(broker: str) -> None:
    said, _ = listen(events.as_parts, lambda: events.publish(["workload:1"], part="head why", data=UPDATED))
    assert said.startswith(b"retry: 3000\n\nevent: beat\n")
    assert b"event: part\ndata: head\n\nevent: part\ndata: why\n\n" in said


def test_rest_hears_the_event_with_its_data(broker: str) -> None:
    said, _ = listen(events.as_events, lambda: events.publish(["workload:1"], part=None, data=UPDATED))
    assert f"event: workload.updated\ndata: {json.dumps(UPDATED, separators=(',', ':'))}\n\n".encode() in said


def test_other_topics_are_not_heard(broker: str) -> None:
    said, _ = listen(events.as_parts, lambda: events.publish(["workload:2"], part="head", data=UPDATED))
    assert b"event: part" not in said


def test_of_twenty_hints_one_goes_out_at_once_and_the_others_together(broker: str) -> None:
    def say() -> None:
        for _ in range(20):
            events.publish(["workload:1"], part="head", data=UPDATED)

    said, _ = listen(events.as_parts, say)
    assert 1 <= said.count(b"data: head") <= 2


def test_the_first_hint_after_a_pause_is_not_held_back(broker: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "GATHER_SECONDS", 30.0)
    said, _ = listen(events.as_parts, lambda: events.publish(["workload:1"], part="head", data=UPDATED))
    assert b"data: head" in said


def test_what_is_rolled_back_is_never_told(broker: str) -> None:
    def say() -> None:
        with transaction.atomic():
            events.publish(["workload:1"], part="head", data=UPDATED)
            transaction.set_rollback(True)

    said, _ = listen(events.as_parts, say)
    assert b"event: part" not in said


def test_a_change_of_access_hurries_the_guard_and_is_not_told(broker: str) -> None:
    hurried: list[bool] = []
    said, ended = listen(
        events.as_events, lambda: events.access_changed("7"), hurry=lambda: hurried.append(True)
    )
    assert hurried == [True]
    assert not ended
    assert b"access.changed" not in said


def test_a_silent_stream_beats(broker: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "BEAT_SECONDS", 0.2)
    said, _ = listen(events.as_parts, lambda: None)
    assert said.count(b"event: beat") >= 3


def test_without_redis_a_hint_is_lost_quickly_and_counted(no_broker: None) -> None:
    before = counters.FAILED_OPEN.labels("live hint")._value.get()
    started = time.monotonic()
    events.publish(["workload:1"], part="head", data=UPDATED)
    assert time.monotonic() - started < 0.6
    assert counters.FAILED_OPEN.labels("live hint")._value.get() == before + 1


def test_without_redis_a_stream_ends_so_that_the_page_polls(no_broker: None) -> None:
    async def all_of_it() -> list[bytes]:
        return [chunk async for chunk in events.stream(["workload:1"], events.as_parts, lambda: None)]

    assert async_to_sync(all_of_it)() == []
