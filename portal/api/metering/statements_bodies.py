"""How bills, statements and burn-downs look in REST."""

from collections.abc import Mapping
from datetime import date, datetime
from decimal import Decimal
from typing import Annotated, Literal, TypedDict, cast

from django.conf import settings

from apps.metering.billing.rules.forecast import Outlook
from apps.metering.billing.selectors import bill_files, burn_down, months
from apps.metering.billing.selectors.burn_down import Ahead, Burn, Spent
from apps.metering.billing.selectors.months import Month, Row
from apps.metering.billing.services import statements
from apps.metering.models import Statement
from apps.metering.specs import LineKind
from apps.quotas.specs import BudgetUnit
from apps.web.shapes.amounts import money
from apps.web.shapes.bodies import Condition, Id, Money, ObjectHead
from apps.web.shapes.typed import keywords
from portal.api.base.money import limit_body
from portal.api.metering.balance_bodies import Exact, Span, WasteByCauseBody, causes_body

MonthText = Annotated[str, "Such as 2026-10, in UTC.", keywords(pattern=r"^\d{4}-\d{2}$")]


class BillLineBody(Span):
    """One line; a correction's period is the month that it corrects."""

    kind: LineKind
    about: Annotated[LineKind, "What is corrected, else the kind again."]
    description: str
    workload: Id | None
    offer: str | None
    capacity: str | None
    quantity: Exact
    unit: str | None
    unit_price: Annotated[Money | None, "Per hour; null where it changed in the month."]
    amount: Money
    effective: Annotated[Money | None, "Null where it has one price."]
    waste: Annotated[Money | None, "Recoverable + inefficiency."]
    recoverable: Money | None
    inefficiency: Money | None
    unknown: Money | None
    waste_by_cause: Annotated[Mapping[str, Money], "Empty where it has one price."]


class BillSumsBody(TypedDict):
    """A month in two prices: charged = effective + waste + unknown; total = charged + other + corrections."""

    formula: Annotated[str, "What counts as effective."]
    allocated: Money
    refunded: Money
    charged: Money
    effective: Money
    waste: Annotated[Money, "Recoverable + inefficiency."]
    recoverable: Money
    inefficiency: Money
    unknown: Money
    other: Annotated[Money, "CPU, memory and storage, which have one price."]
    corrections: Money
    total: Money
    waste_by_cause: WasteByCauseBody
    lines: list[BillLineBody]


class OutlookBody(TypedDict):
    """The forecast for the whole month; four months of five end between low and high."""

    expected: Money
    low: Money
    high: Money
    method: str


class BillDayBody(TypedDict):
    """What a day charged for devices, and the month up to its end."""

    day: date
    charged: Money
    cumulated: Money


class BillBody(BillSumsBody):
    """A month as it stands, closed or not."""

    tenant: str
    month: MonthText
    until: datetime
    statement: Annotated[str | None, "Its number once it is closed."]
    outlook: Annotated[OutlookBody | None, "Of the present month, once enough days are known."]
    days: list[BillDayBody]


class StatementSpecBody(TypedDict):
    """What was closed."""

    month: MonthText


class StatementStatusBody(TypedDict):
    """The sums of a closed month: total = effective + waste + unknown + other."""

    observed_generation: int
    conditions: list[Condition]
    number: str
    formula: str
    total: Money
    effective: Money
    waste: Money
    unknown: Money
    other: Money
    closed_at: datetime
    digest: Annotated[str, "SHA-256 over its head and lines."]


class ClosedStatusBody(StatementStatusBody):
    """The same with its lines."""

    lines: list[BillLineBody]
    whole: Annotated[bool, "Whether it still is as it was closed."]


class _Head(ObjectHead):
    object: Literal["statement"]
    spec: StatementSpecBody


class StatementBody(_Head):
    """A closed month; its lines with `GET statements/{id}`."""

    status: StatementStatusBody


class ClosedStatementBody(_Head):
    """A closed month with its lines."""

    status: ClosedStatusBody


class GpuHoursBody(TypedDict):
    """Hours of whole GPUs."""

    amount: Exact
    unit: Literal["gpu_hours"]


InUnit = Money | GpuHoursBody
"""In the budget's own unit."""


class BurnDayBody(TypedDict):
    """What a day charged, and the month up to its end."""

    day: date
    charged: InUnit
    cumulated: InUnit


class BurnForecastBody(TypedDict):
    """The charges expected by the end of a day."""

    day: date
    expected: InUnit
    low: InUnit
    high: InUnit


class BurnDownBody(TypedDict):
    """How a budget goes this month, in its own unit."""

    budget: Id
    month: MonthText
    until: datetime
    soft_limit: InUnit | None
    hard_limit: InUnit | None
    days: list[BurnDayBody]
    forecast: list[BurnForecastBody]


def statement_body(row: Statement) -> StatementBody:
    """A statement without its lines."""
    return {**_head(row), "status": _status(row)}


def closed_body(row: Statement) -> ClosedStatementBody:
    """A statement with its lines."""
    lines = _lines(months.month_of_statement(row))
    return {
        **_head(row),
        "status": {**_status(row), "lines": lines, "whole": statements.is_whole(row)},
    }


