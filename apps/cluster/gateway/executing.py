"""A command in a container through the API server, on the event loop: its input, its output and its end.

The kubelet's own WebSocket form of exec. Each message's first byte is its channel: 0 to 2 are the command's
input, output and errors, 3 says how it ended (a `Status` of Kubernetes), 4 is the terminal's size. The fifth
version can also end the input, which `cat > file` waits for. Source: the API server's own
`k8s.io/apimachinery/pkg/util/remotecommand`, KEP 4006.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import orjson
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException

from apps.cluster.errors import Unreachable
from apps.cluster.gateway import answers
from apps.cluster.gateway.forwarding import Way, opened

ENDS_INPUT: Any = "v5.channel.k8s.io"
PROTOCOLS: tuple[Any, ...] = (ENDS_INPUT, "v4.channel.k8s.io")
INPUT, OUTPUT, ERRORS, STATUS, SIZE, CLOSE = 0, 1, 2, 3, 4, 255
LAST_SECONDS = 5.0
"""For which output is still awaited once a command has ended."""
CUT_OFF = 255
"""As OpenSSH's client says it where it has lost the other side."""
CANNOT_RUN = 126


@dataclass(frozen=True)
class Exit:
    """How a command ended: its exit code, and what the cluster says where it could not run it at all."""

    code: int
    words: str = ""


class Command:
    """A command that runs: what it writes is iterated over as (channel, bytes), and `exit` stands after."""

    def __init__(self, stream: ClientConnection) -> None:
        self._stream = stream
        self.exit = Exit(CUT_OFF, "The connection to the container has ended.")

    async def write(self, data: bytes) -> None:
        """To its input."""
        await self._send(INPUT, data)

    async def end_input(self) -> None:
        """Nothing more comes. A server of before 1.30 cannot hear it, and its command waits on."""
        if self._stream.subprotocol == ENDS_INPUT:
            await self._send(CLOSE, bytes([INPUT]))

    async def resize(self, columns: int, rows: int) -> None:
        """Its terminal has another size now."""
        await self._send(SIZE, orjson.dumps({"Width": columns, "Height": rows}))

    async def __aiter__(self) -> AsyncIterator[tuple[int, bytes]]:
        """Until its connection ends. RULE: what a command wrote last may come after how it ended, because the
        kubelet sends both on streams of their own; the server closes once all of them are through.
        """
        left: float | None = None
        with contextlib.suppress(ConnectionClosed, TimeoutError):
            while True:
                message = await asyncio.wait_for(self._stream.recv(), left)
                if not isinstance(message, bytes) or not message:
                    continue
                channel, content = message[0], message[1:]
                if channel == STATUS:
                    self.exit, left = ended(content), LAST_SECONDS
                elif content and channel in (OUTPUT, ERRORS):
                    yield channel, content

    async def _send(self, channel: int, content: bytes) -> None:
        # What ends meanwhile says so where its output is read.
        with contextlib.suppress(ConnectionClosed):
            await self._stream.send(bytes([channel]) + content)


@asynccontextmanager
async def running(way: Way) -> AsyncIterator[Command]:
    """Run the command of `PodAccess.run_command`; it loses its connection at the end of the context.

    Raises as every call of the gateway does: Rejected and its kin, Unreachable.
    """
    async with contextlib.AsyncExitStack() as stack:
        try:
            stream = await stack.enter_async_context(opened(way, *PROTOCOLS))
        except InvalidStatus as refused:
            said = refused.response
            raise answers.refusal(said.status_code, said.headers, bytes(said.body or b"")) from None
        except (WebSocketException, OSError, TimeoutError) as error:
            raise Unreachable(answers.silence(error)) from error
        yield Command(stream)


def query(command: Sequence[str], *, is_terminal: bool, container: str) -> str:
    """What the API server is asked for: with a terminal, errors are part of the output."""
    flags = {"stdin": True, "stdout": True, "stderr": not is_terminal, "tty": is_terminal}
    asked = [(name, "true") for name, is_on in flags.items() if is_on]
    asked += [("container", container)] if container else []
    return urlencode([*asked, *(("command", word) for word in command)])


def ended(status: bytes) -> Exit:
    """What the last channel says: the exit code stands among the causes of a failure."""
    try:
        said = orjson.loads(status)
    except orjson.JSONDecodeError:
        return Exit(CANNOT_RUN, status[:300].decode(errors="replace"))
    if said.get("status") == "Success":
        return Exit(0)
    for cause in (said.get("details") or {}).get("causes") or ():
        if cause.get("reason") == "ExitCode" and str(cause.get("message", "")).isdigit():
            return Exit(int(cause["message"]))
    return Exit(CANNOT_RUN, str(said.get("message", "")))
