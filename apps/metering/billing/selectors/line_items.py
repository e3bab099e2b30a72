"""A tenant's period as exact charges: devices by workload and offer, with both prices, CPU, memory and
storage, and what was made with kubectl. A part of the selectors' floor.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple
from uuid import UUID

from django.db.models import QuerySet

from apps.cluster import request_cache
from apps.metering.allocations.rules import intervals
from apps.metering.allocations.rules.intervals import Interval
from apps.metering.billing.rules import forecast, pricing
from apps.metering.billing.rules.effective_split import Exact
from apps.metering.billing.rules.pricing import PricePeriod, Rate
from apps.metering.billing.rules.rounding import Charge, Key
from apps.metering.billing.selectors import charged_intervals, charges
from apps.metering.billing.selectors.charged_intervals import NO_OFFER, ChargedIntervals, Held, PriceKey
from apps.metering.billing.selectors.work_done import Rows
from apps.metering.models import Allocation
from apps.metering.specs import LineKind
from apps.quotas.budgets.rules import budget
from apps.quotas.catalogue.rules.prices import Listed
from apps.quotas.catalogue.selectors.price_book import book_of_resources
from apps.quotas.models import Offer
from apps.quotas.specs import Mechanism, Priced
from apps.tenants.models import Tenant
from apps.workloads.models import Workload
from apps.workloads.selectors.reading import applied_spec

GIB = 1024**3
UNPRICED = ": no price"
KINDS = {
    Priced.CPU: LineKind.CPU,
    Priced.MEMORY: LineKind.MEMORY,
    Priced.STORAGE: LineKind.STORAGE,
}
UNITS = {Priced.CPU: "core-hours", Priced.MEMORY: "GiB-hours", Priced.STORAGE: "GiB-hours"}
UNITS_OF = {LineKind.GPU: "device-hours", **{KINDS[each]: unit for each, unit in UNITS.items()}}


Period = tuple[datetime, datetime]
"""[begins, ends)."""
Prices = tuple[Decimal | None, Decimal | None]
"""A price and everybody's price; None where it changed."""
Parts = Mapping[PriceKey, Collection[int | Fraction]]


@dataclass(frozen=True)
class MonthHoldings:
    """What tenants held in [since, until), read once for all that is told of a month."""

    tenants: Sequence[Tenant]
    since: datetime
    until: datetime
    now: datetime

    @property
    def rows(self) -> QuerySet[Allocation]:
        """Their allocations."""
        return Allocation.objects.filter(tenant__in=[tenant.pk for tenant in self.tenants])

    @cached_property
    def known(self) -> ChargedIntervals:
        """Read when first asked for: the lines of a closed month need none."""
        return charged_intervals.charged_intervals(self.rows, self.since, self.until, now=self.now)

    @cached_property
    def by_day(self) -> Sequence["Day"]:
        """What each day of [since, until) charged for devices: the forecast and every budget count it."""
        return devices_daily(self.known, self.since, self.until)

    @property
    def held_since(self) -> datetime:
        """When the first of what was held in that time began."""
        return min((each.interval.started_at for each in self.known.held), default=self.now)


def holdings_of_month(tenants: Sequence[Tenant], month: date, *, now: datetime) -> MonthHoldings:
    """Up to `now`. RULE: the present month has the days before it too, which tell what it may come to."""
    begins, ends = budget.bounds(month)
    if not begins <= now < ends:
        return MonthHoldings(tenants, begins, ends, now)
    return MonthHoldings(
        tenants, min(begins, midnight(now) - forecast.MOST_DAYS * pricing.LONGEST_UNIT), now, now
    )


def midnight(now: datetime) -> datetime:
    """The day's beginning in UTC."""
    return now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)


def charges_of(
    tenant: Tenant,
    begins: datetime,
    ends: datetime,
    *,
    now: datetime,
    workload: Workload | None = None,
) -> list[Charge]:
    """Everything that [begins, ends) charges a tenant for, by name, or one workload of it; what is open
    counts up to `now`.
    """
    rows = Allocation.objects.filter(tenant=tenant)
    rows = rows.filter(workload=workload) if workload else rows
    known = charged_intervals.charged_intervals(rows, begins, ends, now=now)
    return charges_in(tenant, known, (begins, ends), now=now, rows=rows if workload else None)


