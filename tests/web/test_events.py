"""Live hints over a real Redis."""

import asyncio
import json
import re
import time
from collections.abc import Callable
from contextlib import aclosing
from typing import Any
from uuid import UUID

import pytest
import redis.asyncio
from asgiref.sync import async_to_sync, sync_to_async
from django.db import transaction

from apps.web import counters
from apps.web.stores import silence
from apps.web.streams import events, hub
from tests.patience import within

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both_databases]
QUIET_SECONDS = 0.15
"""How long nothing more may come. A loaded machine makes this look at less, and never red."""
PERSON = UUID(int=7)
UPDATED = {"type": "workload.updated", "id": "1"}


async def heard(
    render: events.Render,
    say: Callable[[], None],
    *,
    hurry: Callable[[], None] = lambda: None,
    awaited: str = "",
    times: int = 1,
    **how: Any,
) -> tuple[bytes, bool]:
    """What one listener of workload:1 gets after `say`, and whether the stream ended by itself.

    It listens until it has got what is `awaited` so many times, and then for QUIET_SECONDS more.
    """
    stream = events.stream(["workload:1", f"user:{PERSON}"], render, hurry, **how)
    chunks = [await anext(stream)]
    while b"event: beat" not in chunks[-1]:
        chunks.append(await anext(stream))
    await sync_to_async(say)()
    until = within(20) if awaited else time.monotonic() + QUIET_SECONDS
    ended = False
    pending = asyncio.ensure_future(anext(stream, None))
    while not ended and time.monotonic() < until:
        done, _ = await asyncio.wait([pending], timeout=max(until - time.monotonic(), 0.01))
        if not done:
            break
        chunk = pending.result()
        ended = chunk is None
        chunks.append(chunk or b"")
        if awaited and b"".join(chunks).count(awaited.encode()) >= times:
            awaited, until = "", time.monotonic() + QUIET_SECONDS
        if not ended:
            pending = asyncio.ensure_future(anext(stream, None))
    if not pending.done():
        pending.cancel()
        await asyncio.wait([pending])
    assert ended or not awaited, f"{awaited} did not come; {chunks}"
    return b"".join(chunks), ended


def listen(render: events.Render, say: Callable[[], None], **how: Any) -> tuple[bytes, bool]:
    return async_to_sync(heard)(render, say, **how)


def test_a_page_hears_the_names_of_its_parts(broker: str) -> None:
    said, _ = listen(
        events.as_parts,
        lambda: events.publish(["workload:1"], part="head why", data=UPDATED),
        awaited="data: why\n\n",
    )
    assert said.startswith(b"retry: 3000\n\nevent: beat\n")
    assert b"event: part\ndata: head\n\nevent: part\ndata: why\n\n" in said


def test_rest_hears_the_event_with_its_data(broker: str) -> None:
    said, _ = listen(
        events.as_events,
        lambda: events.publish(["workload:1"], part=None, data=UPDATED),
        awaited="event: workload.updated",
    )
    assert f"event: workload.updated\ndata: {json.dumps(UPDATED, separators=(',', ':'))}\n\n".encode() in said


def test_other_topics_are_not_heard(broker: str) -> None:
    said, _ = listen(events.as_parts, lambda: events.publish(["workload:2"], part="head", data=UPDATED))
    assert b"event: part" not in said


def test_of_twenty_hints_one_goes_out_at_once_and_the_others_together(broker: str) -> None:
    def say() -> None:
        for _ in range(20):
            events.publish(["workload:1"], part="head", data=UPDATED)

    said, _ = listen(events.as_parts, say, awaited="data: head")
    assert 1 <= said.count(b"data: head") <= 2


def test_the_first_hint_after_a_pause_is_not_held_back(broker: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "GATHER_SECONDS", 600.0)
    said, _ = listen(
        events.as_parts,
        lambda: events.publish(["workload:1"], part="head", data=UPDATED),
        awaited="data: head",
    )
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

    def say() -> None:
        events.access_changed(PERSON)
        events.publish(["workload:1"], part=None, data=UPDATED)

    said, ended = listen(
        events.as_events, say, hurry=lambda: hurried.append(True), awaited="event: workload.updated"
    )
    assert hurried == [True]
    assert not ended
    assert b"access.changed" not in said


def test_a_silent_stream_beats(broker: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "BEAT_SECONDS", 0.1)
    beats = b"event: beat"
    said, _ = listen(events.as_parts, lambda: None, awaited="event: beat", times=3)
    assert said.count(beats) >= 3


def test_without_redis_a_hint_is_lost_and_counted_and_the_next_does_not_try(no_broker: None) -> None:
    before = counters.FAILED_OPEN.labels("live hint")._value.get()
    events.publish(["workload:1"], part="head", data=UPDATED)
    assert counters.FAILED_OPEN.labels("live hint")._value.get() == before + 1
    assert silence.holds()


