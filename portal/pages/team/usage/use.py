"""Picture (a) on the pages of a workload, of a tenant and of the fleet, with its table and its file."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from math import ceil
from typing import Any
from urllib.parse import urlencode

from django.db.models import Max, Min, QuerySet
from django.http import HttpResponse, QueryDict
from django.urls import reverse

from apps.accounts.specs import Actor
from apps.metering.allocations.selectors import allocations
from apps.metering.ledger.rules.segments import holder_of
from apps.metering.models import AccountSum, Allocation, Bucket
from apps.metering.specs import Origin
from apps.metering.usage.rules.device_states import SPARSE
from apps.metering.usage.selectors import account_sums, aggregates, series
from apps.metering.usage.selectors.aggregates import BUCKET, HOUR, Steps
from apps.metering.usage.selectors.series import Sums
from apps.quotas.models import Offer
from apps.web.requests.sheets import csv_file
from apps.workloads.models import Workload
from portal.pages.parts.lazy import part
from portal.pages.parts.pictures.usage_curves import EXTRA, OF_ONE, UsageChart, Use

PARTS = frozenset({"use"})
SPANS = {
    "1h": ("1 h", timedelta(minutes=5), 12),
    "24h": ("24 h", timedelta(minutes=15), 96),
    "7d": ("7 d", timedelta(hours=1), 168),
    "30d": ("30 d", timedelta(hours=6), 120),
}
USUAL = "24h"
LIFE = "life"
"""Of one workload: from its first device to its end, or to now."""
LIFE_STEPS = tuple(timedelta(minutes=each) for each in (5, 15, 60, 360, 720, 1440))
FEWEST_STEPS, MOST_STEPS = 12, 168
MANY = 32
"""Above so many GPUs a day of a map of devices, or of one workload, is drawn by the hour: a twelfth of the
rows, and the page keeps its budget.
"""
STALE = timedelta(minutes=20)
MIB = 2**20
_FILED = ("seen", "smi_seen", "smi", "sm_seen", "sm", "tensor_seen", "tensor", "dram_seen", "dram")
_DRAWN = ("seen", "smi_seen", "smi", "sm_seen", "sm", "beside")
HEAD = ("from", "allocated_gpus", "nvidia_smi", "sm_active", "tensor_active", "dram_active", "coverage")


Rows = QuerySet[Any]
"""Buckets of a workload's devices, or sums of all that a team or the fleet held."""


@dataclass(frozen=True)
class Choice:
    """One of the links or boxes beside the picture."""

    key: str
    label: str
    url: str
    current: bool


@dataclass(frozen=True)
class Asked:
    """What the query asks for: how far back, and which more lines, of those that there are. `begins` is where
    the life of one workload does.
    """

    span: str
    shown: frozenset[str]
    further: Mapping[str, str] = field(default_factory=lambda: EXTRA)
    begins: datetime | None = None

    @property
    def labels(self) -> dict[str, str]:
        """What can be asked for, in words."""
        life = {LIFE: "Life"} if self.begins else {}
        return life | {key: label for key, (label, _, _) in SPANS.items()}

    @property
    def label(self) -> str:
        """The span in words."""
        return self.labels[self.span]

    @property
    def query(self) -> str:
        """The same as a query."""
        return urlencode([("span", self.span), *(("series", each) for each in sorted(self.shown))])

    @property
    def spans(self) -> list[Choice]:
        """A link for each span, with the lines kept."""
        return [
            Choice(key, label, f"?{Asked(key, self.shown).query}", key == self.span)
            for key, label in self.labels.items()
        ]

    @property
    def lines(self) -> list[Choice]:
        """A box for each further line."""
        return [
            Choice(key, name[0].upper() + name[1:], "", key in self.shown)
            for key, name in self.further.items()
        ]

    def cut(self, ends: datetime) -> tuple[timedelta, int]:
        """Length and number of the steps of a window that ends there. RULE: a life has the shortest steps
        that a picture has room for.
        """
        if self.span != LIFE or self.begins is None:
            return SPANS[self.span][1:]
        counts = [(step, ceil((ends - self.begins) / step)) for step in LIFE_STEPS]
        step, count = next((each for each in counts if each[1] <= MOST_STEPS), counts[-1])
        return step, max(count, FEWEST_STEPS)

    def steps(self, rows: Rows, now: datetime) -> Steps | None:
        """The time shown, up to the newest bucket; None where none was ever made."""
        ends = series.as_of(now)
        if ends is None:
            return None
        cut = series.steps_until(ends, *self.cut(ends))
        is_coarse = cut.level < aggregates.finest(cut.begins)
        of_devices = rows.model is Bucket
        return hourly(cut) if is_coarse or (of_devices and is_heavy(rows, cut)) else cut


@dataclass(frozen=True)
class Shown:
    """What the part shows; without a chart nothing was ever rolled up. `stale` is a past `as of`; `is_fresh`
    says that something is held but has no bucket yet.
    """

    asked: Asked
    chart: UsageChart | None = None
    total: Sums = series.NOTHING
    stale: datetime | None = None
    is_fresh: bool = False

    @property
    def is_silent(self) -> bool:
        """Something was held and not one sample of it was read."""
        return self.chart is not None and not self.chart.is_empty and not self.total.seen


