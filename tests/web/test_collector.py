"""What requests leave goes soon, however many of them are under way at once."""

import gc
from collections import deque
from collections.abc import Iterator
from typing import Any

import pytest

from apps.web import collector

UNDER_WAY, OBJECTS = 60, 300


@pytest.fixture
def _frozen() -> Iterator[None]:
    """As after a process has read its code; afterwards as before."""
    was = gc.get_threshold()
    collector.leave_out_what_stays()
    yield
    gc.set_threshold(*was)
    gc.unfreeze()


def request() -> list[Any]:
    """What a request leaves: objects that keep one another."""
    left: list[Any] = [[] for _ in range(OBJECTS)]
    left.append(left)
    return left


@pytest.mark.usefixtures("_frozen")
def test_what_requests_of_a_burst_leave_does_not_heap_up() -> None:
    under_way: deque[Any] = deque(maxlen=UNDER_WAY)
    most = 0
    for number in range(4000):
        under_way.append(request())
        if number % 100 == 0:
            most = max(most, len(gc.get_objects()))
    assert most < 200_000
