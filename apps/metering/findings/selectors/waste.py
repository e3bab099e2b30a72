"""What idle time and wrong sizes cost: seconds into exact money. Of the selectors' floor: reads only."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction

from apps.metering.allocations.rules.intervals import Interval
from apps.metering.billing.rules import pricing
from apps.metering.billing.selectors import costs
from apps.metering.findings.selectors.verdicts import DeviceVerdict, Judged
from apps.metering.models import Allocation
from apps.quotas.catalogue.selectors.price_book import prices_at
from apps.workloads.models import Workload

Span = tuple[float, float]
WEEK = Decimal(7 * 24)


@dataclass(frozen=True)
class Waste:
    """Money so far, per week if it goes on, and what all of it cost in the same time."""

    wasted: Decimal = Decimal(0)
    weekly: Decimal = Decimal(0)
    allocated: Decimal = Decimal(0)


def hourly(row: Workload | Allocation, devices: int, now: datetime) -> Decimal:
    """What so many devices of its offer cost per hour; 0 without a price."""
    if row.offer is None:
        return Decimal(0)
    return prices_at([row.offer], now, row.tenant).get(row.offer.pk, Decimal(0)) * devices


def idle_waste(row: Workload | Allocation, judged: Judged, spans: Sequence[Span], *, now: datetime) -> Waste:
    """RULE: each idle second costs what the device cost at that moment, for every device; a week of it is
    seven days at the present price, for what is held is paid for at night as well.
    """
    held = [each.held for each in judged.devices]
    money = sum((_cost(each, _intervals(each, spans)) for each in held), Fraction(0))
    whole = hourly(row, len(held), now) if isinstance(row, Workload) else _hourly_of(held, now)
    return Waste(pricing.amount(money), whole * WEEK, allocated(held, spans, now))


def _hourly_of(held: Iterable[Allocation], now: datetime) -> Decimal:
    """Devices of one claim made with kubectl may be of several offers."""
    return sum((hourly(each, 1, now) for each in held), Decimal(0))


def some_idle(row: Workload, judged: Judged, *, now: datetime) -> Waste:
    """As `idle_waste` where only some of the devices idle: theirs alone."""
    found = [each for each in judged.devices if each.verdict.idle]
    money = sum((_cost(each.held, _intervals(each.held, each.verdict.idle)) for each in found), Fraction(0))
    weekly = hourly(row, judged.idle_devices, now) * WEEK
    return Waste(pricing.amount(money), weekly, _whole([each.held for each in judged.devices], judged, now))


def size_waste(row: Workload, judged: Judged, smaller_hourly: Decimal | None, *, now: datetime) -> Waste:
    """RULE: the part of the cost that the smaller offer would not have taken; where there is none to be had,
    the part of the device that the detector says was too much.
    """
    held = [each.held for each in judged.devices]
    total, present = _whole(held, judged, now), hourly(row, len(held), now)
    if smaller_hourly is not None and present:
        part = max(Decimal(0), 1 - smaller_hourly / present)
    else:
        part = _part(judged.devices, now)
    return Waste((total * part).quantize(pricing.STEP), present * part * WEEK, total)


def _part(devices: Sequence[DeviceVerdict], now: datetime) -> Decimal:
    wasted = sum(each.verdict.wasted_device_seconds for each in devices)
    share = sum(
        (now - each.held.started_at).total_seconds() * each.held.share_numerator / each.held.share_denominator
        for each in devices
    )
    return _rounded(wasted / share) if share else Decimal(0)


def allocated(held: Iterable[Allocation], spans: Sequence[Span], now: datetime) -> Decimal:
    """What these devices cost since the first of the spans."""
    if not spans:
        return Decimal(0)
    since = [(spans[0][0], now.timestamp())]
    return pricing.amount(sum((_cost(each, _intervals(each, since)) for each in held), Fraction(0)))


def idle_part(judged: Judged, now: datetime) -> Decimal:
    """Of the time judged, the part in which none of its devices did anything, 0 to 1."""
    held = min(each.held.started_at for each in judged.devices)
    begins = max(held, judged.begins or held).timestamp()
    idle = sum(b - max(a, begins) for a, b in judged.idle if b > begins)
    return _rounded(idle / (now.timestamp() - begins))


def waiting_part(judged: Judged) -> Decimal:
    """Of the time seen, the part that was no work (the effective price's), over all its devices, 0 to 1; 0
    where nobody knows.
    """
    known = [each.figures.work for each in judged.devices if each.figures.work is not None]
    return _rounded(1.0 - sum(known) / len(known)) if known else Decimal(0)


def waiting(row: Workload, judged: Judged, *, now: datetime) -> Waste:
    """RULE: what works and waits in turns wasted the part of each device that was no work, of the time that
    its finding rests on and that was seen; a week of it at the present price.
    """
    held, money = [each.held for each in judged.devices], Fraction(0)
    for each in judged.devices:
        lost = 0.0 if each.figures.work is None else each.coverage * (1.0 - each.figures.work)
        money += _cost(each.held, _intervals(each.held, [each.verdict.evidence])) * Fraction(_rounded(lost))
    weekly = hourly(row, len(held), now) * WEEK * waiting_part(judged)
    return Waste(pricing.amount(money), weekly, _whole(held, judged, now))


def _rounded(part: float) -> Decimal:
    return Decimal(str(round(min(1.0, max(0.0, part)), 6)))


def _whole(held: Iterable[Allocation], judged: Judged, now: datetime) -> Decimal:
    begins = judged.begins or min(each.held.started_at for each in judged.devices)
    return allocated(held, [(begins.timestamp(), now.timestamp())], now)


def _intervals(held: Allocation, spans: Iterable[Span]) -> list[Interval]:
    """Half-open, to the microsecond, inside the allocation."""
    found = []
    for begins, ends in spans:
        since = max(held.started_at, datetime.fromtimestamp(begins, UTC))
        until = datetime.fromtimestamp(ends, UTC)
        if since < until:
            found.append(Interval(since, until))
    return found


def _cost(held: Allocation, parts: Iterable[Interval]) -> Fraction:
    periods = costs.prices_of(held)
    return sum((pricing.cost(part, periods) for part in parts), Fraction(0))
