"""What allocations cost in a period and what was done for it, exactly: facts and prices joined with roll-ups.

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

from django.db.models import (
    DateTimeField,
    DurationField,
    ExpressionWrapper,
    F,
    Q,
    QuerySet,
    Sum,
    Value,
)
from django.db.models.functions import Coalesce, Greatest, Least

from apps.metering.allocations.rules import intervals
from apps.metering.allocations.rules.intervals import Interval
from apps.metering.billing.rules import effective_split, pricing
from apps.metering.billing.rules.effective_split import INEFFICIENCY, RECOVERABLE, Done, Exact
from apps.metering.billing.rules.pricing import PricePeriod, Rate
from apps.metering.billing.selectors.charged_intervals import (
    ChargedIntervals,
    Held,
    PriceKey,
    WholeTenants,
    apart,
    holdings,
    periods_of,
    possibly_charged_in,
    with_refunds,
)
from apps.metering.ledger.selectors import effective_formula
from apps.metering.ledger.selectors.positions import pruned_until
from apps.metering.models import Allocation, Bucket
from apps.metering.specs import Account

_HOURS = {"seconds": "device_seconds", "refunded_seconds": "refunded_device_seconds"}
FIGURES = ("held_us", "judged_effective", *RECOVERABLE, *(f"judged_{cause}" for cause in INEFFICIENCY))
"""In the order of `Done`."""
Rows = QuerySet[Allocation] | None
"""The allocations that are summed; None: all that the tenants hold."""
FEW = 16
"""Workloads whose roll-ups are found by their own index, not by their tenant's."""


@dataclass
class _Work:
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


def charges(
    of: QuerySet[Allocation] | WholeTenants,
    begins: datetime,
    ends: datetime,
    *,
    now: datetime,
    by_workload: bool = False,
    learns: bool = True,
) -> dict[PriceKey, Exact]:
    """The exact sums of the part of these allocations inside [begins, ends), by what has one price.

    RULE: allocated - refunded = effective + waste + unknown. Periods that meet sum to the whole. What
    counts as effective is said by `formulas`, month by month; without `learns` what was done is left unknown.
    Nobody measures what cores do: what they cost is unknown. Keys are those of one device or core.
    """
    rows = of.rows if isinstance(of, WholeTenants) else of
    special = apart(rows, begins, ends)
    chosen = with_refunds(holdings(rows.filter(special), begins, ends, now=now, by_workload=by_workload))
    work = _Work(begins, ends, now, by_workload, {each.pk: each for each in chosen})
    plain = _plain_sums(work, rows.exclude(special))
    work.plain = {key for key, _ in plain}
    work.periods = periods_of(work.plain | {each.price_key for each in chosen})
    _charge_plain(work, plain)
    return _found(work, None if rows is not of else rows, learns=learns)


def charges_in(
    known: ChargedIntervals, begins: datetime, ends: datetime, *, now: datetime, rows: Rows = None
) -> dict[PriceKey, Exact]:
    """The same by workload, of intervals that were read already."""
    here = known.within(begins, ends)
    held = {each.pk: each for each in here.held}
    return _found(_Work(begins, ends, now, by_workload=True, held=held, periods=here.periods), rows)


def _found(work: _Work, rows: Rows, *, learns: bool = True) -> dict[PriceKey, Exact]:
    _charge(work)
    if learns and work.periods and work.begins < work.until:
        _learn_in_bulk(work, rows)
        _learn_one_by_one(work)
        _learn_by_holder(work)
    return _by_one(work.found)


def _by_one(found: Mapping[PriceKey, Exact]) -> dict[PriceKey, Exact]:
    """Pods with different numbers of cores, and parts of devices, together."""
    if all(key.units == 1 for key in found):
        return dict(found)
    whole: dict[PriceKey, Exact] = defaultdict(Exact)
    for key, sums in found.items():
        sums.device_seconds *= key.units
        sums.refunded_device_seconds *= key.units
        whole[key.of_one].add(sums)
    return dict(whole)