def _head(row: Statement) -> _Head:
    return {
        "object": "statement",
        "id": str(row.pk),
        "slug": None,
        "name": row.number,
        "tenant": row.tenant.slug,
        "labels": {},
        "generation": 1,
        "created_at": row.created_at,
        "updated_at": row.created_at,
        "created_by": row.closed_by,
        "spec": {"month": f"{row.month:%Y-%m}"},
    }


def _status(row: Statement) -> StatementStatusBody:
    return {
        "observed_generation": 1,
        "conditions": [],
        "number": row.number,
        "formula": row.formula,
        "total": money(row.total, row.currency),
        "effective": money(row.effective, row.currency),
        "waste": money(row.waste, row.currency),
        "unknown": money(row.unknown, row.currency),
        "other": money(row.other, row.currency),
        "closed_at": row.closed_at,
        "digest": row.digest,
    }


def bill_body(month: Month, *, now: datetime) -> BillBody:
    """A month in two prices; the current one with its forecast."""
    tenant, foreseen = month.tenant, months.foreseen(month, now=now)
    return {
        "tenant": tenant.slug,
        "month": f"{month.month:%Y-%m}",
        "until": month.until,
        "statement": month.statement.number if month.statement else None,
        **_sums(month),
        "outlook": _outlook(foreseen, month.currency) if foreseen else None,
        "days": [_bill_day(each) for each in burn_down.money_days(tenant, month.month, now=now)],
    }


def _sums(month: Month) -> BillSumsBody:
    picture, currency = bill_files.picture(month), month.currency
    return {
        "formula": month.formula,
        "allocated": money(picture.allocated, currency),
        "refunded": money(picture.refunded, currency),
        "charged": money(picture.charged, currency),
        "effective": money(picture.effective, currency),
        "waste": money(picture.waste, currency),
        "recoverable": money(picture.recoverable, currency),
        "inefficiency": money(picture.inefficiency, currency),
        "unknown": money(picture.unknown, currency),
        "other": money(month.other, currency),
        "corrections": money(month.corrections, currency),
        "total": money(month.total, currency),
        "waste_by_cause": causes_body(picture.causes, currency),
        "lines": _lines(month),
    }


def _lines(month: Month) -> list[BillLineBody]:
    return [_line(row, month.currency) for row in month.rows]


def _line(row: Row, currency: str) -> BillLineBody:
    line = row.line
    return {
        "kind": line.kind,
        "about": line.about,
        "description": line.description,
        "workload": str(line.key.workload) if line.key.workload else None,
        "offer": row.offer or None,
        "capacity": line.key.capacity or None,
        "from": line.begins,
        "to": line.ends,
        "quantity": f"{line.quantity:f}",
        "unit": line.unit or None,
        "unit_price": money(line.unit_price, currency),
        "amount": money(line.amount, currency),
        "effective": money(line.effective, currency) if row.is_measured else None,
        "waste": money(line.waste, currency) if row.is_measured else None,
        "recoverable": money(line.recoverable, currency) if row.is_measured else None,
        "inefficiency": money(line.inefficiency, currency) if row.is_measured else None,
        "unknown": money(line.unknown, currency) if row.is_measured else None,
        "waste_by_cause": {name: money(value, currency) for name, value in line.causes.items()},
    }


def _outlook(outlook: Outlook, currency: str) -> OutlookBody:
    return {
        "expected": {"amount": f"{outlook.expected:.2f}", "currency": currency},
        "low": {"amount": f"{outlook.low:.2f}", "currency": currency},
        "high": {"amount": f"{outlook.high:.2f}", "currency": currency},
        "method": outlook.method,
    }


def _bill_day(each: Spent) -> BillDayBody:
    currency = settings.CONFIG.currency
    return {
        "day": each.day,
        "charged": money(each.charged, currency),
        "cumulated": money(each.cumulated, currency),
    }


def burn_body(budget: str, found: Burn) -> BurnDownBody:
    """The charges by day, and the forecast."""
    limits, unit = found.limits, found.limits.unit
    return {
        "budget": budget,
        "month": f"{found.month:%Y-%m}",
        "until": found.until,
        "soft_limit": cast("InUnit | None", limit_body(unit, limits.soft)),
        "hard_limit": cast("InUnit | None", limit_body(unit, limits.hard)),
        "days": [
            {"day": each.day, "charged": _in(unit, each.charged), "cumulated": _in(unit, each.cumulated)}
            for each in found.days
        ],
        "forecast": [_ahead(each, unit) for each in found.ahead],
    }


def _ahead(each: Ahead, unit: BudgetUnit) -> BurnForecastBody:
    seen = each.outlook
    return {
        "day": each.day,
        "expected": _in(unit, Decimal(f"{seen.expected:.2f}")),
        "low": _in(unit, Decimal(f"{seen.low:.2f}")),
        "high": _in(unit, Decimal(f"{seen.high:.2f}")),
    }


def _in(unit: BudgetUnit, value: Decimal) -> InUnit:
    """Money as everywhere, hours of whole GPUs as limits name them."""
    if unit is BudgetUnit.MONEY:
        return money(value, settings.CONFIG.currency)
    return cast("GpuHoursBody", limit_body(unit, value))