def charges_in(
    tenant: Tenant, known: ChargedIntervals, period: Period, *, now: datetime, rows: Rows = None
) -> list[Charge]:
    """The same of intervals that were read already; `rows`: of these alone."""
    exact = charges.charges_in(known, *period, now=now, rows=rows)
    here = known.within(*period)
    works = {pk: work.slug for pk, work in named(each.workload for each in here.held).items()}
    sold = Offer.objects.filter(pk__in={key.offer for key in exact}).values_list("pk", "name", "mechanism")
    offers = {pk: name for pk, name, _ in sold}
    bare = {pk for pk, _, mechanism in sold if mechanism == Mechanism.NODE}
    at_list = charged_intervals.listed_periods_of(here.periods)
    own = {key.of_one for key, periods in here.periods.items() if at_list[key] != periods}
    dearer = [each for each in here.held if each.price_key.of_one in own]
    listed, prices = charged_intervals.listed(dearer, at_list, *period), _prices(here, at_list, period)
    # What was made with kubectl says so where it has no price; a workload has a price before it is made.
    parts = parts_of(here.held)
    of_one = {key.of_one: periods for key, periods in here.periods.items()}
    unpriced = {
        key for key in exact
        if key.workload is None and all(each.valid_from >= period[1] for each in of_one[key])
    }  # fmt: skip
    found = [
        _held(key, sums, f"{what_of(key, works, offers, parts)}{UNPRICED if key in unpriced else ''}",
              listed.get(key, Fraction(0)) if key in own else sums.allocated,
              kind=LineKind.CPU if key.offer in bare else LineKind.GPU,
              prices=(None, None) if key in unpriced else prices[key])
        for key, sums in exact.items()
        if sums.allocated or sums.seconds
    ]  # fmt: skip
    book = book_of_resources()
    found += _resources(tenant, asked(here.held) if book else [], book, period)
    return sorted(found, key=lambda each: (each.key.kind != LineKind.GPU, each.what, str(each.key)))


@dataclass(frozen=True)
class Day:
    """What one day charged for devices, refunds taken off, and the hours of whole GPUs that it is for."""

    money: Fraction = Fraction(0)
    gpu_hours: Fraction = Fraction(0)


def daily(
    tenant: Tenant,
    known: ChargedIntervals,
    begins: datetime,
    ends: datetime,
    *,
    devices: Sequence[Day] | None = None,
) -> list[Fraction]:
    """What each day of [begins, ends) charged, devices and the rest; days are those of UTC. `devices` where
    they are counted already.
    """
    here = known.within(begins, ends)
    book = book_of_resources()
    beside = asked(here.held) if book else []
    devices = devices_daily(here, begins, ends) if devices is None else devices
    return [
        sum((each.charged for each in _resources(tenant, beside, book, span)), day.money)
        for span, day in zip(days(begins, ends), devices, strict=True)
    ]


def devices_daily(known: ChargedIntervals, begins: datetime, ends: datetime) -> list[Day]:
    """What each day of [begins, ends) charged for devices: what budgets count."""
    cut = days(begins, ends)
    spent, time = _daily_micros(known.within(begins, ends), cut)
    money, hours = [Fraction(0)] * len(cut), [Fraction(0)] * len(cut)
    for (index, hourly), span in spent.items():
        money[index] += pricing.money(hourly, span)
    for (index, share), span in time.items():
        hours[index] += Fraction(*share) * Fraction(span, pricing.MICROS_PER_HOUR)
    return [Day(*each) for each in zip(money, hours, strict=True)]


