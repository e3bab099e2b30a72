"""Cost is time x price at that time, exactly, however an interval is cut."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.metering.allocations.rules import intervals
from apps.metering.allocations.rules.intervals import Interval
from apps.metering.billing.rules import pricing
from apps.metering.billing.rules.pricing import PricePeriod

pytestmark = pytest.mark.both_databases

AT = datetime(2026, 11, 20, 9, 0, tzinfo=UTC)
MOMENTS = st.integers(0, 10**9).map(lambda micros: AT + timedelta(microseconds=micros * 997))
PRICES = st.lists(
    st.builds(PricePeriod, MOMENTS, st.decimals(Decimal(0), Decimal(1000), places=8, allow_nan=False)),
    max_size=5,
    unique_by=lambda period: period.valid_from,
)


def hour(number: float) -> datetime:
    return AT + timedelta(hours=number)


def test_an_hour_costs_the_hourly_price() -> None:
    exact = pricing.cost(Interval(hour(0), hour(1)), [PricePeriod(hour(-1), Decimal("0.42"))])
    assert pricing.amount(exact) == Decimal("0.42000000")


def test_a_new_price_counts_from_its_moment_on() -> None:
    prices = [PricePeriod(hour(1), Decimal(3)), PricePeriod(hour(-1), Decimal(1))]
    assert pricing.cost(Interval(hour(0), hour(2)), prices) == 4


def test_before_the_first_price_nothing_is_charged() -> None:
    assert pricing.cost(Interval(hour(0), hour(2)), [PricePeriod(hour(1), Decimal(2))]) == 2
    assert pricing.cost(Interval(hour(0), hour(2)), []) == 0


@given(begins=MOMENTS, length=st.integers(0, 10**10), cut=st.fractions(0, 1), prices=PRICES)
def test_a_split_at_any_point_sums_exactly(
    begins: datetime, length: int, cut: Fraction, prices: list[PricePeriod]
) -> None:
    ends = begins + timedelta(microseconds=length)
    middle = begins + timedelta(microseconds=int(length * cut))
    whole = pricing.cost(Interval(begins, ends), prices)
    assert whole == pricing.cost(Interval(begins, middle), prices) + pricing.cost(
        Interval(middle, ends), prices
    )


@given(interval=st.tuples(MOMENTS, MOMENTS), prices=PRICES)
def test_the_order_of_prices_does_not_matter(
    interval: tuple[datetime, datetime], prices: list[PricePeriod]
) -> None:
    held = Interval(min(interval), max(interval))
    assert pricing.cost(held, prices) == pricing.cost(held, prices[::-1])
    assert pricing.cost(held, prices) >= 0


@given(st.fractions(0, 10**12))
def test_an_amount_is_within_half_a_step(exact: Fraction) -> None:
    assert abs(Fraction(pricing.amount(exact)) - exact) <= Fraction(pricing.STEP) / 2


@pytest.mark.parametrize(
    ("begins", "ends", "seconds"), [(-1, 3, 7200), (0.5, 1, 1800), (2, 3, None), (-1, 0, None)]
)
def test_an_interval_is_clipped_to_a_period(begins: float, ends: float, seconds: int | None) -> None:
    part = intervals.clipped(Interval(hour(0), hour(2)), hour(begins), hour(ends))
    assert (None if part is None else pricing.device_seconds([part])) == seconds
