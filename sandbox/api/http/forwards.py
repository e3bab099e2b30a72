"""pods/portforward over websocket (v4 channel protocol), to what a simulated container serves over HTTP.

The answers come from the cluster's port source; no connection is ever opened here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import h11
from websockets.frames import Frame, Opcode
from websockets.http11 import Request
from websockets.server import ServerProtocol

from sandbox.api.http import execs
from sandbox.api.meta import errors
from sandbox.api.meta.objects import Obj, dig

if TYPE_CHECKING:
    from sandbox.api.http.server import Receive, Send, Server

_PROTOCOL = "v4.channel.k8s.io"
_DATA, _ERROR = b"\0", b"\1"
_SWITCHES = 101
_LONGEST = 64 * 1024
"""Bytes of a message that is echoed."""


async def serve(server: Server, scope: dict[str, Any], receive: Receive, send: Send) -> None:
    """One websocket: one connection to a port, kept alive until its client goes."""
    await receive()
    request, _ = execs.parse(scope)
    try:
        pod = execs.pod_of(server, request, "portforward")
        port = int(request.query.get("ports", ""))
    except ValueError:
        await execs.refuse(scope, send, errors.bad_request('query parameter "ports" is required'))
        return
    except errors.ApiError as problem:
        await execs.refuse(scope, send, problem)
        return
    await send({"type": "websocket.accept", "subprotocol": _PROTOCOL})
    for channel in (_DATA, _ERROR):
        await send({"type": "websocket.send", "bytes": channel + port.to_bytes(2, "little")})
    if _listens(pod, port):
        await _Connection(server, pod, send).run(receive)
    else:
        words = f"failed to connect to localhost:{port} inside namespace: connection refused"
        await send({"type": "websocket.send", "bytes": _ERROR + words.encode()})
    await send({"type": "websocket.close", "code": 1000})


def _listens(pod: Obj, port: int) -> bool:
    ports = [each for c in pod["spec"]["containers"] for each in c.get("ports") or ()]
    is_named = any(each["containerPort"] == port for each in ports)
    return is_named and dig(pod, "status", "phase") == "Running"


class _Echo:
    """A WebSocket that sends back what it hears."""

    def __init__(self) -> None:
        self._protocol = ServerProtocol(max_size=_LONGEST)

    def heard(self, data: bytes) -> bytes:
        """What is answered to these bytes, the handshake first."""
        self._protocol.receive_data(data)
        for event in self._protocol.events_received():
            if isinstance(event, Request):
                self._protocol.send_response(self._protocol.accept(event))
            elif isinstance(event, Frame) and event.opcode is Opcode.TEXT:
                self._protocol.send_text(event.data, event.fin)
            elif isinstance(event, Frame) and event.opcode is Opcode.BINARY:
                self._protocol.send_binary(event.data, event.fin)
            elif isinstance(event, Frame) and event.opcode is Opcode.CONT:
                self._protocol.send_continuation(event.data, event.fin)
        return b"".join(self._protocol.data_to_send())

    @property
    def is_over(self) -> bool:
        """Whether the connection ends now."""
        return self._protocol.close_expected()


class _Connection:
    """HTTP/1.1 as a container would speak it, request by request, or a WebSocket from one of them on."""

    def __init__(self, server: Server, pod: Obj, send: Send) -> None:
        self._cluster, self._pod, self._out = server.cluster, pod, send
        self._http = h11.Connection(h11.SERVER)
        self._asked: h11.Request | None = None
        self._raw = b""
        """Of the request that is being read."""
        self._echo: _Echo | None = None

    async def run(self, receive: Receive) -> None:
        """Until the client goes, or says what is no HTTP."""
        while (message := await receive())["type"] == "websocket.receive":
            content = message.get("bytes") or b""
            if content.startswith(_DATA) and not await self._goes_on(content[1:]):
                return

    async def _goes_on(self, data: bytes) -> bool:
        """Answers what came; whether more may come."""
        self._raw += data
        try:
            if self._echo is None:
                self._http.receive_data(data)
            while self._echo is None and await self._heard(self._http.next_event()):
                pass
        except h11.RemoteProtocolError:
            return False
        if self._echo is None:
            return self._http.our_state is h11.IDLE or self._http.their_state is not h11.MUST_CLOSE
        heard, self._raw = self._raw, b""
        await self._send(self._echo.heard(heard))
        return not self._echo.is_over

    async def _heard(self, event: Any) -> bool:
        if isinstance(event, h11.Request):
            self._asked = event
        elif isinstance(event, h11.EndOfMessage) and self._asked:
            await self._answer(self._asked)
            if self._http.our_state is h11.MUST_CLOSE:
                return False
            if self._echo is None:
                self._http.start_next_cycle()
                self._raw = b""
        return event not in (h11.NEED_DATA, h11.PAUSED) and not isinstance(event, h11.ConnectionClosed)

    async def _answer(self, asked: h11.Request) -> None:
        source, now = self._cluster.ports, self._cluster.clock.now()
        headers = {key.decode(): value.decode("latin-1") for key, value in asked.headers}
        path = asked.target.decode("latin-1").partition("?")[0]
        status, media, body = (
            source.answer(self._pod, path, headers, now) if source else (404, "text/plain", b"")
        )
        if status == _SWITCHES:
            self._echo = _Echo()
            return
        shown = [("Content-Type", media), ("Content-Length", str(len(body))), ("Cache-Control", "no-store")]
        sent = self._http.send(h11.Response(status_code=status, headers=shown)) or b""
        sent += self._http.send(h11.Data(data=b"" if asked.method == b"HEAD" else body)) or b""
        sent += self._http.send(h11.EndOfMessage()) or b""
        await self._send(sent)

    async def _send(self, data: bytes) -> None:
        if data:
            await self._out({"type": "websocket.send", "bytes": _DATA + data})
