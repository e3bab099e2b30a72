"""Who held what at which price, and what is given back: facts with their newest corrections, and the book.

A part of the selectors' floor.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from functools import cache
from typing import Any
from uuid import UUID

from django.db.models import Q, QuerySet

from apps.metering.allocations.rules import intervals
from apps.metering.allocations.rules.intervals import Interval
from apps.metering.allocations.rules.preemption import PREEMPTED, SEEN_WITHIN
from apps.metering.billing.rules import pricing
from apps.metering.billing.rules.pricing import PricePeriod
from apps.metering.ledger.rules.segments import ChangeKind, holder_of
from apps.metering.models import Allocation, Correction, HardwareFact
from apps.quotas.catalogue.rules import prices as price_book
from apps.quotas.catalogue.rules.prices import Listed
from apps.quotas.catalogue.selectors.price_book import book_of, moving_offers
from apps.workloads.models import WorkloadEvent

FAULT_WITHIN = timedelta(minutes=15)
FAULTS = (ChangeKind.UNHEALTHY, ChangeKind.GONE)
NO_OFFER = UUID(int=0)
"""The offer of what no offer is like: it has no price."""


@dataclass(frozen=True)
class PriceKey:
    """What has one price: a tenant's devices of one offer on one kind of capacity, or one workload's."""

    tenant: UUID
    offer: UUID
    capacity: str
    workload: UUID | None = None


@dataclass(frozen=True, slots=True)
class Held:
    """One allocation with the interval that its newest correction says; open ones up to now. What was made
    with kubectl has no workload; `holder` is the roll-ups' name of it, whose use they tell.
    """

    pk: UUID
    workload: UUID | None
    price_key: PriceKey
    interval: Interval
    share: Fraction
    is_over: bool
    claim: str = ""
    gpu: tuple[UUID | None, str] = (None, "")
    holder: str = ""
    is_corrected: bool = False

    def charged(self, periods: Sequence[PricePeriod]) -> Interval:
        """What is charged for, the rest of its last unit included."""
        return pricing.billed(self.interval, periods) if self.is_over else self.interval

    def refunded(self, periods: Sequence[PricePeriod]) -> Interval:
        """What is refunded of one that was lost, the rest of its last unit included."""
        return Interval(pricing.refunded(self.interval).started_at, self.charged(periods).ended_at)

    def paid(self, periods: Sequence[PricePeriod], *, is_lost: bool) -> Interval:
        """What is to be paid of it: without what is given back of one that was lost."""
        charged = self.charged(periods)
        if not is_lost:
            return charged
        return Interval(charged.started_at, pricing.refunded(self.interval).started_at)


@dataclass(frozen=True)
class ChargedIntervals:
    """Allocations with what each costs and which of them are refunded: read once, and handed to all that sum
    them. It may speak of more than a part that is summed.
    """

    held: Sequence[Held]
    periods: Mapping[PriceKey, list[PricePeriod]]
    refunded: frozenset[UUID]

    def within(self, begins: datetime, ends: datetime) -> "ChargedIntervals":
        """Those that may be charged for in [begins, ends)."""
        held = [
            each
            for each in self.held
            if each.interval.started_at < ends
            and not (each.is_over and each.interval.ended_at <= begins - pricing.LONGEST_UNIT)
        ]
        keys = {each.price_key for each in held}
        return ChargedIntervals(held, {key: self.periods[key] for key in keys}, self.refunded)


def charged_intervals(
    rows: QuerySet[Allocation], begins: datetime, ends: datetime, *, now: datetime
) -> ChargedIntervals:
    """The allocations that are charged for in [begins, ends), each with its workload's own price key."""
    held = holdings(rows, begins, ends, now=now, by_workload=True)
    return ChargedIntervals(held, periods_of(each.price_key for each in held), refunded_ids(held))


def possibly_charged_in(begins: datetime, ends: datetime) -> Q:
    """Those that may have been charged for in [begins, ends), the rest of a last unit included."""
    return Q(started_at__lt=ends) & (Q(ended_at=None) | Q(ended_at__gt=begins - pricing.LONGEST_UNIT))


def holdings(
    rows: QuerySet[Allocation], begins: datetime, ends: datetime, *, now: datetime, by_workload: bool = False
) -> list[Held]:
    """The allocations that are charged for in [begins, ends)."""
    # Thousands of allocations are of few prices and shares: each is made once.
    key_of, share_of = cache(PriceKey), cache(Fraction)
    found = []
    for row in _newest(rows.filter(possibly_charged_in(begins, ends) | Q(corrections__isnull=False))):
        pk, workload, tenant, offer, capacity, above, below, started, ended, *where, fix, since, until = row
        claim, device, cluster, gpu, uuid = where
        if fix:
            started, ended = since, until or ended
        key = key_of(tenant, offer or NO_OFFER, capacity, workload if by_workload else None)
        interval = Interval(started, max(started, ended or now))
        holder = "" if workload else holder_of(claim, device)
        found.append(
            Held(
                pk, workload, key, interval, share_of(above, below), ended is not None, claim,
                (cluster, gpu or uuid), holder, is_corrected=bool(fix),
            )
        )  # fmt: skip
    return found


_COLUMNS = ("pk", "workload_id", "tenant_id", "offer_id", "capacity", "share_numerator", "share_denominator",
            "started_at", "ended_at", "claim_uid", "device", "cluster_id", "gpu", "device_uuid",
            "corrections__pk", "corrections__started_at", "corrections__ended_at")  # fmt: skip
