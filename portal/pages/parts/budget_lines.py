"""Budgets as pages show them: what is left of the month's money, in words and in a picture. Reads only."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from apps.quotas.budgets.rules import budget as months
from apps.quotas.budgets.selectors import spending
from apps.quotas.models import Budget
from apps.tenants.models import Tenant
from portal.pages.parts.pictures import charts


@dataclass(frozen=True)
class BudgetLine:
    """A budget with its picture; `exhausts_at` None: not this month."""

    whose: str
    so_far: str
    left: str
    bar: charts.BudgetBar
    exhausts_at: datetime | None
    is_spent: bool


def of_tenant(tenant: Tenant, now: datetime) -> list[BudgetLine]:
    """Those that bind it: its own, and those of the departments above it."""
    return lines(spending.budgets_of(tenant), now)


def lines(rows: Iterable[Budget], now: datetime) -> list[BudgetLine]:
    """Each as it stands in the month of `now`."""
    return [_line(row, now) for row in rows]


def _line(row: Budget, now: datetime) -> BudgetLine:
    spent, limits = spending.spent(row, now), spending.limits_of(row)
    limit = limits.hard if limits.hard is not None else limits.soft
    so_far = words = f"{spending.amount(row, spent)} of {spending.amount(row, limit or spent)}"
    if limits.soft is not None and limits.hard is not None:
        words += f"; warns at {spending.amount(row, limits.soft)}"
    words += "; holds new work at the end" if limits.hard is not None else "; only warns"
    bar = charts.BudgetBar(float(spent), _number(limits.soft), _number(limits.hard), words)
    ends = months.exhausts_at(limits, spent, month=months.month_of(now), now=now)
    over = spent - (limit or spent)
    left = f"{spending.amount(row, abs(over))} {'over it' if over > 0 else 'left'}"
    return BudgetLine(row.whose, so_far, left, bar, ends, months.is_exhausted(limits, spent))


def _number(value: Decimal | None) -> float | None:
    return None if value is None else float(value)
