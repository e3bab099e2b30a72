"""A cluster in memory for rules, and a running sandbox for what clients see.

The same code serves both.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from sandbox.api.cluster.simulated import Cluster
from sandbox.api.controllers.manager import Manager
from sandbox.api.http.server import Server
from sandbox.api.serving.hosting import build
from tests.sandbox.running import Running, start

START = datetime(2026, 11, 21, 12, tzinfo=UTC)


@pytest.fixture
def cluster() -> Cluster:
    """A fresh cluster without server and controllers."""
    return Cluster.in_memory(start=START)


@pytest.fixture
def built() -> tuple[Cluster, Server, Manager]:
    """A fresh cluster with its admission, access rules and built-in controllers."""
    cluster = Cluster.in_memory(start=START)
    server, manager = build(cluster)
    manager.drain()
    return cluster, server, manager


@pytest.fixture(scope="session")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """One sandbox for the session, started by its command line."""
    folder = tmp_path_factory.mktemp("sandbox")
    found = start(folder)
    yield found
    found.stop()


@pytest.fixture
def sandbox_folder(tmp_path: Path) -> Path:
    """A folder for a sandbox of one test."""
    return tmp_path / "state"


def run_command(*words: str) -> subprocess.CompletedProcess[str]:
    """One command of the sandbox's command line."""
    return subprocess.run(
        [sys.executable, "-m", "sandbox", *words], capture_output=True, text=True, timeout=60, check=False
    )
