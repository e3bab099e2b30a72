"""What a month would have cost by another price. Reads only: no price that was in force is ever rewritten."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from functools import cache
from uuid import UUID

from apps.metering import costing, holdings, settling
from apps.metering.costing import PricePeriod
from apps.metering.holdings import Held, Lane
from apps.metering.ledger_models import KubectlHolding
from apps.metering.models import Allocation
from apps.metering.shares import BEGINNING
from apps.quotas import budget
from apps.quotas.models import Offer
from apps.quotas.prices import Listed
from apps.quotas.selectors import book_of
from apps.tenants.models import Tenant


@dataclass(frozen=True)
class Repriced:
    """What an offer cost a tenant in a month, refunds taken off, and would have cost by the new price."""

    tenant: Tenant
    before: Decimal
    after: Decimal

    @property
    def difference(self) -> Decimal:
        """What it would have been more, or less."""
        return self.after - self.before


def month_before(now: datetime) -> date:
    """The last calendar month (UTC) that has ended."""
    return budget.month_of(budget.bounds(budget.month_of(now))[0] - timedelta(days=1))


def by_price(offer: Offer, new: Listed, month: date, *, now: datetime) -> list[Repriced]:
    """The month by the book as it is, and as if `new` had been the only price of its lane; dearest change
    first, each sum rounded once. `new` counts for whom and for what capacity it is, by the book's own rule.
    """
    begins, ends = budget.bounds(month)
    rows = holdings.holdings(Allocation.objects.filter(offer=offer), begins, ends, now=now)
    others = holdings.by_kubectl(KubectlHolding.objects.filter(offer=offer), begins, ends, now=now)
    held = [*rows, *others]
    lost = holdings.given_back(held)
    book = book_of([offer.pk]).get(offer.pk, [])
    lasting = Listed(new.hourly, BEGINNING, None, *new.lane, new.least_seconds)
    asked = [*(each for each in book if each.lane != new.lane), lasting]
    sums = [_sums(held, lost, each, (begins, ends)) for each in (book, asked)]
    tenants = Tenant.objects.filter(pk__in={*sums[0], *sums[1]})
    found = [Repriced(row, *(settling.rounded(each[row.pk]) for each in sums)) for row in tenants]
    return sorted(found, key=lambda each: (-abs(each.difference), each.tenant.slug))


def _sums(
    held: Iterable[Held], lost: frozenset[UUID], book: list[Listed], window: tuple[datetime, datetime]
) -> dict[UUID, Fraction]:
    """What each tenant pays of these by a book."""

    @cache
    def periods(lane: Lane) -> list[PricePeriod]:
        return holdings.periods_in(book, lane.tenant, lane.capacity)

    found: dict[UUID, Fraction] = defaultdict(Fraction)
    for each in held:
        paid = each.paid(periods(each.lane), is_lost=each.pk in lost)
        if part := costing.clipped(paid, *window):
            found[each.lane.tenant] += costing.cost(part, periods(each.lane))
    return found
