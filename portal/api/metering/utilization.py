"""REST of utilization: what was allocated and what the silicon did, over time and in sum. Reads only."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import ceil
from typing import Any, cast

from django.db.models import QuerySet
from django.utils import timezone
from rest_framework.renderers import BaseRenderer, JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from apps.metering.ledger.rules.buckets import LEVELS, floor
from apps.metering.models import Bucket
from apps.metering.usage.selectors import aggregates, state_cells, summing
from apps.metering.usage.selectors import series as usage_series
from apps.metering.usage.selectors.aggregates import Steps
from apps.metering.usage.selectors.series import Sums
from apps.web.problems.refusals import BadParameter
from apps.web.requests.sheets import csv_text
from apps.words import Word
from apps.workloads.selectors.reading import workload_for
from portal.api.base.tables import ItemsCsv
from portal.api.base.views import ApiView
from portal.api.declared.declaring import answers
from portal.api.declared.queries import OneOf, Parameter, Texts, WholeNumber
from portal.api.metering import allocations
from portal.api.metering.utilization_bodies import (
    RATIOS,
    DeviceStatesBody,
    UseGroupSumBody,
    UseSeriesBody,
    UseValuesBody,
    UtilizationBody,
    UtilizationSummaryBody,
    as_bytes,
    rounded,
    state_body,
    sum_body,
)

MOST_POINTS = 2_016
MOST_CELLS = 100_000
SHORTEST, LONGEST = LEVELS[0], 7 * LEVELS[-1]
STEPS = (300, 900, 1_800, 3_600, 10_800, 21_600, 43_200, 86_400, 7 * 86_400)
USUAL_POINTS = 288


class By(Word):
    """What utilization is grouped by; the value is also the name of the group in the answer."""

    TENANT = "tenant", "tenant__slug"
    DEPARTMENT = "department", "tenant__department__slug"
    WORKLOAD = "workload", "workload"
    OFFER = "offer", "offer__slug"
    DEVICE = "device", "gpu"


GROUP_BY = OneOf("group_by", "What the figures are grouped by.", By, By.TENANT)
STATES_OF = OneOf("group_by", "States are those of a device.", By, By.DEVICE)
DEVICE = Texts("device", "Only of these devices, by the GPU's UUID.")
STEP = WholeNumber(
    "step_seconds",
    "How long a step is; where it is absent, as the period suggests.",
    default=None,
    lowest=SHORTEST,
    highest=LONGEST,
    step=SHORTEST,
)
COLUMNS = {
    By.TENANT: allocations.COLUMNS["tenant"],
    By.DEPARTMENT: allocations.COLUMNS["department"],
    By.OFFER: allocations.COLUMNS["offer"],
    By.DEVICE: DEVICE,
}
WHICH: tuple[Parameter[Any], ...] = (*allocations.PERIOD, *allocations.WHOSE, DEVICE)


class CsvRenderer(BaseRenderer):
    """`Accept: text/csv`: a line per group and step."""

    media_type = "text/csv"
    format = "csv"

    def render(self, data: Any, *_args: Any, **_kwargs: Any) -> bytes:
        """The same values, the unknown empty."""
        head, rows = _table(data)
        return csv_text(head, rows).encode()


class UtilizationList(ApiView):
    """`utilization`: a series per tenant, department, workload, offer or device."""

    scope_group = "metering"
    parameters = (*WHICH, GROUP_BY, STEP)
    renderer_classes = (JSONRenderer, CsvRenderer)

    @answers(200, UtilizationBody)
    def get(self, request: Request) -> Response:
        """Value i speaks of [from + i x step_seconds, + step_seconds)."""
        return Response(_series(request, _rows(request, usage_series.held_for(self.actor))))


class UtilizationStates(ApiView):
    """`utilization/states`: what each device did, step by step: the cells of the picture."""

    scope_group = "metering"
    parameters = (*WHICH, STATES_OF, STEP)
    renderer_classes = (JSONRenderer, ItemsCsv)
    columns = ("device", "node", "from", "state", "allocated", "sm_active", "coverage")

    @answers(200, DeviceStatesBody)
    def get(self, request: Request) -> Response:
        """Of each step that the ledger reaches the first state that holds; `group_by` is device."""
        if STATES_OF.of(request) is not By.DEVICE:
            raise BadParameter("group_by", "States are those of a device: group_by is device.")
        cut = _steps(request)
        cells = state_cells.cells(_rows(request, usage_series.held_for(self.actor)), cut)
        if len(cells) * cut.count > MOST_CELLS:
            raise BadParameter("step_seconds", f"More than {MOST_CELLS:,} values: ask for longer steps.")
        known = _known()
        items = [
            state_body(row)
            for row in state_cells.lines(cells, cut)
            if known and known.has(row[2], row[2] + cut.step)
        ]
        seconds = int(cut.step.total_seconds())
        found: DeviceStatesBody = {
            "from": cut.begins,
            "to": cut.ends,
            "step_seconds": seconds,
            "items": items,
        }
        return Response(found)


class UtilizationSummary(ApiView):
    """`utilization/summary`: the same in one line per group."""

    scope_group = "metering"
    parameters = (*WHICH, GROUP_BY)
    renderer_classes = (JSONRenderer, CsvRenderer)

    @answers(200, UtilizationSummaryBody)
    def get(self, request: Request) -> Response:
        """Means are sums divided once; p95 is of SM active, within a tenth."""
        rows = _rows(request, usage_series.held_for(self.actor))
        begins, ends = _period(request)
        by = GROUP_BY.of(request)
        items = [
            cast("UseGroupSumBody", {str(by): _named(key), **sum_body(found)})
            for (key,), found in sorted(
                summing.summaries(rows, begins, ends, by=(by.label,)).items(), key=lambda each: str(each[0])
            )
        ]
        told: UtilizationSummaryBody = {"from": begins, "to": ends, "items": items}
        return Response(told)


class WorkloadUtilization(ApiView):
    """`workloads/{id}/utilization`: the series of one workload."""

    scope_group = "metering"
    parameters = (*allocations.PERIOD, STEP)
    renderer_classes = (JSONRenderer, CsvRenderer)

    @answers(200, UtilizationBody)
    def get(self, request: Request, pk: str) -> Response:
        """Without a period, of the last 24 hours."""
        rows = usage_series.held_for(self.actor).filter(workload=workload_for(self.actor, pk))
        return Response(_series(request, rows, by=By.WORKLOAD))


def _period(request: Request) -> tuple[datetime, datetime]:
    """As of every list of metering, but not beyond what is being measured now."""
    now = timezone.now()
    begins, ends = allocations.period(request, now)
    if begins >= now:
        raise BadParameter("from", "from is in the future: nothing is measured there yet.")
    return begins, min(ends, now + timedelta(seconds=LONGEST))


@dataclass(frozen=True)
class _Known:
    """How far the ledger reaches; outside it everything is null."""

    since: datetime
    until: datetime

    def has(self, begins: datetime, ends: datetime) -> bool:
        return begins < self.until and ends > self.since


def _known() -> _Known | None:
    reach = usage_series.known()
    return _Known(*reach) if reach else None


def _series(request: Request, rows: QuerySet[Bucket], by: By | None = None) -> UtilizationBody:
    by = by or GROUP_BY.of(request)
    cut = _steps(request)
    found = usage_series.series(rows, cut, by.label)
    if len(found) * cut.count > MOST_CELLS:
        raise BadParameter("step_seconds", f"That is more than {MOST_CELLS:,} values: ask for longer steps.")
    most = usage_series.peaks(rows, cut, by.label)
    known = _known()
    series = [
        cast(
            "UseSeriesBody",
            {str(by): _named(key), "values": _values(sums, most.get((key,), {}), cut, known)},
        )
        for (key,), sums in sorted(found.items(), key=lambda each: str(each[0]))
    ]
    seconds = int(cut.step.total_seconds())
    return {"from": cut.begins, "to": cut.ends, "step_seconds": seconds, "series": series}


def _values(
    sums: Mapping[int, Sums], most: Mapping[int, int | None], cut: Steps, known: _Known | None
) -> UseValuesBody:
    inside = [known is not None and known.has(cut.at(i), cut.at(i + 1)) for i in range(cut.count)]
    filled = usage_series.filled(sums, cut)
    ratios = {name: [rounded(each.ratio(of)) for each in filled] for name, of in RATIOS.items()}
    return {
        "allocated": [
            rounded(each.allocated / cut.micros) if is_in else None
            for each, is_in in zip(filled, inside, strict=True)
        ],
        "sm_active": ratios["sm_active"],
        "tensor_active": ratios["tensor_active"],
        "dram_active": ratios["dram_active"],
        "gpu_util": ratios["gpu_util"],
        "memory_used_bytes": [as_bytes(most.get(index)) for index in range(cut.count)],
        "coverage": [rounded(each.coverage) for each in filled],
    }


def _steps(request: Request) -> Steps:
    begins, ends = _period(request)
    span = (ends - begins).total_seconds()
    usual = next((each for each in STEPS if span / each <= USUAL_POINTS), STEPS[-1])
    seconds = STEP.of(request) or max(usual, aggregates.finest(begins))
    level = next(each for each in reversed(LEVELS) if seconds % each == 0)
    if level < aggregates.finest(begins):
        raise BadParameter("step_seconds", "Of a time so long ago only whole hours are kept: ask for 3600.")
    first = floor(begins, level)
    count = max(1, ceil((ends - first) / timedelta(seconds=seconds)))
    if count > MOST_POINTS:
        raise BadParameter("step_seconds", f"That is {count:,} steps; at most {MOST_POINTS:,}.")
    return Steps(level, first, seconds // level, count)


def _rows(request: Request, rows: QuerySet[Bucket]) -> QuerySet[Bucket]:
    for by, column in COLUMNS.items():
        if (asked := column.of(request)) is not None:
            rows = rows.filter(**{f"{by.label}__in": asked})
    wanted = allocations.WORKLOAD.of(request)
    return rows if wanted is None else rows.filter(workload__in=wanted)


def _named(key: Any) -> str | None:
    """The group; null is time with no known holder."""
    return None if key is None else str(key)


def _table(data: Mapping[str, Any]) -> tuple[Sequence[str], Iterator[Sequence[Any]]]:
    if "series" not in data:
        return _summary_table(data)
    groups = [next(name for name in each if name != "values") for each in data["series"][:1]]
    metrics = ["allocated", *RATIOS, "memory_used_bytes", "coverage"]
    step = timedelta(seconds=data.get("step_seconds", 0))

    def rows() -> Iterator[Sequence[Any]]:
        for each in data["series"]:
            columns = [each["values"][name] for name in metrics]
            for index, values in enumerate(zip(*columns, strict=True)):
                yield (*(each[name] for name in groups), data["from"] + index * step, *values)

    return [*(groups or ["group"]), "from", *metrics], rows()


def _summary_table(data: Mapping[str, Any]) -> tuple[Sequence[str], Iterator[Sequence[Any]]]:
    group = next((name for name in (data.get("items") or [{}])[0]), "group")
    means = [f"mean_{name}" for name in RATIOS]
    head = [group, "gpu_hours", *means, "p95_sm_active", "max_sm_active", "max_memory_used_bytes", "coverage"]

    def rows() -> Iterator[Sequence[Any]]:
        for each in data.get("items", ()):
            most = each["max"]
            ends = (each["p95"]["sm_active"], most["sm_active"], most["memory_used_bytes"], each["coverage"])
            yield (each[group], each["gpu_hours"], *(each["mean"][name] for name in RATIOS), *ends)

    return head, rows()
