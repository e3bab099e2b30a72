"""A tenant's period day by day and price by price, exactly: what FOCUS's rows are made of. Reads only."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from typing import NamedTuple
from uuid import UUID

from apps.metering.allocations.rules import intervals
from apps.metering.allocations.rules.intervals import Interval
from apps.metering.billing.rules import focus, pricing
from apps.metering.billing.rules.pricing import PricePeriod, Rate
from apps.metering.billing.selectors import charged_intervals, charges, line_items
from apps.metering.billing.selectors.charged_intervals import ChargedIntervals, PriceKey
from apps.metering.billing.selectors.line_items import Asked, MonthHoldings, Period
from apps.metering.specs import LineKind
from apps.quotas.catalogue.rules.prices import Listed
from apps.quotas.catalogue.selectors.price_book import book_of_resources
from apps.quotas.models import Offer
from apps.workloads.models import Workload

NOTHING = Fraction(0)
REFUND = "Refund: "


class What(NamedTuple):
    """What a row is of: one thing on one day at one price. `listed` is everybody's."""

    begins: datetime
    ends: datetime
    kind: LineKind
    about: LineKind
    key: PriceKey
    price: Decimal
    listed: Decimal


@dataclass
class Much:
    """How much of it, in hours: charged, used, and as a part of the GPU. RULE: a refund is negative, but the
    GPU was held all the same, so that it has no part of it.
    """

    charged: Fraction = NOTHING
    used: Fraction = NOTHING
    gpu: Fraction = NOTHING
    parts: dict[str, Decimal] = field(default_factory=dict)


def rows_of(held: MonthHoldings, period: Period, formula: str) -> list[focus.Charged]:
    """What the period charges, in order of day and name."""
    here = held.known.within(*period)
    found: dict[What, Much] = defaultdict(Much)
    for day in line_items.days(*period):
        _devices(found, here, day)
    book = book_of_resources()
    for each in line_items.asked(here.held) if book else []:
        if each.priced in book:
            _resource(found, each, book[each.priced], period)
    for day in line_items.days(*period):
        _tell(found, held, here, day)
    chosen = {what: much for what, much in found.items() if much.charged or much.used}
    names = _Names(chosen, line_items.parts_of(here.held))
    made = [names.charged(what, much, formula) for what, much in chosen.items()]
    return sorted(made, key=_order)


def _order(row: focus.Charged) -> tuple[object, ...]:
    """By day; devices first, and each refund below what it refunds."""
    name = row.description.removeprefix(REFUND)
    is_refund = row.kind is LineKind.REFUND
    return row.begins, row.about is not LineKind.GPU, name, row.workload, is_refund, row.unit_price


def _devices(found: dict[What, Much], here: ChargedIntervals, day: Period) -> None:
    """Usage and refunds of one day."""
    at_list = charged_intervals.listed_periods_of(here.periods)
    for each in here.held:
        own, listed, units = here.periods[each.price_key], at_list[each.price_key], each.price_key.units
        about = LineKind.CPU if each.is_cores else LineKind.GPU
        spans = [(about, each.charged(own), 1)]
        if each.back_from:
            spans.append((LineKind.REFUND, each.refunded(own), -1))
        for kind, span, sign in spans:
            for part, price, everybodys in _pieces(intervals.clipped(span, *day), own, listed):
                key, prices = (
                    each.price_key.of_one,
                    (pricing.of_one(price, units), pricing.of_one(everybodys, units)),
                )
                row = found[What(*day, kind, about, key, *prices)]
                used = sign * _hours(intervals.clipped(each.interval, part.started_at, part.ended_at))
                row.charged += sign * units * _hours(part)
                row.used += used * units
                row.gpu += used * each.share


def _resource(found: dict[What, Much], each: Asked, book: Sequence[Listed], period: Period) -> None:
    kind, tenant = line_items.KINDS[each.priced], each.row.tenant_id
    for capacity, span in each.spans:
        own, listed = (charged_intervals.periods_in(book, whose, capacity) for whose in (tenant, None))
        key = PriceKey(tenant, charged_intervals.NO_OFFER, capacity, each.row.pk)
        for day in line_items.days(*period):
            for part, price, everybodys in _pieces(intervals.clipped(span, *day), own, listed):
                row = found[What(*day, kind, kind, key, *map(pricing.decimal_of, (price, everybodys)))]
                row.charged += _hours(part) * each.size
                row.used = row.charged