def _plain_sums(work: _Work, rows: QuerySet[Allocation]) -> list[tuple[PriceKey, tuple[Fraction, int]]]:
    """The share of the GPU and the microseconds that the plain allocations of each price were held."""
    ended = Coalesce("ended_at", Value(work.now, output_field=DateTimeField()))
    until = Least(ended, Value(work.ends, output_field=DateTimeField()))
    since = Greatest("started_at", Value(work.begins, output_field=DateTimeField()))
    held = rows.annotate(span_from=since, span_to=until).filter(
        started_at__lt=work.ends, span_from__lt=F("span_to")
    )
    keys = ["tenant_id", "offer_id", "capacity", "units", "share_numerator", "share_denominator"]
    keys += ["workload_id"] if work.by_workload else []
    span = Sum(ExpressionWrapper(F("span_to") - F("span_from"), DurationField()))
    return [
        (PriceKey(row[0], row[1], row[2], row[6] if work.by_workload else None, row[3]),
         (Fraction(row[4], row[5]), intervals.micros(row[-1])))
        for row in held.order_by().values_list(*keys).annotate(span=span)
    ]  # fmt: skip


def _charge_plain(work: _Work, plain: Iterable[tuple[PriceKey, tuple[Fraction, int]]]) -> None:
    for price_key, (share, span) in plain:
        found, seconds = work.found[price_key], Fraction(span, effective_split.MILLION)
        _add(found, "seconds", share * seconds if share != 1 else seconds)
        _add(found, "device_seconds", seconds)
        hourly = pricing.price_at(work.lately(price_key).started_at, work.periods[price_key])
        _add(found, "allocated", pricing.money(hourly, span))


def _charge(work: _Work) -> None:
    """Allocated, refunded, hours, and the rest of last units, which nobody used: idle."""
    spent: dict[tuple[PriceKey, str, Rate], int] = defaultdict(int)
    time: dict[tuple[PriceKey, str, tuple[int, int]], int] = defaultdict(int)
    for each in work.held.values():
        periods = work.periods[each.price_key]
        for name, interval in _intervals(each, periods):
            part = intervals.clipped(interval, work.begins, work.ends)
            if part is None:
                continue
            if name in _HOURS:
                time[each.price_key, name, each.share.as_integer_ratio()] += intervals.micros(
                    part.ended_at - part.started_at
                )
                continue
            for hourly, span in pricing.pieces(part, periods):
                spent[each.price_key, name, hourly] += span
    for (price_key, name, share), span in time.items():
        seconds = Fraction(span, effective_split.MILLION)
        _add(work.found[price_key], name, Fraction(*share) * seconds)
        _add(work.found[price_key], _HOURS[name], seconds)
    for (price_key, name, hourly), span in spent.items():
        _add(work.found[price_key], name, pricing.money(hourly, span))


def _intervals(each: Held, periods: Sequence[PricePeriod]) -> Iterator[tuple[str, Interval]]:
    whole = each.charged(periods)
    yield "allocated", whole
    yield "seconds", each.interval
    if each.back_from:
        yield "refunded", each.refunded(periods)
        yield "refunded_seconds", Interval(each.back_from, each.interval.ended_at)
    elif not each.is_cores:
        yield "idle", Interval(each.interval.ended_at, whole.ended_at)


def _add(found: Exact, name: str, value: Fraction) -> None:
    if name == "idle":
        found.learn({name: value})
    else:
        before = getattr(found, name)
        setattr(found, name, before + value if before else value)


def _learn_in_bulk(work: _Work, rows: Rows) -> None:
    """What was done by those that nothing was given back of: sums of the database, priced once."""
    plan = effective_split.cover(work.begins, work.until, _changes(work), pruned_until())
    chosen = Q(allocation__isnull=False)
    if rows is not None:
        nearby = rows.filter(possibly_charged_in(work.begins, work.ends) | Q(pk__in=work.corrected))
        chosen = Q(allocation__in=nearby.order_by().values("pk"))
    found = _judged(work, Bucket.objects.filter(chosen).exclude(allocation__in=work.lost))
    keys = ["tenant_id", "offer_id", "allocation__capacity", *(["workload_id"] if work.by_workload else [])]
    for stretch in plan.stretches:
        if stretch.spans:
            for price_key, _, done in _summed(
                work, found.filter(_in_spans(stretch.spans, _whose(work))), keys
            ):
                hourly = work.price_from(price_key, stretch.begins)
                work.found[price_key].learn(effective_split.parts_at(hourly, done))
    _learn_edges(work, found, plan.edges, keys)


def _learn_edges(
    work: _Work, rows: QuerySet[Bucket], edges: Iterable[effective_split.Span], keys: Sequence[str]
) -> None:
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
    summed = _summed(work, rows.filter(through), [*keys, "level", "starts_at", "held_us"])
    for price_key, (level, begins, held_us), done in summed:
        part = parts[level, begins]
        money, length = (
            pricing.cost(part, work.periods[price_key]),
            intervals.micros(part.ended_at - part.started_at),
        )
        work.found[price_key].learn(effective_split.parts(money, length, replace(done, held=held_us)))
    _learn_rows(work, rows.filter(others))


