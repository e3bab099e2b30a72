"""Servers to run the checks on, a sandbox or a real control plane, each stopped at the end."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.controlplane import binaries
from tests.controlplane.plane import ControlPlane
from tests.patience import within

ROOT = Path(__file__).resolve().parents[2]
START_SECONDS = 30.0
STOP_SECONDS = 15.0
FLEET = "laptop"


@contextmanager
def sandbox(folder: Path) -> Iterator[Path]:
    """A fresh sandbox; yields the administrator's kubeconfig."""
    log = folder / "sandbox.log"
    command = [sys.executable, "-m", "sandbox", "up", "--dir", str(folder), "--fleet", FLEET]
    with log.open("w") as out, subprocess.Popen(command, cwd=ROOT, stdout=out, stderr=out) as process:
        try:
            _wait_until_ready(process, log)
            yield folder / "admin.kubeconfig"
        finally:
            process.send_signal(signal.SIGINT)
            _stop(process)


@contextmanager
def plane(folder: Path) -> Iterator[Path]:
    """A fresh real control plane; yields the administrator's kubeconfig. It must be built already."""
    if binaries.find() is None:
        pytest.fail("the control plane is not built; run `python -m tests.controlplane build` once")
    with ControlPlane(folder) as running:
        yield running.admin_kubeconfig


def _wait_until_ready(process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = within(START_SECONDS)
    while "sandbox ready" not in log.read_text():
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"the sandbox did not start:\n{log.read_text()[-4000:]}")
        time.sleep(0.1)


def _stop(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
