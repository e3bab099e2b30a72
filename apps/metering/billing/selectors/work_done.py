"""What was done in a time that is paid for: roll-ups, priced.

A part of the selectors' floor: rows in, rational numbers out; nothing is rounded here.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from fractions import Fraction
from functools import cached_property
from operator import add
from typing import Any
from uuid import UUID

from django.db.models import F, Q, QuerySet

from apps.metering.allocations.rules import intervals
from apps.metering.allocations.rules.intervals import Interval
from apps.metering.billing.rules import effective_split, pricing
from apps.metering.billing.rules.effective_split import INEFFICIENCY, RECOVERABLE, Done, Exact, Span
from apps.metering.billing.rules.pricing import PricePeriod, Rate
from apps.metering.billing.selectors.charged_intervals import Held, PriceKey, possibly_charged_in
from apps.metering.ledger.selectors import effective_formula
from apps.metering.ledger.selectors.positions import pruned_until
from apps.metering.models import Allocation, Bucket
from apps.metering.specs import Account

FIGURES = ("held_us", "judged_effective", *RECOVERABLE, *(f"judged_{cause}" for cause in INEFFICIENCY))
"""In the order of `Done`."""
Rows = QuerySet[Allocation] | None
"""The allocations that are summed; None: all that the tenants, or the workloads, hold."""
FEW = 16
"""Workloads whose roll-ups are found by their own index, not by their tenant's."""
OWN = ("tenant_id", "offer_id", "allocation__capacity", "workload_id")
"""The columns of a workload's price key."""
ROLLED = ("level", "starts_at", "allocation_id", "tenant_id", "offer_id", "workload_id",
          "allocation__capacity", "allocation__started_at", "allocation__ended_at")  # fmt: skip
"""When a roll-up is, and whose."""


@dataclass
class Reading:
    """One reading: the window, the allocations that are looked at one by one, and what is found out."""

    begins: datetime
    ends: datetime
    now: datetime
    by_workload: bool
    held: dict[UUID, Held]
    periods: Mapping[PriceKey, list[PricePeriod]] = field(default_factory=dict)
    plain: Collection[PriceKey] = ()
    found: dict[PriceKey, Exact] = field(default_factory=lambda: defaultdict(Exact))

    @property
    def corrected(self) -> set[UUID]:
        """Those whose row does not say when they were held."""
        return {pk for pk, each in self.held.items() if each.is_corrected}

    @cached_property
    def lost(self) -> frozenset[UUID]:
        """Those of which something is given back."""
        return frozenset(pk for pk, each in self.held.items() if each.back_from)

    @cached_property
    def spans(self) -> Mapping[PriceKey, Interval]:
        """When what has one price was held, from first to last."""
        moments = {key: [*self.lately(key)] for key in self.plain}
        for each in self.held.values():
            moments.setdefault(each.price_key, []).extend(each.interval)
        return {key: Interval(min(at), max(at)) for key, at in moments.items()}

    def lately(self, key: PriceKey) -> Interval:
        """From the last change of its price on. RULE: what the database sums began then at the earliest."""
        changes = [period.valid_from for period in self.periods[key] if period.valid_from < self.ends]
        return Interval(max([self.begins, *changes]), self.ends)

    def price_from(self, key: PriceKey, begins: datetime) -> Rate:
        """The price in a stretch that begins so: the one in force while it is held."""
        return pricing.price_at(max(begins, self.spans[key].started_at), self.periods[key])

    @property
    def until(self) -> datetime:
        """Nothing is known of what is to come."""
        return min(self.ends, self.now)

    @property
    def known(self) -> dict[tuple[Any, ...], PriceKey]:
        """Its prices of single devices, by the columns of a roll-up."""
        whole = [key for key in self.periods if key.units == 1]
        if self.by_workload:
            return {(key.tenant, key.offer, key.capacity, key.workload): key for key in whole}
        return {(key.tenant, key.offer, key.capacity): key for key in whole}

    @property
    def columns(self) -> Sequence[str]:
        """The columns of `known`."""
        return OWN if self.by_workload else OWN[:-1]


def learn(work: Reading, rows: Rows) -> None:
    """Adds to what a reading is charged what was done for it."""
    if not work.periods or work.begins >= work.until:
        return
    _learn_in_bulk(work, rows)
    _learn_one_by_one(work)
    _learn_by_holder(work)


def learn_together(readings: Mapping[UUID, Reading]) -> None:
    """The same of several workloads, each in a time of its own.

    RULE: of all in whose time no price changes and nothing is given back the roll-ups are summed together.
    """
    plain = {}
    for workload, each in readings.items():
        if each.lost or _changes(each):
            learn(each, None)
        elif each.periods and each.begins < each.until:
            plain[workload] = each
    if plain:
        _learn_plain(plain)


