"""Segments, samples and idle spans of one GPU in, bucket rows in integers out; and rows summed up. Pure.

The same facts give the same rows, bit for bit, in whatever order they came. Times are microseconds since
1970, ratios millionths. A sample at `ts` speaks of (ts - step, ts], its source's collection interval; where
two overlap the earlier one wins.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from itertools import islice
from math import lcm
from operator import add, attrgetter, lt
from typing import NamedTuple

from apps.metering.ledger.rules.segments import Segment, Share
from apps.words import Word

MILLION = 1_000_000
LEVELS = (300, 3600, 86400)
"""The lengths of buckets in seconds; each divides the next."""
BUCKET = timedelta(seconds=LEVELS[0])
BUCKET_US = LEVELS[0] * MILLION
IDLE_BELOW = 20_000
"""Under 2 % of max(SM, DRAM) is idle; what is above it, and is not work, is partly used."""
TENTHS = 10


class Cause(Word):
    """What became of the part of a sample that was no work; what a finding says, and what the sample says."""

    PARTLY = "partly", "Partly used"
    IDLE = "idle", "Idle"
    OVERSIZED = "oversized", "Oversized"
    CRASHING = "crashing", "Crash loops"
    HOARDED = "hoarded", "Hoarded"
    ZOMBIE = "zombie", "Zombie"


WHOLE = (Cause.ZOMBIE, Cause.HOARDED, Cause.CRASHING)
"""The causes that take all of a sample's rest; where several are told, the first."""


class Seen(NamedTuple):
    """One sample that speaks of (ts - step, ts]; ratios in millionths, power in mW of the board, energy the
    counter in mJ. None is unknown.
    """

    ts: int
    step: int
    smi: int | None = None
    sm: int | None = None
    tensor: int | None = None
    dram: int | None = None
    memory_mib: int | None = None
    energy_mj: int | None = None
    power_mw: int | None = None


class Span(NamedTuple):
    """A time that a finding calls wasted, and why. `evaded`: what moved the counters meanwhile was there to
    move them. `part`: of what is oversized, the millionths of the device that were too much.
    """

    begins: int
    ends: int
    cause: str
    evaded: bool = False
    part: int = MILLION


def floor(at: datetime, level: int) -> datetime:
    """The beginning of the bucket of a level that a moment lies in."""
    seconds = int(at.timestamp())
    return datetime.fromtimestamp(seconds - seconds % level, tz=UTC)


Key = tuple[str, str, str]
"""Account, reason, holder: what rows of one GPU and one bucket are told apart by."""


@dataclass
class Row:
    """The columns of Bucket that are counted; their units and invariants are told there."""

    account: str
    reason: str
    holder: str
    denominator: int
    tenant: str = ""
    node: str = ""
    model: str = ""
    share_us: int = 0
    held_us: int = 0
    seen_us: int = 0
    samples: int = 0
    smi_us: int = 0
    smi_sum: int = 0
    sm_us: int = 0
    sm_sum: int = 0
    sm_max: int | None = None
    tensor_us: int = 0
    tensor_sum: int = 0
    dram_us: int = 0
    dram_sum: int = 0
    effective: int = 0
    partly: int = 0
    idle: int = 0
    blind_idle: int = 0
    hoarded: int = 0
    zombie: int = 0
    crashing: int = 0
    oversized: int = 0
    evaded: int = 0
    memory_max_mib: int | None = None
    power_us_mw: int = 0
    histogram: list[int] = field(default_factory=lambda: [0] * TENTHS)

    @property
    def key(self) -> Key:
        """What tells it apart within its GPU and bucket."""
        return self.account, self.reason, self.holder


COUNTED = tuple(each.name for each in fields(Row))
_SUMMED = (
    "held_us", "seen_us", "samples", "smi_us", "smi_sum", "sm_us", "sm_sum", "tensor_us", "tensor_sum",
    "dram_us", "dram_sum", "effective", "partly", "idle", "blind_idle", "hoarded", "zombie",
    "crashing", "oversized", "evaded", "power_us_mw",
)  # fmt: skip
_sums = attrgetter(*_SUMMED)
_LARGEST = ("sm_max", "memory_max_mib")


@dataclass(frozen=True)
class Telemetry:
    """What is known of one holder's device: its samples, and the findings' idle spans of its workload."""

    samples: Sequence[Seen]
    spans: Sequence[Span] = ()


