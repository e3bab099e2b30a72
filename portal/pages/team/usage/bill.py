"""A tenant's two-price bill of one month: `/t/<tenant>/bill/`. Reads only."""

from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

from django.http import HttpResponse, QueryDict
from django.urls import reverse

from apps.accounts.specs import Actor
from apps.errors import NotFound
from apps.metering.billing.rules.forecast import Outlook
from apps.metering.billing.rules.two_prices import TwoPrices
from apps.metering.billing.selectors import line_items, months
from apps.metering.billing.selectors.bill_files import FILES, file_of, picture
from apps.metering.billing.selectors.line_items import MonthHoldings
from apps.metering.billing.selectors.months import Month
from apps.metering.billing.services import statements
from apps.quotas.budgets.rules import budget
from apps.quotas.policies import can_manage_catalogue
from apps.tenants.models import Tenant
from apps.web.requests.periods import moment_asked, month_asked
from portal.pages.parts.lazy import part, skip_of
from portal.pages.team.usage import burn
from portal.pages.team.usage.bill_lines import Asked, Lines

PARTS = frozenset({"lines"})
FOLDED = Asked()
NO_BUDGET = "No budget of its own: no warning is sent, and no work is held over money."
NO_LIMITS = "Only today's limits are kept, so an earlier month is shown without them."


@dataclass(frozen=True)
class Shown:
    """The month with its picture, its lines by person, its check and what it comes to."""

    month: Month
    picture: TwoPrices
    lines: Lines
    is_whole: bool
    outlook: Outlook | None

    @property
    def adds_up(self) -> bool:
        """Whether parts, lines, people and total agree, and a closed month is as it was closed."""
        month, charged = self.month, self.picture.charged
        parts = charged + month.other + month.corrections
        return self.is_whole and self.picture.adds_up and parts == month.total == sum(self.lines.sums[:1])


def page(actor: Actor, tenant: Tenant, query: QueryDict, *, now: datetime) -> dict[str, Any]:
    """The bill, made when the template comes to it, and where else to look."""
    wanted = asked(query, now)
    closed = list(months.statements_for(actor).filter(tenant=tenant).order_by("-month"))
    this, printed = budget.month_of(now), query.get("print") == "1"
    held = line_items.holdings_of_month([tenant], wanted, now=now)
    lines = Asked(query.get("person", ""), skip_of(query), printed, actor.sees_everything)
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
        "bill": part(lambda: shown(tenant, wanted, now=now, held=held, lines=lines)),
        "live_topics": [],
    }


def shown(
    tenant: Tenant,
    wanted: date,
    *,
    now: datetime,
    held: MonthHoldings | None = None,
    lines: Asked = FOLDED,
) -> Shown:
    """The lines, the picture, the check of a closed month, the outlook of the present one."""
    held = held or line_items.holdings_of_month([tenant], wanted, now=now)
    month = months.month_of(tenant, wanted, now=now, held=held)
    whole = statements.is_whole(month.statement) if month.statement else True
    outlook = months.foreseen(month, now=now, held=held)
    return Shown(month, picture(month), Lines(month, lines), whole, outlook)


def csv_of(tenant: Tenant, what: str, query: QueryDict, *, now: datetime) -> HttpResponse:
    """The lines as they are, in FOCUS's columns, or the budget by day; raises NotFound for any other, and for
    a month that lies ahead: somebody who asks for one month must not get another.
    """
    wanted = asked(query, now)
    if query.get("month") not in (None, "", f"{wanted:%Y-%m}"):
        raise NotFound
    if what == "budget":
        return burn.file_of_tenant(tenant, wanted, now=now)
    if what not in FILES:
        raise NotFound
    return file_of(months.month_of(tenant, wanted, now=now), what, now=now)


def asked(query: QueryDict, now: datetime) -> date:
    """`?month=2026-10`; the present month where none is named, or where it lies ahead. Raises BadParameter
    for what is no month.
    """
    this, text = budget.month_of(now), query.get("month")
    return min(month_asked("month", text), this) if text else this


def as_of(query: QueryDict, now: datetime) -> datetime:
    """`?part=lines&at=...`: the moment of the page that a part is for, so that lines which are opened later
    sum to what stands above them. Now for a page, and for what lies ahead; raises BadParameter for what is no
    time.
    """
    text = query.get("at") if "part" in query else None
    return min(moment_asked("at", text), now) if text else now


def _before(month: date) -> date:
    return budget.month_of(budget.bounds(month)[0] - months.DAY)


def _may_close(actor: Actor, closed: list[Any], wanted: date, now: datetime) -> bool:
    begins, ends = budget.bounds(wanted)
    if not can_manage_catalogue(actor) or ends > now:
        return False
    return not closed or budget.bounds(closed[0].month)[1] == begins
