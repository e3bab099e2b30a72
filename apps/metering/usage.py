"""What GPUs were used for over time, read from the buckets: series, sums by account, device by time.

Everything is a ratio of sums, never an average of averages. Parts of GPUs count as such: 1/7 of a GPU for an
hour is 1/7 GPU-hour. Sums are exact Fractions; a float is made at the very end, for a picture.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from fractions import Fraction
from functools import reduce
from math import ceil
from typing import Any

from django.db import connection
from django.db.models import BigIntegerField, Expression, F, Func, QuerySet, Sum, Value

from apps.accounts.specs import Actor
from apps.metering.ledger_models import RollPosition
from apps.metering.models import Bucket
from apps.metering.rollups import LEVELS, MILLION, floor
from apps.metering.specs import Account
from apps.tenants.selectors import tenants_for

BUCKET, HOUR = LEVELS[0], LEVELS[1]
Rows = QuerySet[Bucket]
_TIMES = ("share_us", "held_us")
_SEEN = ("seen_us", "smi_us", "sm_us", "tensor_us", "dram_us")
_RATIOS = (
    "smi_sum", "sm_sum", "tensor_sum", "dram_sum", "effective", "partly", "idle", "hoarded", "zombie",
)  # fmt: skip


@dataclass(frozen=True)
class Totals:
    """Sums over rows in GPU-microseconds, a part of a GPU weighed as such: exact.

    `gpu` is what was allocated (or idle), `seen` the part of it with telemetry; `smi`, `sm`, `tensor`, `dram`
    are activity x time over the part that has this figure (`smi_seen` ...). `effective`, `partly`, `idle`,
    `hoarded`, `zombie` sum to `seen`; `unknown` is the rest of `gpu`.
    """

    gpu: Fraction = Fraction(0)
    seen: Fraction = Fraction(0)
    smi_seen: Fraction = Fraction(0)
    sm_seen: Fraction = Fraction(0)
    tensor_seen: Fraction = Fraction(0)
    dram_seen: Fraction = Fraction(0)
    smi: Fraction = Fraction(0)
    sm: Fraction = Fraction(0)
    tensor: Fraction = Fraction(0)
    dram: Fraction = Fraction(0)
    effective: Fraction = Fraction(0)
    partly: Fraction = Fraction(0)
    idle: Fraction = Fraction(0)
    hoarded: Fraction = Fraction(0)
    zombie: Fraction = Fraction(0)

    @property
    def unknown(self) -> Fraction:
        """What nobody saw."""
        return self.gpu - self.seen

    @property
    def wasted(self) -> Fraction:
        """What was seen and did no work."""
        return self.partly + self.idle + self.hoarded + self.zombie

    @property
    def coverage(self) -> float | None:
        """The part that was seen, 0 to 1; None where there is nothing to see."""
        return float(self.seen / self.gpu) if self.gpu else None

    def ratio(self, name: str) -> float | None:
        """Mean activity (`sm`, `tensor`, `dram`, `smi`) where it is known, 0 to 1; None where it never is."""
        seen: Fraction = getattr(self, f"{name}_seen")
        return float(getattr(self, name) / seen) if seen else None

    def __add__(self, other: "Totals") -> "Totals":
        """Both together."""
        return Totals(*(getattr(self, name) + getattr(other, name) for name in _TOTALS))


_TOTALS = tuple(Totals.__dataclass_fields__)
Key = tuple[Any, ...]
Summed = dict[Key, Totals]


@dataclass(frozen=True)
class Point:
    """One step of a series that begins at `at`, in GPUs.

    `allocated` is None where the ledger does not reach. The activities are the mean over what was seen x what
    was allocated, so that they stand in the same unit; None where nothing was seen. `coverage` is the part
    of the allocated time that was seen.
    """

    at: datetime
    allocated: float | None
    smi: float | None
    sm: float | None
    tensor: float | None
    dram: float | None
    coverage: float | None
    totals: Totals = Totals()


@dataclass(frozen=True)
class AccountLine:
    """What one account had: `reason` only for idle."""

    account: Account
    reason: str
    totals: Totals


@dataclass(frozen=True)
class Cell:
    """One GPU in one step: what holders did (`totals`), and GPU-microseconds of idle by reason."""

    at: datetime
    totals: Totals = Totals()
    idle: Mapping[str, Fraction] = field(default_factory=dict)

    @property
    def there(self) -> Fraction:
        """GPU-microseconds that these rows speak of."""
        return self.totals.gpu + sum(self.idle.values(), Fraction(0))


@dataclass(frozen=True)
class DeviceRow:
    """One GPU over time."""

    gpu: str
    node: str
    model: str
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class Steps:
    """How a window is cut: `count` steps of `width` x `level` seconds from `begins` on."""

    level: int
    begins: datetime
    width: int
    count: int

    @property
    def step(self) -> timedelta:
        """The length of one."""
        return timedelta(seconds=self.level * self.width)

    @property
    def ends(self) -> datetime:
        """The end of the last."""
        return self.begins + self.step * self.count

    def at(self, index: int) -> datetime:
        """When a step begins."""
        return self.begins + self.step * index

    def index(self, at: datetime) -> int:
        """The step that a moment lies in."""
        return (at - self.begins) // self.step


def rows_for(actor: Actor) -> Rows:
    """The buckets an actor may see: those of the actor's tenants; idle and unattributed time is for those who
    see everything, with a token that is not cut to some tenants.
    """
    rows = Bucket.objects.all()
    everything = actor.sees_everything and actor.tenants is None
    return rows if everything else rows.filter(tenant__in=tenants_for(actor))


def until() -> datetime | None:
    """Up to when every cluster's ledger is rolled up; None before the first roll."""
    return min(RollPosition.objects.values_list("until", flat=True), default=None)


