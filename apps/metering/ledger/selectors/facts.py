"""Reads the facts of some GPUs and some time, and makes their bucket rows. What is stored plays no part.

Both the roll-up and its check (`verify_ledger`) compute by this module, so that equal facts give equal rows.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from itertools import chain
from operator import attrgetter
from typing import Any, NamedTuple
from uuid import UUID

from django.db.models import DateTimeField, Q, QuerySet, UUIDField

from apps.cluster.models import Cluster
from apps.metering.detector.gpu_models import Board, board_of, is_contradicted
from apps.metering.ledger.rules import buckets
from apps.metering.ledger.rules import segments as ledger_segments
from apps.metering.ledger.rules.buckets import BUCKET_US, MILLION, Cause, Row, Seen, Span, Telemetry
from apps.metering.ledger.rules.segments import Balance, Breach, Change, Holding, Segment
from apps.metering.ledger.selectors.sample_times import Micros
from apps.metering.models import Allocation, Correction, Device, Finding, HardwareFact, Sample
from apps.metering.specs import FindingKind, FindingPhase, Origin
from apps.prepared import Prepared

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
WASTED: Mapping[str, str] = {
    FindingKind.ZOMBIE: Cause.ZOMBIE,
    FindingKind.HOARDER: Cause.HOARDED,
    FindingKind.EVASION: Cause.HOARDED,
    FindingKind.FORGOTTEN: Cause.HOARDED,
    FindingKind.CRASH_LOOP: Cause.CRASHING,
    FindingKind.OVERSIZED: Cause.OVERSIZED,
    FindingKind.WRONG_SHARING_MODE: Cause.OVERSIZED,
}
"""The findings whose spans say what became of the time; a dismissed one says nothing."""
LONGEST_US = 300 * MILLION
"""The longest collection interval of any source."""
_SAMPLE = ("sm_active", "tensor_active", "dram_active", "memory_used_mib", "energy_mj", "power_mw")
_TS, _STEP = attrgetter("ts"), attrgetter("step")
_PRESENCE = (ledger_segments.ChangeKind.PRESENT, ledger_segments.ChangeKind.GONE)
COLUMNS = tuple("tenant_id" if name == "tenant" else name for name in buckets.COUNTED)
"""The columns of Bucket that make a Row, in its order."""
Spot = tuple[str, int]
"""A GPU and the beginning of a bucket."""


class _Whose(NamedTuple):
    """A device of telemetry: the whole of its board, or an instance of it."""

    pk: int
    uuid: str
    board: Board
    is_whole: bool
    loaded_mw: float
    """From so many milliwatts on the board may contradict counters that read 0."""


@dataclass
class Computed:
    """What the facts say: rows and the time the GPU was there by GPU and bucket, and contradictions."""

    rows: dict[Spot, list[Row]] = field(default_factory=dict)
    there: dict[Spot, Fraction] = field(default_factory=dict)
    breaches: dict[str, tuple[Breach, ...]] = field(default_factory=dict)
    allocations: dict[str, Allocation] = field(default_factory=dict)


def micros(at: datetime) -> int:
    """Microseconds since 1970."""
    return (at - EPOCH) // MICROSECOND


def moment(at: int) -> datetime:
    """The time of so many microseconds since 1970."""
    return EPOCH + at * MICROSECOND


def row_of(values: Sequence[object]) -> Row:
    """A stored row, by COLUMNS, as the pure module has it."""
    given = dict(zip(buckets.COUNTED, values, strict=True))
    given["tenant"] = str(given["tenant"] or "")
    return Row(**given)  # type: ignore[arg-type]


def compute(cluster: Cluster, gpus: Iterable[str], begins: datetime, ends: datetime) -> Computed:
    """The rows of every bucket of 300 s in [begins, ends), which begins with one, for these GPUs; the last
    may be of a part of its bucket.
    """
    wanted = sorted(set(gpus))
    first, last = micros(begins), micros(ends)
    changes, held = _changes(cluster, wanted, begins, ends), _held(cluster, wanted, begins, ends)
    watched = {*_of_workloads(chain(*held.values())), *_by_kubectl(changes.values(), first)}
    known = _telemetry(cluster, watched, begins, ends)
    # Who held a device one after the other shares its list of samples.
    looks = {id(each.samples): _Look.at(each.samples) for each in known.values()}
    seen = {holder: (each, looks[id(each.samples)]) for holder, each in known.items()}
    found = Computed(allocations={str(row.pk): row for row in chain(*held.values())})
    for gpu in wanted:
        holdings = [_holding(row) for row in held.get(gpu, ())]
        balance = ledger_segments.balance(changes.get(gpu, ()), holdings, first, last)
        found.breaches[gpu] = balance.breaches
        _fill(found, gpu, balance, seen)
    return found


def breaches_with(row: Allocation, begins: datetime, ends: datetime) -> tuple[Breach, ...]:
    """What the facts would contradict if an allocation held its device in [begins, ends) too; what they
    contradict without it is left out.
    """
    gpu, window = gpu_of(row), (micros(begins), micros(ends))
    changes = _changes(row.cluster, [gpu], begins, ends).get(gpu, ())
    held = [_holding(each) for each in _held(row.cluster, [gpu], begins, ends).get(gpu, ())]
    wish = Holding(str(row.pk), row.device, *window, tenant=str(row.tenant_id), part=row.part)
    before, after = (
        ledger_segments.balance(changes, each, *window).breaches for each in (held, [*held, wish])
    )
    return tuple(breach for breach in after if breach not in before)


def there(cluster: Cluster, begins: datetime, ends: datetime) -> Fraction:
    """Microseconds x physical GPUs that were there in [begins, ends): by facts of hardware alone."""
    by_gpu: dict[str, list[Change]] = {}
    for row in of_hardware(cluster, begins, ends, kind__in=_PRESENCE):
        by_gpu.setdefault(row.gpu, []).extend(changes_of([row]))
    window = (micros(begins), micros(ends))
    found = (
        buckets.there_us(ledger_segments.balance(each, (), *window).segments) for each in by_gpu.values()
    )
    return sum(found, Fraction(0))


@dataclass(frozen=True)
class _Look:
    """Where to look in a device's samples, which are in order of time."""

    times: list[int]
    longest: int
    """The longest step of one of them."""

    @staticmethod
    def at(samples: Sequence[Seen]) -> "_Look":
        return _Look(list(map(_TS, samples)), max(map(_STEP, samples), default=0))


