"""The door's side of a terminal, of a page or a program: who is turned away, what is carried, how it ends.

A whole one, from the page to a simulated container, is in tests/story/test_sandbox_story.py.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from apps.cluster.gateway import executing
from apps.cluster.gateway.executing import OUTPUT, Exit
from apps.errors import Conflict
from apps.workloads.opening.services import shells
from portal.door import terminals
from portal.door.terminals import MOST_UNSEEN, Terminals
from portal.door.visits import Visit
from tests.patience import patient

WORKLOAD, PORTAL = UUID(int=7), b"http://localhost:8000"
FIRST = json.dumps({"code": "a-code", "pod": 1, "columns": 90, "rows": 20})


class Socket:
    """A WebSocket of a page that says these things; `said` is what it hears."""

    def __init__(self, *says: str | bytes) -> None:
        self.said = list[Any]()
        self._coming = asyncio.Queue[Any]()
        self._coming.put_nowait({"type": "websocket.connect"})
        for each in says:
            self.say(each)

    def say(self, what: str | bytes) -> None:
        kind = "text" if isinstance(what, str) else "bytes"
        self._coming.put_nowait({"type": "websocket.receive", kind: what})

    def go(self) -> None:
        self._coming.put_nowait({"type": "websocket.disconnect"})

    async def receive(self) -> Any:
        return await self._coming.get()

    async def send(self, message: Any) -> None:
        self.said.append(message)

    @property
    def ended(self) -> Any:
        """How it says the terminal ended."""
        return next(json.loads(each["text"]) for each in self.said if each.get("text"))


async def served(socket: Socket, origin: bytes | None = PORTAL, path: str = f"/{WORKLOAD}") -> None:
    headers = [] if origin is None else [(b"origin", origin)]
    scope = {"type": "websocket", "path": path, "headers": headers}
    async with asyncio.timeout(patient(10)):
        await Terminals().serve(scope, socket.receive, socket.send)


@pytest.mark.parametrize(
    ("origin", "path"),
    [
        (b"", f"/{WORKLOAD}"),
        (None, "/vision/nb"),
        (b"http://00000000-0000-0000-0000-000000000009.localhost:8001", f"/{WORKLOAD}"),
        (b"https://evil.example", f"/{WORKLOAD}"),
        (b"null", f"/{WORKLOAD}"),
        (PORTAL, "/vision/nb"),
    ],
)
def test_no_page_but_the_portals_is_let_near(origin: bytes | None, path: str) -> None:
    async def tried() -> list[Any]:
        socket = Socket(FIRST)
        await served(socket, origin, path)
        return socket.said

    assert asyncio.run(tried()) == [{"type": "websocket.close", "code": terminals.NOT_HERE}]


class Command:
    """A shell that writes these things, then ends or waits; `heard` is what is typed and how it is sized."""

    def __init__(self, *writes: bytes, ends: bool = True) -> None:
        self._writes, self._ends = writes, ends
        self.exit, self.heard, self.written = Exit(3), list[Any](), 0

    async def write(self, data: bytes) -> None:
        self.heard.append(data)

    async def resize(self, columns: int, rows: int) -> None:
        self.heard.append((columns, rows))

    async def __aiter__(self) -> AsyncIterator[tuple[int, bytes]]:
        for each in self._writes:
            self.written += 1
            yield OUTPUT, each
        if not self._ends:
            await asyncio.Event().wait()


class Inside:
    """Whoever comes in with the code `a-code`, and what becomes of them: stands for `Visit` as well."""

    def __init__(self, command: Command) -> None:
        self._command = command
        self.uses, self.asked, self.pages = 0, list[Any](), list[bool]()
        self.watched, self.ended = asyncio.Event(), asyncio.Event()

    def enter(self, *, code: str, is_page: bool, **_: object) -> Any:
        self.pages.append(is_page)
        if code != "a-code":
            raise Conflict("It is not ready: stopped.", hint="Start it again first.")
        return SimpleNamespace(credential=SimpleNamespace(user=UUID(int=1)))

    async def begun(self, _: object, place: int) -> "Inside":
        self.asked.append(place)
        return self

    async def account(self) -> Any:
        pods = SimpleNamespace(run_command=lambda *asked, **_: self.asked.append(asked))
        return SimpleNamespace(pods=pods, namespace="vision", pod="nb-1")

    async def over(self) -> None:
        self.watched.set()
        await self.ended.wait()

    def note_use(self) -> None:
        self.uses += 1

    @asynccontextmanager
    async def running(self, _: object) -> AsyncIterator[Command]:
        yield self._command


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> Callable[[Command], Inside]:
    """Let whoever brings the code in, to this shell."""

    def with_(command: Command) -> Inside:
        inside = Inside(command)
        monkeypatch.setattr(shells, "enter_terminal", inside.enter)
        monkeypatch.setattr(Visit, "begun", inside.begun)
        monkeypatch.setattr(executing, "running", inside.running)
        return inside

    return with_


def test_what_is_typed_and_sized_goes_in_and_the_end_comes_back(runs: Any) -> None:
    command = Command(b"$ ")
    inside = runs(command)

    async def talk() -> Socket:
        socket = Socket(FIRST, b"ls\r", json.dumps({"columns": 100, "rows": 30}))
        await served(socket)
        return socket

    socket = asyncio.run(talk())
    assert command.heard == [(90, 20), b"ls\r", (100, 30)]
    assert [each["bytes"] for each in socket.said if each.get("bytes")] == [b"$ "]
    assert socket.ended == {"exit": 3, "words": ""}
    assert (inside.uses, inside.asked[0], inside.asked[1][:2]) == (1, 1, ("vision", "nb-1"))


def test_a_program_says_no_origin_and_comes_in_as_none_of_the_pages(runs: Any) -> None:
    inside = runs(Command(b"$ "))

    async def talk() -> list[Any]:
        program, page = Socket(FIRST), Socket(FIRST)
        await served(program, None)
        await served(page)
        return [program.ended, page.ended]

    assert asyncio.run(talk()) == [{"exit": 3, "words": ""}] * 2
    assert inside.pages == [False, True]


@pytest.mark.parametrize(
    ("says", "words"),
    [
        (["no JSON"], terminals.UNLIKE),
        (["[]"], terminals.UNLIKE),
        ([b"typed"], terminals.UNLIKE),
        ([json.dumps({"code": "a-code", "columns": -1, "rows": 1})], terminals.UNLIKE),
        ([FIRST, b"x" * (terminals.LARGEST + 1)], terminals.UNLIKE),
        ([FIRST.replace("a-code", "another")], "It is not ready: stopped. Start it again first."),
    ],
)
def test_what_no_page_of_ours_says_and_a_refusal_end_it_in_words(
    runs: Any, says: Sequence[str | bytes], words: str
) -> None:
    runs(Command(ends=False))

    async def talk() -> Socket:
        socket = Socket(*says)
        await served(socket)
        return socket

    assert asyncio.run(talk()).ended == {"exit": None, "words": words}


def test_a_flood_waits_until_the_page_has_seen_it(runs: Any) -> None:
    piece = b"x" * 64 * 1024
    command = Command(*[piece] * 64)
    runs(command)

    async def talk() -> int:
        socket = Socket(FIRST)
        serving = asyncio.ensure_future(served(socket))
        for _ in range(500):
            await asyncio.sleep(0)
        held = command.written
        while not serving.done():
            socket.say(json.dumps({"seen": len(piece)}))
            await asyncio.sleep(0)
        await serving
        return held

    assert asyncio.run(talk()) == MOST_UNSEEN // len(piece) + 2
    assert command.written == 64


def test_it_ends_with_its_right_and_with_its_page(runs: Any) -> None:
    inside = runs(Command(ends=False))

    async def talk() -> Any:
        socket = Socket(FIRST)
        serving = asyncio.ensure_future(served(socket))
        await inside.watched.wait()
        inside.ended.set()
        await serving
        gone = Socket(FIRST)
        gone.go()
        await served(gone)
        return socket.ended, gone.said

    ended, said = asyncio.run(talk())
    assert ended == {"exit": None, "words": "Your access to it has ended."}
    assert said == [{"type": "websocket.accept"}]


def test_one_person_has_so_many_at_once(runs: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    runs(Command())
    monkeypatch.setattr(terminals, "MOST_PER_PERSON", 0)

    async def talk() -> Socket:
        socket = Socket(FIRST)
        await served(socket)
        return socket

    assert "terminals open. Close one first." in asyncio.run(talk()).ended["words"]
