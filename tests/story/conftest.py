"""The whole product, started as a newcomer starts it, against a real control plane or the sandbox."""

import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest

from tests.controlplane.plane import ControlPlane
from tests.logs import heard, of_folder, of_supervisor
from tests.patience import patient, until
from tests.ports import free_port

ROOT = Path(__file__).resolve().parents[2]
READY = "Allotment is ready at "
logging.getLogger("httpx").setLevel(logging.WARNING)


@dataclass
class Installation:
    """A running demo: where it answers, and one REST client per person."""

    url: str
    home: Path
    plane: ControlPlane | None
    output: list[str] = field(default_factory=list)

    def client(self, username: str) -> httpx.Client:
        token = json.loads((self.home / "tokens.json").read_text())[username]
        return httpx.Client(
            base_url=f"{self.url}/api/v1",
            headers={"Authorization": f"Bearer {token}"},
            timeout=patient(30),
            trust_env=False,
        )

    def objects(self, workload_id: str, kinds: str = "job,service,pvc,pod") -> list[str]:
        """What the real cluster still holds of a workload, by its label, as `kind/name`."""
        assert self.plane
        found = self.plane.kubectl("get", kinds, "-A", "-l", f"allotment.dev/uid={workload_id}", "-o", "name")
        return found.split()


def start(home: Path, port: int, *where: str, database: str = "") -> tuple[subprocess.Popen[str], list[str]]:
    """`make demo` without make, with `--cluster <kubeconfig>` or `--fleet <name>`; without a past. On SQLite,
    unless an address says where its `database` is.
    """
    env = {k: v for k, v in os.environ.items() if k not in ("ALLOTMENT_REDIS_URL", "ALLOTMENT_DATABASE_URL")}
    env |= {"ALLOTMENT_DATABASE_URL": database} if database else {}
    process = subprocess.Popen(
        [sys.executable, "-m", "portal.demo", "--port", str(port), "--history", "0", *where],
        cwd=ROOT,
        env={**env, "ALLOTMENT_HOME": str(home)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    output: list[str] = []

    def read() -> None:
        assert process.stdout
        output.extend(iter(process.stdout.readline, ""))

    threading.Thread(target=read, daemon=True).start()
    return process, output


def wait_ready(process: subprocess.Popen[str], output: list[str]) -> float:
    """Seconds until the demo said that it is ready; its output when it ended instead."""
    began = time.monotonic()
    until(
        lambda: process.poll() is not None or any(READY in line for line in output),
        "the demo to be ready",
        120,
    )
    assert process.poll() is None, "".join(output)
    return time.monotonic() - began


def stop(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGTERM)
    process.wait(timeout=patient(20))


@contextmanager
def running(home: Path, port: int, *where: str, database: str = "") -> Iterator[tuple[list[str], float]]:
    """What the demo prints, and the seconds until it was ready; it is stopped at the end, whatever failed."""
    process, output = start(home, port, *where, database=database)
    try:
        with heard(lambda: {**of_supervisor(output), **of_folder(home)}):
            yield output, wait_ready(process, output)
    finally:
        stop(process)


@pytest.fixture(scope="session")
def installation(
    control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Installation]:
    home, port = tmp_path_factory.mktemp("home"), free_port(run=2)
    with running(home, port, "--cluster", str(control_plane.kubeconfig)) as (output, _):
        yield Installation(f"http://127.0.0.1:{port}", home, control_plane, output)
