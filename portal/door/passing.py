"""Bytes both ways between a client and a pod: HTTP and WebSockets, nothing kept, nothing read ahead.

What goes through is decided before: by `app` who, by `headers` what.
"""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any, NamedTuple

import httpx
from starlette.types import Message, Receive, Scope, Send
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException

from apps.cluster.gateway.forwarding import Straight
from portal.door import headers
from portal.door.ways import Over, Way

log = logging.getLogger(__name__)
OPEN_SECONDS = 10.0
TIMES = {"timeout": {"connect": OPEN_SECONDS, "pool": OPEN_SECONDS, "read": None, "write": None}}
"""An answer may take as long as the IDE likes."""
SAFE = ("GET", "HEAD")
BROKEN = (httpx.ReadError, httpx.WriteError, httpx.RemoteProtocolError)
LOSES = (httpx.NetworkError, httpx.ConnectTimeout, httpx.RemoteProtocolError)
"""How a connection breaks off, and all that says of a pod that it does not answer."""
NOT_YOURS, GONE, AWAY = 4403, 1001, 1014
"""WebSocket close codes: the right is over, one side has gone, the IDE does not answer."""


class Away(Exception):
    """The IDE does not answer."""


class Lost(Away):
    """Nor will the pod behind this way."""


class Busy(Exception):
    """As many requests run as may at once, and none of them ended in time."""


class Gone(Exception):
    """The browser went before all of its request was there."""


class LeadsAway(Exception):
    """The IDE sends the browser to another host; the argument says where."""


class Call(NamedTuple):
    """What a server has of one browser's request, and the origin of the host that it came to."""

    scope: Scope
    receive: Receive
    send: Send
    origin: str


class Exchange:
    """One HTTP request: `begun` once the browser has the head of an answer."""

    def __init__(self, call: Call, way: Way) -> None:
        self._scope, self._receive, self._send, self._origin = call
        self._way = way
        self._read = asyncio.Event()
        self._is_kept = self._only_asks = False
        self.begun = False

    @property
    def may_be_asked_again(self) -> bool:
        """Whether it only asks, without a body, and nothing of an answer is out."""
        return self._only_asks and not self.begun

    async def run(self) -> None:
        """Until the answer's end, or until one side goes. Before it begins: raises Away, Busy, LeadsAway."""
        passing, gone = asyncio.ensure_future(self._pass()), asyncio.ensure_future(self._gone())
        try:
            await asyncio.wait({passing, gone}, return_when=asyncio.FIRST_COMPLETED)
            if passing.done():
                passing.result()
        finally:
            for task in (passing, gone):
                task.cancel()
            await asyncio.wait({passing, gone})

    async def _pass(self) -> None:
        try:
            answer = await self._asked()
        except Gone:
            return
        except httpx.PoolTimeout as error:
            raise Busy from error
        except httpx.HTTPError as error:
            log.info("%s does not answer: %r", self._way.workload, error)
            # Whoever waited so long already hears of it now.
            self._only_asks &= not isinstance(error, httpx.ConnectTimeout)
            raise (Lost if isinstance(error, LOSES) else Away) from error
        try:
            await self._answer(answer)
        except httpx.HTTPError as error:
            # The head is out: a connection that breaks off is all that can still be said.
            log.info("the answer of %s broke off: %s", self._way.workload, error)
        finally:
            await answer.aclose()

    async def _asked(self) -> httpx.Response:
        """RULE: a kept connection may be closed in the moment in which it is taken. What only asks is then
        asked once more; what does something is not, because it may have been done.
        """
        is_asked_again = False
        while True:
            request, self._is_kept = self._request(), True
            try:
                answer: httpx.Response = await self._way.http.handle_async_request(request)
            except BROKEN:
                if is_asked_again or not self.may_be_asked_again or not self._is_kept:
                    raise
                is_asked_again = True
            else:
                return answer

    async def _trace(self, event: str, _: object) -> None:
        if event.startswith("connection.connect_"):
            self._is_kept = False

    async def _answer(self, answer: httpx.Response) -> None:
        elsewhere = headers.leads_away(answer.status_code, answer.headers.raw, self._origin)
        if elsewhere and not self._way.is_program:
            raise LeadsAway(elsewhere)
        self.begun = True
        shown = headers.to_browser(answer.headers.raw)
        await self._send({"type": "http.response.start", "status": answer.status_code, "headers": shown})
        async for chunk in answer.aiter_raw():
            await self._send({"type": "http.response.body", "body": chunk, "more_body": True})
        await self._send({"type": "http.response.body", "body": b""})

    def _request(self) -> httpx.Request:
        scope, host = self._scope, self._origin.partition("//")[2]
        query = b"?" + scope["query_string"] if scope["query_string"] else b""
        url = httpx.URL(
            scheme="http",
            host=self._way.upstream.host,
            port=self._way.upstream.port,
            raw_path=scope["raw_path"] + query,
        )
        given = headers.to_pod(scope["headers"], host, scope["scheme"], self._way.authorization)
        lengths = [text for key, text in scope["headers"] if key in (b"content-length", b"transfer-encoding")]
        if lengths in ([], [b"0"]):
            self._read.set()
            self._only_asks = scope["method"] in SAFE
            how = {**TIMES, "trace": self._trace}
            return httpx.Request(scope["method"], url, headers=given, extensions=how)
        return httpx.Request(scope["method"], url, headers=given, content=self._body(), extensions=TIMES)

    async def _body(self) -> AsyncIterator[bytes]:
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise Gone
            if body := message.get("body", b""):
                yield body
            if not message.get("more_body", False):
                self._read.set()
                return

    async def _gone(self) -> None:
        """Comes back when the browser has gone; meanwhile the body is read by the request itself."""
        await self._read.wait()
        while (await self._receive())["type"] != "http.disconnect":
            pass