def _summed(
    work: _Work, rows: QuerySet[Bucket], keys: Sequence[str]
) -> Iterator[tuple[PriceKey, Sequence[Any], Done]]:
    """Sums by what has one price, and by the keys behind it; only of what has a price."""
    known = {
        (key.tenant, key.offer, key.capacity, *([key.workload] if work.by_workload else [])): key
        for key in work.periods
        if key.units == 1
    }
    own, every = len(next(iter(known), ())), len(keys)
    sums = effective_formula.sums({name: F(name) for name in FIGURES})
    for row in rows.order_by().values_list(*keys).annotate(**sums):
        if price_key := known.get(row[:own]):
            yield price_key, row[own:every], Done(*effective_formula.summed_in_order(row[every:]))


def _learn_one_by_one(work: _Work) -> None:
    """What was done by those that something was given back of: only what they paid for counts."""
    if not work.lost:
        return
    found = Bucket.objects.filter(_around_refunds(work, _whose(work)), allocation__in=work.lost)
    _learn_rows(work, _judged(work, found))


def _learn_by_holder(work: _Work) -> None:
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
    rows = _judged(work, made).filter(of_tenants).values_list(*BY_HOLDER, *FIGURES)
    _learn_alike(work, ((*row[:2], *each, row[5:]) for row in rows for each in whose.get(row[2:5], ())))


def _around_refunds(work: _Work, whose: Q) -> Q:
    """The roll-ups of the window, the finest around changes of prices and where what is refunded begins."""
    ends = [each.back_from for each in work.held.values() if each.back_from]
    plan = effective_split.cover(work.begins, work.until, [*_changes(work), *ends], pruned_until())
    spans = [span for stretch in plan.stretches for span in stretch.spans]
    return _in_spans([*spans, *plan.edges], whose)


def _learn_rows(work: _Work, found: QuerySet[Bucket]) -> None:
    rows = found.values_list("level", "starts_at", *WHOSE, *FIGURES)
    last = 2 + len(WHOSE)
    _learn_alike(work, ((*row[:2], *_paid(work, row[2:last]), row[last:]) for row in rows))


def _learn_alike(work: _Work, rows: Iterable[Any]) -> None:
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


WHOSE = ("allocation_id", "tenant_id", "offer_id", "workload_id", "allocation__capacity",
         "allocation__started_at", "allocation__ended_at")  # fmt: skip
BY_HOLDER = ("level", "starts_at", "cluster_id", "gpu", "holder")


def _paid(work: _Work, whose: Sequence[Any]) -> tuple[PriceKey, Interval]:
    """The price key of a roll-up's allocation, and what is paid for of it."""
    pk, tenant, offer, workload, capacity, started, ended = whose
    each = work.held.get(pk)
    if each is None:
        price_key = PriceKey(tenant, offer, capacity, workload if work.by_workload else None)
        return price_key, Interval(started, max(started, ended or work.now))
    return each.price_key, each.used


def _whose(work: _Work) -> Q:
    """Of few known workloads, or of known tenants: many cost more to tell the database."""
    workloads = {price_key.workload for price_key in work.periods}
    if work.by_workload and len(workloads) <= FEW:
        return Q(workload__in=workloads)
    return Q(tenant__in={price_key.tenant for price_key in work.periods})


def _judged(work: _Work, rows: QuerySet[Bucket]) -> QuerySet[Bucket]:
    judged = effective_formula.judged(work.begins, work.until)
    return rows.annotate(**{f"judged_{name}": what for name, what in judged.items()})


def _in_spans(spans: Iterable[effective_split.Span], whose: Q) -> Q:
    """RULE: whose is said in every branch: an index is then looked into for each, and not through it once."""
    chosen = Q(pk__in=[])
    for span in spans:
        chosen |= Q(level=span.level, starts_at__gte=span.begins, starts_at__lt=span.ends) & whose
    return chosen


def _changes(work: _Work) -> set[datetime]:
    """When prices changed; of what is looked at one by one, while it was held: the same price is not cut."""
    return {
        period.valid_from
        for key, periods in work.periods.items()
        for period in periods
        if (span := work.spans[key]).started_at < period.valid_from < span.ended_at
    }
