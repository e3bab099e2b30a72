"""The ASGI application: the API server plus the sandbox's own routes (/sandbox, /fleet) and websockets.

Starts and stops the controllers.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from starlette.routing import BaseRoute, Router

from sandbox.api.http import execs, forwards
from sandbox.api.http.faults import Cut
from sandbox.api.http.server import Receive, Send, Server

if TYPE_CHECKING:
    from sandbox.api.controllers.manager import Manager

_OWN = ("/sandbox/", "/fleet/")


class App:
    """What uvicorn serves."""

    def __init__(self, server: Server, manager: Manager, routes: list[BaseRoute]) -> None:
        self.server, self.manager = server, manager
        self._router = Router(routes)

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        """ASGI."""
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        elif scope["type"] == "websocket":
            source = forwards if scope["path"].endswith("/portforward") else execs
            await source.serve(self.server, scope, receive, send)
        elif scope["path"].startswith(_OWN):
            scope["state"] = {"server": self.server}
            await self._router(scope, receive, send)  # type: ignore[arg-type]
        else:
            await self._kubernetes(scope, receive, send)

    async def _kubernetes(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        try:
            await self.server.http(scope, receive, send)
        except Cut:
            await _hang_up(send)

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                self.manager.start()
                await send({"type": "lifespan.startup.complete"})
            elif message["type"] == "lifespan.shutdown":
                await self.manager.stop()
                await send({"type": "lifespan.shutdown.complete"})
                return


async def _hang_up(send: Send) -> None:
    """No answer at all: the client sees the connection end.

    ASGI has no word for it, so uvicorn's transport is asked.
    """
    transport = getattr(getattr(send, "__self__", None), "transport", None)
    if transport is not None:
        transport.abort()
    # The loop reports the loss to uvicorn on its next turns; only then may the request end without an answer.
    for _ in range(3):
        await asyncio.sleep(0)
