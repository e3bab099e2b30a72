"""G5: a change in the cluster until its bytes are at one client, against a raw relay of the same watch.

The change: the running notebook's pod becomes unready, and ready again, by a write to the API server. The
client listens to REST's event stream: the portal's live stream, with JSON instead of names of parts.
"""

import asyncio
import json
import os
import socket
import subprocess
import sys
import time
from asyncio import FIRST_COMPLETED
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from statistics import median
from typing import Any

import aiohttp

from bench import processes
from bench.bare import ApiServer
from bench.figures import Ratio, milliseconds
from bench.rig import ROOT, Rig, until
from tests.ports import free_port

CHANGES = 4
"""Changes of one side in one round."""
PAUSE = 1.5
"""Longer than the quarter of a second in which events are gathered, and than Kueue's echo."""
Heard = tuple[float, bytes]
"""When the data of an event came, and what it was."""


def changes(rig: Rig, *, rounds: int) -> Iterator[dict[str, Any]]:
    """From sending the change to the first bytes of an event at the client."""
    rig.clear()
    row = rig.submit("watched")
    until(lambda: rig.rest.get(f"/workloads/{row['id']}").json()["status"]["phase"] == "Running", "it to run")
    namespace = rig.namespace("vision")
    pod = rig.plane.kubectl("-n", namespace, "get", "pods", "-o", "jsonpath={.items[0].metadata.name}")
    with _relay(rig, namespace) as (address, pid):
        pairs = asyncio.run(_Listening(rig, address, f"{namespace}/pods/{pod}").rounds(rounds, pid))
    ours, reference = ([median(side) for side in sides] for sides in zip(*pairs, strict=True))
    for number, (mine, theirs) in enumerate(zip(ours, reference, strict=True)):
        yield {
            "suite": "g5", "round": number, "n": CHANGES, "ours_ms": round(mine * 1000, 1),
            "relay_ms": round(theirs * 1000, 1), "ratio": round(mine / theirs, 2),
        }  # fmt: skip
    yield {
        "suite": "g5", "what": "change to the bytes of its event at one client, over a raw relay",
        "n": rounds * CHANGES, **Ratio.of(ours, reference).shown(), "goal": "<= 2", "aim": "<= 1.5",
        "ours_p50_ms": milliseconds(ours), "relay_p50_ms": milliseconds(reference),
    }  # fmt: skip
    rig.clear()


class _Listening:
    """One client on each stream, and the hand that changes the pod."""

    def __init__(self, rig: Rig, relay: str, pod: str) -> None:
        self.rig, self.relay = rig, relay
        self.server = ApiServer(rig.plane.admin_kubeconfig)
        self.url = f"{self.server.url}/api/v1/namespaces/{pod}/status"
        self.is_ready = True

    async def rounds(self, count: int, relay_pid: int) -> list[tuple[list[float], list[float]]]:
        """Alternating; while one side is measured the other one stands still."""
        token = {"Authorization": f"Bearer {self.rig.token('researcher')}"}
        found = []
        async with (
            self.server.session() as writer,
            _events(f"{self.rig.url}/api/v1/events?tenant=vision", token) as ours,
            _events(self.relay, {}) as relayed,
        ):
            await self._several(writer, ours)  # warm
            for number in range(count):
                sides = [await self._side(writer, number, n, (ours, relayed), relay_pid) for n in range(2)]
                found.append((sides[number % 2], sides[1 - number % 2]))
        return found

    async def _side(
        self, writer: aiohttp.ClientSession, number: int, turn: int, heard: tuple[Any, Any], relay_pid: int
    ) -> list[float]:
        is_ours = (number + turn) % 2 == 0
        with processes.standing_still([relay_pid] if is_ours else self.rig.product()):
            took = await self._several(writer, heard[0 if is_ours else 1])
        await asyncio.sleep(PAUSE)
        return took

    async def _several(self, writer: aiohttp.ClientSession, heard: "asyncio.Queue[Heard]") -> list[float]:
        took = []
        for _ in range(CHANGES):
            await asyncio.sleep(PAUSE)
            while not heard.empty():
                heard.get_nowait()
            began = time.perf_counter()
            await self._change(writer)
            took.append(await asyncio.wait_for(self._arrived(heard), 30) - began)
        return took

    async def _arrived(self, heard: "asyncio.Queue[Heard]") -> float:
        """When the first event came that tells of this change: an echo of the one before does not count."""
        while True:
            at, line = await heard.get()
            if _is_ready(json.loads(line)) is self.is_ready:
                return at

    async def _change(self, writer: aiohttp.ClientSession) -> None:
        self.is_ready = not self.is_ready
        condition = {"type": "Ready", "status": str(self.is_ready)}
        kind = {"Content-Type": "application/strategic-merge-patch+json"}
        body = json.dumps({"status": {"conditions": [condition]}})
        async with writer.patch(self.url, data=body, headers=kind) as answer:
            if answer.status != 200:
                raise RuntimeError(await answer.text())


def _is_ready(event: dict[str, Any]) -> bool | None:
    """What our event, or the relayed one, says of the notebook; None where it says nothing of it."""
    if "object" not in event or isinstance(event["object"], str):
        return {"Running": True, "Starting": False}.get(event.get("phase") or "")
    conditions = event["object"].get("status", {}).get("conditions") or ()
    return next((entry["status"] == "True" for entry in conditions if entry["type"] == "Ready"), None)


@asynccontextmanager
async def _events(url: str, headers: dict[str, str]) -> AsyncIterator["asyncio.Queue[Heard]"]:
    """Each line with data of an event, as it comes."""
    heard: asyncio.Queue[Heard] = asyncio.Queue()
    opened = asyncio.Event()

    async def read() -> None:
        timeout = aiohttp.ClientTimeout(total=None)
        async with (
            aiohttp.ClientSession(headers=headers, timeout=timeout) as session,
            session.get(url) as told,
        ):
            told_of = b""
            async for line in told.content:
                opened.set()
                if line.startswith(b"event:") or not line.strip():
                    told_of = line
                elif line.startswith(b"data:") and b"beat" not in told_of:
                    heard.put_nowait((time.perf_counter(), line.removeprefix(b"data:")))

    task = asyncio.create_task(read())
    try:
        await asyncio.wait(
            [task, asyncio.create_task(opened.wait())], timeout=60, return_when=FIRST_COMPLETED
        )
        if task.done() or not opened.is_set():
            raise RuntimeError(f"{url} did not open: {task}")
        yield heard
    finally:
        task.cancel()


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@contextmanager
def _relay(rig: Rig, namespace: str) -> Iterator[tuple[str, int]]:
    port = free_port()
    settings = {"RELAY_KUBECONFIG": str(rig.plane.kubeconfig), "RELAY_NAMESPACE": namespace}
    command = [
        sys.executable,
        "-m",
        "uvicorn",
        "bench.relay:app",
        "--port",
        str(port),
        "--lifespan",
        "off",
    ]
    process = subprocess.Popen([*command, "--log-level", "warning"], cwd=ROOT, env={**os.environ, **settings})
    try:
        until(lambda: _listens(port), "the relay")
        yield f"http://127.0.0.1:{port}/", process.pid
    finally:
        process.kill()
        process.wait(10)