def bucket(segments: Iterable[Segment], telemetry: Mapping[str, Telemetry]) -> list[Row]:
    """The rows of one bucket from the segments that make it up, by key.

    `telemetry` is by holder; whoever shared its device, or got none of it, is not seen. RULE: shares of
    different denominators (a GPU cut anew within the bucket) are brought to their least common multiple.
    """
    taken = list(segments)
    denominator = lcm(*(segment.denominator for segment in taken if segment.size))
    rows: dict[Key, Row] = {}
    alone: dict[Key, list[tuple[int, int]]] = {}
    for segment in taken:
        scale = denominator // segment.denominator if segment.size else 0
        for share in segment.shares:
            row = _row(rows, segment, share, denominator)
            row.held_us += segment.ends - segment.begins
            row.share_us += share.numerator * scale * (segment.ends - segment.begins)
            if share.holder and share.alone and share.numerator:
                alone.setdefault(row.key, []).append((segment.begins, segment.ends))
    for key, held in alone.items():
        if key[2] in telemetry:
            _see(rows[key], telemetry[key[2]], held)
    return [rows[key] for key in sorted(rows)]


def there_us(segments: Iterable[Segment]) -> Fraction:
    """The microseconds that the GPU was there, counted for each physical GPU behind it."""
    return sum((segment.size * (segment.ends - segment.begins) for segment in segments), Fraction(0))


def summed(rows: Iterable[Row]) -> list[Row]:
    """Rows of one GPU, in the order of time, summed by key. RULE: associative: a day of hours is a day of
    300 s, except that the order of `rows` decides on `node` and `model`, whose last word holds.
    """
    taken = list(rows)
    denominator = lcm(*(row.denominator for row in taken if row.share_us)) if taken else 1
    found: dict[Key, Row] = {}
    for row in taken:
        total = found.get(row.key)
        if total is None:
            total = found[row.key] = Row(*row.key, denominator)
        _add(total, row, denominator)
    return [found[key] for key in sorted(found)]


