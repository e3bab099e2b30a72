"""One device held for a time, and exact durations. Pure."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from fractions import Fraction


@dataclass(frozen=True)
class Interval:
    """One device held in [started_at, ended_at)."""

    started_at: datetime
    ended_at: datetime


def micros(span: timedelta) -> int:
    """A duration in microseconds."""
    return span // timedelta(microseconds=1)


def seconds_of(span: timedelta) -> Fraction:
    """A duration in seconds, exactly."""
    return Fraction(micros(span), 1_000_000)


def clipped(interval: Interval, begins: datetime, ends: datetime) -> Interval | None:
    """The part inside [begins, ends); None when there is none."""
    part = Interval(max(interval.started_at, begins), min(interval.ended_at, ends))
    return part if part.started_at < part.ended_at else None
