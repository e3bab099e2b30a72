"""From one price to two: which roll-ups tell what was done in a period, and what part of the money it is.

Pure. Exact, as fractions: allocated - refunded = effective + recoverable + inefficiency + unknown.

What the words mean, once for every page, file and answer (docs/costs.md has them for people):

    effective     did work, by the formula
    waste         was seen and did no work: recoverable + inefficiency
    recoverable   waste that somebody can end today, because a finding says so: hoarded (hoarders,
                  evasions, what was forgotten), zombies, crash loops, and the part that is too large
    inefficiency  the rest of the waste, inside work that is wanted: idle in between (thinking, loading data)
                  and devices partly used
    unknown       was not seen: neither effective nor waste
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from itertools import pairwise

from apps.metering.billing.rules import pricing
from apps.metering.billing.rules.pricing import Rate

LEVELS = (86_400, 3_600, 300)
RECOVERABLE = ("hoarded", "zombie", "crashing", "oversized")
INEFFICIENCY = ("idle", "partly")
CAUSES = (*RECOVERABLE, *INEFFICIENCY)
MILLION = 1_000_000
BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)
_NAMES = ("effective", *CAUSES)
_NOTHING = Fraction(0)


@dataclass(frozen=True)
class Span:
    """Whole roll-ups of `level` seconds, beginning in [begins, ends)."""

    level: int
    begins: datetime
    ends: datetime


@dataclass(frozen=True)
class Stretch:
    """A part of a period in which no price changes, with the roll-ups that lie wholly in it."""

    begins: datetime
    spans: tuple[Span, ...]


@dataclass(frozen=True)
class Cover:
    """A period in roll-ups: what lies wholly in a stretch, and those `edges` (one each) that a cut goes
    through.
    """

    stretches: tuple[Stretch, ...]
    edges: tuple[Span, ...]


def cover(begins: datetime, ends: datetime, cuts: Iterable[datetime], kept_from: datetime | None) -> Cover:
    """The coarsest roll-ups of [begins, ends) that no cut goes through, and the finest around each cut.

    Before `kept_from` there are none below the hour; None: there are all. Days and hours are those of UTC.
    """
    kept = min(max(_up(kept_from or BEGINNING, 3600), begins), ends)
    inside = {at for at in cuts if begins < at < ends}
    marks = sorted({begins, ends, kept} | inside)
    stretches, edges = [], set()
    for start, end in pairwise(marks):
        levels = LEVELS if start >= kept else LEVELS[:-1]
        finest = levels[-1]
        edges |= {Span(finest, low, low + timedelta(seconds=finest)) for at in (start, end)
                  if (low := _down(at, finest)) != at}  # fmt: skip
        stretches.append(Stretch(start, tuple(_tiles(_up(start, finest), _down(end, finest), levels))))
    return Cover(tuple(stretches), tuple(sorted(edges, key=lambda span: (span.begins, span.level))))


def _tiles(begins: datetime, ends: datetime, levels: Sequence[int]) -> Iterable[Span]:
    if begins >= ends:
        return
    level, finer = levels[0], levels[1:]
    first, last = _up(begins, level), _down(ends, level)
    if first < last:
        yield from _tiles(begins, first, finer)
        yield Span(level, first, last)
        yield from _tiles(last, ends, finer)
    else:
        yield from _tiles(begins, ends, finer)


def _down(at: datetime, level: int) -> datetime:
    return at - ((at - BEGINNING) % timedelta(seconds=level))


def _up(at: datetime, level: int) -> datetime:
    low = _down(at, level)
    return low if low == at else low + timedelta(seconds=level)


@dataclass(frozen=True)
class Done:
    """What a roll-up says of one allocation: microseconds held, and microseconds x millionths of what was
    done; the figures sum to what was seen x 1,000,000.
    """

    held: int
    effective: int
    hoarded: int = 0
    zombie: int = 0
    crashing: int = 0
    oversized: int = 0
    idle: int = 0
    partly: int = 0


def parts(money: Fraction, length: int, done: Done) -> dict[str, Fraction]:
    """What `length` microseconds of an allocation cost, by what was done; what is left of it is unknown.

    RULE: money x figure / held. Of a roll-up that a cut goes through, `length` is the part inside: it counts
    in proportion. A roll-up that does not reach as far as the allocation yet tells of its own time only.
    """
    whole = max(length, done.held) * MILLION
    return _shared(money.numerator, money.denominator * whole, done) if whole else {}


def parts_at(hourly: Rate, done: Done) -> dict[str, Fraction]:
    """The same of roll-ups that lie wholly in the time that is paid for, at one price per hour."""
    above, below = hourly.as_integer_ratio()
    return _shared(above, below * pricing.MICROS_PER_HOUR * MILLION, done)


def _shared(above: int, below: int, done: Done) -> dict[str, Fraction]:
    return {
        name: Fraction(above * figure, below) if (figure := getattr(done, name)) else _NOTHING
        for name in _NAMES
    }


@dataclass
class Exact:
    """Sums of money, of GPU-seconds (time x share of the GPU) and of device-seconds, exactly."""

    allocated: Fraction = Fraction(0)
    refunded: Fraction = Fraction(0)
    seconds: Fraction = Fraction(0)
    refunded_seconds: Fraction = Fraction(0)
    device_seconds: Fraction = Fraction(0)
    refunded_device_seconds: Fraction = Fraction(0)
    known: dict[str, Fraction] = field(default_factory=dict)

    @property
    def charged(self) -> Fraction:
        """What is to be paid."""
        return self.allocated - self.refunded if self.refunded else self.allocated

    def parts(self) -> dict[str, Fraction]:
        """What is charged, by what was done with it: effective, the causes, and the rest is unknown."""
        charged, found = self.charged, {name: self.known.get(name, _NOTHING) for name in _NAMES}
        rest = pricing.rest_of(charged, self.known.values())
        # Roll-ups follow a shortened allocation within a minute: until then they tell of more than it cost.
        if rest < 0:
            total, rest = charged - rest, _NOTHING
            found = {name: part * charged / total for name, part in found.items()}
        return {**found, "unknown": rest}

    @property
    def effective(self) -> Fraction:
        """What of it did work."""
        return self.parts()["effective"]

    @property
    def causes(self) -> dict[str, Fraction]:
        """What of it was wasted, by why."""
        found = self.parts()
        return {cause: found[cause] for cause in CAUSES}

    @property
    def waste(self) -> Fraction:
        """What of it was wasted."""
        return sum(self.causes.values(), Fraction(0))

    @property
    def unknown(self) -> Fraction:
        """What of it nobody measured."""
        return self.parts()["unknown"]

    def learn(self, known: dict[str, Fraction]) -> None:
        """Add what was done."""
        for name, money in known.items():
            before = self.known.get(name)
            self.known[name] = before + money if before and money else before or money

    def add(self, other: "Exact") -> None:
        """Add the sums of another."""
        self.allocated += other.allocated
        self.refunded += other.refunded
        self.seconds += other.seconds
        self.refunded_seconds += other.refunded_seconds
        self.device_seconds += other.device_seconds
        self.refunded_device_seconds += other.refunded_device_seconds
        self.learn({name: part for name, part in other.parts().items() if name != "unknown"})


def together(found: Sequence[Exact]) -> Exact:
    """The sum of several, at least one."""
    if len(found) == 1:
        return found[0]
    whole = Exact()
    for each in found:
        whole.add(each)
    return whole