def asked(query: QueryDict, *, of: QuerySet[Allocation] | None = None) -> Asked:
    """`?span=24h&series=tensor,dram`, with the allocations `of` one workload also `memory` and its life,
    which then is the usual span; unknown words are ignored.
    """
    named = {each for text in query.getlist("series") for each in text.split(",")}
    begins = None if of is None else of.aggregate(at=Min("started_at"))["at"]
    further = EXTRA if of is None else EXTRA | OF_ONE
    found = Asked(LIFE if begins else USUAL, frozenset(named & further.keys()), further, begins)
    span = query.get("span", "")
    return replace(found, span=span) if span in found.labels else found


def of_workload(actor: Actor, row: Workload, query: QueryDict, *, now: datetime) -> dict[str, Any]:
    """Part `use` of a workload's page: percent of what it holds."""
    rows = series.held_for(actor).filter(workload=row)
    held = allocations.allocations_for(actor).filter(workload=row)
    wanted = asked(query, of=held)
    now = seen_from(row.ended_at, wanted, now)
    return {
        "asked": wanted,
        "use": part(lambda: shown(rows, held, wanted, now=now, of=row.offer)),
        "use_file": reverse("workload-use-file", args=[row.tenant.slug, row.pk]),
        "allocations_url": _allocations_url(actor, row),
    }


def seen_from(ended_at: datetime | None, wanted: Asked, now: datetime) -> datetime:
    """The end of the window. RULE: for ended work the window ends at its end, not now."""
    if ended_at is None:
        return now
    step, count = wanted.cut(min(now, ended_at))
    is_hourly = step >= timedelta(seconds=HOUR) or aggregates.finest(ended_at - step * count) == HOUR
    return min(now, ended_at + timedelta(seconds=HOUR if is_hourly else BUCKET))


def of_kubectl(
    actor: Actor, made: Allocation, query: QueryDict, file: str, *, now: datetime
) -> dict[str, Any]:
    """As `of_workload`, for everything that one claim or pod made with kubectl holds; `file` is where its
    figures are.
    """
    alike = _alike(actor, made)
    wanted = asked(query, of=alike)
    rows = _held_by(actor, made, alike)
    now = seen_from(_end_of(alike), wanted, now)
    url = reverse("tenant-allocations", args=[made.tenant.slug])
    return {
        "asked": wanted,
        "use": part(lambda: shown(rows, alike, wanted, now=now, of=made.offer)),
        "use_file": file,
        "allocations_url": f"{url}?origin=kubectl",
    }


def file_of_workload(actor: Actor, row: Workload, query: QueryDict, *, now: datetime) -> HttpResponse:
    """The figures of its picture as CSV."""
    wanted = asked(query, of=allocations.allocations_for(actor).filter(workload=row))
    rows = series.held_for(actor).filter(workload=row)
    return csv_of(rows, wanted, f"{row.slug}-use", now=seen_from(row.ended_at, wanted, now))


def file_of_kubectl(actor: Actor, made: Allocation, query: QueryDict, *, now: datetime) -> HttpResponse:
    """The same of what was made with kubectl."""
    alike = _alike(actor, made)
    wanted = asked(query, of=alike)
    name = f"{made.root.replace('/', '-') or 'kubectl'}-use"
    return csv_of(_held_by(actor, made, alike), wanted, name, now=seen_from(_end_of(alike), wanted, now))


def _alike(actor: Actor, made: Allocation) -> QuerySet[Allocation]:
    return allocations.allocations_for(actor).filter(
        origin=Origin.KUBECTL, cluster=made.cluster, claim_uid=made.claim_uid
    )


def _held_by(actor: Actor, made: Allocation, alike: QuerySet[Allocation]) -> QuerySet[Bucket]:
    holders = [holder_of(made.claim_uid, device) for device in alike.values_list("device", flat=True)]
    return series.held_for(actor).filter(tenant=made.tenant, holder__in=holders)


def _end_of(alike: QuerySet[Allocation]) -> datetime | None:
    return None if _is_held(alike) else alike.aggregate(at=Max("ended_at"))["at"]


def _allocations_url(actor: Actor, row: Workload) -> str:
    """Where they can be corrected, or else only read."""
    if actor.sees_everything:
        return reverse("console-allocations", args=[row.pk])
    return reverse("workload-allocations", args=[row.tenant.slug, row.pk])