def _learn_plain(readings: Mapping[UUID, Reading]) -> None:
    """Of readings of one price each."""
    kept_from = pruned_until()
    whole, cut = defaultdict[Span, list[UUID]](list), defaultdict[Span, list[UUID]](list)
    for workload, each in readings.items():
        plan = effective_split.cover(each.begins, each.until, (), kept_from)
        for span in (span for stretch in plan.stretches for span in stretch.spans):
            whole[span].append(workload)
        for span in plan.edges:
            cut[span].append(workload)
    window = min(each.begins for each in readings.values()), max(each.until for each in readings.values())
    rows = _judged(Bucket.objects.filter(allocation__isnull=False), *window)
    known = {columns: key for each in readings.values() for columns, key in each.known.items()}
    of = {key: each for each in readings.values() for key in each.periods}
    for key, _, done in _summed(known, rows.filter(_of_spans(whole)), OWN):
        work = of[key]
        work.found[key].learn(effective_split.parts_at(work.price_from(key, work.begins), done))
    if cut:
        edges = defaultdict[UUID, list[Any]](list)
        for row in rows.filter(_of_spans(cut)).values_list(*ROLLED, *FIGURES):
            edges[row[ROLLED.index("workload_id")]].append(row)
        for workload, some in edges.items():
            _learn_alike(readings[workload], _of_allocations(readings[workload], some))


def _of_spans(spans: Mapping[Span, Collection[UUID]]) -> Q:
    """The roll-ups of each span's own workloads."""
    chosen = Q(pk__in=[])
    for span, workloads in spans.items():
        chosen |= _in_spans([span], Q(workload__in=workloads))
    return chosen


def _learn_in_bulk(work: Reading, rows: Rows) -> None:
    """What was done by those that nothing was given back of: sums of the database, priced once."""
    plan = effective_split.cover(work.begins, work.until, _changes(work), pruned_until())
    chosen = Q(allocation__isnull=False)
    if rows is not None:
        nearby = rows.filter(possibly_charged_in(work.begins, work.ends) | Q(pk__in=work.corrected))
        chosen = Q(allocation__in=nearby.order_by().values("pk"))
    found = Bucket.objects.filter(chosen).exclude(allocation__in=work.lost)
    found = _judged(found, work.begins, work.until)
    for stretch in plan.stretches:
        if stretch.spans:
            here = found.filter(_in_spans(stretch.spans, _whose(work)))
            for price_key, _, done in _summed(work.known, here, work.columns):
                hourly = work.price_from(price_key, stretch.begins)
                work.found[price_key].learn(effective_split.parts_at(hourly, done))
    _learn_edges(work, found, plan.edges)


def _learn_edges(work: Reading, rows: QuerySet[Bucket], edges: Iterable[Span]) -> None:
    """Roll-ups that a cut goes through. By workload one by one: what is held at one moment is not much. Else
    summed where an allocation was held all through.
    """
    window = work.begins, work.until
    cut = {
        edge: part for edge in edges if (part := intervals.clipped(Interval(edge.begins, edge.ends), *window))
    }
    parts, through, others = {(e.level, e.begins): cut[e] for e in cut}, Q(pk__in=[]), Q(pk__in=[])
    # What every branch asks for is said once more: no index is looked into for an OR.
    when = Q(level__in={level for level, _ in parts}, starts_at__in={begins for _, begins in parts})
    rows = rows.filter(_whose(work), when)
    if work.by_workload or not cut:
        _learn_rows(work, rows.filter(_in_spans(cut, Q())))
        return
    for edge, part in cut.items():
        held = Q(allocation__started_at__lte=part.started_at) & ~Q(allocation__in=work.corrected)
        held &= Q(allocation__ended_at=None) | Q(allocation__ended_at__gte=part.ended_at)
        through |= _in_spans([edge], Q()) & held
        others |= _in_spans([edge], Q()) & ~held
    summed = _summed(work.known, rows.filter(through), [*work.columns, "level", "starts_at", "held_us"])
    for price_key, (level, begins, held_us), done in summed:
        part = parts[level, begins]
        money, length = (
            pricing.cost(part, work.periods[price_key]),
            intervals.micros(part.ended_at - part.started_at),
        )
        work.found[price_key].learn(effective_split.parts(money, length, replace(done, held=held_us)))
    _learn_rows(work, rows.filter(others))


def _summed(
    known: Mapping[tuple[Any, ...], PriceKey], rows: QuerySet[Bucket], columns: Sequence[str]
) -> Iterator[tuple[PriceKey, Sequence[Any], Done]]:
    """Sums by what has one price, and by the columns behind it; only of what has a price."""
    own, every = len(next(iter(known), ())), len(columns)
    sums = effective_formula.sums({name: F(name) for name in FIGURES})
    for row in rows.order_by().values_list(*columns).annotate(**sums):
        if price_key := known.get(row[:own]):
            yield price_key, row[own:every], Done(*effective_formula.summed_in_order(row[every:]))