def _daily_micros(
    known: ChargedIntervals, cut: Sequence[Period]
) -> tuple[dict[tuple[int, Rate], int], dict[tuple[int, tuple[int, int]], int]]:
    """Microseconds of each day by price, and by share of a GPU: hundreds of rows are of few of both."""
    spent: dict[tuple[int, Rate], int] = defaultdict(int)
    time: dict[tuple[int, tuple[int, int]], int] = defaultdict(int)
    for each in known.held:
        periods = known.periods[each.price_key]
        paid = each.paid(periods)
        used = Interval(paid.started_at, min(paid.ended_at, each.interval.ended_at))
        first = max(0, (paid.started_at - cut[0][0]) // pricing.LONGEST_UNIT) if cut else 0
        for index, (at, till) in enumerate(cut[first:], first):
            if at >= paid.ended_at:
                break
            if part := intervals.clipped(paid, at, till):
                for hourly, span in pricing.pieces(part, periods):
                    spent[index, hourly] += span
            if part := intervals.clipped(used, at, till):
                time[index, each.share.as_integer_ratio()] += intervals.micros(
                    part.ended_at - part.started_at
                )
    return spent, time


def days(begins: datetime, ends: datetime) -> list[Period]:
    """[begins, ends) by days of UTC, if it begins with one."""
    found = []
    while begins < ends:
        found.append((begins, min(begins + pricing.LONGEST_UNIT, ends)))
        begins += pricing.LONGEST_UNIT
    return found


class Named(NamedTuple):
    """What a line says of its workload."""

    slug: str
    owner: UUID


def named(works: Iterable[UUID | None]) -> Mapping[UUID, Named]:
    """The same of many, read once for all that is made of a bill."""
    ids = frozenset(filter(None, works))
    rows = Workload.objects.filter(pk__in=ids).values_list("pk", "slug", "owner_id")
    return request_cache.memo(("named", ids), lambda: {pk: Named(slug, owner) for pk, slug, owner in rows})


def _workloads(held: Iterable[Held]) -> QuerySet[Workload]:
    return Workload.objects.filter(pk__in={each.workload for each in held if each.workload})


def parts_of(held: Iterable[Held]) -> Parts:
    """Of what is held in shares, by the key of one, how much of a device each is."""
    found: dict[PriceKey, set[int | Fraction]] = defaultdict(set)
    for each in held:
        found[each.price_key.of_one].add(each.price_key.units)
    return {key: units for key, units in found.items() if min(units) < 1}


def what_of(key: PriceKey, works: Mapping[UUID, str], offers: Mapping[UUID, str], parts: Parts) -> str:
    """What a line is for, in words: a share of a device as such (`1/4 of H100`)."""
    spot, units = f" ({key.capacity})" if key.capacity else "", parts.get(key, ())
    of, rest = (f"{next(iter(units))} of ", "") if len(units) == 1 else ("", " in shares" if units else "")
    if key.workload is None:
        return f"Made with kubectl, {of}{offers.get(key.offer, 'like no offer')}{rest}{spot}"
    return f"{works.get(key.workload, '?')}, {of}{offers[key.offer]}{rest}{spot}"


def _held(
    key: PriceKey, sums: Exact, what: str, listed: Fraction, *, kind: LineKind, prices: Prices
) -> Charge:
    # Prices are per device: a line counts hours of devices, whatever part of a GPU they are, and a share of
    # a device as such. Of cores nobody measures what they do: they have one price.
    return Charge(
        key=Key(kind, key.workload, None if key.offer == NO_OFFER else key.offer, key.capacity),
        what=what,
        allocated=sums.allocated,
        quantity=sums.device_seconds / pricing.HOUR,
        unit=UNITS_OF[kind],
        refunded=sums.refunded,
        refunded_quantity=sums.refunded_device_seconds / pricing.HOUR,
        parts=sums.parts() if kind is LineKind.GPU else {},
        listed=listed,
        unit_price=prices[0],
        list_price=prices[1],
    )


def _prices(
    known: ChargedIntervals, at_list: Mapping[PriceKey, list[PricePeriod]], period: Period
) -> dict[PriceKey, Prices]:
    """The price and everybody's price of what the period charges; None where it changed meanwhile."""
    own = known.periods
    found: dict[PriceKey, tuple[set[Decimal], set[Decimal]]] = defaultdict(lambda: (set(), set()))
    for each in known.held:
        charged = each.charged(own[each.price_key])
        key = each.price_key
        prices, listed = found[key.of_one]
        mine = _in_force(own[key], charged, period)
        everybody = mine if at_list[key] == own[key] else _in_force(at_list[key], charged, period)
        prices.update(pricing.of_one(hourly, key.units) for hourly in mine)
        listed.update(pricing.of_one(hourly, key.units) for hourly in everybody)
    return {key: (_only(prices), _only(listed)) for key, (prices, listed) in found.items()}


def _in_force(periods: Sequence[PricePeriod], span: Interval, period: Period) -> set[Rate]:
    """The prices that hold at some moment of the part of a span that lies in the period."""
    part = intervals.clipped(span, *period)
    if part is None:
        return set()
    if len(periods) == 1 and periods[0].valid_from <= part.started_at:
        return {periods[0].hourly}
    later = {each.hourly for each in periods if part.started_at < each.valid_from < part.ended_at}
    return later | {pricing.price_at(part.started_at, periods)}


def _only(prices: set[Decimal]) -> Decimal | None:
    return next(iter(prices)) if len(prices) == 1 else None


def _resources(
    tenant: Tenant, beside: Iterable["Asked"], book: Mapping[Priced, list[Listed]], period: Period
) -> list[Charge]:
    """CPU, memory and storage that the workloads asked for, over the time they held devices.

    RULE: CPU and memory once per pod that held a device, disks once per workload, in thousandths of a core
    and GiB, at the price of each moment. Nothing measures them: they have one price. Where cores were held
    instead, their offer's price has CPU and memory in it.
    """
    found = [each.charge(book[each.priced], tenant.pk, period) for each in beside if each.priced in book]
    return [charge for charge in found if charge.allocated]


@dataclass(frozen=True)
class Asked:
    """So much of a resource in each of these spans, which have a kind of capacity."""

    row: Workload
    priced: Priced
    size: Fraction
    spans: Sequence[tuple[str, Interval]]

    def charge(self, book: list[Listed], tenant: UUID, period: Period) -> Charge:
        """What it costs in the period."""
        money, listed, seconds = Fraction(0), Fraction(0), Fraction(0)
        prices: set[Decimal] = set()
        for capacity, span in self.spans:
            own, at_list = (charged_intervals.periods_in(book, whose, capacity) for whose in (tenant, None))
            if part := intervals.clipped(span, *period):
                prices |= {pricing.decimal_of(hourly) for hourly in _in_force(own, part, period)}
                money += pricing.cost(part, own) * self.size
                listed += pricing.cost(part, at_list) * self.size
                seconds += intervals.seconds_of(part.ended_at - part.started_at) * self.size
        return Charge(
            key=Key(KINDS[self.priced], self.row.pk),
            what=f"{self.row.slug}, {self.priced.label}",
            allocated=money,
            quantity=seconds / pricing.HOUR,
            unit=UNITS[self.priced],
            listed=listed,
            unit_price=_only(prices),
        )


def asked(held: Sequence[Held]) -> list[Asked]:
    """What the workloads of these holdings asked for beside devices, while they held them."""
    known = {row.pk: row for row in _workloads(held).select_related("offer")}
    groups = _by_workload(held).items()
    return [each for pk, group in groups for each in _asked_of(known[pk], group) if each.size]


def _asked_of(row: Workload, held: Sequence[Held]) -> list[Asked]:
    spec, pods = applied_spec(row), _unions([each for each in held if not each.is_cores], by_pod=True)
    disks = Fraction(sum(volume.size_bytes for volume in spec.volumes), GIB)
    return [
        Asked(row, Priced.CPU, Fraction(spec.cpu_millis, 1000), pods),
        Asked(row, Priced.MEMORY, Fraction(spec.memory_bytes, GIB), pods),
        Asked(row, Priced.STORAGE, disks, _unions(held, by_pod=False)),
    ]


def _by_workload(held: Sequence[Held]) -> dict[UUID, list[Held]]:
    found: dict[UUID, list[Held]] = defaultdict(list)
    for each in held:
        if each.workload:
            found[each.workload].append(each)
    return found


def _unions(held: Sequence[Held], *, by_pod: bool) -> list[tuple[str, Interval]]:
    """The time in which each pod, or any of them, held something: overlaps count once. Disks are on no node,
    so they are of no capacity type.
    """
    groups: dict[tuple[str, str], list[Interval]] = defaultdict(list)
    for each in held:
        groups[(each.claim, each.price_key.capacity) if by_pod else ("", "")].append(each.interval)
    return [(capacity, span) for (_, capacity), spans in groups.items() for span in _merged(spans)]


def _merged(spans: Iterable[Interval]) -> list[Interval]:
    found: list[Interval] = []
    for span in sorted(spans, key=lambda each: each.started_at):
        if found and span.started_at <= found[-1].ended_at:
            found[-1] = Interval(found[-1].started_at, max(found[-1].ended_at, span.ended_at))
        else:
            found.append(span)
    return found
