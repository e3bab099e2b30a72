"""A bill as a file in FOCUS's columns: a closed month as it was kept, any other as it stands. Reads only."""

import csv
import io
import zlib
from collections.abc import Iterable
from datetime import date, datetime
from decimal import Decimal

from apps.metering.billing.rules import focus
from apps.metering.billing.selectors import daily_rows, line_items
from apps.metering.billing.selectors.line_items import MonthHoldings
from apps.metering.billing.selectors.months import Month, Row
from apps.metering.models import Statement, StatementExport
from apps.metering.specs import LineKind
from apps.web.requests.sheets import csv_text


def text_of(month: Month, *, now: datetime) -> str:
    """RULE: a closed month's file never changes. One that was closed before files were kept is made of its
    lines: they have no days, and names and labels are those of now.
    """
    if month.statement is not None:
        kept = StatementExport.objects.filter(statement=month.statement).first()
        return unpacked(kept) if kept else _written(month, [_of_line(row, month) for row in month.rows])
    return text_of_days(month, line_items.holdings_of_month([month.tenant], month.month, now=now))


def text_of_days(month: Month, held: MonthHoldings) -> str:
    """A month that is open, or about to be closed, day by day, with what it corrects."""
    until = (month.begins, month.until)
    lines = daily_rows.rows_of(held, until, month.formula) if until[0] < until[1] else []
    fixes = [_of_line(row, month) for row in month.rows if row.line.kind is LineKind.CORRECTION]
    return _written(month, [*lines, *fixes])


def packed(text: str) -> bytes:
    """As it is kept."""
    return zlib.compress(text.encode())


def unpacked(kept: StatementExport) -> str:
    """As it was written."""
    return zlib.decompress(kept.focus).decode()


def joined(texts: Iterable[str]) -> str:
    """Several files as one, by today's columns; what an earlier file did not have is empty."""
    out = io.StringIO()
    writer = csv.DictWriter(out, focus.COLUMNS, restval="", extrasaction="ignore")
    writer.writeheader()
    for text in texts:
        writer.writerows(csv.DictReader(io.StringIO(text)))
    return out.getvalue()


def _written(month: Month, lines: list[focus.Charged]) -> str:
    tenant, department = month.tenant, month.tenant.department
    account = focus.Account(
        department.slug, department.name, tenant.slug, tenant.name, month.currency,
        month.statement.number if month.statement else "", month.begins, month.ends,
    )  # fmt: skip
    return csv_text(focus.COLUMNS, focus.rows(account, lines, month.total))


def _of_line(row: Row, month: Month) -> focus.Charged:
    """A line of the bill, which has no days; a correction was judged by the formula of what it corrects."""
    line = row.line
    parts = {**line.causes, "effective": line.effective, "unknown": line.unknown}
    return focus.Charged(
        kind=line.kind, about=line.about, description=line.description, quantity=line.quantity,
        unit=line.unit, amount=line.amount, listed=line.listed, begins=line.begins, ends=line.ends,
        unit_price=line.unit_price, list_price=line.list_price, parts=parts if row.is_measured else {},
        formula=_formula_of(month, line.begins.date().replace(day=1)),
        workload=str(line.key.workload or ""), workload_name=row.workload.slug if row.workload else "",
        offer=row.offer, capacity=line.key.capacity, tags=daily_rows.tags_of(row.workload),
    )  # fmt: skip


def _formula_of(month: Month, begins: date) -> str:
    if begins == month.month:
        return month.formula
    closed = Statement.objects.filter(tenant=month.tenant, month=begins)
    return closed.values_list("formula", flat=True).first() or month.formula


def total_of(text: str) -> Decimal:
    """What a file's rows sum to."""
    return sum((Decimal(row["BilledCost"]) for row in csv.DictReader(io.StringIO(text))), Decimal(0))
