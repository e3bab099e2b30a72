"""Terminals of the portal's pages and of programs: a shell in a workload, carried by a WebSocket.

A client sends a code first (`shells.offer_terminal`), with the size of its terminal. From then on what is
typed goes as bytes and comes back as bytes; its size and `seen` go as JSON, and the last message is how it
ended. Programs rely on it: docs/ssh.md has it for them.
What runs there runs as SSH does (`portal.door.shells`): as the person's own account.
"""

import asyncio
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NamedTuple
from urllib.parse import urlsplit
from uuid import UUID

import orjson
from django.conf import settings
from django.db import Error as DatabaseError
from django.http.request import validate_host
from django.utils import timezone
from starlette.types import Receive, Scope, Send

from apps.cluster.errors import Rejected
from apps.cluster.gateway import executing
from apps.errors import Conflict, DomainError
from apps.workloads.opening.rules import shell_commands
from apps.workloads.opening.services import shells
from portal.door import headers
from portal.door.asking import in_thread
from portal.door.visits import Visit

KIND = "xterm-256color"
"""What xterm.js understands, by its name in terminfo."""
FIRST_SECONDS = 10.0
MOST_PER_PERSON = 16
MOST_UNSEEN = 512 * 1024
"""Bytes on their way to a page that has not said yet that it has them: a flood waits in the container."""
LARGEST = 64 * 1024
"""Bytes of one message: more is pasted in several."""
MOST = 2**31
"""Of anything that a page counts."""
NOT_HERE = 4404
"""A WebSocket close code."""
UNKNOWN = "Nobody can say at present who may come in. Connect again."
UNLIKE = "A message is missing, too large or not understood. Load the page again."


Size = tuple[int, int]
"""Columns and rows."""


class Gone(Exception):
    """The page has."""


class First(NamedTuple):
    """Which terminal a page wants."""

    code: str
    pod: int
    size: Size


class Terminals:
    """Every terminal of this process."""

    def __init__(self) -> None:
        self.inside: Counter[UUID] = Counter()

    async def serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One WebSocket, from its code to the end of the shell, of the right, or of the page."""
        await receive()
        workload = _workload(scope["path"])
        origin = headers.value(scope["headers"], b"origin")
        if workload is None or not (origin is None or _is_portals(origin)):
            await send({"type": "websocket.close", "code": NOT_HERE})
            return
        await send({"type": "websocket.accept"})
        with suppress(Gone, RuntimeError, OSError):
            ended = await self._terminal(_Page(receive, send), workload, is_page=origin is not None)
            await send({"type": "websocket.send", "text": orjson.dumps(ended).decode()})
            await send({"type": "websocket.close", "code": 1000})

    async def _terminal(self, page: "_Page", workload: UUID, *, is_page: bool) -> Mapping[str, Any]:
        """How it ended: `exit`, the shell's code or null where none ran to its end, and `words`."""
        try:
            first = await page.first()
            inside = await in_thread(
                shells.enter_terminal,
                workload=workload,
                code=first.code,
                is_page=is_page,
                now=timezone.now(),
            )
            person = inside.credential.user
            if self.inside[person] >= MOST_PER_PERSON:
                raise Conflict(f"You have {MOST_PER_PERSON} terminals open.", hint="Close one first.")
            self.inside[person] += 1
            try:
                return await _ran(page, await Visit.begun(inside, first.pod), first.size)
            finally:
                self.inside[person] -= 1
        except DomainError as refused:
            return _over(f"{refused.detail} {refused.hint or ''}".strip())
        except Rejected as refused:
            return _over(f"The cluster refuses: {refused.message}")
        except DatabaseError:
            return _over(UNKNOWN)
        except (TimeoutError, ValueError):
            return _over(UNLIKE)


class _Page:
    """The other end of the WebSocket."""

    def __init__(self, receive: Receive, send: Send) -> None:
        self._receive, self._send = receive, send
        self._unseen, self._free = 0, asyncio.Event()
        self._free.set()

    async def first(self) -> First:
        """Its first message; raises ValueError for anything else, TimeoutError where none comes."""
        async with asyncio.timeout(FIRST_SECONDS):
            said = _said(await self._next())
        return First(str(said.get("code", "")), _whole(said.get("pod", 0)), _size(said))

    async def write(self, output: bytes) -> None:
        """Send it once there is room for it."""
        await self._free.wait()
        self._unseen += len(output)
        if self._unseen > MOST_UNSEEN:
            self._free.clear()
        await self._send({"type": "websocket.send", "bytes": output})

    async def typed(self, to: executing.Command, visit: Visit) -> None:
        """Carry what is typed until the page goes; raises ValueError for what no page of ours sends."""
        while True:
            message = await self._next()
            if (data := message.get("bytes")) is not None:
                visit.note_use()
                await to.write(data)
                continue
            said = _said(message)
            if "seen" in said:
                self._saw(_whole(said["seen"]))
            if "columns" in said:
                await to.resize(*_size(said))

    def _saw(self, count: int) -> None:
        self._unseen = max(0, self._unseen - count)
        if self._unseen <= MOST_UNSEEN:
            self._free.set()

    async def _next(self) -> Mapping[str, Any]:
        message = await self._receive()
        if message["type"] != "websocket.receive":
            raise Gone
        if len(message.get("bytes") or message.get("text") or "") > LARGEST:
            raise ValueError(LARGEST)
        return message


async def _ran(page: _Page, visit: Visit, size: Size) -> Mapping[str, Any]:
    account = await visit.account()
    shell = shell_commands.shell(KIND)
    way = account.pods.run_command(account.namespace, account.pod, shell, is_terminal=True)
    async with executing.running(way) as command:
        await command.resize(*size)
        output = asyncio.ensure_future(_output(page, command))
        typed = asyncio.ensure_future(page.typed(command, visit))
        over = asyncio.ensure_future(visit.over())
        tasks = {output, typed, over}
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if output.done():
                output.result()
                return {"exit": command.exit.code, "words": command.exit.words}
            if typed.done():
                typed.result()
            return _over("Your access to it has ended.")
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)


async def _output(page: _Page, command: executing.Command) -> None:
    async for _, content in command:
        await page.write(content)


def _over(words: str) -> Mapping[str, Any]:
    return {"exit": None, "words": words}


def _is_portals(origin: bytes) -> bool:
    """Whether a page of the portal asks, under any name that it goes by. What lets in is the code, which no
    other page has; this keeps workloads' pages from even trying. Where there is no origin, no page asks: a
    browser says in every WebSocket which one does, and lets no script say otherwise. So a program that has
    the code of an API token comes in without, and every other page stays refused.
    """
    host = urlsplit(origin.decode("latin-1")).hostname
    return bool(host) and validate_host(str(host), settings.ALLOWED_HOSTS)


def _workload(path: str) -> UUID | None:
    try:
        return UUID(path.removeprefix("/"))
    except ValueError:
        return None


def _said(message: Mapping[str, Any]) -> Mapping[str, Any]:
    said = orjson.loads(message.get("text") or "")
    if not isinstance(said, dict):
        raise ValueError(type(said))  # noqa: TRY004 - as for what is no JSON
    return said


def _size(said: Mapping[str, Any]) -> Size:
    return _whole(said.get("columns")), _whole(said.get("rows"))


def _whole(number: Any) -> int:
    if not isinstance(number, int) or not 0 <= number <= MOST:
        raise ValueError(number)
    return number
