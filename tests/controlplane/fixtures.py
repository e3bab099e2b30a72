"""Pytest fixtures: one plane per test process, or the running one that ALLOTMENT_PLANE_DIR names."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.controlplane import binaries, rights
from tests.controlplane.plane import ControlPlane
from tests.logs import OF_PLANE, heard, of_folder

if TYPE_CHECKING:
    from apps.cluster.gateway.port import Gateway

TESTS = str(Path(__file__).parents[1])


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
    with ControlPlane(folder, audit=True) as plane, judged(folder):
        yield plane


@contextmanager
def judged(folder: Path) -> Iterator[None]:
    """Meanwhile a test's own calls are told from the product's, and what fails has the plane's words in its
    report; in the end the audit log is kept.
    """
    with pytest.MonkeyPatch.context() as patch, heard(partial(of_folder, folder / "logs"), OF_PLANE):
        _name_the_asker(patch)
        yield
    kept = os.environ.get("ALLOTMENT_AUDIT_DIR")
    if kept:
        # What the product used of its rights is judged over all suites: see rights.py.
        Path(kept).mkdir(parents=True, exist_ok=True)
        shutil.copy(
            folder / "logs" / "audit.log",
            Path(kept) / f"audit-{folder.parent.name}-{folder.name}-{os.getpid()}.log",
        )


def as_admin(plane: ControlPlane) -> Gateway:
    """The product's own client with an administrator's rights: for what a test looks up or clears away."""
    from apps.cluster.gateway import client

    return client.for_kubeconfig(str(plane.admin_kubeconfig))


def _name_the_asker(patch: pytest.MonkeyPatch) -> None:
    """Calls that a test makes itself by the product's client carry another name in the audit log.

    Else each would prove that the product needs the right. Who asks is the nearest caller outside the client.
    """
    from apps.cluster.gateway.client import KubernetesGateway

    headers = KubernetesGateway._headers

    def named(self: KubernetesGateway, kind: str) -> dict[str, str]:
        frame = sys._getframe(1)
        while frame.f_code.co_filename.endswith("apps/cluster/gateway/client.py") and frame.f_back:
            frame = frame.f_back
        by_test = frame.f_code.co_filename.startswith(TESTS)
        return headers(self, kind) | ({"User-Agent": rights.TESTS_CLIENT} if by_test else {})

    patch.setattr(KubernetesGateway, "_headers", named)
