"""What a month will have cost, with how sure that is. Pure: sums of days in, an interval out.

A forecast, never a bill: floats are good enough.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from math import sqrt
from statistics import NormalDist, fmean

LEAST_DAYS = 5
WEEKS = 14
"""From so many days on, weekends are foreseen apart."""
MOST_DAYS = 28
SURE = 0.80


@dataclass(frozen=True)
class Past:
    """What one whole day charged."""

    day: date
    charged: float


@dataclass(frozen=True)
class Outlook:
    """What the month comes to: `expected`, and in four months of five between `low` and `high`."""

    expected: float
    low: float
    high: float
    method: str


def foresee(past: Sequence[Past], spent: float, left: Sequence[tuple[date, float]]) -> Outlook | None:
    """The whole month from `spent` so far, the last whole days, and what is left of it.

    `left` are the days to come, each with the part of it that is left (today's is less than 1). RULE: each
    day to come is worth the mean of the last 28 whole days, of working days and weekends apart from 14 days
    on; their spread about it, with what the mean itself may be off, gives the interval of 80 %. Never less
    than what is spent. None: less than 5 whole days to go by.
    """
    days = sorted(past, key=lambda each: each.day)[-MOST_DAYS:]
    if len(days) < LEAST_DAYS:
        return None
    is_apart = len(days) >= WEEKS
    means, spread = _kinds(days, is_apart=is_apart)
    expected, variance = spent, 0.0
    for is_weekend, (mean, count) in means.items():
        parts = [part for day, part in left if not is_apart or _is_weekend(day) == is_weekend]
        expected += mean * sum(parts)
        variance += spread**2 * (sum(part**2 for part in parts) + sum(parts) ** 2 / count)
    off = NormalDist().inv_cdf((1 + SURE) / 2) * sqrt(variance)
    return Outlook(expected, max(spent, expected - off), expected + off, _words(len(days), is_apart=is_apart))


def whole_days(charged: Sequence[float], since: datetime, held_since: datetime) -> list[Past]:
    """What each day from midnight `since` on charged, from the first day on that charged anything.

    RULE: where nothing was held when that day began, it is a part of a day, and none to go by. `held_since`
    is when the first of all began that was held in that time.
    """
    first = next((n for n, each in enumerate(charged) if each), len(charged))
    if since + timedelta(days=first) < held_since:
        first += 1
    return [Past((since + timedelta(days=n)).date(), charged[n]) for n in range(first, len(charged))]


def days_left(now_day: date, part_of_today: float, ends: date) -> list[tuple[date, float]]:
    """Today's rest and the whole days after it, up to the month's end."""
    whole = [(now_day + timedelta(days=n), 1.0) for n in range(1, (ends - now_day).days)]
    return [(now_day, part_of_today), *whole]


def _kinds(days: Sequence[Past], *, is_apart: bool) -> tuple[dict[bool, tuple[float, int]], float]:
    """The mean and count of working days and of weekends, and one spread of all days about their mean."""
    groups: dict[bool, list[float]] = {}
    for each in days:
        groups.setdefault(is_apart and _is_weekend(each.day), []).append(each.charged)
    means = {kind: (fmean(found), len(found)) for kind, found in groups.items()}
    rest = sum((value - means[kind][0]) ** 2 for kind, found in groups.items() for value in found)
    return means, sqrt(rest / max(1, len(days) - len(groups)))


def _is_weekend(day: date) -> bool:
    return day.weekday() >= 5


def _words(days: int, *, is_apart: bool) -> str:
    kinds = "working days and weekends apart" if is_apart else "all days alike"
    return f"mean of the last {days} whole days, {kinds}; four months of five end within the interval"
