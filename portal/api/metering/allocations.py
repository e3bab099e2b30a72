"""REST of metering: allocations and costs. Contract: docs/api.md. Reads only."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, cast

from django.db.models import Min, QuerySet
from django.utils import timezone
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.specs import Actor
from apps.metering.allocations.selectors import allocations, devices_held
from apps.metering.billing.rules.effective_split import CAUSES
from apps.metering.billing.rules.pricing import LONGEST_UNIT
from apps.metering.billing.selectors import costs
from apps.metering.billing.selectors.costs import CostLine, Group
from apps.metering.models import Allocation
from apps.metering.specs import Origin
from apps.web.problems.refusals import BadParameter
from apps.workloads.selectors.reading import workload_for
from portal.api.base.tables import ItemsCsv
from portal.api.base.views import ApiView, paginate
from portal.api.declared.declaring import answers, pages
from portal.api.declared.queries import Ids, Moment, OneOf, Parameter, Texts, Words
from portal.api.metering.balance_bodies import (
    AllocationBody,
    CorrectableBody,
    CostsBody,
    GroupedCostBody,
    allocation_body,
    cost_body,
    line_body,
)

FROM = Moment("from", "Where the period begins; a day before its end where it is absent.")
TO = Moment("to", "Where the period ends, itself left out; now where it is absent.")
PERIOD: tuple[Parameter[Any], ...] = (FROM, TO)
WORKLOAD = Ids("workload", "Only of these workloads.")
COLUMNS = {
    "tenant": Texts("tenant", "Only of these tenants, by slug."),
    "department": Texts("department", "Only of these departments, by slug."),
    "offer": Texts("offer", "Only of these offers, by slug."),
}
WHOSE: tuple[Parameter[Any], ...] = (*COLUMNS.values(), WORKLOAD)
ORIGIN = Words("origin", "Only of these origins.", tuple(Origin))
GROUP_BY = OneOf("group_by", "What the costs are grouped by.", Group, Group.TENANT)
DAY = timedelta(days=1)
ALLOCATION_COLUMNS = (
    "id", "class", "origin", "tenant", "workload", "node", "device", "offer", "share", "from", "to",
    "device_seconds", "attributed_by", "confidence",
)  # fmt: skip
COST_COLUMNS = (
    "gpu_hours", "allocated", "refunded", "charged", "effective", "waste", "recoverable", "inefficiency",
    *(f"waste_by_cause_{cause}" for cause in CAUSES), "unknown", "formula", "currency",
)  # fmt: skip


class AllocationList(ApiView):
    """`allocations`: who held which device from when to when, by a workload or by kubectl."""

    scope_group = "metering"
    lists = True
    sorts = tuple(("-" if at == 0 else "") + name for at, name in enumerate(devices_held.SORTS))
    parameters = (*PERIOD, *WHOSE, ORIGIN)
    renderer_classes = (JSONRenderer, ItemsCsv)
    columns = ALLOCATION_COLUMNS

    @pages(AllocationBody)
    def get(self, request: Request) -> Response:
        """Those that overlap the period, newest first; without one, of the last 24 hours."""
        now = timezone.now()
        begins, ends = period(request, now)
        rows = devices_held.only(_filtered(request, self.actor), ORIGIN.of(request))
        chosen = allocations.between(rows, begins, ends)
        return paginate(request, chosen, lambda row: line_body(devices_held.line_of(row), now))


class AllocationView(ApiView):
    """`allocations/{id}`."""

    scope_group = "metering"

    @answers(200, CorrectableBody)
    def get(self, request: Request, key: str) -> Response:  # noqa: ARG002 - Django's signature
        """As it counts, as it was observed, and every correction of it."""
        row = allocations.allocation_for(self.actor, key)
        return Response(allocation_body(devices_held.line_of(row), timezone.now()))


class CostList(ApiView):
    """`costs`: what the period cost, by tenant, department, workload, member or offer."""

    scope_group = "metering"
    parameters = (*PERIOD, *WHOSE, GROUP_BY)
    renderer_classes = (JSONRenderer, ItemsCsv)
    columns: Sequence[str] = ()

    @answers(200, CostsBody)
    def get(self, request: Request) -> Response:
        """Sums by group, and their total."""
        group = GROUP_BY.of(request)
        self.columns = (group, *COST_COLUMNS)
        return _summed(request, _filtered(request, self.actor), group)


class WorkloadCost(ApiView):
    """`workloads/{id}/cost`."""

    scope_group = "metering"
    parameters = PERIOD

    @answers(200, CostsBody)
    def get(self, request: Request, pk: str) -> Response:
        """By offer; without a period, of its whole life, as of the moment that `status.cost` is of."""
        row = workload_for(self.actor, pk)
        rows = allocations.allocations_for(self.actor).filter(workload=row)
        if FROM.of(request) or TO.of(request) or row.cost_as_of is None:
            return _summed(request, rows, Group.OFFER, since=row.created_at)
        first = rows.aggregate(held=Min("started_at"), corrected=Min("corrections__started_at"))
        begins, as_of = min(filter(None, (row.created_at, *first.values()))), row.cost_as_of
        # The rest of a last unit is charged when the work ends: it lies after that moment.
        lines = costs.costs(rows, Group.OFFER, begins=begins, ends=as_of + LONGEST_UNIT, now=as_of)
        return _told(Group.OFFER, lines, begins, as_of)


def _summed(
    request: Request,
    rows: QuerySet[Allocation],
    group: Group,
    *,
    since: datetime | None = None,
) -> Response:
    now = timezone.now()
    begins, ends = period(request, now, since=since)
    return _told(group, costs.costs(rows, group, begins=begins, ends=ends, now=now), begins, ends)


def _told(group: Group, lines: Sequence[CostLine], begins: datetime, ends: datetime) -> Response:
    items = [_grouped(group, line) for line in lines]
    total = costs.total_of(lines)
    found: CostsBody = {
        "from": begins,
        "to": ends,
        "formula": total.formula,
        "items": items,
        "total": cost_body(total),
    }
    return Response(found)


def _grouped(group: Group, line: CostLine) -> GroupedCostBody:
    return cast("GroupedCostBody", {str(group): line.key or None, **cost_body(line)})


def _filtered(request: Request, actor: Actor) -> QuerySet[Allocation]:
    """Those that an actor sees and asks for."""
    columns = {"tenant": "tenant__slug", "department": "tenant__department__slug", "offer": "offer__slug"}
    rows = allocations.allocations_for(actor)
    for name, column in columns.items():
        if (asked := COLUMNS[name].of(request)) is not None:
            rows = rows.filter(**{f"{column}__in": asked})
    wanted = WORKLOAD.of(request)
    return rows if wanted is None else rows.filter(workload__in=wanted)


def period(request: Request, now: datetime, *, since: datetime | None = None) -> tuple[datetime, datetime]:
    """[from, to): up to now, and a day long or from `since` on, unless the query says more."""
    ends = TO.of(request) or now
    begins = FROM.of(request) or since or ends - DAY
    if begins >= ends:
        raise BadParameter("from", "from must be before to.")
    return begins, ends
