"""What the door adds to a WebSocket, and what it holds: 200 open notebooks with one each.

Each notebook has a socket straight to its pod and one through the door, which reaches the pod by a
port-forward; they are asked in turn, in alternating order. What is told of the door includes the forward's
other end: a stand-in for API server and kubelet, in Python. At the end the door is killed and started again,
and every browser comes back with its cookie.
"""

import asyncio
import random
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from websockets.asyncio.client import ClientConnection, connect

from tests.door.house import House, house
from tests.door.pod import Pod

NOTEBOOKS, AT_ONCE, GOAL_MS, GOAL_MB = 200, 20, 3.0, 300
MESSAGE = "x" * 200


def sockets(rounds: int) -> Iterator[dict[str, object]]:
    """A line per round, then the medians against the goals."""
    with tempfile.TemporaryDirectory() as folder:
        pod = Pod("bench")
        with house(Path(folder) / "home", {"bench": pod}, notebooks=NOTEBOOKS) as found:
            runner = asyncio.Runner()
            lines = _measured(found, pod.port, rounds)
            with runner:
                while line := runner.run(anext(lines, None)):
                    yield line


async def _measured(found: House, pod: int, rounds: int) -> AsyncIterator[dict[str, object]]:
    bare = found.memory
    added: list[float] = []
    async with AsyncExitStack() as open_:
        straight = [await open_.enter_async_context(_straight(pod)) for _ in range(NOTEBOOKS)]
        through = await _entered(found, open_)
        for each in straight:
            await each.recv()
        for number in range(rounds):
            pairs = [await _pair(*both) for both in zip(straight, through, strict=True)]
            added += [through_ - straight_ for straight_, through_ in pairs]
            yield {"suite": "door", "round": number} | {
                f"{name}_p50_ms": round(statistics.median(times), 3)
                for name, times in zip(("straight", "through"), zip(*pairs, strict=True), strict=True)
            }
        memory = found.memory
    began = time.monotonic()
    found.restart_door()
    listened = time.monotonic()
    async with AsyncExitStack() as open_:
        came_back = len(await _entered(found, open_))
    p50 = statistics.median(added)
    yield {
        "suite": "door", "notebooks": NOTEBOOKS, "added_p50_ms": round(p50, 3),
        "added_p95_ms": round(statistics.quantiles(added, n=20)[-1], 3), "goal_ms": GOAL_MS,
        "memory_mb": round(memory / 1e6), "memory_bare_mb": round(bare / 1e6), "goal_mb": GOAL_MB,
        "came_back": came_back, "listens_again_s": round(listened - began, 1),
        "came_back_s": round(time.monotonic() - listened, 1),
        "holds": p50 <= GOAL_MS and memory <= GOAL_MB * 1e6 and came_back == NOTEBOOKS,
    }  # fmt: skip


def _straight(port: int) -> connect:
    return connect(f"ws://127.0.0.1:{port}/ws", proxy=None, compression=None)


async def _entered(found: House, open_: AsyncExitStack) -> Sequence[ClientConnection]:
    """All of them, as browsers come back: so many at once."""
    turn = asyncio.Semaphore(AT_ONCE)

    async def enter(workload: str, cookie: str) -> ClientConnection:
        host = f"{workload}.localhost:{found.door}"
        how: dict[str, Any] = {
            "origin": f"http://{host}",
            "additional_headers": {"Cookie": f"allotment_way={cookie}"},
            "open_timeout": 120,
        }
        uri = f"ws://{host}/ws"
        socket = connect(uri, host="127.0.0.1", port=found.door, proxy=None, compression=None, **how)
        async with turn:
            entered = await open_.enter_async_context(socket)
            assert b"authorization" in await entered.recv(decode=False)
        return entered

    return await asyncio.gather(*(enter(*each) for each in found.stage["notebooks"]))


async def _pair(straight: ClientConnection, through: ClientConnection) -> tuple[float, float]:
    """Milliseconds there and back, in either order."""
    if random.random() < 0.5:
        first = await _asked(straight)
        return first, await _asked(through)
    second = await _asked(through)
    return await _asked(straight), second


async def _asked(socket: ClientConnection) -> float:
    began = time.perf_counter()
    await socket.send(MESSAGE)
    assert await socket.recv() == MESSAGE
    return 1000 * (time.perf_counter() - began)
