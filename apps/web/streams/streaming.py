"""The only way to answer with a stream: guarded, beating, counted per person.

A stream outlives the request whose rights were checked, so a guard says when they end. The caller decides
what it carries.
"""

import asyncio
import math
import time
from collections import defaultdict
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable
from contextlib import aclosing, asynccontextmanager
from threading import Lock
from typing import Any, Protocol, Self
from uuid import UUID
from weakref import WeakSet

from django.conf import settings
from django.http import StreamingHttpResponse

from apps.web.problems.refusals import TooManyStreams

BEAT_SECONDS = 15.0
START_SECONDS = 10.0
"""How long a place is kept for a stream that was promised: its client may be gone before it begins."""


class Guard(Protocol):
    """Watches over the right that one stream was opened with."""

    @property
    def person(self) -> UUID:
        """Whose stream it is."""
        ...

    async def over(self) -> None:
        """Comes back within a second of the right's end or change."""
        ...


def answer(chunks: AsyncGenerator[bytes, None], guard: Guard) -> StreamingHttpResponse:
    """Server-sent events until the chunks end, the client goes or the guard says that it is over.

    Rule: one person has at most `streams_per_person` at a time in one process; raises TooManyStreams.
    """
    place = _Place(guard.person, settings.CONFIG.streams_per_person)
    return _answer(_guarded(chunks, guard, place), "text/event-stream")


def file(
    chunks: AsyncGenerator[bytes, None], guard: Guard, *, name: str, media: str
) -> StreamingHttpResponse:
    """A download that is made while it is read; else as `answer`. It has no beats, which would be part of it.

    RULE: nobody takes a part of a file for the whole. One whose right ends before it does is broken off.
    """
    place = _Place(guard.person, settings.CONFIG.streams_per_person)
    response = _answer(_whole(chunks, guard, place), media)
    response["Content-Disposition"] = f'attachment; filename="{name}"'
    return response


class BrokenOff(Exception):
    """The right to a file ended before the file did; the server closes its connection without an end."""


def _answer(chunks: AsyncGenerator[bytes, None], media: str) -> StreamingHttpResponse:
    response = _Answer(chunks, content_type=media)
    response["Cache-Control"] = "no-store"
    response["X-Accel-Buffering"] = "no"
    return response


def open_streams() -> int:
    """How many this process has open, all people together."""
    with _Place._lock:
        return sum(len(taken) for taken in _Place._taken.values())


def end_all() -> None:
    """Each stream of events ends as by itself, so that its client connects again at once, to a process that
    stays. For a server that shall end; a download goes on.
    """
    for over in _open:
        over.cancel()


def beat() -> bytes:
    """What a stream says every 15 s when nothing else comes: so clients notice a dead one, and we theirs."""
    return f"event: beat\ndata: {int(time.time())}\n\n".encode()


class _Answer(StreamingHttpResponse):
    """Django closes what it iterates over. Without its wrappers in between that is the stream itself with all
    that it holds; else the garbage collector would find it, some time.
    """

    def __aiter__(self) -> AsyncIterator[bytes]:
        """See Django."""
        stream: AsyncIterator[bytes] = self._iterator  # type: ignore[attr-defined]
        return stream


class _Place:
    """One of a person's streams: promised by the view, taken when the stream begins, given back at its end.

    Counted in this process, whose memory and sockets it protects: nothing is left over after a crash.
    """

    _lock = Lock()
    _taken: "defaultdict[UUID, dict[_Place, float]]" = defaultdict(dict)

    def __init__(self, person: UUID, most: int) -> None:
        self._person = person
        now = time.monotonic()
        with self._lock:
            taken = {place: until for place, until in self._taken[person].items() if until > now}
            if len(taken) >= most:
                raise TooManyStreams(most)
            self._taken[person] = taken | {self: now + START_SECONDS}

    def __enter__(self) -> Self:
        with self._lock:
            self._taken[self._person][self] = math.inf
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._taken[self._person].pop(self, None)
            if not self._taken[self._person]:
                del self._taken[self._person]


_open: "WeakSet[asyncio.Future[Any]]" = WeakSet()
"""What each stream of events waits for beside its chunks."""


async def _guarded(
    chunks: AsyncGenerator[bytes, None], guard: Guard, place: _Place
) -> AsyncGenerator[bytes, None]:
    with place:
        async with aclosing(chunks), _meanwhile(guard.over()) as over:
            _open.add(over)
            async for chunk in _until(over, chunks):
                yield chunk


async def _whole(
    chunks: AsyncGenerator[bytes, None], guard: Guard, place: _Place
) -> AsyncGenerator[bytes, None]:
    with place:
        async with aclosing(chunks), _meanwhile(guard.over()) as over:
            async for chunk in chunks:
                # Others run between two chunks, also where none of them waits: the guard is one of them.
                await asyncio.sleep(0)
                if over.done():
                    raise BrokenOff
                yield chunk


async def _until(
    over: "asyncio.Future[Any]", chunks: AsyncGenerator[bytes, None]
) -> AsyncGenerator[bytes, None]:
    while True:
        async with _meanwhile(anext(chunks, None)) as coming:
            while not coming.done():
                await asyncio.wait({over, coming}, timeout=BEAT_SECONDS, return_when=asyncio.FIRST_COMPLETED)
                # Asked first: what came together with the end of the right does not go out.
                if over.done():
                    return
                if not coming.done():
                    yield beat()
            chunk = coming.result()
        if chunk is None:
            return
        yield chunk


@asynccontextmanager
async def _meanwhile(work: Awaitable[Any]) -> AsyncIterator["asyncio.Future[Any]"]:
    task = asyncio.ensure_future(work)
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait({task})
