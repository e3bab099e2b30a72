"""The HTTP protocol of the web process: uvicorn's own, with a limit to how long a request's head may take,
and streams that end with their server; and a server that rests.

uvicorn bounds the size of a head and how long an idle connection is kept, but not how long a head may take to
dribble in. Used as `uvicorn --http portal.protocol:Protocol`.

A stream of events has no end that uvicorn could wait for: it would cut each off after its time for answers
under way, with a traceback.

At rest most of what uvicorn does is to look ten times a second whether it shall end.
"""

import asyncio
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from apps.web.streams import streaming

HEAD_SECONDS = 10.0
LOOK_SECONDS = 0.5
"""How long a server may take to see that it shall end."""


class Protocol(H11Protocol):
    """A connection that is closed when no complete head arrives within `HEAD_SECONDS` of its first byte, or
    of the connection.
    """

    _head: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """The first head is awaited from now on."""
        super().connection_made(transport)
        self._await_head()

    def data_received(self, data: bytes) -> None:
        """Part of a head, or what follows it."""
        super().data_received(data)
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing more comes."""
        self._forget_head()
        super().connection_lost(exc)

    def shutdown(self) -> None:
        """The server ends: streams before it waits for what is under way."""
        streaming.end_all()
        super().shutdown()

    def _await_head(self) -> None:
        if self.conn.their_state is not h11.IDLE:
            self._forget_head()
        elif self._head is None and not self._is_kept_alive():
            self._head = self.loop.call_later(HEAD_SECONDS, self._give_up)

    def _is_kept_alive(self) -> bool:
        """Whether uvicorn's own clock runs: between two requests."""
        return self.timeout_keep_alive_task is not None

    def _give_up(self) -> None:
        self._head = None
        if not self.transport.is_closing():
            self.transport.close()

    def _forget_head(self) -> None:
        if self._head is not None:
            self._head.cancel()
            self._head = None

    def handle_websocket_upgrade(self, event: Any) -> None:
        """The connection goes to another protocol."""
        self._forget_head()
        super().handle_websocket_upgrade(event)


async def _look_seldom(self: uvicorn.Server) -> None:
    """As `uvicorn.Server.main_loop`; each look also writes the date that answers carry."""
    while not await self.on_tick(counter=0):  # noqa: ASYNC110 - a flag is all that uvicorn has
        await asyncio.sleep(LOOK_SECONDS)


uvicorn.Server.main_loop = _look_seldom  # type: ignore[method-assign]
