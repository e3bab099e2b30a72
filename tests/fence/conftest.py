"""One scene per module: what a module does to it must not decide the next."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.controlplane.plane import ControlPlane
from tests.fence.scene import Scene


@pytest.fixture(scope="module")
def scene(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """Two tenants on the plane."""
    made = Scene(control_plane, tmp_path_factory.mktemp("fence"))
    try:
        made.set_up()
        yield made
    finally:
        # Also of a scene that was not finished: it may hold the only device.
        made.take_down()
