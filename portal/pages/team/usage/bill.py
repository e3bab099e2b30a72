"""A tenant's two-price bill of one month: `/t/<tenant>/bill/`. Reads only."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from decimal import Decimal
from typing import Any
from urllib.parse import urlencode

from django.http import HttpResponse, QueryDict
from django.template.defaultfilters import floatformat
from django.urls import reverse

from apps.accounts.specs import Actor
from apps.errors import NotFound
from apps.metering.billing.rules.forecast import Outlook
from apps.metering.billing.rules.two_prices import TwoPrices
from apps.metering.billing.selectors import line_items, months
from apps.metering.billing.selectors.bill_files import FILES, file_of, picture
from apps.metering.billing.selectors.line_items import MonthHoldings
from apps.metering.billing.selectors.months import Month, Row
from apps.metering.billing.services import statements
from apps.quotas.budgets.rules import budget
from apps.quotas.policies import can_manage_catalogue
from apps.tenants.models import Tenant
from apps.web.shapes.amounts import to_the_cent
from portal.pages.parts.lazy import part, skip_of
from portal.pages.team.usage import burn

MOST = 100
"""Lines on one page; sums and files are of all of them."""
NONE = "-"
PARTS = ("Effective", "Recoverable", "Inefficiency", "Unknown")
NAMES = tuple(part.lower() for part in PARTS)
NO_BUDGET = "No budget of its own: no warning is sent, and no work is held over money."
NO_LIMITS = "Only today's limits are kept, so an earlier month is shown without them."


@dataclass(frozen=True)
class Line:
    """A line of the bill as the table shows it, with where its name and its quantity lead."""

    name: str
    url: str
    owner: str
    quantity: str
    held_url: str
    cells: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Shown:
    """The month with its picture, its check and what it comes to."""

    month: Month
    picture: TwoPrices
    is_whole: bool
    outlook: Outlook | None
    skip: int = 0
    is_printed: bool = False
    sees_ledger: bool = False

    @property
    def rows(self) -> Sequence[Row]:
        """The lines of this page; what lies beyond the end shows the last page."""
        return self.month.rows[self.first : self.first + MOST] if self.is_paged else self.month.rows

    @property
    def lines(self) -> Sequence[Line]:
        """The same, with the words of the table."""
        return [self._line(row) for row in months.alone(self.rows)]

    @property
    def sums(self) -> Sequence[tuple[str, str]]:
        """What stands in the table's last row, by column."""
        month = self.month
        money = (month.total, *(self._sum(name) for name in NAMES))
        return [
            ("Quantity", NONE),
            ("Per hour", NONE),
            *zip(self._heads, map(to_the_cent, money), strict=True),
        ]

    @property
    def _heads(self) -> tuple[str, ...]:
        return (self.month.currency, *PARTS)

    def _line(self, row: Row) -> Line:
        line, work, slug = row.line, row.workload, self.month.tenant.slug
        parts = [to_the_cent(getattr(line, name)) for name in NAMES]
        money = [to_the_cent(line.amount), *(parts if row.is_measured else [NONE] * len(parts))]
        return Line(
            name=line.description,
            url=reverse("workload", args=[slug, work.pk]) if work and not work.deleted_at else "",
            owner=work.owner.username if work else "",
            quantity=f"{floatformat(line.quantity, 2)} {line.unit}" if line.quantity else NONE,
            held_url=self._held_url(row) if line.quantity and (row.is_measured or line.key.offer) else "",
            cells=[("Per hour", row.price), *zip(self._heads, money, strict=True)],
        )

    def _held_url(self, row: Row) -> str:
        """Where the allocations behind a line are listed."""
        slug, work = self.month.tenant.slug, row.workload
        if work is None:
            asked = {"month": f"{self.month.month:%Y-%m}", "origin": "kubectl", "offer": row.offer}
            query = urlencode(asked | {"capacity": row.line.key.capacity})
            return f"{reverse('tenant-allocations', args=[slug])}?{query}"
        if self.sees_ledger:
            return reverse("console-allocations", args=[work.pk])
        return reverse("workload-allocations", args=[slug, work.pk])

    @property
    def first(self) -> int:
        """How many lines come before those shown."""
        return min(self.skip, max(0, len(self.month.rows) - 1) // MOST * MOST) if self.is_paged else 0

    @property
    def last(self) -> int:
        """The number of the last line shown."""
        return self.first + len(self.rows)

    @property
    def back(self) -> int:
        """How many the page before skips."""
        return max(0, self.first - MOST)

    @property
    def next(self) -> int:
        """How many the page after skips; 0 on the last."""
        return self.last if self.last < len(self.month.rows) else 0

    @property
    def is_paged(self) -> bool:
        """Whether there are more lines than one page shows; the print view shows them all."""
        return len(self.month.rows) > MOST and not self.is_printed

    @property
    def adds_up(self) -> bool:
        """Whether parts, lines and total agree, and a closed month is as it was closed."""
        month, charged = self.month, self.picture.charged
        parts = charged + month.other + month.corrections
        return self.is_whole and self.picture.adds_up and parts == month.total

    def _sum(self, name: str) -> Decimal:
        """Of all lines, corrections included."""
        return sum((getattr(row.line, name) for row in self.month.rows), Decimal(0))


def page(actor: Actor, tenant: Tenant, query: QueryDict, *, now: datetime) -> dict[str, Any]:
    """The bill, made when the template comes to it, and where else to look."""
    wanted = asked(query, now)
    closed = list(months.statements_for(actor).filter(tenant=tenant).order_by("-month"))
    this, printed = budget.month_of(now), query.get("print") == "1"
    held = line_items.holdings_of_month([tenant], wanted, now=now)
    before, after = months.neighbours([*(each.month for each in closed), this, _before(this)], wanted)
    return {
        "tenant": tenant,
        "wanted": wanted,
        "of_month": f"{wanted:%Y-%m}",
        "before": before,
        "after": after,
        "statements": closed,
        "may_close": _may_close(actor, closed, wanted, now),
        **{f"{what}_file": reverse("bill-file", args=[tenant.slug, what]) for what in FILES},
        "burns": burn.of_tenant(tenant, wanted, now=now, held=held),
        "burn_file": f"{reverse('bill-file', args=[tenant.slug, 'budget'])}?month={wanted:%Y-%m}",
        "no_budget": NO_BUDGET if wanted == this else NO_LIMITS,
        "printed": printed,
        "bill": part(
            lambda: replace(
                shown(tenant, wanted, now=now, held=held),
                skip=skip_of(query),
                is_printed=printed,
                sees_ledger=actor.sees_everything,
            )
        ),
        "live_topics": [],
    }


def shown(tenant: Tenant, wanted: date, *, now: datetime, held: MonthHoldings | None = None) -> Shown:
    """The lines, the picture, the check of a closed month, the outlook of the present one."""
    held = held or line_items.holdings_of_month([tenant], wanted, now=now)
    month = months.month_of(tenant, wanted, now=now, held=held)
    whole = statements.is_whole(month.statement) if month.statement else True
    return Shown(month, picture(month), whole, months.foreseen(month, now=now, held=held))


def csv_of(tenant: Tenant, what: str, query: QueryDict, *, now: datetime) -> HttpResponse:
    """The lines as they are, in FOCUS's columns, or the budget by day; raises NotFound for any other, and for
    what is no month or lies ahead: somebody who asks for one month must not get another.
    """
    wanted = asked(query, now)
    if query.get("month") not in (None, f"{wanted:%Y-%m}"):
        raise NotFound
    if what == "budget":
        return burn.file_of_tenant(tenant, wanted, now=now)
    if what not in FILES:
        raise NotFound
    return file_of(months.month_of(tenant, wanted, now=now), what, now=now)


def asked(query: QueryDict, now: datetime) -> date:
    """`?month=2026-10`; the present month where it is not one, or lies ahead."""
    this = budget.month_of(now)
    return min(budget.month_named(query.get("month", "")) or this, this)


def _before(month: date) -> date:
    return budget.month_of(budget.bounds(month)[0] - months.DAY)


def _may_close(actor: Actor, closed: list[Any], wanted: date, now: datetime) -> bool:
    begins, ends = budget.bounds(wanted)
    if not can_manage_catalogue(actor) or ends > now:
        return False
    return not closed or budget.bounds(closed[0].month)[1] == begins