def _learn_one_by_one(work: Reading) -> None:
    """What was done by those that something was given back of: only what they paid for counts."""
    if not work.lost:
        return
    found = Bucket.objects.filter(_around_refunds(work, _whose(work)), allocation__in=work.lost)
    _learn_rows(work, _judged(found, work.begins, work.until))


def _learn_by_holder(work: Reading) -> None:
    """Measured use of what was made with kubectl, roll-up by roll-up.

    RULE: a roll-up is of one claim's device. Where several allocations share it, because the device became of
    another offer meanwhile, each has done the same in proportion to its time.
    """
    whose = defaultdict[tuple[Any, ...], list[tuple[PriceKey, Interval]]](list)
    for each in work.held.values():
        if each.holder:
            whose[*each.gpu, each.holder].append((each.price_key, each.used))
    if not whose:
        return
    made = Bucket.objects.filter(account=Account.TENANT, allocation=None, seen_us__gt=0)
    of_tenants = _around_refunds(work, Q(tenant__in={price_key.tenant for price_key in work.periods}))
    rows = _judged(made, work.begins, work.until).filter(of_tenants).values_list(*BY_HOLDER, *FIGURES)
    _learn_alike(work, ((*row[:2], *each, row[5:]) for row in rows for each in whose.get(row[2:5], ())))


def _around_refunds(work: Reading, whose: Q) -> Q:
    """The roll-ups of the window, the finest around changes of prices and where what is refunded begins."""
    ends = [each.back_from for each in work.held.values() if each.back_from]
    plan = effective_split.cover(work.begins, work.until, [*_changes(work), *ends], pruned_until())
    spans = [span for stretch in plan.stretches for span in stretch.spans]
    return _in_spans([*spans, *plan.edges], whose)


def _learn_rows(work: Reading, found: QuerySet[Bucket]) -> None:
    _learn_alike(work, _of_allocations(work, found.values_list(*ROLLED, *FIGURES)))


def _of_allocations(work: Reading, rows: Iterable[Any]) -> Iterator[Any]:
    """As `_learn_alike` takes them, of rows of ROLLED and FIGURES."""
    last = len(ROLLED)
    for row in rows:
        yield *row[:2], *_paid(work, row[2:last]), row[last:]


def _learn_alike(work: Reading, rows: Iterable[Any]) -> None:
    """From rows of (level, begins, price key, what is paid for, FIGURES). Most differ only in what was done:
    those are summed as integers before they are divided.
    """
    alike: dict[tuple[PriceKey, Fraction, int, int], list[int]] = {}
    for level, begins, price_key, paid, figures in rows:
        ends = min(work.until, begins + timedelta(seconds=level))
        part = intervals.clipped(paid, max(work.begins, begins), ends)
        if part is None or price_key not in work.periods:
            continue
        length = intervals.micros(part.ended_at - part.started_at)
        money = pricing.cost(part, work.periods[price_key])
        sums = alike.setdefault((price_key, money, length, figures[0]), [0] * len(FIGURES))
        sums[:] = map(add, sums, map(int, figures))
    for (price_key, money, length, held), sums in alike.items():
        work.found[price_key].learn(effective_split.parts(money, length, Done(held, *sums[1:])))


BY_HOLDER = ("level", "starts_at", "cluster_id", "gpu", "holder")


def _paid(work: Reading, whose: Sequence[Any]) -> tuple[PriceKey, Interval]:
    """The price key of a roll-up's allocation, and what is paid for of it."""
    pk, tenant, offer, workload, capacity, started, ended = whose
    each = work.held.get(pk)
    if each is None:
        price_key = PriceKey(tenant, offer, capacity, workload if work.by_workload else None)
        return price_key, Interval(started, max(started, ended or work.now))
    return each.price_key, each.used


def _whose(work: Reading) -> Q:
    """Of few known workloads, or of known tenants: many cost more to tell the database."""
    workloads = {price_key.workload for price_key in work.periods}
    if work.by_workload and len(workloads) <= FEW:
        return Q(workload__in=workloads)
    return Q(tenant__in={price_key.tenant for price_key in work.periods})


def _judged(rows: QuerySet[Bucket], begins: datetime, ends: datetime) -> QuerySet[Bucket]:
    judged = effective_formula.judged(begins, ends)
    return rows.annotate(**{f"judged_{name}": what for name, what in judged.items()})


def _in_spans(spans: Iterable[Span], whose: Q) -> Q:
    """RULE: whose is said in every branch: an index is then looked into for each, and not through it once."""
    chosen = Q(pk__in=[])
    for span in spans:
        chosen |= Q(level=span.level, starts_at__gte=span.begins, starts_at__lt=span.ends) & whose
    return chosen


def _changes(work: Reading) -> set[datetime]:
    """When prices changed; of what is looked at one by one, while it was held: the same price is not cut."""
    return {
        period.valid_from
        for key, periods in work.periods.items()
        for period in periods
        if (span := work.spans[key]).started_at < period.valid_from < span.ended_at
    }
