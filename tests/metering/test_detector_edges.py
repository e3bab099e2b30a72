"""Where a rule ends: rhythms that chance makes, the last second of a cell, columns that drop out."""

from itertools import accumulate

import pytest

from tests.metering.handmade import Values, allocation, label, training, verdict
from tests.metering.traces import HOUR


def test_a_few_requests_that_happen_to_keep_time_between_busy_hours_are_no_clock() -> None:
    """Of six intervals of chance five often fit one period: a day of requests is many such stretches."""
    held = allocation(kind="service")
    asked = list(accumulate((720, 780, 900, 240, 900, 1620), initial=held.start + HOUR + 900))

    def story(ts: float) -> Values:
        if not held.start + HOUR <= ts < asked[-1] + 1500:
            return training(ts)
        return {"sm": 0.05, "dram": 0.05, "util": 0.1} if any(0 <= ts - at < 30 for at in asked) else {}

    assert (label(held, story), verdict(held, story).idle) == ("healthy", ())


def test_a_last_cell_in_the_first_sample_of_ten_minutes_is_use() -> None:
    held = allocation()
    last = held.start + 3 * HOUR + 10

    def story(ts: float) -> Values:
        return training(ts) if ts < last - 300 or last <= ts < last + 30 else {}

    [(since, _)] = verdict(held, story).idle
    assert 0 <= since - last <= 60


@pytest.mark.parametrize("column", ["processes", "memory"])
def test_cells_that_drop_out_now_and_then_begin_no_new_life_of_a_process(column: str) -> None:
    held = allocation()

    def story(ts: float) -> Values:
        working = ts < held.start + 2 * HOUR
        read = (training(ts) if working else {"memory": 60_000.0}) | {"processes": int(working)}
        return read | ({column: None} if ts % 700 < 60 else {})

    assert label(held, story) == "zombie"
    assert label(held, lambda ts: training(ts) | ({column: None} if ts % 700 < 60 else {})) == "healthy"
