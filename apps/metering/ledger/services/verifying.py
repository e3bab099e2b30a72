"""Does the ledger hold? Makes every bucket anew from facts and compares it with what is stored.

Checked by GPU and bucket: the shares sum to the GPU, the stored rows are those that the facts give, coarser
levels are the sums of finer ones, no two facts contradict each other, and what an account had of all GPUs is
the sum of its buckets.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from django.db.models import F, Q

from apps.cluster.models import Cluster
from apps.metering.ledger.rules.buckets import COUNTED, LEVELS, Row, floor
from apps.metering.ledger.selectors import facts
from apps.metering.ledger.selectors.facts import Computed, Spot, gpu_of, micros, moment
from apps.metering.ledger.services import account_sums
from apps.metering.ledger.services.bucket_store import Book, summed
from apps.metering.models import Allocation, Bucket, DirtySpan, HardwareFact, RollPosition
from apps.metering.specs import Origin

AT_ONCE = 50
"""GPUs whose facts are in memory together."""
ALL_GPUS = "all GPUs together"
_BUCKET, _HOUR, _DAY = LEVELS


@dataclass(frozen=True)
class Flaw:
    """One breach: where, what was found, and what the facts say."""

    gpu: str
    level: int
    at: datetime
    what: str
    found: str
    expected: str

    def __str__(self) -> str:
        """One line with place and time."""
        return (
            f"{self.gpu}, {self.level} s from {self.at:%Y-%m-%dT%H:%M:%SZ}, {self.what}: "
            f"found {self.found}, expected {self.expected}"
        )


@dataclass
class Verdict:
    """What a check found. `waiting` buckets are marked to be made anew and were not compared."""

    buckets: int = 0
    waiting: int = 0
    flaws: list[Flaw] = field(default_factory=list)


@dataclass(frozen=True)
class _Look:
    """A few GPUs over a day; `waiting` spots are being made anew, 300 s are kept from `fine` on."""

    cluster: Cluster
    gpus: Sequence[str]
    begins: datetime
    ends: datetime
    waiting: frozenset[Spot]
    fine: datetime

    def stored(self, level: int) -> dict[Spot, list[Row]]:
        """The rows of a level."""
        return Book(self.cluster, {}).read(level, self.gpus, (self.begins, self.ends))


def verify(cluster: Cluster, *, begins: datetime | None = None, ends: datetime | None = None) -> Verdict:
    """Check the cluster's ledger over [begins, ends), widened to whole days; all of it without them."""
    position = RollPosition.objects.filter(cluster=cluster).first()
    if position is None:
        return Verdict()
    first = floor(max(begins or position.since, position.since), _DAY)
    last = position.until if ends is None else min(position.until, floor(ends, _DAY) + timedelta(days=1))
    marks = DirtySpan.objects.filter(cluster=cluster, starts_at__lt=position.until)
    waiting = frozenset((gpu, micros(at)) for gpu, at in marks.values_list("gpu", "starts_at"))
    verdict = Verdict(waiting=len(waiting))
    gpus = _gpus(cluster)
    verdict.flaws += _homeless(cluster, gpus, first, last)
    while first < last:
        for index in range(0, len(gpus), AT_ONCE):
            day = min(first + timedelta(days=1), last)
            fine = position.pruned_until or first
            _check(_Look(cluster, gpus[index : index + AT_ONCE], first, day, waiting, fine), verdict)
        verdict.flaws += _missummed(cluster, first)
        first += timedelta(days=1)
    verdict.flaws.sort(key=lambda flaw: (flaw.at, flaw.gpu, -flaw.level, flaw.what))
    return verdict


def verify_yesterday(cluster: Cluster, *, now: datetime) -> Verdict:
    """`verify` of the last whole day (UTC)."""
    yesterday = floor(now, _DAY) - timedelta(days=1)
    return verify(cluster, begins=yesterday, ends=yesterday)


def _missummed(cluster: Cluster, day: datetime) -> Iterator[Flaw]:
    """RULE: what an account had of all GPUs is the sum of its buckets."""
    for each in account_sums.differences(cluster, (day, day + timedelta(days=1))):
        yield Flaw(ALL_GPUS, each.level, each.at, each.what, str(each.stored), str(each.summed))


def _gpus(cluster: Cluster) -> list[str]:
    known = HardwareFact.objects.filter(cluster=cluster).values_list("gpu", flat=True)
    booked = Bucket.objects.filter(cluster=cluster).order_by().values_list("gpu", flat=True)
    return sorted({*known.distinct(), *booked.distinct()})


