"""Brings allocations and costs up to date, and hands down what a workload cost and a tenant spent."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any
from uuid import UUID

from django.db.models import DateField, DateTimeField, Exists, OuterRef, Q, QuerySet, Subquery, UUIDField

from apps.metering.allocations.rules import preemption
from apps.metering.billing.rules.effective_split import BEGINNING, Exact
from apps.metering.billing.rules.pricing import (
    HOUR,
    LONGEST_UNIT,
    PricePeriod,
    amount,
    cost,
    decimal_of,
    price_at,
)
from apps.metering.billing.selectors import charged_intervals, charges
from apps.metering.billing.selectors import costs as billing_costs
from apps.metering.billing.selectors.charged_intervals import Held, PriceKey
from apps.metering.models import Allocation
from apps.prepared import Prepared
from apps.quotas.budgets.rules import budget
from apps.quotas.budgets.services.budgeting import SpendSoFar, record_spend
from apps.quotas.models import Spend
from apps.tenants.models import Tenant
from apps.workloads.lifecycle.services import cost_keeping
from apps.workloads.models import Workload
from apps.workloads.specs import Usage

AT_ONCE = 100
"""Workloads that one tick prices anew, and whose tenants are asked for together."""
PRICED_EVERY = timedelta(seconds=50)
"""Between two prices of what holds on: each writes a row and tells a page, for the cost of some seconds."""
NOBODY = UUID(int=0)
"""No workload's id: a list that is asked for has something in it."""


def price_workloads(ids: Iterable[UUID], *, now: datetime) -> None:
    """RULE: cost so far = Σ over its intervals of time x price at that time; what is open counts up to now.

    `hourly` is the present price of all it holds; None while it holds nothing. What was done for the cost is
    as `charges` tells it: the total of `costs` by offer at the same moment.
    """
    wanted = set(ids)
    if not wanted:
        return
    rows = Allocation.objects.filter(workload__in=wanted)
    known = charged_intervals.charged_intervals(rows, BEGINNING, now, now=now)
    held: dict[UUID, list[Held]] = {pk: [] for pk in wanted}
    for each in known.held:
        if each.workload:
            held[each.workload].append(each)
    began = min((each.interval.started_at for each in known.held), default=now)
    sums = charges.charges_in(known, began, now + LONGEST_UNIT, now=now, rows=rows)
    exact: dict[UUID, dict[UUID, Exact]] = {pk: defaultdict(Exact) for pk in wanted}
    for key, part in sums.items():
        if key.workload:
            exact[key.workload][key.offer].add(part)
    periods = known.periods
    usages = {}
    for pk, found in held.items():
        running = [decimal_of(price_at(now, periods[each.price_key])) for each in found if not each.is_over]
        lines = (billing_costs.line_of(str(offer), each) for offer, each in exact[pk].items())
        line = billing_costs.total_of(lines)
        usage = Usage(sum(running, Decimal(0)) if running else None, line.allocated, now, line.refunded)
        if found:
            told = {name: getattr(line, name) for name in ("effective", "waste", "recoverable", "unknown")}
            usage = replace(usage, **told)
            usage = _with_last_refund(usage, [each for each in found if each.back_from], periods)
        usages[pk] = usage
    cost_keeping.record_usage(usages)


def _with_last_refund(
    usage: Usage, lost: Sequence[Held], periods: Mapping[PriceKey, Sequence[PricePeriod]]
) -> Usage:
    """RULE: what ended within a minute of the newest of them was one loss."""
    if not lost:
        return usage
    ended = max(each.interval.ended_at for each in lost)
    last = [each for each in lost if each.interval.ended_at >= ended - preemption.SEEN_WITHIN]
    costs = (cost(each.refunded(periods[each.price_key]), periods[each.price_key]) for each in last)
    return replace(usage, last_refund=amount(sum(costs, Fraction(0))), last_refund_end=ended)


def due(steady: Collection[UUID], *, now: datetime) -> set[UUID]:
    """Of workloads that hold on, those of which the price is older than `PRICED_EVERY`."""
    asked = sorted(steady)
    parts = (asked[first : first + AT_ONCE] for first in range(0, len(asked), AT_ONCE))
    return set(steady).difference(*(_PRICED(part, now - PRICED_EVERY) for part in parts))


_PRICED = Prepared(
    lambda ids, since: Workload.objects.filter(pk__in=ids, cost_as_of__gt=since).values_list("pk", flat=True),
    UUIDField(),
    DateTimeField(),
)


