"""A small real server as the pod of a notebook: it says what it heard, streams, takes uploads, and echoes."""

import asyncio
import threading
from collections.abc import AsyncIterator
from typing import Any, Self

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from tests.patience import patient

CHUNK = b"x" * 65536


async def said(request: Request) -> Response:
    """What the IDE heard."""
    heard = [[key.decode(), value.decode("latin-1")] for key, value in request.headers.raw]
    return JSONResponse(
        {"path": request.scope["raw_path"].decode(), "query": request.url.query, "heard": heard}
    )


async def page(request: Request) -> Response:
    """A page whose scripts may do as they like."""
    return HTMLResponse(f"<title>pod</title><h1>pod of {request.app.state.name}</h1>")


async def forever(_: Request) -> Response:
    """A stream that never ends by itself."""

    async def ticks() -> AsyncIterator[bytes]:
        while True:
            yield b"data: tick\n\n"
            await asyncio.sleep(0.05)

    return StreamingResponse(ticks(), media_type="text/event-stream")


async def quiet(_: Request) -> Response:
    """A stream that says one word and then nothing."""

    async def one() -> AsyncIterator[bytes]:
        yield b"data: hello\n\n"
        await asyncio.sleep(3600)

    return StreamingResponse(one(), media_type="text/event-stream")


async def down(request: Request) -> Response:
    """So many bytes."""
    pieces = int(request.query_params["mib"]) * 16

    async def all_of_it() -> AsyncIterator[bytes]:
        for _ in range(pieces):
            yield CHUNK

    return StreamingResponse(all_of_it(), headers={"Content-Length": str(pieces * len(CHUNK))})


async def up(request: Request) -> Response:
    """How many bytes came."""
    size = 0
    async for chunk in request.stream():
        size += len(chunk)
    return JSONResponse({"size": size, "framing": request.headers.get("transfer-encoding", "length")})


async def part(request: Request) -> Response:
    """A part of a file, and when it was changed."""
    headers = {"Last-Modified": "Mon, 23 Nov 2026 08:00:00 GMT", "Content-Range": "bytes 2-4/10"}
    assert request.headers["range"] == "bytes=2-4"
    return Response(b"234", 206, headers=headers)


async def cookies(_: Request) -> Response:
    """Cookies of every kind, and what concerns one hop."""
    answer = Response("set")
    for line in (
        "plain=1; Path=/",
        "wide=1; Domain=apps.test; Path=/",
        "wider=1; path=/; DOMAIN=.test",
        "allotment_way=planted; Path=/",
        "__Host-allotment_session=planted; Path=/; Secure",
    ):
        answer.raw_headers.append((b"set-cookie", line.encode()))
    answer.raw_headers += [(b"connection", b"x-secret"), (b"x-secret", b"1"), (b"keep-alive", b"timeout=5")]
    return answer


async def away(request: Request) -> Response:
    """A redirect to wherever one likes."""
    return Response(status_code=302, headers={"Location": request.query_params["to"]})


async def echo(socket: WebSocket) -> None:
    """What comes goes back; it begins with what was heard."""
    asked = socket.scope["subprotocols"]
    await socket.accept(subprotocol=asked[0] if asked else None)
    await socket.send_json(dict(socket.headers))
    try:
        while True:
            message = await socket.receive()
            if message["type"] == "websocket.disconnect":
                return
            if message.get("text") is not None:
                await socket.send_text(message["text"])
            else:
                await socket.send_bytes(message["bytes"])
    except WebSocketDisconnect:
        return


async def socket_away(socket: WebSocket) -> None:
    """A handshake that is answered with a redirect."""
    where = {"Location": socket.query_params["to"]}
    await socket.send_denial_response(Response(status_code=302, headers=where))


METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE"]
ROUTES = {
    "/forever": forever, "/quiet": quiet, "/down": down, "/up": up, "/part": part, "/cookies": cookies,
    "/away": away, "/": page,
}  # fmt: skip


class Pod:
    """Serves in a thread of its own while it is entered."""

    def __init__(self, name: str, extra: Any = ()) -> None:
        routes = [
            *extra,
            *(Route(path, at, methods=METHODS) for path, at in ROUTES.items()),
            WebSocketRoute("/ws", echo),
            WebSocketRoute("/ws-away", socket_away),
            Route("/{rest:path}", said, methods=METHODS),
        ]
        app = Starlette(routes=routes)
        app.state.name = name
        self.server = uvicorn.Server(
            uvicorn.Config(app, port=0, log_level="error", lifespan="off", ws="websockets-sansio")
        )
        self._thread = threading.Thread(target=self.server.run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        while not self.server.started:
            self._thread.join(0.02)
        self.port: int = self.server.servers[0].sockets[0].getsockname()[1]
        return self

    def __exit__(self, *_: object) -> None:
        self.server.force_exit = self.server.should_exit = True
        self._thread.join(patient(10))
