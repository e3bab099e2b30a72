"""The limits that a request must keep before the product sees it: a body of bounded size and time, and for
REST a credential before any body at all.

Django writes a whole upload to disk before its first middleware runs, waits for it without end and lets a
WebSocket fail with a traceback. Pure ASGI: it decides nothing that a view decides, and words no refusal; why
a body was left unread goes on with the request (`apps.web.requests.intake`).
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from apps.web.requests.intake import UNREAD

Message = Mapping[str, Any]
Scope = dict[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]

LENGTHS = (b"content-length", b"transfer-encoding")
SAFE = ("GET", "HEAD", "OPTIONS")


class Gone(Exception):
    """The caller hung up before its request was complete."""


class TooLarge(Exception):
    """The body is larger than it may be."""


class Edge:
    """The application with its edge: bodies of at most `limit` bytes that arrive within `seconds`.

    A chunked body goes on as any other, with its length. `cookie` is the name of the session's cookie.
    """

    def __init__(self, app: App, *, limit: int, seconds: float, cookie: str) -> None:
        self._app, self.limit, self._seconds = app, limit, seconds
        self._cookie = cookie.encode() + b"="

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One connection as ASGI has it."""
        if scope["type"] == "websocket":
            # Refused before it is accepted: the server answers 403.
            await receive()
            await send({"type": "websocket.close", "code": 4404})
        elif scope["type"] == "http":
            await self._http(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers: Headers = list(scope["headers"])
        body, reason = b"", self._refused(scope, headers)
        if not reason:
            try:
                async with asyncio.timeout(self._seconds):
                    body = await self._body(receive)
            except TimeoutError:
                reason = "request_timeout"
            except TooLarge:
                reason = "body_too_large"
            except Gone:
                return
        if reason:
            body, send = b"", _closing(send)
        scope = {**scope, "headers": _measured(headers, len(body)), UNREAD: reason}
        await self._app(scope, _replay(body, receive, is_whole=not reason), send)

    def _refused(self, scope: Scope, headers: Headers) -> str:
        """Why the body is not even begun; "" where it is read."""
        declared = [value for name, value in headers if name == LENGTHS[0]]
        if any(_length(value) > self.limit for value in declared):
            return "body_too_large"
        is_write = scope["path"].startswith("/api/") and scope["method"] not in SAFE
        has_body = any(name in LENGTHS and value != b"0" for name, value in headers)
        return "invalid_token" if is_write and has_body and not self._is_known(headers) else ""

    def _is_known(self, headers: Headers) -> bool:
        """Whether the request brings any credential; what it opens is decided by the view."""
        return any(
            name == b"authorization"
            or (
                name == b"cookie" and any(part.strip().startswith(self._cookie) for part in value.split(b";"))
            )
            for name, value in headers
        )

    async def _body(self, receive: Receive) -> bytes:
        found = bytearray()
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise Gone
            found += message.get("body", b"")
            if len(found) > self.limit:
                raise TooLarge
            if not message.get("more_body", False):
                return bytes(found)


def _length(value: bytes) -> int:
    # Ten digits are more than any body; the server has refused what is no number.
    return int(value) if value.isdigit() and len(value) < 10 else 10**10


def _measured(headers: Headers, length: int) -> Headers:
    """The headers with the length that was read: Django and the REST framework go by it alone."""
    if not any(name in LENGTHS for name, _ in headers):
        return [*headers, (LENGTHS[0], str(length).encode())] if length else headers
    kept = [(name, value) for name, value in headers if name not in LENGTHS]
    return [*kept, (LENGTHS[0], str(length).encode())]


def _replay(body: bytes, receive: Receive, *, is_whole: bool) -> Receive:
    """The body as one message; then the connection's own, or silence where the rest was left unread."""
    first: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Message:
        if first:
            return first.pop()
        if not is_whole:
            await asyncio.get_running_loop().create_future()
        return await receive()

    return again


def _closing(send: Send) -> Send:
    """The connection ends with this answer: what was left unread is never read."""

    async def last(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message.get("headers", []), (b"connection", b"close")]}
        await send(message)

    return last
