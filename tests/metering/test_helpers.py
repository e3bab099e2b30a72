"""Processes that compute beside the one that writes: equal answers in order, and failures come back."""

import math
import os

import pytest

from apps.metering.history.services.helpers import Helpers


@pytest.mark.parametrize("count", [0, 2])
def test_answers_come_in_order_and_a_failure_is_the_callers(count: int) -> None:
    with Helpers(count) as helpers:
        assert list(helpers.map(abs, range(-50, 0))) == list(range(50, 0, -1))
        assert (helpers.start(os.getpid)() == os.getpid()) is (count == 0)
        failing = helpers.start(math.sqrt, -1.0)
        with pytest.raises(ValueError, match=r"math domain|nonnegative"):
            failing()