def _fill(found: Computed, gpu: str, balance: Balance, seen: Mapping[str, tuple[Telemetry, _Look]]) -> None:
    for starts_at, segments in _by_bucket(balance.segments):
        holders = {share.holder for segment in segments for share in segment.shares if share.holder in seen}
        window = {
            holder: _window(*seen[holder], starts_at, starts_at + BUCKET_US) for holder in sorted(holders)
        }
        rows = buckets.bucket(segments, window)
        if rows:
            found.rows[gpu, starts_at] = rows
        found.there[gpu, starts_at] = buckets.there_us(segments)


def _window(known: Telemetry, look: _Look, begins: int, ends: int) -> Telemetry:
    """The samples that may speak of [begins, ends), and those of the moment before that tell whether they are
    frozen. RULE: a sample speaks of its step, which ends with it; what came earlier claims nothing of later.
    """
    first = bisect_right(look.times, begins)
    first = bisect_left(look.times, look.times[first - 1]) if first else 0
    last = bisect_right(look.times, ends + look.longest)
    return Telemetry(known.samples[first:last], known.spans)


def _by_bucket(segments: Iterable[Segment]) -> Iterator[tuple[int, list[Segment]]]:
    """Segments cut at the edges of buckets, bucket by bucket."""
    at, found = -1, list[Segment]()
    for segment in segments:
        begins = segment.begins
        while begins < segment.ends:
            bucket = begins - begins % BUCKET_US
            ends = min(segment.ends, bucket + BUCKET_US)
            if bucket != at and found:
                yield at, found
                found = []
            at = bucket
            found.append(replace(segment, begins=begins, ends=ends))
            begins = ends
    if found:
        yield at, found


def changes_of(rows: Iterable[HardwareFact]) -> list[Change]:
    """Stored facts as the pure ledger takes them."""
    return [Change(row.kind, micros(row.at), row.value, row.pk) for row in rows]


def of_hardware(cluster: Cluster, begins: datetime, ends: datetime, **chosen: Any) -> list[HardwareFact]:
    """The facts that hold at `begins`, or come after it and before `ends`, in their order; some that were
    outdone before may be among them.
    """
    rows = HardwareFact.objects.filter(cluster=cluster, **chosen)
    # Two questions, neither of which asks for `at`: SQLite would read all that ever was.
    read = [*rows.filter(outdone_at=None), *rows.filter(outdone_at__gte=begins)]
    return sorted((row for row in read if row.at < ends), key=attrgetter("at", "pk"))


def _changes(
    cluster: Cluster, gpus: Sequence[str], begins: datetime, ends: datetime
) -> dict[str, list[Change]]:
    found: dict[str, list[Change]] = {}
    for row in of_hardware(cluster, begins, ends, gpu__in=gpus):
        found.setdefault(row.gpu, []).extend(changes_of([row]))
    return found


