"""What was held and what it cost, for those who may see it. Reads only; the arithmetic is in `costing`."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from uuid import UUID

from django.db.models import Q, QuerySet

from apps.accounts.specs import Actor
from apps.metering import costing
from apps.metering.costing import Interval, PricePeriod
from apps.metering.models import Allocation
from apps.quotas.models import Price
from apps.tenants.selectors import tenants_for
from apps.words import Word
from apps.workloads.models import WorkloadEvent

PREEMPTED = "Preempted"
"""Kueue's reason of the condition Evicted, as a workload's story keeps it."""
SEEN_WITHIN = timedelta(minutes=1)
Prices = dict[UUID, list[PricePeriod]]


class Group(Word):
    """By what costs are summed."""

    TENANT = "tenant", "Tenant"
    DEPARTMENT = "department", "Department"
    WORKLOAD = "workload", "Workload"
    OFFER = "offer", "Offer"


@dataclass(frozen=True)
class CostLine:
    """One group's sum. Without telemetry all of it is unknown: neither effective nor waste.

    `refunded` is the part of `allocated` that preemption gives back, `refunded_hours` its GPU-hours.
    """

    key: str
    gpu_hours: Decimal
    allocated: Decimal
    refunded: Decimal = Decimal(0)
    refunded_hours: Decimal = Decimal(0)


def allocations_for(actor: Actor) -> QuerySet[Allocation]:
    """The allocations of the tenants an actor sees, those of deleted workloads included."""
    found = Allocation.objects.filter(workload__tenant__in=tenants_for(actor))
    return found.select_related("workload__tenant__department", "offer")


def between(rows: QuerySet[Allocation], begins: datetime, ends: datetime) -> QuerySet[Allocation]:
    """Those that overlap [begins, ends)."""
    return rows.filter(started_at__lt=ends).filter(Q(ended_at=None) | Q(ended_at__gt=begins))


def interval_of(row: Allocation, now: datetime) -> Interval:
    """The interval; an open one up to now."""
    return Interval(row.started_at, max(row.started_at, row.ended_at or now))


def prices_of(offers: Iterable[UUID]) -> Prices:
    """The price history of each offer."""
    found: Prices = {}
    rows = Price.objects.filter(offer__in=set(offers)).order_by("valid_from")
    for offer, valid_from, hourly in rows.values_list("offer", "valid_from", "hourly"):
        found.setdefault(offer, []).append(PricePeriod(valid_from, hourly))
    return found


def gpu_seconds(row: Allocation, interval: Interval) -> Fraction:
    """Time x the part of the physical GPU."""
    share = Fraction(row.share_numerator, row.share_denominator)
    return costing.seconds_of(interval.ended_at - interval.started_at) * share


def costs(
    rows: QuerySet[Allocation], group: Group, *, begins: datetime, ends: datetime, now: datetime
) -> list[CostLine]:
    """The costs inside [begins, ends) by group, dearest first. RULE: sums are exact, each is rounded once."""
    taken = list(between(rows, begins, ends))
    prices, lost = prices_of(row.offer_id for row in taken), preempted(taken)
    sums: dict[str, _Sums] = {}
    for row in taken:
        held = interval_of(row, now)
        total = sums.setdefault(_KEYS[group](row), _Sums())
        total.allocated.add(row, costing.clipped(held, begins, ends), prices)
        if row.pk in lost:
            total.refunded.add(row, costing.clipped(costing.refunded(held), begins, ends), prices)
    lines = [total.line(key) for key, total in sums.items() if total.allocated.seconds]
    return sorted(lines, key=lambda line: (-line.allocated, line.key))


def preempted(rows: Sequence[Allocation]) -> frozenset[UUID]:
    """Those of these allocations that ended because Kueue took the devices back.

    RULE: the workload's story has a preemption between the interval's start and a minute after its end; a
    preemption ends whatever the workload holds.
    """
    ended = [row for row in rows if row.ended_at]
    lines = WorkloadEvent.objects.filter(
        workload__in={row.workload_id for row in ended}, source="kueue", reason=PREEMPTED
    )
    moments: dict[UUID, list[datetime]] = {}
    for workload, at in lines.values_list("workload", "at"):
        moments.setdefault(workload, []).append(at)
    return frozenset(
        row.pk
        for row in ended
        for at in moments.get(row.workload_id, ())
        if row.ended_at and row.started_at <= at <= row.ended_at + SEEN_WITHIN
    )


@dataclass
class _Sum:
    money: Fraction = Fraction(0)
    seconds: Fraction = Fraction(0)

    def add(self, row: Allocation, part: Interval | None, prices: Prices) -> None:
        if part is not None:
            self.money += costing.cost(part, prices.get(row.offer_id, []))
            self.seconds += gpu_seconds(row, part)


@dataclass
class _Sums:
    allocated: _Sum = field(default_factory=_Sum)
    refunded: _Sum = field(default_factory=_Sum)

    def line(self, key: str) -> CostLine:
        return CostLine(
            key=key,
            gpu_hours=costing.amount(self.allocated.seconds / costing.HOUR),
            allocated=costing.amount(self.allocated.money),
            refunded=costing.amount(self.refunded.money),
            refunded_hours=costing.amount(self.refunded.seconds / costing.HOUR),
        )


_KEYS: dict[Group, Callable[[Allocation], str]] = {
    Group.TENANT: lambda row: row.workload.tenant.slug,
    Group.DEPARTMENT: lambda row: row.workload.tenant.department.slug,
    Group.WORKLOAD: lambda row: str(row.workload_id),
    Group.OFFER: lambda row: row.offer.slug,
}
