"""A pod's port through the API server, on the event loop: a byte stream in a WebSocket, one per connection.

The kubelet's own WebSocket form of port-forward (v4.channel.k8s.io): channel 0 carries bytes, channel 1 what
went wrong; the first message of each is the port. It needs no SPDY and no kubectl.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import urlsplit

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import WebSocketException

from apps.cluster.gateway.connecting import reached
from apps.cluster.gateway.following import Door

log = logging.getLogger(__name__)
PROTOCOL: Any = "v4.channel.k8s.io"
DATA, ERROR = 0, 1
CHUNK = 64 * 1024
OPEN_SECONDS = 10.0
logging.getLogger("websockets").setLevel(logging.WARNING)


@dataclass(frozen=True)
class Way:
    """The address of a pod's port, or of a command in it, at an API server, and how that is reached."""

    url: str
    door: Door


@asynccontextmanager
async def listening(way: Way, path: str) -> AsyncIterator[None]:
    """Whoever connects to this socket of the file system is connected to the pod's port meanwhile.

    A file in a folder of our own: unlike a local port it is open to no other user of the machine.
    """
    running: set[asyncio.Task[None]] = set()

    async def each_connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(carry(way, reader, writer))
        running.add(task)
        task.add_done_callback(running.discard)
        await asyncio.wait({task})

    server = await asyncio.start_unix_server(each_connection, path, limit=CHUNK, backlog=512)
    try:
        yield
    finally:
        server.close()
        for task in list(running):
            task.cancel()


class Reader(Protocol):
    """Where the bytes of a connection come from, as asyncio's own reader has it."""

    async def read(self, most: int, /) -> bytes:
        """Some of them; empty at the end."""
        ...


class Writer(Protocol):
    """Where they go to, as asyncio's own writer has it."""

    def write(self, data: bytes, /) -> None:
        """Queue them."""
        ...

    async def drain(self) -> None:
        """Wait until more may be queued."""
        ...

    def close(self) -> None:
        """No more comes."""
        ...

    async def wait_closed(self) -> None:
        """Until it is closed."""
        ...


async def carry(way: Way, reader: Reader, writer: Writer) -> None:
    """One connection to the pod's port, until one side ends it; it is closed then."""
    try:
        async with opened(way, PROTOCOL) as stream:
            both = {
                asyncio.ensure_future(_send(stream, reader)),
                asyncio.ensure_future(_take(stream, writer)),
            }
            try:
                await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for each in both:
                    each.cancel()
                await asyncio.wait(both)
    except (WebSocketException, OSError, TimeoutError) as error:
        log.info("no way to %s: %s", urlsplit(way.url).path, error)
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


class Straight(connect):
    """A WebSocket that goes where it was sent: neither an API server nor a pod leads us elsewhere."""

    def process_redirect(self, exc: Exception) -> Exception | str:
        """See websockets: what is no redirect is raised."""
        return exc


@asynccontextmanager
async def opened(way: Way, *protocols: Any) -> AsyncIterator[ClientConnection]:
    """A WebSocket to a part of a pod, in one of these protocols. Raises as websockets does, and OSError."""
    parts, known = urlsplit(way.url), way.door
    is_tls = parts.scheme == "https"
    how: dict[str, Any] = {"ssl": known.trust} if is_tls else {}
    if is_tls and known.server_name:
        how["server_hostname"] = known.server_name
    if known.is_guarded:
        async with asyncio.timeout(OPEN_SECONDS):
            how["sock"] = await reached(parts.hostname or "", parts.port or 443)
    async with Straight(
        parts._replace(scheme="wss" if is_tls else "ws").geturl(),
        subprotocols=list(protocols),
        # A real API server answers 406 to a stream that is asked for as JSON.
        additional_headers={key: text for key, text in known.headers.items() if key != "Accept"},
        user_agent_header=None,
        proxy=known.proxy or None,
        compression=None,
        open_timeout=OPEN_SECONDS,
        close_timeout=1,
        max_size=None,
        max_queue=4,
        **how,
    ) as stream:
        yield stream


async def _send(stream: ClientConnection, reader: Reader) -> None:
    while chunk := await reader.read(CHUNK):
        await stream.send(bytes([DATA]) + chunk)


async def _take(stream: ClientConnection, writer: Writer) -> None:
    begun: set[int] = set()
    async for message in stream:
        if not isinstance(message, bytes) or not message:
            continue
        channel, content = message[0], message[1:]
        if channel not in begun:
            begun.add(channel)
            content = content[2:]
        if not content:
            continue
        if channel == ERROR:
            log.info("the pod's port fails: %s", content[:200].decode(errors="replace"))
            return
        writer.write(content)
        await writer.drain()