def on(cluster: Cluster, gpus: Sequence[str]) -> QuerySet[Allocation]:
    """The workloads' allocations of these GPUs."""
    mine = Q(gpu__in=gpus) | Q(gpu="", device_uuid__in=gpus)
    return Allocation.objects.filter(mine, cluster=cluster, origin=Origin.ALLOTMENT)


def _held(
    cluster: Cluster, gpus: Sequence[str], begins: datetime, ends: datetime
) -> dict[str, list[Allocation]]:
    """The workloads' allocations of these GPUs in that time; each carries the corrected interval. What was
    made with kubectl is among the facts' claims.
    """
    rows = on(cluster, gpus)
    overlaps = Q(started_at__lt=ends) & (Q(ended_at=None) | Q(ended_at__gt=begins))
    moved = {*Correction.objects.filter(overlaps).values_list("allocation", flat=True)}
    # As for facts of hardware: one question for what is held, one for what ended later.
    read = {row.pk: row for row in rows.filter(started_at__lt=ends, ended_at=None)}
    read |= {row.pk: row for row in rows.filter(started_at__lt=ends, ended_at__gt=begins)}
    read |= {row.pk: row for row in rows.filter(pk__in=moved)} if moved else {}
    # Not prefetched: each row would hold its own corrections in a circle, which only the collector frees, and
    # an hour of short notebooks has a thousand rows.
    corrections = Correction.objects.filter(allocation__in=[*read]).order_by("pk") if read else ()
    newest = {each.allocation_id: each for each in corrections}
    found: dict[str, list[Allocation]] = {}
    for row in sorted(read.values(), key=attrgetter("pk")):
        row.started_at, row.ended_at = row.interval_by(newest.get(row.pk))
        if row.started_at < ends and (row.ended_at is None or row.ended_at > begins):
            found.setdefault(gpu_of(row), []).append(row)
    return found


def _holding(row: Allocation) -> Holding:
    ended = None if row.ended_at is None else micros(row.ended_at)
    return Holding(
        str(row.pk), row.device, micros(row.started_at), ended, tenant=str(row.tenant_id), part=row.part
    )


class _Watched(NamedTuple):
    """A holder, the device of telemetry that speaks of it, and the workload, or the claim made with kubectl,
    whose findings do.
    """

    holder: str
    uuid: str
    whose: UUID | str


def _of_workloads(held: Iterable[Allocation]) -> Iterator[_Watched]:
    for row in held:
        if row.workload_id:
            yield _Watched(str(row.pk), row.device_uuid, row.workload_id)


def _by_kubectl(changes: Iterable[Sequence[Change]], begins: int) -> Iterator[_Watched]:
    """What tenants hold from `begins` on by claims of no workload of ours, where the facts tell its UUID."""
    for each in changes:
        told = [change for change in each if change.kind == ledger_segments.ChangeKind.CLAIMS]
        told.sort(key=lambda change: (change.at, change.sequence))
        first = max(0, bisect_right([change.at for change in told], begins) - 1)
        for change in told[first:]:
            for uid, claim in change.value["claims"].items():
                for device, uuid in claim.get("uuids", {}).items():
                    yield _Watched(ledger_segments.holder_of(uid, device), uuid, uid)


def _telemetry(
    cluster: Cluster, watched: Iterable[_Watched], begins: datetime, ends: datetime
) -> dict[str, Telemetry]:
    """Samples and idle spans by holder. A share of a device plugin has no device of its own,
    and is not seen.
    """
    devices = _devices(cluster, watched)
    samples = _samples(cluster, {each.pk: each for found in devices.values() for each in found}, begins, ends)
    spans = _spans({each.whose for each in watched})
    together = {
        found: sorted(chain.from_iterable(samples.get(pk, ()) for pk in found), key=_TS)
        for found in {tuple(own.pk for own in each) for each in devices.values()}
    }
    return {
        each.holder: Telemetry(together[tuple(own.pk for own in found)], spans.get(each.whose, ()))
        for each, found in devices.items()
    }


def _devices(cluster: Cluster, watched: Iterable[_Watched]) -> dict[_Watched, list[_Whose]]:
    """The devices of telemetry of those that have any, each with the board that it is the whole of."""
    names = {each.uuid for each in watched if each.uuid}
    by_uuid: dict[str, list[_Whose]] = {}
    rows = Device.objects.filter(
        Q(uuid__in=names, gpu_instance=-1) | Q(instance_uuid__in=names), cluster=cluster
    )
    for row in rows.order_by("pk"):
        whole = row.gpu_instance == -1
        board = board_of(row.model)
        own = _Whose(row.pk, row.uuid, board, whole, 1000 * board.loaded_w)
        by_uuid.setdefault(row.uuid if whole else row.instance_uuid, []).append(own)
    return {each: by_uuid[each.uuid] for each in watched if each.uuid in by_uuid}


