"""Working hours of a notebook, on a clock of their own: when they begin and end, in words too. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from itertools import groupby
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from apps.words import Word

HOUR = 60
MIDNIGHT = 24 * HOUR
"""Minutes of a day: as an end, its last moment."""
USUAL = (8 * HOUR, 18 * HOUR)
LOOKED_AT = range(-8, 16)
"""Days around a moment that are looked at: hours come back within a week, or two if one is skipped."""
Span = tuple[datetime, datetime]


class Day(Word):
    """A day of the week."""

    MON = "Mon", "Monday"
    TUE = "Tue", "Tuesday"
    WED = "Wed", "Wednesday"
    THU = "Thu", "Thursday"
    FRI = "Fri", "Friday"
    SAT = "Sat", "Saturday"
    SUN = "Sun", "Sunday"


WEEK = tuple(Day)


def is_zone(name: str) -> bool:
    """Whether this is a time zone of the IANA list, spelled as there."""
    try:
        return ZoneInfo(name).key == name
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return False


def clock(minutes: int) -> str:
    """A time of day; the end of a day is 24:00."""
    return f"{minutes // HOUR:02}:{minutes % HOUR:02}"


def minutes_of(text: str) -> int:
    """The minutes of the day that `clock` shows so."""
    hours, _, minutes = text.partition(":")
    return int(hours) * HOUR + int(minutes)


def days_text(days: Iterable[str]) -> str:
    """Days in short, such as `Mon-Wed, Fri`."""
    at = enumerate(WEEK.index(Day(day)) for day in days)
    runs = [[WEEK[day] for _, day in run] for _, run in groupby(at, key=lambda pair: pair[1] - pair[0])]
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


@dataclass(frozen=True)
class WorkingHours:
    """On these days, in the order of the week, from `begins` until `ends`: minutes of the day, on the clock
    of `time_zone`.

    RULE: a time that the clocks show twice is its first; one that they skip counts with the clock of before,
    so it comes up to an hour later on the wall.
    """

    days: tuple[Day, ...]
    begins: int
    ends: int
    time_zone: str

    @classmethod
    def stored(cls, document: Mapping[str, Any]) -> "WorkingHours":
        """Of the JSON that is kept of them."""
        days = tuple(Day(day) for day in document["days"])
        begins, ends = (minutes_of(document[key]) for key in ("from", "until"))
        return cls(days, begins, ends, document["time_zone"])

    def __str__(self) -> str:
        return f"{days_text(self.days)} {clock(self.begins)}-{clock(self.ends)} {self.time_zone}"

    @property
    def a_week(self) -> float:
        """Hours in a week."""
        return len(self.days) * (self.ends - self.begins) / HOUR

    def hold(self, at: datetime) -> bool:
        """Whether the moment lies in them."""
        return any(begin <= at < end for begin, end in self._spans(at))

    def next_begin(self, after: datetime) -> datetime:
        """The first beginning after the moment."""
        return min(begin for begin, _ in self._spans(after) if begin > after)

    def next_end(self, after: datetime) -> datetime:
        """The first end after the moment."""
        return min(end for _, end in self._spans(after) if end > after)

    def within(self, begin: datetime, end: datetime) -> timedelta:
        """How much of the time lies in them; `end` is at most a week after `begin`."""
        parts = (min(end, until) - max(begin, since) for since, until in self._spans(begin))
        return sum((part for part in parts if part > timedelta(0)), timedelta(0))

    def local(self, at: datetime) -> datetime:
        """The moment on their clock."""
        return at.astimezone(ZoneInfo(self.time_zone))

    def _spans(self, at: datetime) -> list[Span]:
        """Around a moment; what follows without a gap is one."""
        found: list[Span] = []
        for begin, end in self._each_day(self.local(at).date()):
            if found and begin <= found[-1][1]:
                found[-1] = (found[-1][0], end)
            else:
                found.append((begin, end))
        return found

    def _each_day(self, around: date) -> Iterator[Span]:
        for offset in LOOKED_AT:
            day = around + timedelta(days=offset)
            begin, end = self._moment(day, self.begins), self._moment(day, self.ends)
            # Of hours that the clocks skip nothing may be left.
            if WEEK[day.weekday()] in self.days and begin < end:
                yield begin, end

    def _moment(self, day: date, minutes: int) -> datetime:
        day += timedelta(days=minutes // MIDNIGHT)
        wall = time(minutes % MIDNIGHT // HOUR, minutes % HOUR)
        return datetime.combine(day, wall, ZoneInfo(self.time_zone)).astimezone(UTC)
