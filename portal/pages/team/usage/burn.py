"""The burn-down of budgets on a tenant's bill and on a department's budget page, and as a file."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import cached_property
from typing import Any

from django.conf import settings
from django.http import HttpResponse

from apps.metering.billing.selectors import burn_down
from apps.metering.billing.selectors.burn_down import Burn
from apps.metering.billing.selectors.line_items import MonthHoldings
from apps.quotas.budgets.rules import budget
from apps.quotas.specs import BudgetUnit
from apps.tenants.models import Department, Tenant
from apps.web.requests.sheets import csv_file
from portal.pages.parts.lazy import part
from portal.pages.parts.pictures.burn_down import Band, BurnChart, Point

CENT = Decimal("0.01")
HEAD = ("unit", "day", "charged", "cumulated", "expected", "low", "high", "soft_limit", "hard_limit")


@dataclass(frozen=True)
class Row:
    """One day; what is not known of it is None. Today is both: charged so far, and foreseen."""

    day: date
    charged: Decimal | None
    cumulated: Decimal | None
    expected: Decimal | None
    low: Decimal | None
    high: Decimal | None

    @property
    def cells(self) -> list[tuple[str, Decimal | None]]:
        """Each figure with the name of its column."""
        return [
            ("Charged", self.charged), ("Cumulated", self.cumulated), ("Foreseen", self.expected),
            ("At least", self.low), ("At most", self.high),
        ]  # fmt: skip


@dataclass(frozen=True)
class Drawn:
    """A burn-down with its picture and its rows."""

    burn: Burn

    @property
    def unit(self) -> str:
        """In words."""
        is_money = self.burn.limits.unit is BudgetUnit.MONEY
        return str(settings.CONFIG.currency) if is_money else str(BudgetUnit.GPU_HOURS.label)

    @property
    def has_limit(self) -> bool:
        """Whether there is anything to burn down."""
        return self.burn.limits.soft is not None or self.burn.limits.hard is not None

    @cached_property
    def rows(self) -> Sequence[Row]:
        """Of the table and the file: each day once."""
        spent = {each.day: each for each in self.burn.days}
        ahead = {each.day: each.outlook for each in self.burn.ahead}
        return [
            Row(
                day,
                spent[day].charged if day in spent else None,
                spent[day].cumulated if day in spent else None,
                *(_cents(getattr(ahead[day], name)) if day in ahead else None
                  for name in ("expected", "low", "high")),
            )
            for day in sorted({*spent, *ahead})
        ]  # fmt: skip

    @property
    def words(self) -> str:
        """The conclusion, in full sentences but for the last stop."""
        limits, burn = self.burn.limits, self.burn
        limit = limits.hard if limits.hard is not None else limits.soft
        of = "" if limit is None else f" of {limit:,.2f}"
        said = f"{burn.spent:,.2f}{of} {self.unit} charged for devices"
        if not burn.ahead:
            return said if burn.is_over else f"{said}; no forecast: fewer than five whole days to go by"
        end = burn.ahead[-1].outlook
        month = f"{burn.month:%B}"
        said += f"; about {end.expected:,.2f} ({end.low:,.2f} to {end.high:,.2f}) by the end of {month}"
        return said if limit is None else f"{said}: {_against(float(limit), end.low, end.expected, end.high)}"

    @property
    def chart(self) -> BurnChart:
        """What is drawn: a day's figure stands at its end."""
        burn, limits = self.burn, self.burn.limits
        begins, ends = budget.bounds(burn.month)
        return BurnChart(
            begins, ends, burn.until,
            [Point(min(_end(each.day), burn.until), float(each.cumulated)) for each in burn.days],
            [Band(_end(each.day), each.outlook.expected, each.outlook.low, each.outlook.high)
             for each in burn.ahead],
            None if limits.soft is None else float(limits.soft),
            None if limits.hard is None else float(limits.hard),
            self.words,
        )  # fmt: skip


def of_tenant(tenant: Tenant, month: date, *, now: datetime, held: MonthHoldings) -> Any:
    """The part of a bill, made when the template comes to it."""
    return part(lambda: [Drawn(each) for each in burn_down.of_tenant(tenant, month, now=now, held=held)])


def of_department(row: Department, *, now: datetime) -> Any:
    """The part of a department's budget page, of the present month; empty without a budget."""
    return part(lambda: _of_department(row, now))


def file_of_tenant(tenant: Tenant, month: date, *, now: datetime) -> HttpResponse:
    """The rows of all its budgets as CSV."""
    found = [Drawn(each) for each in burn_down.of_tenant(tenant, month, now=now)]
    return csv_file(f"{tenant.slug}-{month:%Y-%m}-budget", HEAD, _cells(found))


def file_of_department(row: Department, *, now: datetime) -> HttpResponse:
    """The same of a department's."""
    name = f"{row.slug}-{budget.month_of(now):%Y-%m}-budget"
    return csv_file(name, HEAD, _cells(_of_department(row, now)))


def _of_department(row: Department, now: datetime) -> list[Drawn]:
    month = budget.month_of(now)
    return [Drawn(burn_down.of_budget(each, month, now=now)) for each in row.budgets.order_by("-unit")]


def _cells(found: Sequence[Drawn]) -> Iterator[Sequence[object]]:
    for each in found:
        limits = each.burn.limits
        for row in each.rows:
            figures = (row.charged, row.cumulated, row.expected, row.low, row.high)
            yield (each.unit, row.day, *figures, limits.soft, limits.hard)


def _against(limit: float, low: float, expected: float, high: float) -> str:
    if low >= limit:
        return "over the limit"
    if expected >= limit:
        return "probably over the limit"
    return "perhaps over the limit" if high >= limit else "within the limit"


def _end(day: date) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=UTC) + timedelta(days=1)


def _cents(value: float) -> Decimal:
    return Decimal(value).quantize(CENT)
