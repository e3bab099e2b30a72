"""What a month will have cost: its interval holds the truth as often as it says, and it never promises less
than what is spent.
"""

from datetime import UTC, date, datetime, timedelta
from random import Random

import pytest

from apps.metering.billing.rules.forecast import LEAST_DAYS, Past, days_left, foresee, whole_days

pytestmark = pytest.mark.both_databases

BEGINS, ENDS = date(2026, 10, 1), date(2026, 11, 1)
DAY = timedelta(days=1)


def days(count: int, charged: float = 10.0, until: date = date(2026, 10, 15)) -> list[Past]:
    return [Past(until - n * DAY, charged) for n in range(1, count + 1)]


def test_even_days_make_a_certain_month() -> None:
    left = days_left(date(2026, 10, 15), 0.5, ENDS)
    found = foresee(days(14), 145.0, left)
    assert found is not None
    assert (found.expected, found.low, found.high) == pytest.approx((310, 310, 310))


def test_a_first_day_of_which_only_a_part_was_held_is_no_day_to_go_by() -> None:
    charged = [0.0, 0.0, 12.0, 48.0, 48.0]
    since = datetime(2026, 10, 10, tzinfo=UTC)
    told = [Past(date(2026, 10, 13), 48.0), Past(date(2026, 10, 14), 48.0)]
    assert whole_days(charged, since, since + timedelta(days=2, hours=18)) == told
    whole = [Past(date(2026, 10, 12), 12.0), *told]
    assert whole_days(charged, since, since + timedelta(days=2)) == whole
    # Held before, at no price.
    assert whole_days(charged, since, since - timedelta(days=9)) == whole
    assert whole_days([0.0, 0.0], since, since) == []


def test_too_few_days_foresee_nothing() -> None:
    left = days_left(date(2026, 10, 15), 0.5, ENDS)
    assert foresee(days(LEAST_DAYS - 1), 50.0, left) is None
    assert foresee(days(LEAST_DAYS), 50.0, left) is not None


def test_weekends_are_foreseen_apart_once_two_weeks_are_known() -> None:
    past = [Past(each.day, 2.0 if each.day.weekday() >= 5 else 20.0) for each in days(28)]
    left = [(date(2026, 10, 17), 1.0), (date(2026, 10, 18), 1.0)]
    found = foresee(past, 100.0, left)
    assert found is not None
    assert found.expected == pytest.approx(104)
    assert "weekends apart" in found.method
    few = foresee(past[:10], 100.0, left)
    assert few is not None
    assert "all days alike" in few.method
    assert few.expected > 110


def test_never_less_than_what_is_spent_and_nothing_left_is_certain() -> None:
    rng = Random(5)
    past = [Past(each.day, rng.expovariate(0.1)) for each in days(10)]
    found = foresee(past, 1000.0, [(date(2026, 10, 15), 0.1)])
    assert found is not None
    assert found.low >= 1000
    done = foresee(past, 1000.0, [])
    assert done is not None
    assert (done.low, done.expected, done.high) == (1000, 1000, 1000)


@pytest.mark.parametrize("at", [8, 15, 24])
def test_the_interval_holds_about_four_months_of_five(at: int) -> None:
    rng, inside, tried = Random(at), 0, 400
    for _ in range(tried):
        mean, spread = rng.uniform(20, 500), rng.uniform(0.1, 0.6)
        off = rng.uniform(0.2, 1.0)

        def charged(day: date, mean: float = mean, spread: float = spread, off: float = off) -> float:
            level = mean * (off if day.weekday() >= 5 else 1)
            return max(0.0, rng.gauss(level, spread * level))

        before = [Past(BEGINS - n * DAY, charged(BEGINS - n * DAY)) for n in range(20, 0, -1)]
        month = [Past(BEGINS + n * DAY, charged(BEGINS + n * DAY)) for n in range(31)]
        spent = sum(each.charged for each in month[:at])
        found = foresee(before + month[:at], spent, [(each.day, 1.0) for each in month[at:]])
        assert found is not None
        inside += found.low <= sum(each.charged for each in month) <= found.high
    assert 0.72 <= inside / tried <= 0.88


def test_the_days_left_are_todays_rest_and_whole_days_to_the_end() -> None:
    left = days_left(date(2026, 10, 30), 0.25, ENDS)
    assert left == [(date(2026, 10, 30), 0.25), (date(2026, 10, 31), 1.0)]
    assert days_left(date(2026, 10, 31), 0.25, ENDS) == [(date(2026, 10, 31), 0.25)]