def steps(begins: datetime, ends: datetime, points: int) -> Steps:
    """At most `points` (and one for a torn edge) steps over [begins, ends), on the coarsest level that is no
    longer than a step and is still kept. The edges move out to whole buckets of it.
    """
    wanted = (ends - begins).total_seconds() / points
    level = max((each for each in LEVELS if each <= wanted), default=BUCKET)
    level = max(level, _finest(begins))
    first = floor(begins, level)
    buckets = max(1, ceil((ends - first).total_seconds() / level))
    width = max(1, ceil(wanted / level))
    return Steps(level, first, width, ceil(buckets / width))


def series(rows: Rows, begins: datetime, ends: datetime, points: int = 288) -> list[Point]:
    """What these rows held and did over time. `rows` are scoped already; only time that somebody held counts.

    Gives a point per step; the last ones may be None where the ledger is not rolled up yet.
    """
    cut = steps(begins, ends, points)
    held = rows.exclude(account=Account.IDLE)
    found: dict[int, Totals] = {}
    for (at,), totals in _at_level(held, cut.level, cut.begins, cut.ends, by=("starts_at",)).items():
        index = cut.index(at)
        found[index] = found.get(index, Totals()) + totals
    reach = _reach()
    return [_point(cut, index, found.get(index, Totals()), reach) for index in range(cut.count)]


def sums(rows: Rows, begins: datetime, ends: datetime, *, by: Sequence[str]) -> Summed:
    """Sums over [begins, ends) by columns of Bucket: ("workload",) or ("tenant__slug", "offer__slug").

    Days in the middle, hours and 300 s at the edges: the fewest rows that make up the window.
    """
    found: Summed = {}
    for level, first, last in spans(begins, ends):
        for key, totals in _at_level(rows, level, first, last, by=by).items():
            found[key] = found.get(key, Totals()) + totals
    return found


def by_account(rows: Rows, begins: datetime, ends: datetime) -> list[AccountLine]:
    """How [begins, ends) splits into tenants, idle by reason, and unattributed; the most first."""
    found = sums(rows, begins, ends, by=("account", "reason"))
    lines = [AccountLine(Account(account), reason, totals) for (account, reason), totals in found.items()]
    return sorted(lines, key=lambda line: (-line.totals.gpu, line.account, line.reason))


def device_rows(
    rows: Rows, begins: datetime, ends: datetime, points: int = 48, *, page: tuple[int, int] = (0, 50)
) -> list[DeviceRow]:
    """GPU by time, most waste first; `page` is (how many to skip, how many to give)."""
    cut = steps(begins, ends, points)
    wasted = sums(rows.exclude(account=Account.IDLE), cut.begins, cut.ends, by=("gpu",))
    known = _between(rows, cut.level, cut.begins, cut.ends).values_list("gpu")
    there = sorted(set(known), key=lambda key: (-wasted.get(key, Totals()).wasted, key))
    skip, most = page
    chosen = [gpu for (gpu,) in there[skip : skip + most]]
    return _device_rows(rows.filter(gpu__in=chosen), cut, chosen)


def spans(begins: datetime, ends: datetime) -> list[tuple[int, datetime, datetime]]:
    """[begins, ends) as (level, from, to), coarse in the middle; edges are cut to whole buckets of 300 s, or
    to hours where 300 s are no longer kept.
    """
    return list(_spans(begins, ends, tuple(each for each in reversed(LEVELS) if each >= _finest(begins))))


def _spans(
    begins: datetime, ends: datetime, levels: tuple[int, ...]
) -> Iterator[tuple[int, datetime, datetime]]:
    if not levels or begins >= ends:
        return
    level, finer = levels[0], levels[1:]
    last = floor(ends, level)
    first = floor(begins, level)
    if finer and first < begins:
        first += timedelta(seconds=level)
    if first >= last:
        yield from _spans(begins, ends, finer)
        return
    yield from _spans(begins, first, finer)
    yield level, first, last
    yield from _spans(last, ends, finer)


def _finest(begins: datetime) -> int:
    """300 s, or the hour where those of 300 s have been pruned."""
    pruned = RollPosition.objects.filter(pruned_until__gt=begins)
    return HOUR if pruned.exists() else BUCKET


