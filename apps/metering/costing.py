"""What intervals cost: time x price at that time. Pure; exact rational arithmetic until the very end."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import ROUND_HALF_EVEN, Context, Decimal
from fractions import Fraction

HOUR = Fraction(3600)
MOST_REFUNDED = timedelta(hours=1)
STEP = Decimal("0.00000001")
"""Amounts are kept to 8 decimals; they are rounded to the cent on statements only."""


@dataclass(frozen=True)
class PricePeriod:
    """What one device of an offer costs per hour from `valid_from` until the next period begins."""

    valid_from: datetime
    hourly: Decimal


@dataclass(frozen=True)
class Interval:
    """One device held in [started_at, ended_at)."""

    started_at: datetime
    ended_at: datetime


def seconds_of(span: timedelta) -> Fraction:
    """A duration in seconds, exactly."""
    return Fraction(span // timedelta(microseconds=1), 1_000_000)


def cost(interval: Interval, prices: Sequence[PricePeriod]) -> Fraction:
    """RULE: each moment costs what was in force at it; before the first price it costs nothing.

    Exact: the costs of the parts of a split interval sum to the cost of the whole, wherever it is split.
    """
    total = Fraction(0)
    ordered = sorted(prices, key=lambda period: period.valid_from)
    for index, period in enumerate(ordered):
        begins = max(interval.started_at, period.valid_from)
        ends = interval.ended_at
        if index + 1 < len(ordered):
            ends = min(ends, ordered[index + 1].valid_from)
        if begins < ends:
            total += Fraction(period.hourly) * seconds_of(ends - begins) / HOUR
    return total


def amount(exact: Fraction) -> Decimal:
    """Money to 8 decimals, half to even. Round sums, never summands."""
    context = Context(prec=60)
    value = context.divide(Decimal(exact.numerator), Decimal(exact.denominator))
    return value.quantize(STEP, rounding=ROUND_HALF_EVEN, context=context)


def refunded(interval: Interval) -> Interval:
    """The part of an interval that is given back when preemption ended it.

    RULE: its last hour at most: what had been computed is lost, and nobody asked its owner.
    """
    return Interval(max(interval.started_at, interval.ended_at - MOST_REFUNDED), interval.ended_at)


def clipped(interval: Interval, begins: datetime, ends: datetime) -> Interval | None:
    """The part inside [begins, ends); None when there is none."""
    part = Interval(max(interval.started_at, begins), min(interval.ended_at, ends))
    return part if part.started_at < part.ended_at else None


def device_seconds(intervals: Iterable[Interval]) -> Fraction:
    """Sum of durations, one device each."""
    return sum((seconds_of(i.ended_at - i.started_at) for i in intervals), Fraction(0))
