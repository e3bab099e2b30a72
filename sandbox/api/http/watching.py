"""Watches: the stream of changes one client sees, with selectors, bookmarks, resume and 410.

Writes nothing.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

import orjson

from sandbox.api.meta import errors
from sandbox.api.meta.objects import Obj, namespace_of
from sandbox.api.storage.store import Change, Compacted, Store
from sandbox.kinds.table import Kind

BOOKMARK_SECONDS = 10.0
_LONGEST_QUEUE = 20_000
INITIAL_END = "k8s.io/initial-events-end"
Render = Callable[[Obj, bytes], bytes]
Match = Callable[[Obj], bool]


@dataclass(frozen=True)
class Wish:
    """What a client asked to see."""

    kind: Kind
    namespace: str
    match: Match
    version: str
    bookmarks: bool
    timeout: float
    initial: bool = False


class Control:
    """The fault knobs of watches: paused streams hold everything back, a bumped epoch closes them all."""

    def __init__(self) -> None:
        self.paused_until = 0.0
        self.epoch = 0

    def paused(self) -> bool:
        """Whether nothing may be sent now."""
        return time.monotonic() < self.paused_until


def seen(change: Change, match: Match) -> tuple[str, bool] | None:
    """How a change looks through a selector: an object that stops matching is DELETED, one that starts is
    ADDED.
    """
    now = change.type != "DELETED" and match(change.obj)
    before = change.old is not None and match(change.old) if change.type != "ADDED" else False
    if now:
        return ("MODIFIED" if before else "ADDED"), False
    return ("DELETED", True) if before or (change.type == "DELETED" and match(change.obj)) else None


def frame(kind: str, body: bytes) -> bytes:
    """One line of the stream."""
    return b'{"type":"%s","object":%s}\n' % (kind.encode(), body)


def expired(version: str, oldest: int) -> bytes:
    """The ERROR event of a compacted version."""
    return frame(
        "ERROR", orjson.dumps(errors.gone(f"too old resource version: {version} ({oldest})").status())
    )


class Watch:
    """One stream."""

    def __init__(self, store: Store, wish: Wish, render: Render, control: Control) -> None:
        self._store, self._wish, self._render, self._control = store, wish, render, control
        self._waiting: deque[Change] = deque()
        self._wake = asyncio.Event()
        self._sent = store.version

    def _follow(self, change: Change) -> None:
        wish = self._wish
        if change.resource == wish.kind.key and (
            not wish.namespace or namespace_of(change.obj) == wish.namespace
        ):
            self._waiting.append(change)
            self._wake.set()

    def _bookmark(self, annotations: Obj | None = None) -> bytes:
        metadata: Obj = {
            "resourceVersion": str(self._sent),
            **({"annotations": annotations} if annotations else {}),
        }
        body = {"kind": self._wish.kind.kind, "apiVersion": self._wish.kind.api_version, "metadata": metadata}
        return frame("BOOKMARK", self._render(body, orjson.dumps(body)))

    def _event(self, change: Change) -> bytes:
        found = seen(change, self._wish.match)
        self._sent = change.version
        if found is None:
            return b""
        kind, fallen = found
        if fallen and change.type != "DELETED" and change.old is not None:
            # The client never saw the new state: it gets the old one, at the new version.
            last = {
                **change.old,
                "metadata": {**change.old["metadata"], "resourceVersion": str(change.version)},
            }
            return frame(kind, self._render(last, orjson.dumps(last)))
        return frame(kind, self._render(change.obj, change.body))

    def _start(self) -> list[bytes]:
        wish = self._wish
        if wish.version in ("", "0") or wish.initial:
            lines = [
                frame("ADDED", self._render(entry.obj, entry.full()))
                for entry in self._store.entries(wish.kind.key, wish.namespace)
                if wish.match(entry.obj)
            ]
            return lines + ([self._bookmark({INITIAL_END: "true"})] if wish.initial else [])
        try:
            return [
                self._event(change)
                for change in self._store.since(wish.kind.key, int(wish.version), wish.namespace)
            ]
        except Compacted:
            return [expired(wish.version, self._store.compacted)]

    async def lines(self) -> AsyncIterator[bytes]:
        """The stream's lines until its time is over; empty lines never come."""
        stop = self._store.listen(self._follow)
        epoch, ends, next_mark = (
            self._control.epoch,
            time.monotonic() + self._wish.timeout,
            time.monotonic() + BOOKMARK_SECONDS,
        )
        try:
            first = b"".join(self._start())
            self._sent = max(self._sent, self._store.version)
            if first:
                yield first
            if first.startswith(b'{"type":"ERROR"'):
                return
            while (
                time.monotonic() < ends
                and epoch == self._control.epoch
                and len(self._waiting) < _LONGEST_QUEUE
            ):
                chunk = b"" if self._control.paused() else self._drain()
                if (
                    not chunk
                    and self._wish.bookmarks
                    and time.monotonic() >= next_mark
                    and not self._control.paused()
                ):
                    chunk, next_mark = self._bookmark(), time.monotonic() + BOOKMARK_SECONDS
                if chunk:
                    yield chunk
                    continue
                await self._sleep(min(ends, next_mark) - time.monotonic())
            if self._wish.bookmarks and epoch == self._control.epoch:
                yield self._bookmark()
        finally:
            stop()

    def _drain(self) -> bytes:
        parts = []
        while self._waiting:
            parts.append(self._event(self._waiting.popleft()))
        if not parts:
            self._sent = max(self._sent, self._store.version)
        return b"".join(parts)

    async def _sleep(self, seconds: float) -> None:
        self._wake.clear()
        try:
            await asyncio.wait_for(
                self._wake.wait(), max(0.01, min(seconds, 0.2 if self._control.paused() else 1.0))
            )
        except TimeoutError:
            # Time to look at the clock, the knobs and the next bookmark.
            return
        # Let a burst gather, so that it goes out in one piece.
        await asyncio.sleep(0)
