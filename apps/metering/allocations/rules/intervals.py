"""One device held for a time, and exact durations. Pure."""

from datetime import datetime, timedelta
from fractions import Fraction
from typing import NamedTuple

_MICROSECOND = timedelta(microseconds=1)


class Interval(NamedTuple):
    """One device held in [started_at, ended_at)."""

    started_at: datetime
    ended_at: datetime


def micros(span: timedelta) -> int:
    """A duration in microseconds."""
    return span // _MICROSECOND


def seconds_of(span: timedelta) -> Fraction:
    """A duration in seconds, exactly."""
    return Fraction(micros(span), 1_000_000)


def clipped(interval: Interval, begins: datetime, ends: datetime) -> Interval | None:
    """The part inside [begins, ends); None when there is none."""
    started_at, ended_at = interval
    first, last = max(started_at, begins), min(ended_at, ends)
    return Interval(first, last) if first < last else None
