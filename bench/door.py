"""What the door adds to a WebSocket, and what it holds: 200 open notebooks with one each.

Each notebook has a socket straight to its pod, one through the door, which reaches the pod by a port-forward,
and one through configurable-http-proxy, where there is npm; they are asked in turn, in any order. What is
said of the door includes the other end of the forward: a stand-in for API server and kubelet, in Python. Then
the door is killed and started again, and every browser comes back with its cookie.
"""

import asyncio
import random
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from itertools import chain
from pathlib import Path
from typing import Any

from websockets.asyncio.client import ClientConnection, connect

from bench import node_proxy
from bench.node_proxy import NodeProxy
from tests.door.house import House, house
from tests.door.pod import Pod

NOTEBOOKS, AT_ONCE, GOAL_MS, GOAL_MB = 200, 20, 3.0, 300
MESSAGE = "x" * 200


def sockets(rounds: int) -> Iterator[dict[str, object]]:
    """A line per round, then the medians against the goals."""
    with tempfile.TemporaryDirectory() as folder:
        pod = Pod("bench")
        with house(Path(folder) / "home", {"bench": pod}, notebooks=NOTEBOOKS) as found:
            hosts = [f"{workload}.localhost" for workload, _ in found.stage["notebooks"]]
            with node_proxy.before(hosts, pod.port) as other, asyncio.Runner() as runner:
                lines = _measured(found, pod.port, other, rounds)
                while line := runner.run(anext(lines, None)):
                    yield line


async def _measured(
    found: House, pod: int, other: NodeProxy | None, rounds: int
) -> AsyncIterator[dict[str, object]]:
    bare, other_bare = found.memory, other.memory if other else 0
    times = defaultdict[str, list[float]](list)
    async with AsyncExitStack() as open_:
        ways = {"straight": [await open_.enter_async_context(_straight(pod)) for _ in range(NOTEBOOKS)]}
        if other:
            hosts = [f"{workload}.localhost" for workload, _ in found.stage["notebooks"]]
            ways["other"] = [await open_.enter_async_context(_straight(other.port, host)) for host in hosts]
        for each in chain(*ways.values()):
            await each.recv()
        ways["through"] = list(await _entered(found, open_))
        for number in range(rounds):
            asked = [
                await _turn(dict(zip(ways, each, strict=True))) for each in zip(*ways.values(), strict=True)
            ]
            for way in ways:
                times[way] += [each[way] for each in asked]
            yield {"suite": "door", "round": number} | {
                f"{way}_p50_ms": round(statistics.median(each[way] for each in asked), 3) for way in ways
            }
        memory, other_memory = found.memory, other.memory if other else 0
    began = time.monotonic()
    found.restart_door()
    listened = time.monotonic()
    async with AsyncExitStack() as open_:
        came_back = len(await _entered(found, open_))
    added = {way: _added(times[way], times["straight"]) for way in ways if way != "straight"}
    p50, p95 = added["through"]
    yield {
        "suite": "door", "notebooks": NOTEBOOKS, "added_p50_ms": p50, "added_p95_ms": p95, "goal_ms": GOAL_MS,
        "memory_mb": round(memory / 1e6), "memory_bare_mb": round(bare / 1e6), "goal_mb": GOAL_MB,
        "came_back": came_back, "listens_again_s": round(listened - began, 1),
        "came_back_s": round(time.monotonic() - listened, 1),
        **_of_other(added.get("other"), other_bare, other_memory),
        "holds": p50 <= GOAL_MS and memory <= GOAL_MB * 1e6 and came_back == NOTEBOOKS,
    }  # fmt: skip


def _of_other(added: tuple[float, float] | None, bare: int, memory: int) -> dict[str, object]:
    if added is None:
        return {"other": "npm is missing"}
    return {
        "other_added_p50_ms": added[0],
        "other_added_p95_ms": added[1],
        "other_memory_mb": round(memory / 1e6),
        "other_memory_bare_mb": round(bare / 1e6),
    }


def _added(times: Sequence[float], straight: Sequence[float]) -> tuple[float, float]:
    """p50 and p95 of what a way adds, in ms."""
    added = [through - bare for through, bare in zip(times, straight, strict=True)]
    return round(statistics.median(added), 3), round(statistics.quantiles(added, n=20)[-1], 3)


def _straight(port: int, host: str = "127.0.0.1") -> connect:
    uri = f"ws://{host}:{port}/ws"
    return connect(uri, host="127.0.0.1", port=port, proxy=None, compression=None)


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


async def _turn(sockets: Mapping[str, ClientConnection]) -> dict[str, float]:
    """Milliseconds there and back on each way, in any order."""
    return {way: await _asked(sockets[way]) for way in random.sample(list(sockets), len(sockets))}


async def _asked(socket: ClientConnection) -> float:
    began = time.perf_counter()
    await socket.send(MESSAGE)
    assert await socket.recv() == MESSAGE
    return 1000 * (time.perf_counter() - began)
