"""What allocations cost in a period and what was done for it, exactly: facts and prices joined with roll-ups.

A part of the selectors' floor: rows in, rational numbers out; nothing is rounded here.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from fractions import Fraction
from uuid import UUID

from django.db.models import DateTimeField, DurationField, ExpressionWrapper, F, QuerySet, Sum, Value
from django.db.models.functions import Coalesce, Greatest, Least

from apps.metering.allocations.rules import intervals
from apps.metering.allocations.rules.intervals import Interval
from apps.metering.billing.rules import effective_split, pricing
from apps.metering.billing.rules.effective_split import Exact
from apps.metering.billing.rules.pricing import PricePeriod, Rate
from apps.metering.billing.selectors import work_done
from apps.metering.billing.selectors.charged_intervals import (
    ChargedIntervals,
    Held,
    PriceKey,
    WholeTenants,
    apart,
    charged_intervals,
    holdings,
    periods_of,
    with_refunds,
)
from apps.metering.billing.selectors.work_done import Reading, Rows
from apps.metering.models import Allocation

_HOURS = {"seconds": "device_seconds", "refunded_seconds": "refunded_device_seconds"}


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
    work = Reading(begins, ends, now, by_workload, {each.pk: each for each in chosen})
    plain = _plain_sums(work, rows.exclude(special))
    work.plain = {key for key, _ in plain}
    work.periods = periods_of(work.plain | {each.price_key for each in chosen})
    _charge_plain(work, plain)
    return _found(work, None if rows is not of else rows, learns=learns)


def charges_in(
    known: ChargedIntervals, begins: datetime, ends: datetime, *, now: datetime, rows: Rows = None
) -> dict[PriceKey, Exact]:
    """The same by workload, of intervals that were read already."""
    return _found(_reading(known, begins, ends, now), rows)


def charges_each(
    windows: Mapping[UUID, tuple[datetime, datetime]], *, now: datetime
) -> dict[UUID, list[Exact]]:
    """The same of workloads, each in its own [begins, ends); empty where nothing was held. Few statements,
    however many there are.
    """
    rows = Allocation.objects.filter(workload__in=windows)
    begins, ends = min(at for at, _ in windows.values()), max(at for _, at in windows.values())
    known, of = charged_intervals(rows, begins, ends, now=now), defaultdict[UUID | None, list[Held]](list)
    for each in known.held:
        of[each.workload].append(each)
    readings = {
        pk: _reading(ChargedIntervals(of[pk], known.periods), *window, now) for pk, window in windows.items()
    }
    for reading in readings.values():
        _charge(reading)
    work_done.learn_together(readings)
    return {pk: list(_by_one(reading.found).values()) for pk, reading in readings.items()}


def _reading(known: ChargedIntervals, begins: datetime, ends: datetime, now: datetime) -> Reading:
    """By workload."""
    here = known.within(begins, ends)
    held = {each.pk: each for each in here.held}
    return Reading(begins, ends, now, by_workload=True, held=held, periods=here.periods)


def _found(work: Reading, rows: Rows, *, learns: bool = True) -> dict[PriceKey, Exact]:
    _charge(work)
    if learns:
        work_done.learn(work, rows)
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


def _plain_sums(work: Reading, rows: QuerySet[Allocation]) -> list[tuple[PriceKey, tuple[Fraction, int]]]:
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


def _charge_plain(work: Reading, plain: Iterable[tuple[PriceKey, tuple[Fraction, int]]]) -> None:
    for price_key, (share, span) in plain:
        found, seconds = work.found[price_key], Fraction(span, effective_split.MILLION)
        _add(found, "seconds", share * seconds if share != 1 else seconds)
        _add(found, "device_seconds", seconds)
        hourly = pricing.price_at(work.lately(price_key).started_at, work.periods[price_key])
        _add(found, "allocated", pricing.money(hourly, span))


def _charge(work: Reading) -> None:
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
