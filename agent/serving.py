"""/metrics and /healthz over HTTP: what was collected last, to any number of impatient or slow scrapers.

One event loop; a client that sends or reads slowly is cut off by the clock, and too many at once are refused,
so none of them holds up another or the collection. A snapshot that has grown old is not served as if it were
new: missing is better than frozen.
"""

import asyncio
import time
from collections.abc import Callable
from http import HTTPStatus

from agent.exposition import CONTENT_TYPE, exposition
from agent.snapshot import Snapshot

_PLAIN = "text/plain; charset=utf-8"
_READ_SECONDS, _WRITE_SECONDS = 5.0, 10.0
_MOST_CLIENTS = 64
_LONGEST_HEAD = 8192

Answer = tuple[HTTPStatus, str, bytes]


class Pages:
    """What the paths say. `stale` seconds after the last collection there is nothing to say any more."""

    def __init__(self, stale: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._stale, self._clock = stale, clock
        self._began = clock()
        self._latest: Snapshot | None = None
        self._rendered: tuple[Snapshot, bytes] | None = None

    def publish(self, snapshot: Snapshot) -> None:
        """Make this the newest snapshot; any thread may call it."""
        self._latest = snapshot

    def answer(self, method: str, path: str) -> Answer:
        """Status, content type and body of a request."""
        if method not in {"GET", "HEAD"}:
            return HTTPStatus.METHOD_NOT_ALLOWED, _PLAIN, b"Only GET and HEAD.\n"
        if path == "/metrics":
            return self._metrics()
        if path == "/healthz":
            return self._health()
        return HTTPStatus.NOT_FOUND, _PLAIN, b"There are /metrics and /healthz.\n"

    def _age(self) -> float:
        return self._clock() - (self._latest.taken if self._latest else self._began)

    def _metrics(self) -> Answer:
        latest = self._latest
        if latest is None or self._age() > self._stale:
            words = f"The last collection ended {self._age():.0f} s ago: nothing current can be said.\n"
            return HTTPStatus.SERVICE_UNAVAILABLE, _PLAIN, words.encode()
        if self._rendered is None or self._rendered[0] is not latest:
            self._rendered = (latest, exposition(latest).encode())
        return HTTPStatus.OK, CONTENT_TYPE, self._rendered[1]

    def _health(self) -> Answer:
        """Well as long as collections end, whatever they find: a lost GPU is not mended by a restart."""
        if self._age() > self._stale:
            return HTTPStatus.SERVICE_UNAVAILABLE, _PLAIN, b"The collection hangs.\n"
        return HTTPStatus.OK, _PLAIN, b"ok\n"


class Server:
    """The listening side. A client gets `read` seconds to ask and `write` seconds to take the answer."""

    def __init__(self, pages: Pages, *, read: float = _READ_SECONDS, write: float = _WRITE_SECONDS) -> None:
        self._pages, self._read, self._write = pages, read, write
        self._clients = 0

    async def listen(self, bind: str, port: int) -> asyncio.Server:
        """Start to listen; the server is the caller's to close."""
        return await asyncio.start_server(self._serve, bind, port, limit=_LONGEST_HEAD)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._clients += 1
        try:
            if self._clients <= _MOST_CLIENTS:
                await self._exchange(reader, writer)
        except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            # Whoever asks badly, slowly or goes away gets no answer; the next one is served.
            pass
        finally:
            self._clients -= 1
            # Not `close`: that would go on trying to send to somebody who does not read.
            if writer.transport.get_write_buffer_size():
                writer.transport.abort()
            writer.close()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with asyncio.timeout(self._read):
            head = await reader.readuntil(b"\r\n\r\n")
        words = head.split(b"\r\n", 1)[0].decode("latin-1").split(" ")
        if len(words) != 3:
            status, kind, body = HTTPStatus.BAD_REQUEST, _PLAIN, b"No request line.\n"
        else:
            status, kind, body = self._pages.answer(words[0], words[1].partition("?")[0])
        writer.write(_head(status, kind, len(body)))
        if words[0] != "HEAD":
            writer.write(body)
        writer.transport.set_write_buffer_limits(0)
        async with asyncio.timeout(self._write):
            await writer.drain()


def _head(status: HTTPStatus, kind: str, size: int) -> bytes:
    lines = (
        f"HTTP/1.1 {status.value} {status.phrase}",
        f"Content-Type: {kind}",
        f"Content-Length: {size}",
        "Cache-Control: no-store",
        "Connection: close",
    )
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