def shown(
    rows: Rows,
    held: QuerySet[Allocation],
    wanted: Asked,
    *,
    now: datetime,
    of: Offer | None = None,
) -> Shown:
    """The chart of these buckets or sums; `held` are the allocations that they are made of, all `of` the
    offer of one workload or claim, or of several.
    """
    steps = wanted.steps(rows, now)
    if steps is None:
        return Shown(wanted, is_fresh=_is_held(held))
    sums = _sums(rows, steps, (*_DRAWN, *_further(wanted.shown)))
    drawn = _devices(sums, steps) if of is None else _percents(sums, steps)
    if of is not None and "memory" in wanted.shown:
        drawn = _with_memory(drawn, rows, steps, of.gpu_memory_bytes)
    unit, sliced = ("GPUs", False) if of is None else ("%", of.share_denominator > 1)
    chart = UsageChart(drawn, steps.begins, steps.ends, steps.step, unit, wanted.shown, sliced)
    stale = steps.ends if now - steps.ends > max(STALE, steps.step + STALE) else None
    is_fresh = chart.is_empty and _is_held(held)
    return Shown(wanted, chart, series.together(sums), stale, is_fresh)


def _is_held(held: QuerySet[Allocation]) -> bool:
    """Whether a device is; of cores nothing is ever measured."""
    return held.filter(ended_at=None).exclude(share_numerator=0).exists()


def csv_of(rows: Rows, wanted: Asked, name: str, *, now: datetime) -> HttpResponse:
    """The figures of the picture: GPUs allocated, ratios of what was seen, of one workload the most memory on
    any device; empty where unknown.
    """
    steps, of_one = wanted.steps(rows, now), bool(wanted.further.keys() & OF_ONE)
    lines = _lines(_sums(rows, steps, _FILED), steps) if steps else iter(())
    if steps and of_one:
        most = series.peaks(rows, steps).get((), {})
        lines = ((*line, most.get(index)) for index, line in enumerate(lines))
    return csv_file(f"{name}-{wanted.span}", (*HEAD, *(["memory_used_mib"] if of_one else [])), lines)


def _lines(sums: Sequence[Sums], steps: Steps) -> Iterator[Sequence[Any]]:
    for at, each in zip(series.moments(steps), sums, strict=True):
        ratios = [each.ratio(of) for of in ("smi", "sm", "tensor", "dram")]
        yield (at, each.allocated / steps.micros, *ratios, each.coverage)


def is_heavy(rows: QuerySet[Bucket], cut: Steps) -> bool:
    """A day of too many GPUs to be drawn from buckets of 5 minutes."""
    hours = cut.step * cut.count > timedelta(hours=2)
    return cut.level < HOUR and hours and series.are_many(rows, cut, MANY)


def hourly(cut: Steps) -> Steps:
    """The same time in steps of an hour, up to the last full one."""
    count = int(cut.step * cut.count / timedelta(hours=1))
    return series.steps_until(cut.ends, timedelta(hours=1), count)


def _further(lines: Iterable[str]) -> Iterator[str]:
    for line in lines:
        if line in EXTRA:
            yield from (line, f"{line}_seen")


def _with_memory(drawn: Iterable[Use], rows: QuerySet[Bucket], steps: Steps, whole: int) -> list[Use]:
    """The same with memory in percent of a device's `whole` bytes, as much as is told of any of them."""
    most = series.peaks(rows, steps).get((), {})
    told = [None if (mib := most.get(at)) is None else 100 * mib * MIB / whole for at in range(steps.count)]
    return [replace(each, memory=memory) for each, memory in zip(drawn, told, strict=True)]


def _sums(rows: Rows, steps: Steps, of: Collection[str]) -> Sequence[Sums]:
    if rows.model is AccountSum:
        return series.filled(account_sums.series(rows, steps, of=of), steps)
    return series.filled(series.series(rows, steps, of=of).get((), {}), steps)


def _percents(sums: Sequence[Sums], steps: Steps) -> list[Use]:
    """100 % is the most that was held at once."""
    most = max((each.allocated for each in sums), default=0.0) or 1.0
    return [
        Use(
            at=at,
            allocated=100 * each.allocated / most,
            smi=_times(100, each.told("smi")),
            sm=_times(100, each.told("sm")),
            tensor=_times(100, each.told("tensor")),
            dram=_times(100, each.told("dram")),
            coverage=each.coverage,
        )
        for at, each in zip(series.moments(steps), sums, strict=True)
    ]


def _devices(sums: Sequence[Sums], steps: Steps) -> list[Use]:
    """The activity seen, applied to all that was allocated, so that the lines share a unit. RULE: what
    nvidia-smi says is never applied to devices that have no such figure.
    """
    return [
        Use(
            at=at,
            allocated=(gpus := each.allocated / steps.micros),
            smi=_of_some(gpus, each, "smi"),
            measured=_of_some(gpus, each, "smi_seen") or 0.0,
            beside=_of_some(gpus, each, "beside"),
            sm=_times(gpus, each.told("sm")),
            tensor=_times(gpus, each.told("tensor")),
            dram=_times(gpus, each.told("dram")),
            coverage=each.coverage,
        )
        for at, each in zip(series.moments(steps), sums, strict=True)
    ]


def _of_some(gpus: float, sums: Sums, name: str) -> float | None:
    """What is of the devices alone that nvidia-smi has a figure of."""
    coverage = sums.coverage
    if not sums.smi_seen or coverage is None or coverage < SPARSE:
        return None
    of_all: float = getattr(sums, name)
    return gpus * of_all / sums.seen


def _times(whole: float, ratio: float | None) -> float | None:
    return None if ratio is None else whole * ratio
