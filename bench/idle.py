"""What the demo costs while nobody asks: CPU by part over a minute; and what workloads leave in its memory.

On SQLite, without its week. The cluster that it simulates stands beside the sums: no installation has one.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx

from bench import processes, rig
from tests.ports import free_port

PARTS = {**rig.PARTS, "door": "portal.door", "redis": "redis-server"}
BESIDE = {"sandbox": "sandbox up"}
GOAL_CPU, GOAL_MB = 2.0, 0.0
"""% of one core by all parts together, and growth by 10,000 workloads."""
WINDOW, SHARE = 15.0, 0.06
"""Quiet is so many seconds with at most that share of a core."""
PATIENCE = 300
SETTLED = 70.0
"""Seconds after the last workload: every task of the clock but the hourly ones has run since."""
EVERY = 1000
"""Workloads after which memory is read between two waves: whether it still grows."""
AT_ONCE = 16
"""Workloads that are there at the same time: the quota has room for them."""
SPEC = {"kind": "notebook", "offer": "a100-1g-5gb", "cpu": "500m", "memory": "1Gi", "image": "python:3.13"}
TENANT, PERSON = "vision", "researcher"


@dataclass(frozen=True)
class Demo:
    """One that runs: the number of its supervisor, its folder and its address."""

    pid: int
    home: Path
    url: str

    @classmethod
    def of(cls, pid: int) -> "Demo":
        """As its parts know it."""
        words = Path(f"/proc/{_pids(pid)['web'][-1]}/environ").read_bytes().decode().split("\0")
        known = dict(word.split("=", 1) for word in words if "=" in word)
        return cls(pid, Path(known["ALLOTMENT_HOME"]), f"http://127.0.0.1:{known['ALLOTMENT_PORT']}")

    def pids(self) -> dict[str, list[int]]:
        """By part, those beside them included."""
        return _pids(self.pid)

    def quiet(self) -> bool:
        """Waits until its parts do no more than at rest; whether they came to that in time."""
        ours = [pid for part, pids in self.pids().items() if part in PARTS for pid in pids]
        try:
            processes.until_quiet(ours, share=SHARE, window=WINDOW, seconds=PATIENCE)
        except TimeoutError:
            return False
        return True

    def client(self, token: str = "") -> httpx.Client:
        """REST as the one person who makes workloads here."""
        token = token or json.loads((self.home / "tokens.json").read_text())[PERSON]
        headers = {"Authorization": f"Bearer {token}"}
        return httpx.Client(base_url=f"{self.url}/api/v1", headers=headers, timeout=30, trust_env=False)

    def fresh_client(self) -> httpx.Client:
        """With a token of its own: each may ask 600 times a minute."""
        answer = self.client().post("/tokens", json={"name": f"bench-{uuid4().hex[:8]}"})
        return self.client(str(answer.raise_for_status().json()["token"]))


def rest(pid: int | None, *, seconds: float, workloads: int) -> Iterator[dict[str, Any]]:
    """CPU at rest, growth by so many workloads, and CPU at rest after them; of the demo whose supervisor has
    this number, or a new one.
    """
    with started() if pid is None else _running(pid) as demo:
        yield cpu(demo, seconds)
        if workloads:
            yield growth(demo, workloads)
            yield cpu(demo, seconds, after=workloads)


def cpu(demo: Demo, seconds: float, *, after: int = 0) -> dict[str, Any]:
    """% of one core by part, `after` so many workloads have come and gone."""
    is_quiet = demo.quiet()
    pids, began = demo.pids(), time.monotonic()
    before = {part: processes.cpu_seconds(those) for part, those in pids.items()}
    time.sleep(seconds)
    took = time.monotonic() - began
    spent = {part: processes.cpu_seconds(those) - before[part] for part, those in pids.items()}
    whole = _whole(spent)
    shares = {part: round(100 * cpu_s / took, 2) for part, cpu_s in spent.items()}
    since = f" after {after} workloads" if after else ""
    what = f"CPU at rest{since}, % of one core"
    line = {"suite": "idle", "what": what, "seconds": round(took), "quiet": is_quiet}
    return {**line, "percent": round(100 * whole / took, 2), "goal": f"<= {GOAL_CPU}", **shares}


def growth(demo: Demo, count: int) -> dict[str, Any]:
    """PSS in MB by part before and after so many workloads that ran, a wave first that fills what is filled
    once; of all parts together also on the way.
    """
    _wave(demo, "warm", AT_ONCE)
    was_quiet, before = _settled(demo)
    on_the_way = []
    for gone in range(0, count, AT_ONCE):
        if gone and gone % EVERY < AT_ONCE:
            on_the_way.append(round(_whole(_megabytes(demo)), 1))
        _wave(demo, f"wave-{gone // AT_ONCE}", min(AT_ONCE, count - gone))
    is_quiet, after = _settled(demo)
    grown = {part: round(after[part] - before[part], 1) for part in after}
    whole = _whole(grown)
    return {
        "suite": "idle", "what": "memory that workloads leave, MB (PSS)", "workloads": count,
        "quiet": was_quiet and is_quiet,
        "mb_per_1000": round(1000 * whole / count, 1), "goal": f"<= {GOAL_MB} after 10,000",
        "before": {part: round(mb, 1) for part, mb in before.items()}, "grown": grown,
        f"all_after_each_{EVERY}": on_the_way,
    }  # fmt: skip


@contextmanager
def started() -> Iterator[Demo]:
    """A demo of its own, gone afterwards with all that it keeps."""
    with tempfile.TemporaryDirectory(prefix="allotment-bench-") as home:
        log = Path(home) / "demo.log"
        words = ["--port", str(free_port()), "--history", "0"]
        own = {"ALLOTMENT_HOME": home, "ALLOTMENT_DATABASE_URL": ""}
        with log.open("w") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "portal.demo", *words], cwd=rig.ROOT, stdout=output,
                stderr=subprocess.STDOUT, env={**os.environ, **own},
            )  # fmt: skip
        try:
            rig.until(
                lambda: process.poll() is not None or rig.READY in log.read_text(), "the demo", PATIENCE
            )
            if process.poll() is not None:
                raise RuntimeError(log.read_text())
            yield Demo.of(process.pid)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(timeout=30)


@contextmanager
def _running(pid: int) -> Iterator[Demo]:
    yield Demo.of(pid)


def _wave(demo: Demo, name: str, count: int) -> None:
    """So many workloads at once: asked for, until they run, and deleted until they are gone."""
    with demo.fresh_client() as client:
        pks = [_asked(client, f"{name}-{number}") for number in range(count)]
        rig.until(
            lambda: all(_phase(client, pk) == "Running" for pk in pks), f"{name} to run", PATIENCE, every=1
        )
        for pk in pks:
            client.delete(f"/workloads/{pk}", headers={"If-Match": "*"}).raise_for_status()
        rig.until(lambda: not any(_phase(client, pk) for pk in pks), f"{name} to go", PATIENCE, every=1)


def _asked(client: httpx.Client, slug: str) -> str:
    body = {"tenant": TENANT, "slug": slug, "spec": SPEC}
    answer = client.post("/workloads", json=body, headers={"Idempotency-Key": str(uuid4())})
    return str(answer.raise_for_status().json()["id"])


def _phase(client: httpx.Client, pk: str) -> str:
    """Empty once it is gone."""
    answer = client.get(f"/workloads/{pk}")
    return "" if answer.status_code == 404 else str(answer.raise_for_status().json()["status"]["phase"])


def _settled(demo: Demo) -> tuple[bool, dict[str, float]]:
    """Whether it is quiet, and MB (PSS) by part."""
    time.sleep(SETTLED)
    is_quiet = demo.quiet()
    return is_quiet, _megabytes(demo)


def _megabytes(demo: Demo) -> dict[str, float]:
    return {part: processes.proportional_bytes(pids) / 1e6 for part, pids in demo.pids().items()}


def _whole(by_part: dict[str, float]) -> float:
    """Of those that an installation has."""
    return sum(by_part[part] for part in PARTS)


def _pids(pid: int) -> dict[str, list[int]]:
    commands = {child: processes.command(child) for child in processes.descendants(pid)}
    return {
        part: [child for child, command in commands.items() if words in command]
        for part, words in {**PARTS, **BESIDE}.items()
    }
