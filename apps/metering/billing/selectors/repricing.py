"""What a month would have cost by another price. Reads only: no price that was in force is ever rewritten."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from functools import cache
from uuid import UUID

from apps.accounts.specs import Actor
from apps.metering.allocations.rules import intervals
from apps.metering.billing.rules import pricing, rounding
from apps.metering.billing.rules.effective_split import BEGINNING
from apps.metering.billing.rules.pricing import PricePeriod
from apps.metering.billing.selectors import charged_intervals, line_items
from apps.metering.billing.selectors.charged_intervals import Held, PriceKey
from apps.metering.billing.selectors.line_items import Asked
from apps.metering.models import Allocation
from apps.quotas.budgets.rules import budget
from apps.quotas.catalogue.rules.prices import Listed
from apps.quotas.catalogue.selectors.price_book import book_of, book_of_resources
from apps.quotas.models import Offer
from apps.quotas.specs import Priced
from apps.tenants.models import Tenant


@dataclass(frozen=True)
class Repriced:
    """What it cost a tenant in a month, refunds taken off, and would have cost by the new price."""

    tenant: Tenant
    before: Decimal
    after: Decimal

    @property
    def difference(self) -> Decimal:
        """What it would have been more, or less."""
        return self.after - self.before


@dataclass(frozen=True)
class Effect:
    """What a month would have cost each tenant by a new price of `what`, and all of them; `is_so_far`: up to
    now.
    """

    what: str
    month: date
    rows: Sequence[Repriced]
    is_so_far: bool = False

    @property
    def before(self) -> Decimal:
        """What it cost."""
        return sum((each.before for each in self.rows), Decimal(0))

    @property
    def after(self) -> Decimal:
        """What it would have cost."""
        return sum((each.after for each in self.rows), Decimal(0))

    @property
    def difference(self) -> Decimal:
        """What it would have been more, or less."""
        return self.after - self.before


def foretold(actor: Actor, of: Offer | Priced, new: Listed, *, now: datetime) -> Effect:
    """The effect of a new price on the last month that has ended, for the tenants that an actor sees.

    RULE: where nobody held any of it in that month, as on a new installation, on the present one so far.
    """
    month, present = month_before(now), budget.month_of(now)
    rows = _repriced(of, new, month, now=now)
    if is_so_far := not rows:
        month, rows = present, _repriced(of, new, present, now=now)
    # Whoever may set prices sees every tenant, those that are gone as well, but for a token of some tenants.
    shown = [each for each in rows if actor.reaches(each.tenant.slug)]
    return Effect(of.label if isinstance(of, Priced) else of.name, month, shown, is_so_far)


def _repriced(of: Offer | Priced, new: Listed, month: date, *, now: datetime) -> list[Repriced]:
    if isinstance(of, Priced):
        return by_resource(of, new, month, now=now)
    return by_price(of, new, month, now=now)


def month_before(now: datetime) -> date:
    """The last calendar month (UTC) that has ended."""
    return budget.month_of(budget.bounds(budget.month_of(now))[0] - timedelta(days=1))


def by_price(offer: Offer, new: Listed, month: date, *, now: datetime) -> list[Repriced]:
    """The month by the book as it is, and as if `new` had been the only price of its lane; dearest change
    first, each sum rounded once. `new` counts for whom and for what capacity it is, by the book's own rule.
    """
    begins, ends = budget.bounds(month)
    rows = Allocation.objects.filter(offer=offer)
    held = charged_intervals.with_refunds(charged_intervals.holdings(rows, begins, ends, now=now))
    book = book_of([offer.pk]).get(offer.pk, [])
    return _compared([_sums(held, each, (begins, ends)) for each in (book, _instead(book, new))])


def by_resource(priced: Priced, new: Listed, month: date, *, now: datetime) -> list[Repriced]:
    """The same of cores, or of GiB of memory or storage: what workloads asked for while they held devices, as
    the bill charges it.
    """
    period = budget.bounds(month)
    held = charged_intervals.holdings(Allocation.objects.all(), *period, now=now, by_workload=True)
    beside = [each for each in line_items.asked(held) if each.priced is priced]
    book = book_of_resources().get(priced, [])
    return _compared([_beside(beside, each, period) for each in (book, _instead(book, new))])


def _instead(book: Iterable[Listed], new: Listed) -> list[Listed]:
    """The book as if `new` had been the only price of its lane."""
    lasting = Listed(new.hourly, BEGINNING, None, *new.lane, new.least_seconds)
    return [*(each for each in book if each.lane != new.lane), lasting]


def _compared(sums: Sequence[Mapping[UUID, Fraction]]) -> list[Repriced]:
    tenants = Tenant.objects.filter(pk__in={*sums[0], *sums[1]})
    found = [Repriced(row, *(rounding.rounded(each[row.pk]) for each in sums)) for row in tenants]
    return sorted(found, key=lambda each: (-abs(each.difference), each.tenant.slug))


def _beside(
    beside: Iterable[Asked], book: list[Listed], period: tuple[datetime, datetime]
) -> dict[UUID, Fraction]:
    found: dict[UUID, Fraction] = defaultdict(Fraction)
    for each in beside:
        found[each.row.tenant_id] += each.charge(book, each.row.tenant_id, period).charged
    return found


def _sums(
    held: Iterable[Held], book: list[Listed], window: tuple[datetime, datetime]
) -> dict[UUID, Fraction]:
    """What each tenant pays of these by a book."""

    @cache
    def periods(key: PriceKey) -> list[PricePeriod]:
        return charged_intervals.periods_in(book, key.tenant, key.capacity, key.units)

    found: dict[UUID, Fraction] = defaultdict(Fraction)
    for each in held:
        paid = each.paid(periods(each.price_key))
        if part := intervals.clipped(paid, *window):
            found[each.price_key.tenant] += pricing.cost(part, periods(each.price_key))
    return found
