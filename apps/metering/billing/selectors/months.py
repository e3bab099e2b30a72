"""A tenant's month as people read it: closed, or as it stands now. Reads only; of the selectors' floor."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from decimal import Decimal
from functools import cached_property
from itertools import pairwise
from uuid import UUID

from django.conf import settings
from django.db.models import QuerySet

from apps.accounts.specs import Actor
from apps.metering.billing.rules import forecast, rounding
from apps.metering.billing.rules.effective_split import CAUSES
from apps.metering.billing.rules.forecast import Outlook
from apps.metering.billing.rules.rounding import Key, Line
from apps.metering.billing.selectors import line_items
from apps.metering.billing.selectors.line_items import MonthHoldings
from apps.metering.ledger.selectors import effective_formula
from apps.metering.models import Statement, StatementLine
from apps.metering.specs import LineKind
from apps.quotas.budgets.rules import budget
from apps.quotas.models import Offer
from apps.tenants.models import Tenant
from apps.tenants.selectors import seen_by
from apps.workloads.models import Workload

DAY = timedelta(days=1)


class Works:
    """The workloads behind lines, read when the first is asked for: sums and checks need none."""

    def __init__(self, lines: Iterable[Line]) -> None:
        self._ids = {line.key.workload for line in lines if line.key.workload}

    @cached_property
    def by_id(self) -> Mapping[UUID, Workload]:
        """With what a line tells of them."""
        found = Workload.objects.filter(pk__in=self._ids).select_related("owner").only(*_NAMED)
        return found.in_bulk()


@dataclass(frozen=True)
class Row:
    """A line with the names of what it is for."""

    line: Line
    works: Works
    offer: str

    @property
    def workload(self) -> Workload | None:
        """None where there is none."""
        return self.works.by_id.get(self.line.key.workload) if self.line.key.workload else None

    @property
    def price(self) -> str:
        """The price per hour with the decimals it has, at least two; a dash where it changed."""
        if self.line.unit_price is None:
            return "-"
        whole, _, rest = f"{self.line.unit_price.normalize():f}".partition(".")
        return f"{whole}.{rest:0<2}"

    @property
    def is_measured(self) -> bool:
        """Whether it has two prices."""
        return bool(self.line.causes)


@dataclass(frozen=True)
class Month:
    """What a tenant is charged for a month. `statement` None: not closed, and counted up to `until`."""

    tenant: Tenant
    month: date
    begins: datetime
    ends: datetime
    until: datetime
    rows: Sequence[Row]
    statement: Statement | None
    formula: str
    currency: str

    def sum_of(self, kind: LineKind, name: str = "amount") -> Decimal:
        """Of one kind of line."""
        return sum((getattr(row.line, name) for row in self.rows if row.line.kind is kind), Decimal(0))

    def part(self, name: str) -> Decimal:
        """Effective or unknown of the devices, corrections left aside."""
        return self.sum_of(LineKind.GPU, name)

    def cause(self, name: str) -> Decimal:
        """Waste of one cause of the devices, corrections left aside."""
        gpu = [row.line for row in self.rows if row.line.kind is LineKind.GPU]
        return sum((line.causes.get(name, Decimal(0)) for line in gpu), Decimal(0))

    @property
    def allocated(self) -> Decimal:
        """What the devices cost before refunds."""
        return self.sum_of(LineKind.GPU)

    @property
    def refunded(self) -> Decimal:
        """What of it was given back."""
        return -sum((line.amount for line in self._refunds if line.about is LineKind.GPU), Decimal(0))

    @property
    def other(self) -> Decimal:
        """CPU, memory and storage, less what of it was given back."""
        kinds = (LineKind.CPU, LineKind.MEMORY, LineKind.STORAGE)
        back = sum((line.amount for line in self._refunds if line.about is not LineKind.GPU), Decimal(0))
        return sum((self.sum_of(kind) for kind in kinds), back)

    @property
    def _refunds(self) -> list[Line]:
        return [row.line for row in self.rows if row.line.kind is LineKind.REFUND]

    @property
    def corrections(self) -> Decimal:
        """Of months closed before."""
        return self.sum_of(LineKind.CORRECTION)

    @cached_property
    def total(self) -> Decimal:
        """What is to be paid."""
        return sum((row.line.amount for row in self.rows), Decimal(0))


def statements_for(actor: Actor) -> QuerySet[Statement]:
    """The statements of the tenants an actor sees."""
    found: QuerySet[Statement] = Statement.objects.filter(tenant__in=seen_by(actor))
    return found.select_related("tenant__department")


def month_of(tenant: Tenant, month: date, *, now: datetime, held: MonthHoldings | None = None) -> Month:
    """The closed statement, or the lines as they would be closed if the month ended now; `held` where it is
    read already.
    """
    statement = Statement.objects.filter(tenant=tenant, month=month).first()
    if statement is not None:
        return month_of_statement(statement)
    begins, ends = budget.bounds(month)
    until = max(begins, min(ends, now))
    held = held or line_items.holdings_of_month([tenant], month, now=now)
    charges = line_items.charges_in(tenant, held.known, (begins, until), now=now) if begins < until else []
    return Month(
        tenant, month, begins, ends, until, _rows(rounding.lines(charges, begins, until)), None,
        effective_formula.present().label, settings.CONFIG.currency,
    )  # fmt: skip


def month_of_statement(statement: Statement) -> Month:
    """A closed month, from its lines alone."""
    return month_with(statement, [line_of(row) for row in statement.lines.all()])


def month_with(statement: Statement, lines: Sequence[Line]) -> Month:
    """The same with lines that are about to be written."""
    begins, ends = budget.bounds(statement.month)
    return Month(
        statement.tenant, statement.month, begins, ends, ends, _rows(lines), statement,
        statement.formula, statement.currency,
    )  # fmt: skip


def line_of(row: StatementLine) -> Line:
    """A stored line as it was before it was stored."""
    key = Key(LineKind(row.about), row.workload_id, row.offer_id, row.capacity)
    return Line(
        LineKind(row.kind), LineKind(row.about), key, row.description, row.quantity, row.unit, row.amount,
        row.begins, row.ends, effective=row.effective, unknown=row.unknown,
        causes={cause: Decimal(text) for cause, text in row.causes.items()}, listed=row.listed,
        unit_price=row.unit_price, list_price=row.list_price,
    )  # fmt: skip


_NAMED = ("slug", "kind", "labels", "deleted_at", "owner__username")
"""What a line tells of its workload: a bill has hundreds."""


def _rows(lines: Sequence[Line]) -> list[Row]:
    works = Works(lines)
    named = Offer.objects.filter(pk__in={line.key.offer for line in lines if line.key.offer})
    offers: Mapping[UUID, str] = dict(named.values_list("pk", "slug"))
    return [Row(line, works, offers.get(line.key.offer, "") if line.key.offer else "") for line in lines]


def alone(rows: Sequence[Row]) -> list[Row]:
    """Some rows of a month as a page shows them: no workload of the others is read."""
    works = Works([row.line for row in rows])
    return [replace(row, works=works) for row in rows]


def owners_of(rows: Sequence[Row]) -> dict[UUID, UUID]:
    """Who owns the workloads of these rows."""
    works = line_items.named(row.line.key.workload for row in rows)
    return {pk: work.owner for pk, work in works.items()}


def foreseen(month: Month, *, now: datetime, held: MonthHoldings | None = None) -> Outlook | None:
    """What the present month comes to; None for any other, and while too little is known."""
    if month.statement is not None or not month.begins <= now < month.ends:
        return None
    held, today = (
        held or line_items.holdings_of_month([month.tenant], month.month, now=now),
        line_items.midnight(now),
    )
    begins = today - forecast.MOST_DAYS * DAY
    first, last = ((at - held.since) // DAY for at in (begins, today))
    days = line_items.daily(month.tenant, held.known, begins, today, devices=held.by_day[first:last])
    found = [float(each) for each in days]
    past = forecast.whole_days(found, begins, held.held_since)
    left = forecast.days_left(today.date(), 1 - (now - today) / DAY, month.ends.date())
    return forecast.foresee(past, float(month.total), left)


HEAD = ("kind", "description", "workload", "offer", "capacity", "begins", "ends", "quantity", "unit",
        "unit_price", "amount", "effective", *CAUSES, "unknown")  # fmt: skip


def cells(month: Month) -> Iterable[Sequence[object]]:
    """The lines for a file; None where nothing measures."""
    for row in month.rows:
        line = row.line
        causes = (line.causes.get(cause, Decimal(0)) for cause in CAUSES)
        parts = [line.effective, *causes, line.unknown]
        name, capacity = row.workload.slug if row.workload else None, line.key.capacity or None
        yield (
            line.kind.value, line.description, name, row.offer or None, capacity, line.begins, line.ends,
            line.quantity, line.unit, line.unit_price, line.amount,
            *(parts if row.is_measured else [None] * len(parts)),
        )  # fmt: skip


def neighbours(months: Iterable[date], month: date) -> tuple[date | None, date | None]:
    """The months before and after, of those given."""
    found = sorted({*months, month})
    before = next((a for a, b in pairwise(found) if b == month), None)
    return before, next((b for a, b in pairwise(found) if a == month), None)