def _pieces(
    part: Interval | None, own: Sequence[PricePeriod], listed: Sequence[PricePeriod]
) -> Iterator[tuple[Interval, Rate, Rate]]:
    """A time cut where one of the two prices changes, with both."""
    if part is None:
        return
    changes = {each.valid_from for each in (*own, *listed)}
    marks = sorted(
        {part.started_at, part.ended_at, *(at for at in changes if part.started_at < at < part.ended_at)}
    )
    for begins, ends in pairwise(marks):
        yield Interval(begins, ends), pricing.price_at(begins, own), pricing.price_at(begins, listed)


def _hours(part: Interval | None) -> Fraction:
    if part is None:
        return NOTHING
    return intervals.seconds_of(part.ended_at - part.started_at) / pricing.HOUR


def _tell(found: Mapping[What, Much], held: MonthHoldings, here: ChargedIntervals, day: Period) -> None:
    """What was done on a day for what it charged, refunds taken off; shared out among the day's prices."""
    exact = charges.charges_in(here, *day, now=held.now)
    by_key: dict[PriceKey, list[tuple[What, Much]]] = defaultdict(list)
    for what, much in found.items():
        if what.begins == day[0] and what.kind is LineKind.GPU:
            by_key[what.key].append((what, much))
    for key, rows in by_key.items():
        if key not in exact:
            continue
        parts = exact[key].parts()
        weights = [Fraction(what.price) * much.charged for what, much in rows]
        whole = sum(weights, NOTHING)
        for (_, much), weight in zip(rows, weights, strict=True):
            share = [part * weight / whole if whole else NOTHING for part in parts.values()]
            units = round(sum(share, NOTHING) * 10**pricing.PLACES)
            much.parts = dict(zip(parts, pricing.apportion(share, units, pricing.PLACES), strict=True))


class _Names:
    """Workloads and offers of the rows, read at once."""

    def __init__(self, rows: Iterable[What], parts: line_items.Parts) -> None:
        keys = {what.key for what in rows}
        works = Workload.objects.filter(pk__in={key.workload for key in keys if key.workload})
        self.works: Mapping[UUID, Workload] = works.select_related("owner", "offer").in_bulk()
        offers = Offer.objects.filter(pk__in={key.offer for key in keys})
        self.offers: Mapping[UUID, Offer] = offers.select_related("flavor").in_bulk()
        self._parts = parts
        self._slugs = {pk: work.slug for pk, work in self.works.items()}
        self._names = {pk: offer.name for pk, offer in self.offers.items()}

    def charged(self, what: What, much: Much, formula: str) -> focus.Charged:
        """As FOCUS's rules take it, to 8 decimals."""
        work = self.works.get(what.key.workload) if what.key.workload else None
        offer, holds = self.offers.get(what.key.offer), what.kind is LineKind.GPU
        quantity = pricing.amount(much.charged)
        described = self._described(what, work)
        return focus.Charged(
            kind=what.kind, about=what.about, quantity=quantity, unit=line_items.UNITS_OF[what.about],
            description=f"{REFUND}{described}" if what.kind is LineKind.REFUND else described,
            amount=pricing.amount(Fraction(what.price) * much.charged),
            listed=pricing.amount(Fraction(what.listed) * much.charged),
            begins=what.begins, ends=what.ends, unit_price=what.price, list_price=what.listed,
            parts=much.parts, formula=formula, workload=str(what.key.workload or ""),
            workload_name=work.slug if work else "", offer=offer.slug if offer else "",
            capacity=what.key.capacity, tags=tags_of(work), details=_details(what.about, offer),
            consumed=pricing.amount(much.used), gpu_hours=pricing.amount(much.gpu) if holds else None,
        )  # fmt: skip

    def _described(self, what: What, work: Workload | None) -> str:
        if what.about is LineKind.GPU or what.key.offer in self.offers:
            return line_items.what_of(what.key, self._slugs, self._names, self._parts)
        return f"{work.slug if work else '?'}, {what.about.label}"


def tags_of(work: Workload | None) -> str:
    """A workload's labels, and what we tell of it."""
    if work is None:
        return focus.tags_of({}, {})
    return focus.tags_of({"kind": work.kind, "owner": work.owner.username}, work.labels)


def _details(about: LineKind, offer: Offer | None) -> str:
    if about is not LineKind.GPU or offer is None:
        return focus.details_of(about)
    return focus.details_of(
        about,
        F_GpuCount=round(offer.share_numerator / offer.share_denominator, 6),
        GpuModel=offer.flavor.model,
        GpuMemoryGiB=round(offer.gpu_memory_bytes / line_items.GIB, 2),
        SharingMode=offer.sharing_mode,
    )
