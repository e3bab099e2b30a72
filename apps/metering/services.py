"""Brings allocations and costs up to date, and hands down what a workload cost and a tenant spent."""

from collections.abc import Iterable
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction
from uuid import UUID

from apps.metering import costing, selectors
from apps.metering.models import Allocation
from apps.quotas import budget
from apps.quotas.budgeting import SpendSoFar, record_spend
from apps.quotas.models import Spend
from apps.quotas.selectors import prices_at
from apps.tenants.models import Tenant
from apps.workloads import services as workloads
from apps.workloads.specs import Usage


def price_workloads(ids: Iterable[UUID], *, now: datetime) -> None:
    """RULE: cost so far = Σ over its intervals of time x price at that time; what is open counts up to now.

    `hourly` is the present price of all it holds; None while it holds nothing.
    """
    rows: dict[UUID, list[Allocation]] = {pk: [] for pk in ids}
    for row in Allocation.objects.filter(workload__in=rows):
        rows[row.workload_id].append(row)
    offers = {row.offer_id for held in rows.values() for row in held}
    history, present = selectors.prices_of(offers), prices_at(offers, now)
    for workload_id, held in rows.items():
        spent = sum(
            (costing.cost(selectors.interval_of(r, now), history.get(r.offer_id, [])) for r in held),
            Fraction(0),
        )
        running = [present.get(r.offer_id, Decimal(0)) for r in held if r.ended_at is None]
        hourly = sum(running, Decimal(0)) if running else None
        usage = Usage(hourly=hourly, allocated=costing.amount(spent), as_of=now)
        workloads.record_usage(workload_id=workload_id, usage=usage)


def bill(ids: Iterable[UUID], *, now: datetime) -> None:
    """Hands what the tenants of these workloads have spent this month down to their budgets.

    RULE: a month's spend is the cost of the part of every interval that lies in the calendar month (UTC), at
    the price of each moment, less what preemption gives back; an open interval counts up to `now`. Called
    at every billing tick; a month that ended since the last one is counted to its end first.
    """
    for tenant in Tenant.objects.filter(workloads__in=set(ids)).distinct().select_related("department"):
        month = budget.month_of(now)
        last = Spend.objects.filter(tenant=tenant, month__lt=month).order_by("-month").first()
        if last is not None and last.as_of < budget.bounds(last.month)[1]:
            _bill(tenant, last.month, until=budget.bounds(last.month)[1], now=now)
        _bill(tenant, month, until=now, now=now)


def _bill(tenant: Tenant, month: date, *, until: datetime, now: datetime) -> None:
    begins, _ = budget.bounds(month)
    rows = Allocation.objects.filter(workload__tenant=tenant).select_related("workload__tenant")
    lines = selectors.costs(rows, selectors.Group.TENANT, begins=begins, ends=until, now=now)
    money = sum((line.allocated - line.refunded for line in lines), Decimal(0))
    hours = sum((line.gpu_hours - line.refunded_hours for line in lines), Decimal(0))
    record_spend(tenant=tenant, so_far=SpendSoFar(month, money, hours), now=now)
