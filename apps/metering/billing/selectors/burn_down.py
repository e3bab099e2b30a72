"""How a month's budget goes: what was charged up to each day, and what is foreseen to its end. Reads only.

It counts what a budget counts: devices, less refunds, in money or in hours of whole GPUs.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction

from apps.metering.billing.rules import forecast
from apps.metering.billing.rules.forecast import Outlook
from apps.metering.billing.rules.rounding import rounded
from apps.metering.billing.selectors import line_items
from apps.metering.billing.selectors.line_items import MonthHoldings
from apps.quotas.budgets.rules import budget
from apps.quotas.budgets.rules.budget import Limits
from apps.quotas.budgets.selectors import spending
from apps.quotas.models import Budget
from apps.quotas.specs import BudgetUnit
from apps.tenants.models import Tenant

DAY = timedelta(days=1)
NONE = Limits(BudgetUnit.MONEY, None, None)


@dataclass(frozen=True)
class Spent:
    """One day, and the month up to its end: both to the cent, and days sum to what is cumulated."""

    day: date
    charged: Decimal
    cumulated: Decimal


@dataclass(frozen=True)
class Ahead:
    """What the month is foreseen to have charged by the end of a day, in four months of five."""

    day: date
    outlook: Outlook


@dataclass(frozen=True)
class Burn:
    """One month of one budget. `ahead` is empty for a month that is over, and while too little is known."""

    whose: str
    limits: Limits
    month: date
    until: datetime
    days: Sequence[Spent]
    ahead: Sequence[Ahead]

    @property
    def spent(self) -> Decimal:
        """Up to now, or to the month's end."""
        return self.days[-1].cumulated if self.days else Decimal(0)

    @property
    def is_over(self) -> bool:
        """Whether the month has ended."""
        return self.until == budget.bounds(self.month)[1]


def of_tenant(tenant: Tenant, month: date, *, now: datetime, held: MonthHoldings | None = None) -> list[Burn]:
    """A burn-down per budget of the tenant's own; without one the same in money, with no limit. `held` where
    it is read already.

    RULE: limits are kept as they are, not as they were: a month that is over is shown without them.
    """
    rows = Budget.objects.filter(tenant=tenant).order_by("-unit")
    limits = [spending.limits_of(row) for row in rows if budget.month_of(now) == month]
    held = held or line_items.holdings_of_month([tenant], month, now=now)
    return _burns(tenant.slug, held, month, wanted=limits or [NONE])


def of_budget(row: Budget, month: date, *, now: datetime) -> Burn:
    """One budget's, of the tenants that it counts."""
    held = line_items.holdings_of_month(list(spending.tenants_counted(row)), month, now=now)
    (found,) = _burns(row.whose, held, month, wanted=[spending.limits_of(row)])
    return found


def money_days(tenant: Tenant, month: date, *, now: datetime) -> Sequence[Spent]:
    """What each day of a month charged a tenant for devices, and the month up to it."""
    begins, until = _span(month, now)
    held = line_items.holdings_of_month([tenant], month, now=now)
    return _spent(line_items.devices_daily(held.known, begins, until), begins, BudgetUnit.MONEY)


def _burns(whose: str, held: MonthHoldings, month: date, *, wanted: Sequence[Limits]) -> list[Burn]:
    begins, until = _span(month, held.now)
    is_present = budget.month_of(held.now) == month
    # What days to come are worth is learned from the days before, of this month or not.
    since = held.since if is_present else begins
    is_read = (since, until) == (held.since, held.until)
    found = held.by_day if is_read else line_items.devices_daily(held.known, since, until)
    here = found[(begins - since) // DAY :]
    made = []
    for limits in wanted:
        days = _spent(here, begins, limits.unit)
        ahead = _ahead(held, found, days, unit=limits.unit) if is_present else ()
        made.append(Burn(whose, limits, month, until, days, ahead))
    return made


def _span(month: date, now: datetime) -> tuple[datetime, datetime]:
    begins, ends = budget.bounds(month)
    return begins, max(begins, min(ends, now))


def _spent(found: Sequence[line_items.Day], begins: datetime, unit: BudgetUnit) -> list[Spent]:
    """RULE: what is cumulated is rounded, and a day is the difference: no cent is lost between days."""
    days: list[Spent] = []
    total, before = Fraction(0), Decimal(0)
    for index, each in enumerate(found):
        total += _value(each, unit)
        days.append(Spent((begins + index * DAY).date(), rounded(total) - before, rounded(total)))
        before = rounded(total)
    return days


def _ahead(
    held: MonthHoldings, found: Sequence[line_items.Day], days: Sequence[Spent], *, unit: BudgetUnit
) -> list[Ahead]:
    """The end of each day from today on, by the rule of the bill's forecast."""
    now, since, today = held.now, held.since, line_items.midnight(held.now)
    whole = [float(_value(each, unit)) for each in found[: (today - since) // DAY]]
    past = forecast.whole_days(whole, since, held.held_since)
    ends = budget.bounds(budget.month_of(now))[1]
    left = forecast.days_left(today.date(), 1 - (now - today) / DAY, ends.date())
    spent = float(days[-1].cumulated) if days else 0.0
    seen = [forecast.foresee(past, spent, left[: n + 1]) for n in range(len(left))]
    return [Ahead(day, each) for (day, _), each in zip(left, seen, strict=True) if each is not None]


def _value(day: line_items.Day, unit: BudgetUnit) -> Fraction:
    return day.money if unit is BudgetUnit.MONEY else day.gpu_hours