def _samples(
    cluster: Cluster, devices: Mapping[int, _Whose], begins: datetime, ends: datetime
) -> dict[int, list[Seen]]:
    """Samples by device. RULE: counters that all read 0 while the watts say load say nothing; of an instance
    only where no other of its board reads anything, for the watts are the board's.
    """
    found: dict[int, list[Seen]] = {}
    longest = LONGEST_US * MICROSECOND
    rows = Sample.objects.filter(
        device__in=list(devices), ts__gt=begins - 2 * longest, ts__lte=ends + longest
    )
    columns = ("device", Micros("ts"), "seconds", "smi", *_SAMPLE)
    doubtful: list[tuple[str, datetime, int, int]] = []
    for device, ts, seconds, smi, *values in rows.order_by("device", "ts").values_list(*columns):
        own, watts, here = devices[device], values[-1], found.setdefault(device, [])
        # Most of what reads 0 is at rest, and draws little: it needs no call.
        if (
            watts
            and watts >= own.loaded_mw
            and not any(values[:3])
            and is_contradicted(own.board, values[:3], smi=smi, watts=watts / 1000)
        ):
            if own.is_whole:
                values[:3] = (None, None, None)
            else:
                doubtful.append((own.uuid, moment(ts), device, len(here)))
        if not own.is_whole:
            values[-1] = None  # the watts are the board's, and would count once per instance
        percent = None if smi is None else smi * 10_000
        here.append(Seen(ts, seconds * MILLION, percent, *values))
    working = _working(cluster, {(uuid, ts) for uuid, ts, _, _ in doubtful}) if doubtful else frozenset()
    for uuid, ts, device, place in doubtful:
        if (uuid, ts) not in working:
            found[device][place] = found[device][place]._replace(sm=None, tensor=None, dram=None)
    return found


def _working(cluster: Cluster, asked: Collection[tuple[str, datetime]]) -> frozenset[tuple[str, datetime]]:
    """Those boards and moments at which an instance of the board did something."""
    times = [ts for _, ts in asked]
    alive = Q(sm_active__gt=0) | Q(tensor_active__gt=0) | Q(dram_active__gt=0)
    beside = Sample.objects.filter(
        alive, device__cluster=cluster, device__uuid__in={uuid for uuid, _ in asked},
        ts__gte=min(times), ts__lte=max(times),
    )  # fmt: skip
    return frozenset(beside.values_list("device__uuid", "ts"))


def _spans(whose: set[UUID | str]) -> dict[UUID | str, list[Span]]:
    found: dict[UUID | str, list[Span]] = {}
    claims = {each for each in whose if isinstance(each, str)}
    own = Q(workload__in=whose - claims)
    rows = Finding.objects.filter(own | Q(made__claim_uid__in=claims) if claims else own)
    rows = rows.filter(kind__in=list(WASTED)).exclude(phase=FindingPhase.DISMISSED)
    told = ("workload", "made__claim_uid", "kind", "idle", "too_much")
    for workload, claim, kind, idle, part in rows.values_list(*told):
        cause, evaded = WASTED[kind], kind == FindingKind.EVASION
        found.setdefault(workload or claim, []).extend(
            Span(round(begins * MILLION), round(ends * MILLION), cause, evaded, part) for begins, ends in idle
        )
    return found


def gpus_with_new_findings(cluster: Cluster, *, since: datetime) -> list[str]:
    """The GPUs held now by what an open finding is of that was opened from `since` on."""
    return sorted({gpu for row in _NEWLY_FOUND(cluster.pk, since) if (gpu := gpu_of(row))})


def _newly_found(cluster: Any, since: Any) -> QuerySet[Allocation]:
    new = Finding.objects.filter(closed_at=None, created_at__gte=since)
    of = Q(workload__in=new.values("workload")) | Q(claim_uid__in=new.values("made__claim_uid"))
    return Allocation.objects.filter(of, cluster=cluster, ended_at=None)


_NEWLY_FOUND = Prepared(_newly_found, UUIDField(), DateTimeField())


def gpu_of(row: Allocation) -> str:
    """The GPU on the ledger that an allocation is on; "" of cores, which are on none."""
    if row.is_cores:
        return ""
    return row.gpu or row.device_uuid or row.device.partition("#")[0]