def _homeless(cluster: Cluster, gpus: Sequence[str], begins: datetime, ends: datetime) -> Iterator[Flaw]:
    """Allocations on what the ledger does not know as a GPU: their time is in no bucket. Cores are none."""
    rows = Allocation.objects.filter(cluster=cluster, origin=Origin.ALLOTMENT, started_at__lt=ends).filter(
        Q(ended_at=None) | Q(ended_at__gt=begins)
    )
    for row in rows.exclude(gpu__in=gpus).exclude(share_numerator=0).order_by("pk"):
        if gpu_of(row) not in gpus:
            what = f"allocation {row.pk} on {row.device}"
            yield Flaw(gpu_of(row), _BUCKET, floor(row.started_at, _BUCKET), what, "no such GPU", "a GPU")


def _check(look: _Look, verdict: Verdict) -> None:
    levels = {level: look.stored(level) for level in LEVELS}
    if look.begins >= look.fine:
        computed = facts.compute(look.cluster, look.gpus, look.begins, look.ends)
        verdict.buckets += sum(1 for there in computed.there.values() if there)
        verdict.flaws += _unbalanced(look, computed, levels[_BUCKET])
        verdict.flaws += _contradictions(computed)
        verdict.flaws += _different(_BUCKET, levels[_BUCKET], computed.rows, look.waiting)
        verdict.flaws += _different(_HOUR, levels[_HOUR], summed(levels[_BUCKET], _HOUR))
    verdict.flaws += _different(_DAY, levels[_DAY], summed(levels[_HOUR], _DAY))
    verdict.flaws += _misfiled(look)


def _unbalanced(look: _Look, computed: Computed, stored: Mapping[Spot, Sequence[Row]]) -> Iterator[Flaw]:
    """RULE: tenants + idle + unattributed = denominator x the time the GPU was there."""
    for spot in sorted(computed.there.keys() - look.waiting):
        rows = stored.get(spot, ())
        denominators = {row.denominator for row in rows if row.share_us} or {1}
        found = sum(row.share_us for row in rows)
        expected = max(denominators) * computed.there[spot]
        if found != expected or len(denominators) > 1:
            yield Flaw(spot[0], _BUCKET, moment(spot[1]), "sum of shares x µs", str(found), str(expected))


def _contradictions(computed: Computed) -> Iterator[Flaw]:
    for gpu, breaches in computed.breaches.items():
        for each in breaches:
            at, until = moment(each.begins), moment(each.ends)
            what = f"{each.kind}: {each.holder} on {each.device} at {at:%H:%M:%S} until {until:%H:%M:%S}"
            yield Flaw(
                gpu, _BUCKET, floor(at, _BUCKET), what, f"{each.got} shares", f"{max(1, each.wanted)} shares"
            )


def _different(
    level: int,
    stored: Mapping[Spot, Sequence[Row]],
    expected: Mapping[Spot, Sequence[Row]],
    waiting: frozenset[Spot] = frozenset(),
) -> Iterator[Flaw]:
    """Rows that are missing, too many, or not what they must be, column by column."""
    for spot in sorted((stored.keys() | expected.keys()) - waiting):
        there = {row.key: row for row in stored.get(spot, ())}
        wanted = {row.key: row for row in expected.get(spot, ())}
        for key in sorted(there.keys() | wanted.keys()):
            name = "/".join(part for part in key if part)
            for what, found, should in _columns(there.get(key), wanted.get(key)):
                yield Flaw(spot[0], level, moment(spot[1]), f"{name} {what}".strip(), found, should)


def _columns(there: Row | None, wanted: Row | None) -> Iterator[tuple[str, str, str]]:
    if there is None or wanted is None:
        found = [("no row" if row is None else f"{row.share_us} shares x µs") for row in (there, wanted)]
        yield "", found[0], found[1]
        return
    for name in COUNTED:
        if getattr(there, name) != getattr(wanted, name):
            yield name, str(getattr(there, name)), str(getattr(wanted, name))


def _misfiled(look: _Look) -> Iterator[Flaw]:
    """Rows of an allocation that name another tenant, workload or offer than it has."""
    rows = Bucket.objects.filter(
        cluster=look.cluster, gpu__in=look.gpus, starts_at__gte=look.begins, starts_at__lt=look.ends
    ).exclude(allocation=None)
    right = Q(
        workload=F("allocation__workload"), offer=F("allocation__offer"),
        tenant=F("allocation__workload__tenant"),
    )  # fmt: skip
    for row in rows.exclude(right).order_by("pk"):
        found = f"workload {row.workload_id}, tenant {row.tenant_id}"
        yield Flaw(row.gpu, row.level, row.starts_at, f"owner of {row.holder}", found, "its allocation's")
