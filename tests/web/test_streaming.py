"""What holds for every stream: a guard, a beat, a number per person, and nothing left behind."""

import asyncio
import threading
import time
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest
import uvicorn
from asgiref.sync import async_to_sync
from pytest_django import Settings

from apps.errors import DomainError
from apps.web.problems import answers
from apps.web.problems.refusals import TooManyStreams
from apps.web.streams import streaming
from portal.protocol import Protocol
from tests.patience import patient, until
from tests.ports import free_port


class Watched:
    """A guard that a test ends."""

    def __init__(self, person: UUID | None = None) -> None:
        self.person = person or uuid4()
        self.end = asyncio.Event()

    async def over(self) -> None:
        await self.end.wait()


@pytest.fixture
def most(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(settings.CONFIG, "streams_per_person", 3)
    return 3


class Source:
    """Chunks as a test sends them; `closed` once nobody reads any more."""

    def __init__(self) -> None:
        self.queue: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.closed = False

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        try:
            while (chunk := await self.queue.get()) is not None:
                yield chunk
        finally:
            self.closed = True


def opened(source: Source, guard: Watched) -> AsyncIterator[bytes]:
    return aiter(streaming.answer(source.chunks(), guard))


def test_nothing_goes_out_after_the_right_is_over() -> None:
    async def story() -> tuple[list[bytes], bool]:
        source, guard = Source(), Watched()
        stream = opened(source, guard)
        source.queue.put_nowait(b"one")
        heard = [await anext(stream)]
        source.queue.put_nowait(b"two")
        guard.end.set()
        await asyncio.sleep(0)
        heard += [chunk async for chunk in stream]
        return heard, source.closed

    assert async_to_sync(story)() == ([b"one"], True)


@contextmanager
def served(app: Any) -> Iterator[tuple[uvicorn.Server, str]]:
    """As the portal is; it ends with the block, or before."""
    port = free_port()
    config = uvicorn.Config(
        app, port=port, http=Protocol, log_level="error", lifespan="off", timeout_graceful_shutdown=60
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        until(lambda: server.started, "the server")
        yield server, f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join()


def test_a_stream_ends_with_its_server_and_not_with_an_error() -> None:
    """The client sees a whole answer, long before uvicorn would cut it off."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        source = Source()
        source.queue.put_nowait(b"one")
        await send({"type": "http.response.start", "status": 200, "headers": []})
        async for chunk in opened(source, Watched()):
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    with served(app) as (server, url), httpx.stream("GET", url, trust_env=False) as answer:
        chunks = answer.iter_raw()
        assert next(chunks) == b"one"
        server.should_exit = True
        began = time.monotonic()
        assert list(chunks) == []
        assert time.monotonic() - began < patient(10)


def test_a_quiet_stream_beats(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streaming, "BEAT_SECONDS", 0.01)

    async def story() -> list[bytes]:
        source = Source()
        stream: Any = opened(source, Watched())
        heard = [await anext(stream), await anext(stream)]
        source.queue.put_nowait(b"one")
        while heard[-1] != b"one":
            heard.append(await anext(stream))
        await stream.aclose()
        assert source.closed
        return heard

    heard = async_to_sync(story)()
    assert all(chunk.startswith(b"event: beat\ndata: ") for chunk in heard[:-1])


def test_one_more_than_a_person_may_have_is_refused_until_one_ends(most: int) -> None:
    async def story() -> None:
        person, sources = uuid4(), [Source() for _ in range(most)]
        streams = [opened(source, Watched(person)) for source in sources]
        for source in sources:
            source.queue.put_nowait(b"one")
        assert [await anext(stream) for stream in streams] == [b"one"] * most
        with pytest.raises(TooManyStreams):
            opened(Source(), Watched(person))
        other: Any = opened(Source(), Watched())
        await other.aclose()
        sources[0].queue.put_nowait(None)
        assert [chunk async for chunk in streams[0]] == []
        again: Any = opened(Source(), Watched(person))
        for stream in (*streams[1:], again):
            await stream.aclose()

    async_to_sync(story)()


def test_a_stream_that_never_begins_does_not_take_a_place_for_long(
    most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streaming, "START_SECONDS", 0.05)

    async def story() -> None:
        person = uuid4()
        for _ in range(most):
            opened(Source(), Watched(person))
        with pytest.raises(TooManyStreams):
            opened(Source(), Watched(person))
        await asyncio.sleep(0.06)
        opened(Source(), Watched(person))

    async_to_sync(story)()


def test_the_refusal_says_when_to_try_again_and_what_to_do_instead() -> None:
    refusal: DomainError = TooManyStreams(20)
    answer = answers.problem_response(refusal, None)
    assert (answer.status_code, answer["Retry-After"]) == (429, "10")
    problem = answers.problem_for(refusal, None)
    assert problem["code"] == "rate_limited"
    assert "20 streams" in problem["detail"]
    assert "Close one" in problem["hint"]