def test_without_redis_a_stream_ends_so_that_the_page_polls(no_broker: None) -> None:
    async def all_of_it() -> list[bytes]:
        return [chunk async for chunk in events.stream(["workload:1"], events.as_parts, lambda: None)]

    assert async_to_sync(all_of_it)() == []


Say = Callable[[], None]


def told(*numbers: int, topic: str = "workload:1") -> Say:
    """Publishes one event for each number."""

    def say() -> None:
        for number in numbers:
            events.publish([topic], part=None, data={"type": "workload.updated", "id": str(number)})

    return say


def rest(say: Say, **how: Any) -> str:
    """What a REST client hears; see `heard`."""
    return listen(events.as_events, say, has_ids=True, **how)[0].decode()


def numbers(said: str) -> list[int]:
    return [int(found) for found in re.findall(r'"id":"(\d+)"', said)]


def ids(said: str) -> list[str]:
    return re.findall(r"^id: (\S+)$", said, re.MULTILINE)


def test_every_event_and_beat_has_an_id_in_order(broker: str) -> None:
    told(1)()
    said = rest(told(2, 3), awaited='"id":"3"')
    assert numbers(said) == [2, 3]
    assert len(ids(said)) == len(set(ids(said))) == 3
    assert ids(said) == sorted(ids(said), key=lambda found: tuple(map(int, found.split("-"))))


def test_who_comes_back_gets_what_was_missed_in_order_and_of_its_topics_alone(broker: str) -> None:
    last = ids(rest(told(1), awaited='"id":"1"'))[-1]
    told(2)()
    told(7, topic="workload:2")()
    told(3)()
    said = rest(told(4), since=last, awaited='"id":"4"')
    assert numbers(said) == [2, 3, 4]
    assert "event: reset" not in said


def test_a_quiet_client_goes_on_from_its_beat(broker: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "BEAT_SECONDS", 0.2)
    told(1)()
    beat = ids(rest(told(2, topic="workload:2")))[-1]
    told(3)()
    assert numbers(rest(lambda: None, since=beat, awaited='"id":"3"')) == [3]


@pytest.mark.parametrize("since", ["7", "", "0-0", "1-1", "9999999999999-0", "é", "1" * 40 + "-0"])
def test_an_id_that_is_not_kept_means_list_again(broker: str, since: str) -> None:
    told(1)()
    said = rest(told(2), since=since, awaited='"id":"2"')
    assert "event: reset\n" in said
    assert numbers(said) == [2]


def test_more_than_is_kept_means_list_again(broker: str, monkeypatch: pytest.MonkeyPatch) -> None:
    last = ids(rest(told(1), awaited='"id":"1"'))[-1]
    monkeypatch.setattr(events, "KEPT_SECONDS", -60)
    monkeypatch.setattr(events, "BEAT_SECONDS", 0.2)
    told(*range(2, 400))()
    assert "event: reset\n" in rest(lambda: None, since=last, awaited="event: reset\n")


def test_a_lost_event_means_list_again_for_who_listens_and_who_comes_back(
    broker: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lose() -> None:
        silence.note(redis.RedisError("of the test"))
        told(2)()
        silence.forget()

    def say() -> None:
        lose()
        told(3)()

    monkeypatch.setattr(events, "BEAT_SECONDS", 0.2)
    told(0)()
    first = rest(say, awaited='"id":"3"')
    assert first.index("event: reset") < first.index('"id":"3"')
    last = ids(rest(lambda: None))[-1]
    say()
    again = rest(lambda: None, since=last, awaited="event: reset")
    assert "event: reset" in again
    assert numbers(again) == []
    assert b"reset" not in listen(events.as_parts, say)[0]


def test_fifty_streams_share_one_connection_to_redis(broker: str) -> None:
    async def connections() -> int:
        streams = [events.stream(["workload:1"], events.as_parts, lambda: None) for _ in range(50)]
        for stream in streams:
            await anext(stream)
        client: Any = redis.asyncio.Redis.from_url(broker)
        found = [each for each in await client.client_list() if each["cmd"] == "xread"]
        await client.aclose()
        for stream in streams:
            await stream.aclose()
        return len(found)

    told(1)()
    assert async_to_sync(connections)() == 1


def test_a_client_that_does_not_read_is_let_go_and_comes_back(
    broker: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub, "MOST_WAITING", 10)

    async def behind() -> tuple[list[int], list[int]]:
        stream = events.stream(["workload:1"], events.as_events, lambda: None, has_ids=True)
        first = [await anext(stream), await anext(stream)]
        await sync_to_async(told(*range(1, 40)))()
        await asyncio.sleep(0.5)
        chunks = first + [chunk async for chunk in stream]
        last = ids(b"".join(chunks).decode())[-1]
        more = events.stream(["workload:1"], events.as_events, lambda: None, has_ids=True, since=last)
        async with aclosing(more):
            missed = [await anext(more), await anext(more)]
        return numbers(b"".join(chunks).decode()), numbers(b"".join(missed).decode())

    told(0)()
    got, missed = async_to_sync(behind)()
    assert got + missed == list(range(1, 40))
    assert missed
