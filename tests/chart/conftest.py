"""Helm as the tests of the chart use it."""

from pathlib import Path

import pytest

from tests.chart.helm import LEAST, MOST, Document, Helm
from tests.web.broker import no_broker

__all__ = ["no_broker"]


@pytest.fixture(scope="session")
def helm(tmp_path_factory: pytest.TempPathFactory) -> Helm:
    """Without a cluster."""
    return Helm(tmp_path_factory.mktemp("helm"))


@pytest.fixture(scope="session")
def least(helm: Helm) -> list[Document]:
    """What comes of the fewest values."""
    return helm.template(LEAST)


@pytest.fixture(scope="session")
def most(helm: Helm) -> list[Document]:
    """What comes of every value."""
    return helm.template(MOST)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A checkout as the commands of docs/installing.md see it: their files stay out of ours."""
    (tmp_path / "k8s").symlink_to(Path(__file__).resolve().parents[2] / "k8s")
    return tmp_path
