"""What GPUs were used for, read from the buckets: exact sums over a window, by account or any column.

Everything is a ratio of sums, never an average of averages. Parts of GPUs count as such: 1/7 of a GPU for an
hour is 1/7 GPU-hour. Sums are Fractions; what is drawn over time is summed in `drawing`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from fractions import Fraction
from functools import reduce
from typing import Any

from django.db.models import Expression, F, Func, QuerySet, Sum, Value
from django.db.models.expressions import Combinable

from apps.accounts.specs import Actor
from apps.metering.ledger.rules.buckets import LEVELS, MILLION, floor
from apps.metering.ledger.selectors import effective_formula
from apps.metering.ledger.selectors.positions import pruned_until, rolled
from apps.metering.models import Bucket
from apps.metering.specs import Account
from apps.tenants.selectors import seen_by

BUCKET, HOUR = LEVELS[0], LEVELS[1]
Rows = QuerySet[Bucket]
_TIMES = ("share_us", "held_us")
_SEEN = ("seen_us", "smi_us", "sm_us", "tensor_us", "dram_us")
_RATIOS = (
    "smi_sum", "sm_sum", "tensor_sum", "dram_sum", "effective", "partly", "idle", "hoarded", "zombie",
    "crashing", "oversized",
)  # fmt: skip


@dataclass(frozen=True)
class Totals:
    """Sums over rows in GPU-microseconds, a part of a GPU weighed as such: exact.

    `gpu` is what was allocated (or idle), `seen` the part of it with telemetry; `smi`, `sm`, `tensor`, `dram`
    are activity x time over the part that has this figure (`smi_seen` ...). `effective` and
    the causes of waste sum to `seen`; `unknown` is the rest of `gpu`. What is effective, `formulas` says.
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
    crashing: Fraction = Fraction(0)
    oversized: Fraction = Fraction(0)

    @property
    def unknown(self) -> Fraction:
        """What nobody saw."""
        return self.gpu - self.seen

    @property
    def wasted(self) -> Fraction:
        """What was seen and did no work."""
        return self.seen - self.effective

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
class AccountLine:
    """What one account had: `reason` only for idle."""

    account: Account
    reason: str
    totals: Totals


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
    def micros(self) -> int:
        """The same in microseconds."""
        return self.level * self.width * MILLION

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
    return rows if actor.sees_everything else rows.filter(tenant__in=seen_by(actor))


def until() -> datetime | None:
    """Up to when every cluster's ledger is rolled up; None before the first roll."""
    return min((each.until for each in rolled()), default=None)


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


def spans(begins: datetime, ends: datetime) -> list[tuple[int, datetime, datetime]]:
    """[begins, ends) as (level, from, to), coarse in the middle; edges are cut to whole buckets of 300 s, or
    to hours where 300 s are no longer kept.
    """
    least = finest(begins)
    return list(_spans(begins, ends, tuple(each for each in reversed(LEVELS) if each >= least)))


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


def finest(begins: datetime) -> int:
    """The finest level kept since a moment: 300 s, or the hour where those of 300 s have been pruned."""
    pruned = pruned_until()
    return HOUR if pruned is not None and pruned > begins else BUCKET


def _at_level(rows: Rows, level: int, begins: datetime, ends: datetime, *, by: Sequence[str]) -> Summed:
    """Sums of one level by columns. RULE: rows of one GPU size and one share are summed as integers in the
    database; the weight of a GPU's part is put on each such sum, exactly.
    """
    taken = _between(rows, level, begins, ends)
    width = effective_formula.Whole(F("share_us"), Func(F("held_us"), Value(0), function="NULLIF"))
    grouped = taken.annotate(width=width).values(*by, "denominator", "width").order_by()
    found: Summed = {}
    for row in grouped.annotate(**_sums(effective_formula.judged(begins, ends))):
        key = tuple(row[name] for name in by)
        found[key] = found.get(key, Totals()) + _weighed(row)
    return found


def _between(rows: Rows, level: int, begins: datetime, ends: datetime) -> Rows:
    return rows.filter(level=level, starts_at__gte=begins, starts_at__lt=ends)


def _sums(judged: Mapping[str, Combinable]) -> dict[str, Expression]:
    large = effective_formula.sums({name: judged.get(name, F(name)) for name in _RATIOS})
    times = {f"total_{name}": Sum(judged.get(name, F(name))) for name in (*_TIMES, *_SEEN)}
    return times | large


def _weighed(row: Mapping[str, Any]) -> Totals:
    value = {name: effective_formula.summed(row, name) for name in (*_TIMES, *_SEEN, *_RATIOS)}
    gpu = Fraction(value["share_us"], row["denominator"])
    weight = gpu / value["held_us"] if value["held_us"] else Fraction(0)
    ratios = [weight * value[name] / MILLION for name in _RATIOS]
    return Totals(gpu, *(weight * value[name] for name in _SEEN), *ratios)


def together(found: Iterable[Totals]) -> Totals:
    """The sum of several."""
    return reduce(Totals.__add__, found, Totals())
