"""Where a stack lives."""

import logging
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

logging.getLogger("httpx").setLevel(logging.WARNING)


@contextmanager
def folder() -> Iterator[Path]:
    """In no folder of a test's: PostgreSQL runs as a user of its own, who may not look into those."""
    with tempfile.TemporaryDirectory(prefix="allotment-stack-") as made:
        path = Path(made) / "home"
        path.mkdir()
        yield path


@pytest.fixture
def home() -> Iterator[Path]:
    """For one test."""
    with folder() as path:
        yield path
