"""What intervals cost: time x price at that time. Pure; exact rational arithmetic until the very end."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import ROUND_HALF_EVEN, Context, Decimal
from fractions import Fraction
from math import lcm

from apps.metering.allocations.rules.intervals import Interval, micros, seconds_of

HOUR = Fraction(3600)
MICROS_PER_HOUR = 3_600_000_000
LONGEST_UNIT = timedelta(days=1)
MOST_REFUNDED = timedelta(hours=1)
PLACES = 8
STEP = Decimal("0.00000001")
"""Amounts are kept to 8 decimals; they are rounded to the cent on statements only."""
NOTHING = Fraction(0)
_WIDE = Context(prec=60)
_NO_AMOUNT = Decimal(0).quantize(STEP)


Rate = Decimal | Fraction
"""A price per hour; that of a part of a device need not be a decimal number."""


@dataclass(frozen=True)
class PricePeriod:
    """What one device of an offer costs per hour from `valid_from` until the next period begins.

    What ends is charged in whole units of `least_seconds`, those of its beginning.
    """

    valid_from: datetime
    hourly: Rate
    least_seconds: int = 1


def pieces(interval: Interval, prices: Sequence[PricePeriod]) -> Iterator[tuple[Rate, int]]:
    """(price per hour, microseconds) of each part of the interval that has a price."""
    ordered = prices if len(prices) == 1 else sorted(prices, key=lambda period: period.valid_from)
    for index, period in enumerate(ordered):
        begins = max(interval.started_at, period.valid_from)
        ends = interval.ended_at
        if index + 1 < len(ordered):
            ends = min(ends, ordered[index + 1].valid_from)
        if begins < ends:
            yield period.hourly, micros(ends - begins)


def cost(interval: Interval, prices: Sequence[PricePeriod]) -> Fraction:
    """RULE: each moment costs what was in force at it; before the first price it costs nothing.

    Exact: the costs of the parts of a split interval sum to the cost of the whole, wherever it is split.
    """
    found = [money(hourly, span) for hourly, span in pieces(interval, prices)]
    return found[0] if len(found) == 1 else sum(found, NOTHING)


def money(hourly: Rate, span: int) -> Fraction:
    """What so many microseconds cost."""
    above, below = hourly.as_integer_ratio()
    return Fraction(above * span, below * MICROS_PER_HOUR)


def price_at(at: datetime, prices: Iterable[PricePeriod]) -> Rate:
    """What an hour costs at a moment; 0 before the first price."""
    known = period_at(at, prices)
    return known.hourly if known else Decimal(0)


def times(hourly: Decimal, units: int | Fraction) -> Rate:
    """The price of so many of what has a price, or of a part of one."""
    return hourly * units if isinstance(units, int) else Fraction(hourly) * units


def decimal_of(hourly: Rate) -> Decimal:
    """A price as people read it, to 8 decimals."""
    return hourly if isinstance(hourly, Decimal) else amount(hourly)


def of_one(hourly: Rate, units: int | Fraction) -> Decimal:
    """The price that `times` took, of the price of so many or of a part of one."""
    if isinstance(hourly, Decimal) and isinstance(units, int):
        return hourly / units
    return decimal_of(Fraction(hourly) / units)


def period_at(at: datetime, prices: Iterable[PricePeriod]) -> PricePeriod | None:
    """What is in force at a moment; None before the first price."""
    last: PricePeriod | None = None
    for period in prices:
        if period.valid_from <= at and (last is None or period.valid_from > last.valid_from):
            last = period
    return last


def billed(interval: Interval, prices: Sequence[PricePeriod]) -> Interval:
    """What is charged for an interval that has ended.

    RULE: its length in whole units of `least_seconds` of the price in force at its beginning; the rest of
    the last unit lies after its end, at the price of then. An interval of no length costs nothing.
    """
    known = period_at(interval.started_at, prices)
    if known is None or interval.started_at == interval.ended_at:
        return interval
    unit = timedelta(seconds=known.least_seconds)
    rest = (interval.ended_at - interval.started_at) % unit
    return Interval(interval.started_at, interval.ended_at + unit - rest) if rest else interval


def amount(exact: Fraction) -> Decimal:
    """Money to 8 decimals, half to even. Round sums, never summands."""
    if not exact:
        return _NO_AMOUNT
    value = _WIDE.divide(Decimal(exact.numerator), Decimal(exact.denominator))
    return value.quantize(STEP, rounding=ROUND_HALF_EVEN, context=_WIDE)


def refunded(interval: Interval) -> Interval:
    """The part of an interval that is given back when preemption ended it.

    RULE: its last hour at most: what had been computed is lost, and nobody asked its owner.
    """
    return Interval(max(interval.started_at, interval.ended_at - MOST_REFUNDED), interval.ended_at)


def device_seconds(intervals: Iterable[Interval]) -> Fraction:
    """Sum of durations, one device each."""
    return sum((seconds_of(i.ended_at - i.started_at) for i in intervals), Fraction(0))


def cents(parts: Sequence[Fraction]) -> list[Decimal]:
    """Each part to the cent, so that they sum to the cent to what they sum to exactly, rounded half to even.

    RULE: `apportion`. No part is off by a cent or more.
    """
    return apportion(parts, round(sum_of(parts) * 100), 2)


def sum_of(parts: Collection[Fraction]) -> Fraction:
    """Their sum, over one denominator: a Fraction divides out what is common at every step, hundreds of times
    a page.
    """
    below = lcm(*(part.denominator for part in parts))
    return Fraction(sum(part.numerator * (below // part.denominator) for part in parts), below)


def rest_of(whole: Fraction, parts: Collection[Fraction]) -> Fraction:
    """What is left of the whole when the parts are taken, in the same way."""
    below = lcm(whole.denominator, *(part.denominator for part in parts))
    taken = sum(part.numerator * (below // part.denominator) for part in parts)
    return Fraction(whole.numerator * (below // whole.denominator) - taken, below)


def apportion(parts: Sequence[Fraction], total: int, places: int) -> list[Decimal]:
    """Each part to so many decimals, so that they sum to `total` of the last decimal's units.

    RULE: largest remainder: each is cut down, and the units that are left go to those of which most was
    cut, the first of equals first; one too many is taken from the largest. Empty parts get nothing.
    """
    scale = 10**places
    scaled = [divmod(part.numerator * scale, part.denominator) if part else (0, 0) for part in parts]
    whole = [units for units, _ in scaled]
    if left := total - sum(whole):
        # Over one denominator they are compared as whole numbers; of equals the sort keeps the first first.
        below = lcm(*(part.denominator for part in parts))
        tops = [part.numerator if left < 0 else rest for part, (_, rest) in zip(parts, scaled, strict=True)]
        sizes = [top * (below // part.denominator) for top, part in zip(tops, parts, strict=True)]
        for index in sorted(range(len(parts)), key=lambda index: -sizes[index])[: abs(left)]:
            whole[index] += 1 if left > 0 else -1
    nothing = Decimal(0).scaleb(-places)
    return [Decimal(units).scaleb(-places) if units else nothing for units in whole]
