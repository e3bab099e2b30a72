"""How a month's budget goes: what was charged up to each day, and what is foreseen to its end. Reads only.

It counts what a budget counts: devices, less refunds, in money or in hours of whole GPUs.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction

from apps.metering import bills, outlook
from apps.metering.outlook import Outlook, Past
from apps.metering.settling import rounded
from apps.quotas import budget, spending
from apps.quotas.budget import Limits
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


def of_tenant(tenant: Tenant, month: date, *, now: datetime) -> list[Burn]:
    """A burn-down per budget of the tenant's own; without one the same in money, with no limit.

    RULE: limits are kept as they are, not as they were: a month that is over is shown without them.
    """
    rows = Budget.objects.filter(tenant=tenant).order_by("-unit")
    limits = [spending.limits_of(row) for row in rows if budget.month_of(now) == month]
    return _burns(tenant.slug, [tenant], month, wanted=limits or [NONE], now=now)


def of_budget(row: Budget, month: date, *, now: datetime) -> Burn:
    """One budget's, of the tenants that it counts."""
    whose = list(spending.tenants_counted(row))
    (found,) = _burns(row.whose, whose, month, wanted=[spending.limits_of(row)], now=now)
    return found


def money_days(tenant: Tenant, month: date, *, now: datetime) -> Sequence[Spent]:
    """What each day of a month charged a tenant for devices, and the month up to it."""
    begins, until = _span(month, now)
    return _spent(bills.devices_daily([tenant], begins, until, now=now), begins, BudgetUnit.MONEY)


def _burns(
    whose: str, tenants: Sequence[Tenant], month: date, *, wanted: Sequence[Limits], now: datetime
) -> list[Burn]:
    begins, until = _span(month, now)
    is_present = budget.month_of(now) == month
    # What days to come are worth is learned from the days before, of this month or not.
    since = min(begins, _midnight(now) - outlook.MOST_DAYS * DAY) if is_present else begins
    found = bills.devices_daily(tenants, since, until, now=now)
    here = found[(begins - since) // DAY :]
    made = []
    for limits in wanted:
        days = _spent(here, begins, limits.unit)
        ahead = _ahead(found, since, days, unit=limits.unit, now=now) if is_present else ()
        made.append(Burn(whose, limits, month, until, days, ahead))
    return made


def _span(month: date, now: datetime) -> tuple[datetime, datetime]:
    begins, ends = budget.bounds(month)
    return begins, max(begins, min(ends, now))


def _spent(found: Sequence[bills.Day], begins: datetime, unit: BudgetUnit) -> list[Spent]:
    """RULE: what is cumulated is rounded, and a day is the difference: no cent is lost between days."""
    days: list[Spent] = []
    total, before = Fraction(0), Decimal(0)
    for index, each in enumerate(found):
        total += _value(each, unit)
        days.append(Spent((begins + index * DAY).date(), rounded(total) - before, rounded(total)))
        before = rounded(total)
    return days


def _ahead(
    found: Sequence[bills.Day], since: datetime, days: Sequence[Spent], *, unit: BudgetUnit, now: datetime
) -> list[Ahead]:
    """The end of each day from today on, by the rule of the bill's forecast."""
    today = _midnight(now)
    whole = found[: (today - since) // DAY]
    past = [Past((since + n * DAY).date(), float(_value(each, unit))) for n, each in enumerate(whole)]
    first = next((n for n, each in enumerate(past) if each.charged), len(past))
    ends = budget.bounds(budget.month_of(now))[1]
    left = outlook.days_left(today.date(), 1 - (now - today) / DAY, ends.date())
    spent = float(days[-1].cumulated) if days else 0.0
    seen = [outlook.foresee(past[first:], spent, left[: n + 1]) for n in range(len(left))]
    return [Ahead(day, each) for (day, _), each in zip(left, seen, strict=True) if each is not None]


def _value(day: bills.Day, unit: BudgetUnit) -> Fraction:
    return day.money if unit is BudgetUnit.MONEY else day.gpu_hours


def _midnight(now: datetime) -> datetime:
    return now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
