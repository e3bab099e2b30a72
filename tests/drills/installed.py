"""A running demo as the drills see it: its processes, its database, and REST as rosa."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import httpx

from tests.patience import until, within
from tests.story.conftest import ROOT, Installation

SLICE = "h100-1g-10gb"


class Installed:
    """Reads the database file directly: what a drill wants to know must not depend on what it breaks."""

    def __init__(self, installation: Installation) -> None:
        assert installation.plane
        self.home, self.plane = installation.home, installation.plane
        self.rest: httpx.Client = installation.client("researcher")
        self.petra: httpx.Client = installation.client("platform")

    def submit(self, slug: str, **spec: Any) -> str:
        body = {
            "tenant": "vision",
            "slug": slug,
            "spec": {"kind": "notebook", "offer": SLICE, "cpu": "500m", "memory": "1Gi", **spec},
        }
        answer = self.rest.post("/workloads", json=body, headers={"Idempotency-Key": str(uuid4())})
        assert answer.status_code == 201, answer.text
        return str(answer.json()["id"])

    def submit_many(self, slugs: list[str], *, at_once: int = 20) -> list[str]:
        with ThreadPoolExecutor(at_once) as pool:
            return list(pool.map(self.submit, slugs))

    def shown(self, pk: str) -> dict[str, Any]:
        answer = self.rest.get(f"/workloads/{pk}")
        answer.raise_for_status()
        found: dict[str, Any] = answer.json()
        return found

    def delete(self, pks: list[str]) -> None:
        with ThreadPoolExecutor(10) as pool:
            list(pool.map(lambda pk: self.rest.delete(f"/workloads/{pk}", headers={"If-Match": "*"}), pks))

    def rows(self, columns: str, where: str, *values: object) -> list[tuple[Any, ...]]:
        """Straight from the demo's SQLite file."""
        with sqlite3.connect(self.home / "allotment.sqlite3", timeout=20) as database:
            query = f"select {columns} from workloads_workload where {where}"  # noqa: S608 - the drill's own words
            return database.execute(query, values).fetchall()

    def row(self, pk: str, columns: str) -> tuple[Any, ...]:
        return self.rows(columns, "id = ?", UUID(pk).hex)[0]


def processes(words: str) -> dict[int, dict[str, str]]:
    """The environment of every process whose command line holds these words."""
    found = {}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            if words in (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode():
                lines = (folder / "environ").read_bytes().decode(errors="replace").split("\0")
                found[int(folder.name)] = dict(line.split("=", 1) for line in lines if "=" in line)
        except OSError:
            continue  # it has just ended
    return found


def workers_of(home: Path) -> dict[int, dict[str, str]]:
    """The Celery workers of one installation, pool children included."""
    every = processes("portal.run.worker")
    return {pid: env for pid, env in every.items() if env.get("ALLOTMENT_HOME") == str(home)}


def clear(demo: Installed) -> None:
    """Remove all that drills made, and wait until it is gone."""
    demo.delete([row[0] for row in demo.rows("id", "deleted_at is null and deleting_at is null")])
    until(lambda: not demo.rows("id", "deleted_at is null"), "everything to be gone", 240)


def labelled(demo: Installed, kinds: str) -> list[Any]:
    """The cluster's objects that carry a workload's labels."""
    selector = "allotment.dev/owner=workload"
    told = demo.plane.kubectl("get", kinds, "-A", "-l", selector, "-o", "json")
    return list(json.loads(told)["items"])


class Victim:
    """A second Celery worker of the installation, in a process group of its own, to be killed or paused."""

    def __init__(self, home: Path) -> None:
        self.home, self.standby = home, sorted(workers_of(home))
        env = workers_of(home)[self.standby[0]]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "portal.run.worker", "--concurrency", "2"],
            cwd=ROOT,
            env=env,
            start_new_session=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.STDOUT,
        )

    def pids(self) -> set[int]:
        """Its main process and its pool."""
        group = {self.process.pid}
        return {pid for pid in processes("portal.run.worker") if os.getpgid(pid) in group}

    def alone(self) -> None:
        """The installation's own workers stand still, so that the work comes here."""
        self._stand_still(self.standby)

    def kill(self) -> float:
        """SIGKILL to all of it, and the others may go on; answers when."""
        os.killpg(self.process.pid, signal.SIGKILL)
        at = time.monotonic()
        self.process.wait(10)
        self.relieve()
        return at

    def pause(self) -> None:
        """SIGSTOP to all of it, and the others may go on."""
        self._stand_still(sorted(self.pids()))
        self.relieve()

    def go_on(self) -> None:
        """SIGCONT: it finishes what it was at."""
        os.killpg(self.process.pid, signal.SIGCONT)

    def relieve(self) -> None:
        for pid in self.standby:
            os.kill(pid, signal.SIGCONT)

    def _stand_still(self, pids: list[int]) -> None:
        """SIGSTOP, but not inside a write: SQLite has one writer, and all would wait for one that sleeps."""
        deadline = within(10)
        while time.monotonic() < deadline:
            for pid in pids:
                os.kill(pid, signal.SIGSTOP)
            if self._writable():
                return
            for pid in pids:
                os.kill(pid, signal.SIGCONT)
            time.sleep(0.005)
        raise TimeoutError("somebody was inside a write at every look for 10 s")

    def _writable(self) -> bool:
        with closing(sqlite3.connect(self.home / "allotment.sqlite3", timeout=0.5)) as database:
            try:
                database.execute("begin immediate")
            except sqlite3.OperationalError:
                return False
            return True