def price_ended(rolled: Iterable[str], *, now: datetime) -> None:
    """Of these workloads, whose ledger was just made anew, those that hold nothing any more, and what their
    tenants have spent. What is held is priced every minute.

    RULE: the last minutes of what has ended, and a correction of it, come to the ledger after it was priced.
    """
    wanted = {UUID(pk) for pk in rolled}
    held = Allocation.objects.filter(ended_at=None, workload__isnull=False)
    ended = sorted(wanted - set(held.values_list("workload", flat=True))) if wanted else []
    for first in range(0, len(ended), AT_ONCE):
        price_workloads(ended[first : first + AT_ONCE], now=now)
    if ended:
        bill(ended, now=now)


def untold() -> Sequence[UUID]:
    """Some of those that were never priced though they held something, as when an import broke off, or that
    were priced before their recoverable waste was told apart.
    """
    return [*_NEVER(), *_BEFORE()][:AT_ONCE]


def _never() -> QuerySet[Workload, UUID]:
    held = Exists(Allocation.objects.filter(workload=OuterRef("pk")))
    return Workload.objects.filter(held, cost_as_of=None).values_list("pk", flat=True)[:AT_ONCE]


def _before() -> QuerySet[Workload, UUID]:
    rows = Workload.objects.filter(cost_recoverable=None, cost_waste__isnull=False)
    return rows.values_list("pk", flat=True)[:AT_ONCE]


_NEVER, _BEFORE = Prepared(_never), Prepared(_before)


def bill(ids: Iterable[UUID], *, now: datetime) -> None:
    """Hands what the tenants of these workloads, and those who hold something by kubectl, have spent this
    month down to their budgets.

    RULE: a month's spend is the cost of the part of every interval that lies in the calendar month (UTC), at
    the price of each moment, less what preemption gives back; an open interval counts up to `now`. Called
    at every billing tick; a month that ended since the last one is counted to its end first.
    """
    month = budget.month_of(now)
    late: dict[date, list[Tenant]] = {}
    asked, since = [NOBODY, *set(ids)], now - LONGEST_UNIT
    parts = (asked[first : first + AT_ONCE] for first in range(0, len(asked), AT_ONCE))
    # A worker keeps what it has compiled, 1.5 KB for each place of the longest list.
    tenants = {row.pk: row for part in parts for row in _SPENDING(part, since)}
    for row in _LAST_BILLED(list(tenants), month):
        if row.as_of < budget.bounds(row.month)[1]:
            late.setdefault(row.month, []).append(tenants[row.tenant_id])
    for ended, chosen in sorted(late.items()):
        _bill(chosen, ended, until=budget.bounds(ended)[1], now=now)
    _bill(list(tenants.values()), month, until=now, now=now)


def _spending(ids: Any, since: Any) -> QuerySet[Tenant]:
    """Those of these workloads, and those that hold something by kubectl, or did within a day: what ended is
    counted to its end.
    """
    lately = Q(ended_at=None) | Q(ended_at__gt=since)
    by_kubectl = Allocation.objects.filter(lately, workload=None).values_list("tenant_id", flat=True)
    of_works = Workload.objects.filter(pk__in=ids).values_list("tenant_id", flat=True)
    rows = Tenant.objects.filter(Q(pk__in=of_works) | Q(pk__in=by_kubectl))
    return rows.select_related("department")


def _last_billed(tenants: Any, month: Any) -> QuerySet[Spend]:
    """The spend of the last month before this one that each has any of."""
    earlier = Spend.objects.filter(tenant=OuterRef("tenant"), month__lt=month).order_by("-month")
    return Spend.objects.filter(tenant__pk__in=tenants, month=Subquery(earlier.values("month")[:1]))


_SPENDING = Prepared(_spending, UUIDField(), DateTimeField())
_LAST_BILLED = Prepared(_last_billed, UUIDField(), DateField())


def _bill(tenants: Sequence[Tenant], month: date, *, until: datetime, now: datetime) -> None:
    """The month's spend of these tenants, read at once."""
    if not tenants:
        return
    begins, _ = budget.bounds(month)
    sums: dict[UUID, Exact] = {tenant.pk: Exact() for tenant in tenants}
    rows = Allocation.objects.filter(tenant__in=sums)
    for key, found in charges.charges(rows, begins, until, now=now, learns=False).items():
        sums[key.tenant].add(found)
    spent = {}
    for tenant in tenants:
        total = sums[tenant.pk]
        money = amount(total.allocated) - amount(total.refunded)
        hours = amount(total.seconds / HOUR) - amount(total.refunded_seconds / HOUR)
        spent[tenant] = SpendSoFar(month, money, hours)
    record_spend(spent, now=now)
