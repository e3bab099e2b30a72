"""Readings in, samples out: once each, with the buckets they change marked, and how far the source was read.

All of a batch is one transaction: a collector that is killed at any step counts nothing twice and loses
nothing, because its position moves with its samples.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import chain

from django.conf import settings
from django.db import transaction
from django.db.models import Max

from apps.cluster.models import Cluster
from apps.metering.models import CollectorPosition
from apps.metering.specs import Source
from apps.metering.telemetry.rules.sources.garbage import uncollected
from apps.metering.telemetry.rules.sources.reading import Batch, Reading, Trouble, micros, moment
from apps.metering.telemetry.services import partitions, sample_store
from apps.metering.telemetry.services.device_registry import DeviceBook
from apps.metering.telemetry.services.issues import report
from apps.metering.telemetry.services.sample_store import Stack

BUCKET = 300
AHEAD = timedelta(seconds=60)
"""Clocks differ; a reading from further ahead is a lie."""
_DAY = 86_400_000_000
_SECOND, _MICROSECOND = timedelta(seconds=1), timedelta(microseconds=1)


@dataclass(frozen=True)
class Ingested:
    """What became of a batch. `late` were stored though younger ones of their cluster were there;
    `complaints` are the (kind, node) of the issues it led to.
    """

    stored: int = 0
    duplicates: int = 0
    late: int = 0
    refused: int = 0
    complaints: frozenset[tuple[str, str]] = frozenset()

    def __add__(self, other: "Ingested") -> "Ingested":
        return Ingested(
            self.stored + other.stored,
            self.duplicates + other.duplicates,
            self.late + other.late,
            self.refused + other.refused,
            self.complaints | other.complaints,
        )


def ingest(
    cluster: Cluster, readings: Iterable[Reading], *, source: Source, step: timedelta, now: datetime
) -> Ingested:
    """Store readings of a source whose collection interval is `step`; `now` is the time they are judged by.

    RULE: one sample per device and time, the first stays. Readings more than a minute ahead of `now`, or
    older than samples are kept, are refused and reported.
    """
    return store(cluster, Batch(list(readings), moment(0), step), source=source, now=now)


def store(
    cluster: Cluster, batch: Batch, *, source: Source, now: datetime, is_marked: bool = True
) -> Ingested:
    """Samples, dirty spans, position and troubles of one batch, all or none of them. Who marks all of a past
    at its end has no batch of it marked.
    """
    with uncollected(), transaction.atomic():
        sample_store.lock(cluster.pk)
        book = DeviceBook(cluster)
        sorting = _sort(batch, book, _window(cluster, now))
        partitions.ensure({ts // _DAY for ts in sorting.times})
        fresh, late = sample_store.add(sorting.fresh, sorting.late, sorting.stacks)
        # What came again changes nothing, so it marks nothing.
        dirty = sorting.dirty | book.learned(BUCKET) | (sorting.dirty_late if late else set())
        if is_marked:
            sample_store.mark_dirty(cluster.pk, {(gpu, number * BUCKET) for gpu, number in dirty})
        book.save()
        newest = max(sorting.times, default=0)
        _advance(cluster, batch, max(batch.until, moment(newest)), source=source, now=now)
        # A past may name nodes that are gone.
        strangers = book.node_names.troubles() if is_marked else ()
        complaints = report(cluster, [*batch.troubles, *_refusals(sorting.refused, now), *strangers], now=now)
    repeated = sorting.duplicates + sorting.count - fresh - late
    return Ingested(fresh + late, repeated, late, sum(sorting.refused.values()), frozenset(complaints))


@dataclass(frozen=True)
class _Window:
    """What may be stored, in µs since 1970: (oldest, newest]; above `seen` nothing is stored yet."""

    oldest: int
    newest: int
    seen: int


@dataclass
class _Sorting:
    stacks: list[Stack] = field(default_factory=list)
    fresh: list[sample_store.Row] = field(default_factory=list)
    late: list[sample_store.Row] = field(default_factory=list)
    times: set[int] = field(default_factory=set)
    taken: dict[int, Collection[int]] = field(default_factory=dict)
    uuids: dict[int, str] = field(default_factory=dict)
    dirty: set[tuple[str, int]] = field(default_factory=set)
    dirty_late: set[tuple[str, int]] = field(default_factory=set)
    refused: dict[tuple[str, str], int] = field(default_factory=dict)
    duplicates: int = 0

    @property
    def count(self) -> int:
        """Rows to store."""
        return len(self.fresh) + len(self.late) + sum(len(each.block.times) for each in self.stacks)


def _window(cluster: Cluster, now: datetime) -> _Window:
    until = CollectorPosition.objects.filter(cluster=cluster).aggregate(found=Max("until"))["found"]
    kept = timedelta(days=settings.CONFIG.telemetry_retention_days)
    return _Window(micros(now - kept), micros(now + AHEAD), micros(until) if until else 0)


def _sort(batch: Batch, book: DeviceBook, window: _Window) -> _Sorting:
    """The hot loop: one pass of tuples, nothing made per reading but its row. Readings of a device mostly
    come one after another, so what is known of it is looked up when it changes.
    """
    found = _Sorting()
    seconds, oldest, newest, seen = batch.step // _SECOND, window.oldest, window.newest, window.seen
    times = found.taken
    device, pk = None, 0
    taken: set[int] = set()
    for each, ts, values in chain(_stacked(found, batch, book, window), batch.readings):
        if not oldest < ts <= newest:
            which = "ahead" if ts > newest else "old", each.node
            found.refused[which] = found.refused.get(which, 0) + 1
            continue
        if each is not device:
            device = each
            pk = book.ids.get(each) or book.place(each, ts)
            times[pk] = taken = _changeable(times.get(pk, ()))
            found.uuids[pk] = each.uuid
        if ts in taken:
            found.duplicates += 1
            continue
        taken.add(ts)
        (found.fresh if ts > seen else found.late).append((pk, ts - sample_store.EPOCH, seconds, *values))
    for pk, every in times.items():
        if every:
            book.seen(pk, max(every))
            found.times.update(every)
    _mark(found, times, batch.step // _MICROSECOND, seen)
    return found


def _stacked(found: _Sorting, batch: Batch, book: DeviceBook, window: _Window) -> Iterator[Reading]:
    """Takes the blocks that are new as a whole; gives the readings of all others.

    RULE: new as a whole are different times in the window, younger than everything stored, of a device that
    the batch has not spoken of yet.
    """
    new: dict[int, frozenset[int]] = {}
    for block in batch.blocks:
        # The GPUs of a node share the list of their times.
        key = id(block.times)
        if key not in new:
            new[key] = _new_times(block.times, window)
        device = block.device
        if new[key] and (pk := book.ids.get(device) or book.place(device, block.times[0])) not in found.taken:
            found.taken[pk], found.uuids[pk] = new[key], device.uuid
            found.stacks.append(Stack(pk, batch.step // _SECOND, block))
        else:
            yield from block.readings()


def _new_times(given: Sequence[int], window: _Window) -> frozenset[int]:
    """The times, if they are all different, and all new; else none."""
    found = frozenset(given)
    if len(found) < len(given) or min(found) <= max(window.oldest, window.seen) or max(found) > window.newest:
        return frozenset()
    return found


def _changeable(times: Collection[int]) -> set[int]:
    return times if isinstance(times, set) else set(times)


def _mark(found: _Sorting, times: Mapping[int, Collection[int]], step: int, seen: int) -> None:
    """RULE: a new sample changes (ts - step, ts]; a late one two steps more, because how long the next one
    speaks, and whether it is frozen, is judged by the one before it.
    """
    span, known = BUCKET * 1_000_000, dict[frozenset[int], tuple[set[int], set[int]]]()
    for pk, taken in times.items():
        key = frozenset(taken)
        if key not in known:
            fresh = {n for ts in key if ts > seen for n in range((ts - step) // span, (ts - 1) // span + 1)}
            late = {
                n
                for ts in key
                if ts <= seen
                for n in range((ts - step) // span, (ts + 2 * step - 1) // span + 1)
            }
            known[key] = fresh, late
        gpu = found.uuids[pk]
        found.dirty.update((gpu, number) for number in known[key][0])
        found.dirty_late.update((gpu, number) for number in known[key][1])


def _refusals(refused: Mapping[tuple[str, str], int], now: datetime) -> list[Trouble]:
    words = {
        "ahead": "{} readings are more than a minute ahead of {:%Y-%m-%d %H:%M:%S} UTC and were refused. Set"
        " the clock of the node, and of Prometheus, by NTP.",
        "old": "{} readings are older than samples are kept and were refused at {:%Y-%m-%d %H:%M:%S} UTC. Set"
        " the clock of the node by NTP, or raise ALLOTMENT_TELEMETRY_RETENTION_DAYS before importing.",
    }
    return [
        Trouble(f"clock-{which}", node, words[which].format(count, now))
        for (which, node), count in sorted(refused.items())
    ]


def _advance(cluster: Cluster, batch: Batch, until: datetime, *, source: Source, now: datetime) -> None:
    """The source was read until the batch's end, or until its youngest sample if that is later."""
    row, is_new = CollectorPosition.objects.get_or_create(
        cluster=cluster, source=source, shard=batch.shard, defaults={"until": until, "updated_at": now}
    )
    if not is_new:
        CollectorPosition.objects.filter(pk=row.pk).update(until=max(row.until, until), updated_at=now)