_CORRECTION = _COLUMNS.index("corrections__pk")


def _newest(rows: QuerySet[Allocation]) -> Iterable[tuple[Any, ...]]:
    """Each once, with its newest correction where it has any."""
    found: dict[UUID, tuple[Any, ...]] = {}
    for row in rows.values_list(*_COLUMNS):
        known = found.get(row[0])
        if known is None or known[_CORRECTION] < row[_CORRECTION]:
            found[row[0]] = row
    return found.values()


def apart(rows: QuerySet[Allocation], begins: datetime, ends: datetime) -> Q:
    """Those of [begins, ends) that the database cannot sum: made with kubectl, with a correction, with
    something given back, or whose offer's price changes in the time or is charged in units. Some more may be
    among them.
    """
    nearby = rows.filter(possibly_charged_in(begins, ends)).order_by()
    events = WorkloadEvent.objects.filter(
        source="kueue", reason=PREEMPTED, workload__in=nearby.values("workload")
    )
    earliest = begins - pricing.LONGEST_UNIT - FAULT_WITHIN
    broken = HardwareFact.objects.filter(kind__in=FAULTS, at__gt=earliest, at__lt=ends)
    gpus = list(broken.values_list("gpu", flat=True).distinct())
    found = Q(workload=None) | Q(pk__in=Correction.objects.values("allocation"))
    for some in (
        {"offer__in": moving_offers(begins, ends)},
        {"gpu__in": gpus},
        {"gpu": "", "device_uuid__in": gpus},
        {"workload__in": list(events.values_list("workload", flat=True).distinct())},
    ):
        found |= Q(**some) if all(some[name] for name in some if name.endswith("__in")) else Q()
    return found


def periods_of(keys: Iterable[PriceKey]) -> dict[PriceKey, list[PricePeriod]]:
    """What a device of each key costs, from when on."""
    wanted = set(keys)
    book = book_of({key.offer for key in wanted})
    return {key: periods_in(book.get(key.offer, []), key.tenant, key.capacity) for key in wanted}


def listed_periods_of(keys: Iterable[PriceKey]) -> dict[PriceKey, list[PricePeriod]]:
    """The same without what single tenants were given."""
    wanted = set(keys)
    book = book_of({key.offer for key in wanted})
    return {key: periods_in(book.get(key.offer, []), None, key.capacity) for key in wanted}


def periods_in(book: Iterable[Listed], tenant: UUID | None, capacity: str) -> list[PricePeriod]:
    """The prices of a book for a tenant (None: everybody's) on a kind of capacity, one after the other."""
    steps = price_book.timeline(book, tenant=tenant, capacity=capacity)
    return [
        PricePeriod(step.at, step.price.hourly, step.price.least_seconds)
        if step.price
        else PricePeriod(step.at, Decimal(0))
        for step in steps
    ]


def refunded_ids(held: Iterable[Held]) -> frozenset[UUID]:
    """Those of these allocations whose last hour is refunded: preempted, or ended by a fault of ours."""
    ended = [each for each in held if each.is_over]
    return preempted(ended) | faulted(ended) if ended else frozenset()


def preempted(ended: Iterable[Held]) -> frozenset[UUID]:
    """Those that ended because Kueue took the devices back.

    RULE: the workload's story has a preemption between the interval's start and a minute after its end; a
    preemption ends whatever the workload holds.
    """
    chosen = list(ended)
    lines = WorkloadEvent.objects.filter(
        workload__in={each.workload for each in chosen if each.workload}, source="kueue", reason=PREEMPTED
    )
    moments: dict[UUID | None, list[datetime]] = defaultdict(list)
    for workload, at in lines.values_list("workload", "at"):
        moments[workload].append(at)
    return frozenset(
        each.pk
        for each in chosen
        for at in moments.get(each.workload, ())
        if each.interval.started_at <= at <= each.interval.ended_at + SEEN_WITHIN
    )


def faulted(ended: Iterable[Held]) -> frozenset[UUID]:
    """Those that ended because of the platform.

    RULE: the GPU became unhealthy, or was gone from the cluster, while it was held or within a minute after,
    and the allocation ended at most 15 minutes after that.
    """
    chosen = [each for each in ended if each.gpu[1]]
    facts = HardwareFact.objects.filter(kind__in=FAULTS, gpu__in={each.gpu[1] for each in chosen})
    moments: dict[tuple[UUID | None, str], list[datetime]] = defaultdict(list)
    for cluster, gpu, at in facts.values_list("cluster_id", "gpu", "at"):
        moments[cluster, gpu].append(at)
    return frozenset(
        each.pk
        for each in chosen
        for at in moments.get(each.gpu, ())
        if each.interval.started_at < at <= each.interval.ended_at + SEEN_WITHIN
        and each.interval.ended_at - at <= FAULT_WITHIN
    )


def listed(work: Iterable[Held], begins: datetime, ends: datetime) -> dict[PriceKey, Fraction]:
    """What the same would have cost at everybody's prices, refunds not taken off."""
    chosen = list(work)
    periods = listed_periods_of(each.price_key for each in chosen)
    found: dict[PriceKey, Fraction] = defaultdict(Fraction)
    for each in chosen:
        if part := intervals.clipped(each.charged(periods[each.price_key]), begins, ends):
            found[each.price_key] += pricing.cost(part, periods[each.price_key])
    return found