async def websocket(call: Call, way: Way) -> None:
    """One WebSocket, message by message, until one side closes it or the right ends."""
    send = call.send
    await call.receive()
    try:
        await way.during(_joined(call, way))
    except Over:
        await _close(send, NOT_YOURS, "Your right to this workload has ended.")
    except InvalidStatus as refused:
        await _close(send, AWAY, f"The IDE answers {refused.response.status_code}.")
    except (WebSocketException, OSError, TimeoutError) as error:
        log.info("no WebSocket to %s: %s", way.workload, error)
        await _close(send, AWAY, "The IDE does not answer.")


async def _joined(call: Call, way: Way) -> None:
    async with _connected(call, way) as pod:
        await call.send({"type": "websocket.accept", "subprotocol": pod.subprotocol})
        both = {
            asyncio.ensure_future(_to_pod(call.receive, pod)),
            asyncio.ensure_future(_to_browser(pod, call.send)),
        }
        try:
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in both:
                task.cancel()
            await asyncio.wait(both)


def _connected(call: Call, way: Way) -> Straight:
    scope, host = call.scope, call.origin.partition("//")[2]
    given = headers.to_pod(scope["headers"], host, scope["scheme"], way.authorization)
    shown = [(key.decode("latin-1"), text.decode("latin-1")) for key, text in given]
    query = "?" + scope["query_string"].decode("latin-1") if scope["query_string"] else ""
    how: dict[str, Any] = {
        # What the IDE compares with the Origin.
        "additional_headers": [pair for pair in shown if pair[0] not in ("host", "user-agent")],
        "user_agent_header": None,
        "subprotocols": scope.get("subprotocols") or None,
        "compression": None,
        "max_size": None,
        "max_queue": 8,
        "open_timeout": OPEN_SECONDS,
        "close_timeout": 1,
        "proxy": None,
    }
    path = scope["raw_path"].decode("latin-1") + query
    uri = f"ws://{host}{path}"
    if way.socket:
        how.pop("proxy")
        return Straight(uri, unix=True, path=way.socket, **how)
    return Straight(uri, host=way.upstream.host, port=way.upstream.port, **how)


async def _to_pod(receive: Receive, pod: ClientConnection) -> None:
    with suppress(ConnectionClosed):
        while (message := await receive())["type"] == "websocket.receive":
            text = message.get("text")
            await pod.send(message["bytes"] if text is None else text)
        await pod.close(_closing(message.get("code")))


async def _to_browser(pod: ClientConnection, send: Send) -> None:
    with suppress(ConnectionClosed):
        async for content in pod:
            kind = "text" if isinstance(content, str) else "bytes"
            await send({"type": "websocket.send", kind: content})
    await _close(send, _closing(pod.close_code), pod.close_reason or "")


def _closing(code: int | None) -> int:
    """A code that may be sent: those that say that none came may not."""
    return code if code and code not in (1004, 1005, 1006, 1015) else 1000


async def _close(send: Send, code: int, reason: str) -> None:
    message: Message = {"type": "websocket.close", "code": code, "reason": reason}
    # It may have closed by itself in this moment.
    with suppress(RuntimeError, OSError):
        await send(message)
