"""How long a test waits: limits are written for a calm machine, and all are stretched from this one place.

No clock decides a test (docs/decisions/0038): the machine may be loaded, and waiting costs time only where
something is broken. A suite of `make verify` with settings measures: there they hold as they are written.
"""

import os
import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests.sample import EXHAUSTIVE, examples

# Nor does Hypothesis' own look at how fast examples are made.
settings.register_profile(
    "patient",
    suppress_health_check=[HealthCheck.too_slow],
    deadline=None,
    max_examples=examples(100),
    # The sample is the same in every run; the exhaustive one draws anew.
    derandomize=not EXHAUSTIVE,
)
settings.load_profile("patient")

PATIENCE = float(os.environ.get("ALLOTMENT_PATIENCE", "5"))


def patient(seconds: float) -> float:
    return seconds * PATIENCE


def within(seconds: float) -> float:
    """The moment of `time.monotonic()` at which waiting ends."""
    return time.monotonic() + patient(seconds)


def until(
    is_so: Callable[[], Any],
    what: str = "it to be so",
    seconds: float = 60,
    *,
    every: float = 0.2,
    between: Callable[[], object] = lambda: None,
    told: Callable[[], object] = lambda: "",
) -> Any:
    """The first true answer. Between two looks `between` is done; if none comes in time the test fails with
    `what` it waited for and with what is `told` then.
    """
    deadline = within(seconds)
    while not (found := is_so()):
        if time.monotonic() > deadline:
            pytest.fail(f"waited {seconds:.0f} s for {what}. {told()}")
        time.sleep(every)
        between()
    return found


def pytest_collection_modifyitems(items: list[pytest.Item], config: pytest.Config) -> None:
    """pytest-timeout's limits too: the mark that stands nearest decides."""
    usual = float(config.getini("timeout") or 0)
    for item in items:
        mark = item.get_closest_marker("timeout")
        limit = float(mark.args[0]) if mark and mark.args else usual
        item.add_marker(pytest.mark.timeout(patient(limit)), append=False)
