"""Who held what at which price, and what is given back: facts with their newest corrections, and the book.

A part of the selectors' floor.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from functools import cache
from typing import Any
from uuid import UUID

from django.db.models import DateTimeField, Exists, OuterRef, Q, QuerySet

from apps.metering.allocations.rules import intervals
from apps.metering.allocations.rules.intervals import Interval
from apps.metering.allocations.rules.preemption import PREEMPTED, SEEN_WITHIN
from apps.metering.billing.rules import pricing
from apps.metering.billing.rules.pricing import PricePeriod, Rate
from apps.metering.ledger.rules.segments import ChangeKind, holder_of
from apps.metering.models import Allocation, Correction, HardwareFact
from apps.prepared import Prepared
from apps.quotas.catalogue.rules import prices as price_book
from apps.quotas.catalogue.rules.prices import Listed
from apps.quotas.catalogue.selectors.price_book import book_of, moving_offers
from apps.tenants.models import Tenant
from apps.workloads.models import WorkloadEvent

FAULT_WITHIN = timedelta(minutes=15)
CURES = {ChangeKind.UNHEALTHY: ChangeKind.HEALTHY, ChangeKind.GONE: ChangeKind.PRESENT}
"""The faults of ours, and what ends each."""
GpuKey = tuple[UUID | None, str]
"""A cluster, and the GPU's name in it."""
NO_OFFER = UUID(int=0)
"""The offer of what no offer is like: it has no price."""


@dataclass(frozen=True)
class PriceKey:
    """What has one price: a tenant's devices of one offer on one kind of capacity, or one workload's; of an
    offer without a GPU so many cores (`units`) at once, and of a device in shares such a part of one.
    """

    tenant: UUID
    offer: UUID
    capacity: str
    workload: UUID | None = None
    units: int | Fraction = 1
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Hashed once: a bill looks each of hundreds up dozens of times, and the hash of a UUID is dear."""
        whole = (self.tenant, self.offer, self.capacity, self.workload, self.units)
        object.__setattr__(self, "_hash", hash(whole))

    def __hash__(self) -> int:
        """Of all that says which it is."""
        return self._hash

    @property
    def of_one(self) -> "PriceKey":
        """That of a single device or core."""
        return self if self.units == 1 else replace(self, units=1)


@dataclass(frozen=True, slots=True)
class Held:
    """One allocation with the interval that its newest correction says; open ones up to now. What was made
    with kubectl has no workload; `holder` is the roll-ups' name of it, whose use they tell. From `back_from`
    on it is given back; None: nothing is.
    """

    pk: UUID
    workload: UUID | None
    price_key: PriceKey
    interval: Interval
    share: Fraction
    is_over: bool
    claim: str = ""
    gpu: GpuKey = (None, "")
    holder: str = ""
    is_corrected: bool = False
    back_from: datetime | None = None

    def charged(self, periods: Sequence[PricePeriod]) -> Interval:
        """What is charged for, the rest of its last unit included."""
        return pricing.billed(self.interval, periods) if self.is_over else self.interval

    def refunded(self, periods: Sequence[PricePeriod]) -> Interval:
        """What is given back of it, the rest of its last unit included; of no length where nothing is."""
        charged = self.charged(periods)
        return Interval(self.back_from or charged.ended_at, charged.ended_at)

    def paid(self, periods: Sequence[PricePeriod]) -> Interval:
        """What is to be paid of it: without what is given back."""
        charged = self.charged(periods)
        return Interval(charged.started_at, self.back_from or charged.ended_at)

    @property
    def is_cores(self) -> bool:
        """Whether it is of no GPU."""
        return not self.share

    @property
    def used(self) -> Interval:
        """The time that it was held for what is to be paid."""
        return Interval(self.interval.started_at, self.back_from or self.interval.ended_at)


@dataclass(frozen=True)
class WholeTenants:
    """All that some tenants hold and ever held: none of their roll-ups is asked of which allocation it is."""

    tenants: Collection[UUID] | QuerySet[Tenant]

    @property
    def rows(self) -> QuerySet[Allocation]:
        """Their allocations."""
        return Allocation.objects.filter(tenant__in=self.tenants)


@dataclass(frozen=True)
class ChargedIntervals:
    """Allocations with what each costs and what of it is given back: read once, and handed to all that sum
    them. It may speak of more than a part that is summed.
    """

    held: Sequence[Held]
    periods: Mapping[PriceKey, list[PricePeriod]]

    def within(self, begins: datetime, ends: datetime) -> "ChargedIntervals":
        """Those that may be charged for in [begins, ends)."""
        held = [
            each
            for each in self.held
            if each.interval.started_at < ends
            and not (each.is_over and each.interval.ended_at <= begins - pricing.LONGEST_UNIT)
        ]
        keys = {each.price_key for each in held}
        return ChargedIntervals(held, {key: self.periods[key] for key in keys})


def charged_intervals(
    rows: QuerySet[Allocation], begins: datetime, ends: datetime, *, now: datetime
) -> ChargedIntervals:
    """The allocations that are charged for in [begins, ends), each with its workload's own price key."""
    held = with_refunds(holdings(rows, begins, ends, now=now, by_workload=True))
    return ChargedIntervals(held, periods_of(each.price_key for each in held))


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
        pk, workload, tenant, offer, capacity, units, parted, above, below, started, ended, *where = row[:-3]
        fix, since, until = row[-3:]
        claim, device, cluster, gpu, uuid = where
        if fix:
            started, ended = since, until or ended
        units = share_of(above, below) if parted else units
        key = key_of(tenant, offer or NO_OFFER, capacity, workload if by_workload else None, units)
        interval = Interval(started, max(started, ended or now))
        holder = "" if workload else holder_of(claim, device)
        found.append(
            Held(
                pk, workload, key, interval, share_of(above, below), ended is not None, claim,
                (cluster, gpu or uuid), holder, is_corrected=bool(fix),
            )
        )  # fmt: skip
    return found


