"""What pictures and `utilization` are drawn from: sums over buckets, cut into equal steps. Reads only.

In whole microseconds, summed by the database, a row per cell: a page of pictures must be quick and a pixel
needs no more. Exact sums, and all that money is made of, are in `usage`.

RULE: time of a physical GPU is the weight of everything: a slice of 1/7 counts a seventh. Ratios are sums
divided once, never means of means; what was not seen is in no sum and lowers the coverage.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from operator import add, itemgetter
from typing import Any, NamedTuple

from django.db.models import Case, F, FloatField, Func, IntegerField, Max, QuerySet, When
from django.db.models.expressions import Combinable
from django.db.models.functions import Cast, Floor

from apps.accounts.specs import Actor
from apps.cluster.request_cache import memo
from apps.metering.ledger.rules.buckets import LEVELS, floor
from apps.metering.ledger.selectors import effective_formula
from apps.metering.ledger.selectors.positions import rolled
from apps.metering.ledger.selectors.weighted_sums import weighed
from apps.metering.models import Bucket
from apps.metering.specs import Account
from apps.metering.usage.rules.device_states import SPARSE
from apps.metering.usage.selectors import aggregates
from apps.metering.usage.selectors.aggregates import Steps

NO_TIME = timedelta(0)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_KEPT = {
    "allocated": "held_us", "seen": "seen_us", "smi_seen": "smi_us", "sm_seen": "sm_us",
    "tensor_seen": "tensor_us", "dram_seen": "dram_us", "smi": "smi_sum", "sm": "sm_sum",
    "tensor": "tensor_sum", "dram": "dram_sum", "effective": "effective",
    "partly": "partly", "idle": "idle", "hoarded": "hoarded", "zombie": "zombie",
    "crashing": "crashing", "oversized": "oversized",
}  # fmt: skip
EVERYTHING = tuple(_KEPT)[1:]
_OF_SOME = {"beside": Case(When(smi_us__gt=0, then=F("sm_sum")), default=0)}


class Sums(NamedTuple):
    """Microseconds of physical GPUs in one step (or several): allocated, seen, seen with each figure; and
    microseconds x activity of that. `beside` is SM active of what nvidia-smi has a figure of, made only where
    it is named. A tuple, because a picture has a thousand.
    """

    allocated: int = 0
    seen: int = 0
    smi_seen: int = 0
    sm_seen: int = 0
    tensor_seen: int = 0
    dram_seen: int = 0
    smi: int = 0
    sm: int = 0
    tensor: int = 0
    dram: int = 0
    effective: int = 0
    partly: int = 0
    idle: int = 0
    hoarded: int = 0
    zombie: int = 0
    crashing: int = 0
    oversized: int = 0
    beside: int = 0

    def __add__(self, other: "Sums") -> "Sums":  # type: ignore[override]
        return Sums._make(map(add, self, other))

    @property
    def coverage(self) -> float | None:
        """The part of what was allocated that was seen; None while nothing was."""
        return min(1.0, self.seen / self.allocated) if self.allocated else None

    def ratio(self, of: str) -> float | None:
        """`smi`, `sm`, `tensor`, `dram`: activity over the time that has this figure; None: unknown."""
        seen: int = getattr(self, f"{of}_seen")
        value: int = getattr(self, of)
        return min(1.0, value / seen) if seen else None

    def told(self, of: str) -> float | None:
        """The ratio, if at least half of what was allocated was seen with it; less would not be
        representative.
        """
        seen: int = getattr(self, f"{of}_seen")
        return self.ratio(of) if seen and seen >= SPARSE * self.allocated else None


NOTHING = Sums()
_TIMES = ("allocated", "seen", "smi_seen", "sm_seen", "tensor_seen", "dram_seen")
_UNIT = {name: 1 if name in _TIMES else 1_000_000 for name in Sums._fields}
"""Of what roll-ups keep: time in microseconds, and such times millionths."""


def steps_until(ends: datetime, step: timedelta, count: int) -> Steps:
    """The last `count` whole steps that end at or before a moment: on hours where steps are hours long."""
    level = next(each for each in reversed(LEVELS) if step % timedelta(seconds=each) == NO_TIME)
    last = floor(ends, level)
    return Steps(level, last - step * count, step // timedelta(seconds=level), count)


def as_of(now: datetime) -> datetime | None:
    """Up to when there are buckets, at most now; None: none was ever made."""
    reached = aggregates.until()
    return None if reached is None else floor(min(reached, now), LEVELS[0])


def known() -> tuple[datetime, datetime] | None:
    """[since, until) of the ledger over all clusters; None before the first roll."""
    found = rolled()
    return (min(each.since for each in found), max(each.until for each in found)) if found else None


def are_many(rows: QuerySet[Bucket], steps: Steps, count: int) -> bool:
    """Whether these buckets are of more than so many GPUs on the last day of the steps."""
    day = floor(steps.ends - timedelta(microseconds=1), LEVELS[-1])
    held = rows.filter(level=LEVELS[-1], starts_at=day).order_by()
    gpus = held.values_list("cluster", "gpu").distinct()[: count + 1]
    # Two pictures of one page ask it of the same rows. To count them here costs less than a query within one.
    return memo(("many", rows, day, count), lambda: len(gpus) > count)


def held_for(actor: Actor) -> QuerySet[Bucket]:
    """What somebody held, of what an actor sees."""
    return aggregates.rows_for(actor).filter(held_us__gt=0).exclude(account=Account.IDLE)


def series(
    rows: QuerySet[Bucket], steps: Steps, *keys: str, of: Collection[str] = EVERYTHING
) -> dict[tuple[Any, ...], dict[int, Sums]]:
    """Per group (the values of `keys`) the sums of each step that has any; one query. Only the sums named in
    `of` are made, the others stay 0: each costs as much as all the rest of the row.
    """
    found: dict[tuple[Any, ...], dict[int, Sums]] = {}
    judged = effective_formula.judged(steps.begins, steps.ends)
    kept = _OF_SOME | {name: judged.get(column, F(column)) for name, column in _KEPT.items()}
    figures = {name: (kept[name], _UNIT[name]) for name in ("allocated", *of)}
    width, named = len(keys), list(figures)
    # A picture has a thousand rows: each is put in order by calls of C alone, with the nought behind its end
    # for what was not asked.
    in_order = itemgetter(*(width + 1 + named.index(name) if name in named else -1 for name in Sums._fields))
    cut = inside(rows, steps).annotate(slot=slot_of(steps))
    for row in weighed(cut, [*keys, "slot"], figures):
        made = Sums._make(in_order((*row, 0)))
        found.setdefault(row[:width], {})[row[width]] = made
    return found


def peaks(rows: QuerySet[Bucket], steps: Steps, *keys: str) -> dict[tuple[Any, ...], dict[int, int | None]]:
    """Per group and step the most GPU memory in use on one device, in MiB; None: unknown."""
    found: dict[tuple[Any, ...], dict[int, int | None]] = {}
    cut = inside(rows, steps).annotate(slot=slot_of(steps)).order_by().values(*keys, "slot")
    for row in cut.annotate(most=Max("memory_max_mib")):
        found.setdefault(tuple(row[key] for key in keys), {})[row["slot"]] = row["most"]
    return found


def moments(steps: Steps) -> list[datetime]:
    """Where each step begins."""
    return [steps.at(index) for index in range(steps.count)]


def inside(rows: QuerySet[Bucket], steps: Steps) -> QuerySet[Bucket]:
    """The buckets of the steps' own level in their time."""
    return rows.filter(level=steps.level, starts_at__gte=steps.begins, starts_at__lt=steps.ends)


def filled(sums: Mapping[int, Sums], steps: Steps) -> Sequence[Sums]:
    """One entry per step; a step without any allocation is nothing."""
    return [sums.get(index, NOTHING) for index in range(steps.count)]


def together(sums: Iterable[Sums]) -> Sums:
    """All of them added."""
    return sum(sums, NOTHING)


class _Seconds(Func):
    """Unix seconds of a moment."""

    output_field = FloatField()
    template = "date_part('epoch', %(expressions)s)"

    def as_sqlite(self, compiler: Any, connection: Any, **extra: Any) -> Any:
        return super().as_sql(compiler, connection, template="strftime('%%%%s', %(expressions)s)", **extra)


def slot_of(steps: Steps) -> Combinable:
    """The step that a row's `starts_at` lies in, counted from 0."""
    begins = (steps.begins - _EPOCH).total_seconds()
    seconds = Cast(_Seconds(F("starts_at")), FloatField())
    return _Slot(Floor((seconds - begins) / steps.step.total_seconds()), IntegerField())


class _Slot(Cast):
    """Given as the database gives it: one column that Django converts costs a second pass over all rows."""

    convert_value = staticmethod(Cast._convert_value_noop)  # type: ignore[attr-defined]