def _add(total: Row, row: Row, denominator: int) -> None:
    for name, value in zip(_SUMMED, _sums(row), strict=True):
        if value:
            setattr(total, name, getattr(total, name) + value)
    for name in _LARGEST:
        value, most = getattr(row, name), getattr(total, name)
        if value is not None and (most is None or value > most):
            setattr(total, name, value)
    if row.share_us:
        total.share_us += row.share_us * (denominator // row.denominator)
    total.tenant, total.node, total.model = row.tenant, row.node, row.model
    total.histogram = list(map(add, total.histogram, row.histogram))


def _row(rows: dict[Key, Row], segment: Segment, share: Share, denominator: int) -> Row:
    key = (share.account, share.reason, share.holder)
    row = rows.get(key)
    if row is None:
        row = rows[key] = Row(*key, denominator)
    row.tenant, row.node, row.model = share.tenant, segment.node, segment.model
    return row


def _see(row: Row, telemetry: Telemetry, held: Sequence[tuple[int, int]]) -> None:
    """Adds what was seen while the device was held."""
    previous: Seen | None = None
    claimed: list[tuple[int, int]] = []
    for sample in _ordered(telemetry.samples):
        before, previous = previous, sample
        own = _claim(claimed, sample.ts - sample.step, sample.ts)
        if (sample.sm is None and sample.dram is None) or _is_frozen(sample, before):
            continue
        parts = [part for begins, ends in own for part in _inside(begins, ends, held)]
        for part in parts:
            _count(row, sample, part, telemetry.spans)
        row.samples += bool(parts)


def _claim(claimed: list[tuple[int, int]], begins: int, ends: int) -> list[tuple[int, int]]:
    """What of [begins, ends) no earlier sample spoke of; from now on it is claimed, too. `claimed` is in the
    order of time, without overlaps, and ends no later than `ends`.
    """
    free, at, first = [], ends, begins
    while claimed and claimed[-1][1] >= begins:
        earlier = claimed.pop()
        if earlier[1] < at:
            free.append((earlier[1], at))
        at, first = min(at, earlier[0]), min(first, earlier[0])
    if begins < at:
        free.append((begins, at))
    claimed.append((first, ends))
    return free


def _is_frozen(sample: Seen, before: Seen | None) -> bool:
    """RULE: a board always draws power; where its energy counter stands still, an exporter repeats itself."""
    return (
        before is not None
        and sample.energy_mj is not None
        and sample.energy_mj == before.energy_mj
        and before.ts < sample.ts <= before.ts + 2 * sample.step
    )


def _inside(begins: int, ends: int, held: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    parts = [(max(begins, first), min(ends, last)) for first, last in held]
    return [part for part in parts if part[0] < part[1]]


def _ordered(samples: Sequence[Seen]) -> Sequence[Seen]:
    """By time; of the same time (two compute instances) always in the same order."""
    times = [sample.ts for sample in samples]
    if all(map(lt, times, islice(times, 1, None))):
        return samples
    return sorted(samples, key=lambda sample: tuple(-1 if value is None else value for value in sample))


def _ratio(value: int | None) -> int | None:
    """Within 0 and 1, whatever an exporter says."""
    return value if value is None or 0 <= value <= MILLION else max(0, min(MILLION, value))


def _count(row: Row, sample: Seen, part: tuple[int, int], spans: Sequence[Span]) -> None:
    length = part[1] - part[0]
    sm, dram = _ratio(sample.sm), _ratio(sample.dram)
    _measure(row, sample, length)
    work = max(-1 if sm is None else sm, -1 if dram is None else dram)
    otherwise = Cause.IDLE if work < IDLE_BELOW else Cause.PARTLY
    if sm is None:
        # Nobody is accused of what was not measured; and a formula may call it unknown.
        spans = ()
        row.blind_idle += length * (MILLION - work) if otherwise is Cause.IDLE else 0
    over = [span for span in spans if span.begins < part[1] and span.ends > part[0]]
    if not over:
        row.effective += length * work
        _spend(row, otherwise, length * (MILLION - work))
        return
    for time, there in _cut(part, over):
        # What was evaded did no work, whatever the counters say.
        evaded = any(span.evaded for span in there)
        done = 0 if evaded else work
        row.effective += time * done
        row.evaded += time * (sm or 0) if evaded else 0
        for cause, rest in _causes(MILLION - done, there, otherwise):
            _spend(row, cause, time * rest)


def _spend(row: Row, cause: str, amount: int) -> None:
    setattr(row, cause, getattr(row, cause) + amount)


def _measure(row: Row, sample: Seen, length: int) -> None:
    """Adds what the counters said for so long."""
    smi, sm, tensor, dram = map(_ratio, (sample.smi, sample.sm, sample.tensor, sample.dram))
    row.seen_us += length
    row.power_us_mw += length * (sample.power_mw or 0)
    if smi is not None:
        row.smi_us += length
        row.smi_sum += length * smi
    if sm is not None:
        row.sm_us += length
        row.sm_sum += length * sm
        row.sm_max = max(sm, row.sm_max or 0)
        row.histogram[min(TENTHS - 1, sm * TENTHS // MILLION)] += length
    if tensor is not None:
        row.tensor_us += length
        row.tensor_sum += length * tensor
    if dram is not None:
        row.dram_us += length
        row.dram_sum += length * dram
    if sample.memory_mib is not None:
        row.memory_max_mib = max(sample.memory_mib, row.memory_max_mib or 0)


def _cut(part: tuple[int, int], over: Sequence[Span]) -> Iterator[tuple[int, Sequence[Span]]]:
    """A part of a sample as lengths of time, each with the spans that it lies in, of those over it."""
    begins, ends = part
    inner = sorted({at for span in over for at in span[:2] if begins < at < ends})
    for first, last in zip([begins, *inner], [*inner, ends], strict=True):
        yield last - first, [span for span in over if span.begins <= first and span.ends >= last]


def _causes(rest: int, there: Sequence[Span], otherwise: str) -> Iterator[tuple[str, int]]:
    """What was no work, by cause.

    RULE: zombie before hoarded before crashing, each as a whole; else oversized as far as the device was too
    large, and what is left is as the sample itself says.
    """
    causes = {span.cause for span in there}
    whole = next((cause for cause in WHOLE if cause in causes), None)
    if whole:
        yield whole, rest
        return
    over = min(rest, max((span.part for span in there if span.cause == Cause.OVERSIZED), default=0))
    yield Cause.OVERSIZED, over
    yield otherwise, rest - over


def bucket_starts(begins: datetime, ends: datetime) -> Iterable[datetime]:
    """The beginnings of the bucket_starts of 300 s that [begins, ends) touches."""
    seconds = int(begins.timestamp())
    at = datetime.fromtimestamp(seconds - seconds % LEVELS[0], tz=UTC)
    while at < ends:
        yield at
        at += BUCKET
