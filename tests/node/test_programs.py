"""What nodes run fits what they run beside, and the gate installs what Debian gives."""

from pathlib import Path

import pytest

from tests.controlplane import binaries
from tests.node import programs


def test_the_kubelet_is_of_the_api_servers_version() -> None:
    assert binaries.pinned_in(programs.MODULES, binaries.KUBERNETES) == binaries.pinned_version(
        binaries.KUBERNETES
    )


@pytest.mark.parametrize("place", [".ci/run", "docs/real-node.md"])
def test_debians_packages_are_named_where_they_are_installed(place: str) -> None:
    text = (Path(__file__).parents[2] / place).read_text()
    assert " ".join(programs.PACKAGES) in text
