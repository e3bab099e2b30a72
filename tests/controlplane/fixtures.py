"""Pytest fixtures: one plane per test process, or the running one that ALLOTMENT_PLANE_DIR names."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.controlplane import binaries
from tests.controlplane.plane import ControlPlane


@pytest.fixture(scope="session")
def control_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A plane with the fleet `story` and the audit log on; tests share it, so each uses its own names."""
    running = os.environ.get("ALLOTMENT_PLANE_DIR")
    if running:
        yield ControlPlane(Path(running))
        return
    if binaries.find() is None:
        # A cold build takes minutes: longer than the time limit of the test that would pay for it.
        pytest.fail("the control plane is not built; run `python -m tests.controlplane build` once")
    folder = tmp_path_factory.mktemp("plane")
    with ControlPlane(folder, audit=True) as plane:
        yield plane
    kept = os.environ.get("ALLOTMENT_AUDIT_DIR")
    if kept:
        # What the product used of its rights is judged over all suites: see rights.py.
        Path(kept).mkdir(parents=True, exist_ok=True)
        shutil.copy(
            folder / "logs" / "audit.log", Path(kept) / f"audit-{folder.parent.name}-{os.getpid()}.log"
        )
