"""The collector of reference cycles rests while any batch is read, and only then."""

import gc
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from apps.metering.telemetry.rules.sources.garbage import uncollected


@pytest.fixture(autouse=True)
def _collector() -> Iterator[None]:
    was = gc.isenabled()
    gc.enable()
    yield
    (gc.enable if was else gc.disable)()


def test_the_last_one_out_puts_it_back() -> None:
    first, second = ExitStack(), ExitStack()
    first.enter_context(uncollected())
    second.enter_context(uncollected())
    first.close()
    assert not gc.isenabled()
    second.close()
    assert gc.isenabled()


def test_a_failure_inside_puts_it_back() -> None:
    with pytest.raises(ValueError, match="torn"), uncollected():
        raise ValueError("torn")
    assert gc.isenabled()


def test_what_was_off_before_stays_off() -> None:
    gc.disable()
    with uncollected():
        assert not gc.isenabled()
    assert not gc.isenabled()