_COLUMNS = ("pk", "workload_id", "tenant_id", "offer_id", "capacity", "units", "in_shares",
            "share_numerator", "share_denominator", "started_at", "ended_at", "claim_uid", "device",
            "cluster_id", "gpu", "device_uuid",
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
    """Those of [begins, ends) that the database cannot sum: made with kubectl, a part of a device,
    with a correction, with something given back, charged in units, or begun before the last change of their
    offer's price in the time. Some more may be among them.
    """
    nearby = rows.filter(possibly_charged_in(begins, ends)).order_by()
    events = WorkloadEvent.objects.filter(
        source="kueue", reason=PREEMPTED, workload__in=nearby.values("workload")
    )
    earliest = begins - pricing.LONGEST_UNIT - FAULT_WITHIN
    # A fault gives back up to an hour before it, and with it of the time before `ends`.
    after = pricing.MOST_REFUNDED + SEEN_WITHIN
    latest = min(ends, datetime.max.replace(tzinfo=UTC) - after) + after
    gpus = _BROKEN(earliest, latest)
    found = Q(workload=None) | Q(in_shares=True) | Q(pk__in=Correction.objects.values("allocation"))
    for last, offers in moving_offers(begins, ends).items():
        found |= Q(offer__in=offers, started_at__lt=last)
    for some in (
        {"gpu__in": gpus},
        {"gpu": "", "device_uuid__in": gpus},
        {"workload__in": list(events.values_list("workload", flat=True).distinct())},
    ):
        found |= Q(**some) if all(some[name] for name in some if name.endswith("__in")) else Q()
    return found


def _broken(earliest: Any, latest: Any) -> QuerySet[HardwareFact, str]:
    """The GPUs of which a fault of ours began, or was not over, in this time."""
    healed = HardwareFact.objects.filter(
        cluster=OuterRef("cluster"), gpu=OuterRef("gpu"), kind=ChangeKind.HEALTHY,
        at__gte=OuterRef("at"), at__lte=earliest,
    )  # fmt: skip
    still = Q(kind=ChangeKind.UNHEALTHY) & ~Exists(healed)
    broken = HardwareFact.objects.filter(Q(kind__in=CURES, at__gt=earliest) | still, at__lt=latest)
    return broken.values_list("gpu", flat=True).distinct()


_BROKEN = Prepared(_broken, DateTimeField(), DateTimeField())


def periods_of(keys: Iterable[PriceKey]) -> dict[PriceKey, list[PricePeriod]]:
    """What a device of each key costs, or its cores together, from when on."""
    return _periods(keys, lambda key: key.tenant)


def listed_periods_of(keys: Iterable[PriceKey]) -> dict[PriceKey, list[PricePeriod]]:
    """The same without what single tenants were given."""
    return _periods(keys, lambda _: None)


def _periods(
    keys: Iterable[PriceKey], whose: Callable[[PriceKey], UUID | None]
) -> dict[PriceKey, list[PricePeriod]]:
    wanted = set(keys)
    book = book_of({key.offer for key in wanted})
    # Hundreds of workloads are of few offers.
    periods = cache(lambda offer, *of: periods_in(book.get(offer, []), *of))
    return {key: periods(key.offer, whose(key), key.capacity, key.units) for key in wanted}


def periods_in(
    book: Iterable[Listed], tenant: UUID | None, capacity: str, units: int | Fraction = 1
) -> list[PricePeriod]:
    """The prices of a book for a tenant (None: everybody's) on a kind of capacity, one after the other; of
    so many units together.
    """
    steps = price_book.timeline(book, tenant=tenant, capacity=capacity)
    return [
        PricePeriod(step.at, pricing.times(step.price.hourly, units), step.price.least_seconds)
        if step.price
        else PricePeriod(step.at, Decimal(0))
        for step in steps
    ]


def with_refunds(held: Iterable[Held]) -> list[Held]:
    """These allocations with from when on they are given back.

    RULE: the last hour of what was preempted, or ended by a fault of ours; of what was held on although its
    GPU had died, all from then on. What is held still is charged until it ends.
    """
    every = list(held)
    ended = [each for each in every if each.is_over]
    if not ended:
        return every
    on_gpus = [each for each in ended if each.gpu[1]]
    faults = _faults({each.gpu[1] for each in on_gpus})
    dead = _held_on_dead(on_gpus, faults)
    lost = dict.fromkeys(preempted(ended) | _faulted(on_gpus, faults) | dead.keys())
    return [replace(each, back_from=_back_from(each, dead)) if each.pk in lost else each for each in every]


def _back_from(each: Held, dead: Mapping[UUID, datetime]) -> datetime:
    last_hour = pricing.refunded(each.interval).started_at
    return min(last_hour, max(each.interval.started_at, dead.get(each.pk, last_hour)))


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


@dataclass(frozen=True)
class Fault:
    """A time that a GPU was sick or gone, for which the platform answers; still so where `until` is None.
    `is_xid`: of a fatal XID.
    """

    since: datetime
    until: datetime | None
    is_xid: bool


Faults = Mapping[GpuKey, Sequence[Fault]]


def _faulted(ended: Iterable[Held], faults: Faults) -> frozenset[UUID]:
    """Those that ended because of the platform.

    RULE: the GPU was unhealthy, or gone from the cluster, at a moment from the allocation's start to a minute
    after its end, and the allocation ended at most 15 minutes after the first such moment of a fault.
    """
    return frozenset(
        each.pk
        for each in ended
        for fault in faults.get(each.gpu, ())
        if fault.since <= each.interval.ended_at + SEEN_WITHIN
        and (fault.until is None or fault.until > each.interval.started_at)
        and each.interval.ended_at - max(fault.since, each.interval.started_at) <= FAULT_WITHIN
    )


def _held_on_dead(ended: Iterable[Held], faults: Faults) -> dict[UUID, datetime]:
    """Those that were held to their end on a GPU that had died of an XID, and since when it was dead."""
    return {
        each.pk: fault.since
        for each in ended
        for fault in faults.get(each.gpu, ())
        if fault.is_xid
        and fault.since <= each.interval.ended_at
        and (fault.until is None or fault.until >= each.interval.ended_at)
    }


def _faults(gpus: Iterable[str]) -> Faults:
    """When faults of these GPUs began, and when each was over."""
    rows = HardwareFact.objects.filter(kind__in=[*CURES, *CURES.values()], gpu__in=set(gpus))
    found: dict[GpuKey, list[Fault]] = defaultdict(list)
    next_at: dict[tuple[UUID | None, str, str], datetime] = {}
    names = ("cluster_id", "gpu", "kind", "at", "value")
    for cluster, gpu, kind, at, value in rows.order_by("-at", "-pk").values_list(*names):
        next_at[cluster, gpu, kind] = at
        cure, about = CURES.get(ChangeKind(kind)), value or {}
        if cure and about.get("is_ours", True):
            until = next_at.get((cluster, gpu, cure))
            found[cluster, gpu].append(Fault(at, until, is_xid=bool(about.get("xid"))))
    return found


def listed(
    work: Iterable[Held], periods: Mapping[PriceKey, list[PricePeriod]], begins: datetime, ends: datetime
) -> dict[PriceKey, Fraction]:
    """What the same would have cost at everybody's prices, refunds not taken off; by the key of one."""
    spent: dict[tuple[PriceKey, Rate], int] = defaultdict(int)
    found: dict[PriceKey, Fraction] = defaultdict(Fraction)
    for each in work:
        own = periods[each.price_key]
        if part := intervals.clipped(each.charged(own), begins, ends):
            for hourly, span in pricing.pieces(part, own):
                spent[each.price_key.of_one, hourly] += span
    for (key, hourly), span in spent.items():
        found[key] += pricing.money(hourly, span)
    return found