def _reach() -> tuple[datetime, datetime] | None:
    found = list(RollPosition.objects.values_list("since", "until"))
    return (min(since for since, _ in found), max(to for _, to in found)) if found else None


def _point(cut: Steps, index: int, totals: Totals, reach: tuple[datetime, datetime] | None) -> Point:
    begins, ends = cut.at(index), cut.at(index + 1)
    covered = _covered(begins, ends, reach)
    if not covered:
        return Point(begins, None, None, None, None, None, None)
    gpus = totals.gpu / covered
    smi, sm, tensor, dram = (_in_gpus(totals, name, gpus) for name in ("smi", "sm", "tensor", "dram"))
    return Point(begins, float(gpus), smi, sm, tensor, dram, totals.coverage, totals)


def _covered(begins: datetime, ends: datetime, reach: tuple[datetime, datetime] | None) -> int:
    """Microseconds of a step that the ledger knows; a torn first or last step is measured by what it has."""
    if reach is None:
        return 0
    known = min(ends, reach[1]) - max(begins, floor(reach[0], BUCKET))
    return max(0, known // timedelta(microseconds=1))


def _in_gpus(totals: Totals, name: str, gpus: Fraction) -> float | None:
    seen: Fraction = getattr(totals, f"{name}_seen")
    return float(getattr(totals, name) / seen * gpus) if seen else None


def _device_rows(rows: Rows, cut: Steps, chosen: Sequence[str]) -> list[DeviceRow]:
    by = ("gpu", "starts_at", "account", "reason")
    held: dict[tuple[str, int], Totals] = {}
    idle: dict[tuple[str, int], dict[str, Fraction]] = {}
    for (gpu, at, account, reason), totals in _at_level(rows, cut.level, cut.begins, cut.ends, by=by).items():
        cell = (gpu, cut.index(at))
        if account == Account.IDLE:
            reasons = idle.setdefault(cell, {})
            reasons[reason] = reasons.get(reason, Fraction(0)) + totals.gpu
        else:
            held[cell] = held.get(cell, Totals()) + totals
    about = _between(rows, cut.level, cut.begins, cut.ends).order_by("starts_at")
    names = {gpu: (node, model) for gpu, node, model in about.values_list("gpu", "node", "model").distinct()}
    return [
        DeviceRow(
            gpu,
            *names.get(gpu, ("", "")),
            tuple(
                Cell(cut.at(index), held.get((gpu, index), Totals()), idle.get((gpu, index), {}))
                for index in range(cut.count)
            ),
        )
        for gpu in chosen
    ]


def _at_level(rows: Rows, level: int, begins: datetime, ends: datetime, *, by: Sequence[str]) -> Summed:
    """Sums of one level by columns. RULE: rows of one GPU size and one share are summed as integers in the
    database; the weight of a GPU's part is put on each such sum, exactly.
    """
    taken = _between(rows, level, begins, ends)
    width = _Whole(F("share_us"), Func(F("held_us"), Value(0), function="NULLIF"))
    grouped = taken.annotate(width=width).values(*by, "denominator", "width").order_by()
    found: Summed = {}
    for row in grouped.annotate(**_sums()):
        key = tuple(row[name] for name in by)
        found[key] = found.get(key, Totals()) + _weighed(row)
    return found


def _between(rows: Rows, level: int, begins: datetime, ends: datetime) -> Rows:
    return rows.filter(level=level, starts_at__gte=begins, starts_at__lt=ends)


class _Whole(Func):
    """Division of integers without a rest, alike on both databases."""

    template = "(%(expressions)s)"
    arg_joiner = " / "
    output_field = BigIntegerField()


def _sums() -> dict[str, Expression]:
    """SQLite sums in 64 bits and fails beyond: there the large sums are made of two halves."""
    found: dict[str, Expression] = {f"total_{name}": Sum(name) for name in (*_TIMES, *_SEEN)}
    for name in _RATIOS:
        if connection.vendor == "sqlite":
            found[f"high_{name}"] = Sum(_Whole(F(name), Value(MILLION)))
            found[f"total_{name}"] = Sum(F(name) % Value(MILLION))
        else:
            found[f"total_{name}"] = Sum(name)
    return found


def _weighed(row: Mapping[str, Any]) -> Totals:
    value = {
        name: int(row[f"total_{name}"]) + int(row.get(f"high_{name}", 0)) * MILLION
        for name in (*_TIMES, *_SEEN, *_RATIOS)
    }
    gpu = Fraction(value["share_us"], row["denominator"])
    weight = gpu / value["held_us"] if value["held_us"] else Fraction(0)
    ratios = [weight * value[name] / MILLION for name in _RATIOS]
    return Totals(gpu, *(weight * value[name] for name in _SEEN), *ratios)


def together(found: Iterable[Totals]) -> Totals:
    """The sum of several."""
    return reduce(Totals.__add__, found, Totals())
