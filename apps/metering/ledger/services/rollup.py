"""Keeps the buckets: takes what is marked dirty, makes it anew from facts, and sums it up. Idempotent.

A bucket is made once its time is over and has had `LATE` to be told of; what comes later marks it again. Of
what a finding is new, it is made ahead (`_roll_ahead`). A slice of the work is one transaction, its marks
included: killed anywhere, it is done again from the start.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Any, NamedTuple

from django.conf import settings
from django.db import transaction
from django.db.models import Count, QuerySet, Subquery, UUIDField

from apps.cluster.models import Cluster
from apps.metering.ledger.rules import buckets as ledger_buckets
from apps.metering.ledger.rules.buckets import LEVELS, floor
from apps.metering.ledger.rules.segments import ChangeKind
from apps.metering.ledger.selectors import facts
from apps.metering.ledger.selectors.facts import Computed
from apps.metering.ledger.services import bucket_store, invalidation
from apps.metering.ledger.services.account_sums import Holders, Window
from apps.metering.ledger.services.bucket_store import Book, Rows
from apps.metering.models import (
    AccountSum,
    Bucket,
    DirtySpan,
    HardwareFact,
    RollPosition,
)
from apps.prepared import Prepared
from apps.tenants.models import Tenant
from apps.web.streams import events

SECONDS = 20.0
"""How long one tick rolls one cluster; what is left is the next tick's."""
_CONSOLE, _TENANT, _WORKLOAD = "gpus money who idle worst", "use money who heat worst findings", "use"
"""The parts of pages that show roll-ups."""
LATE = timedelta(seconds=60)
"""How long samples and facts of a bucket are waited for before it is first made."""
SLICE = 4096
"""Marked buckets of one transaction: what is live, then the others in the order of GPU and time."""
LIVE = timedelta(hours=1)
"""Marks of buckets so young wait for no older one: people look at them."""
ASKED = 500
"""GPUs whose live marks are asked for at once: each is a step down the index, and no other is read."""
GAP = 12
"""Marked buckets of one GPU that lie no further apart are made together with what is between."""
TOGETHER = 2048
"""Buckets that are computed together, at least those of one GPU."""
HOLDERS = 256
"""Holders that are computed together, at least those of one GPU: a worker keeps its largest part's memory."""
_BUCKET, _HOUR, _DAY = LEVELS
Spot = tuple[str, datetime]
"""A marked bucket: GPU and beginning."""
Start = Callable[[Cluster, Sequence[str], datetime, datetime], Callable[[], Computed]]
"""Begins to compute what `facts.compute` does; the answer waits for it."""


@dataclass
class Rolled:
    """What a roll did: buckets of 300 s made, rows written, and whose they are or were."""

    buckets: int = 0
    rows: int = 0
    tenants: set[str] = field(default_factory=set)
    workloads: set[str] = field(default_factory=set)


def when_asked(
    cluster: Cluster, gpus: Sequence[str], begins: datetime, ends: datetime
) -> Callable[[], Computed]:
    """Computed in this process, at the time that it is asked for."""
    return partial(facts.compute, cluster, gpus, begins, ends)


def roll(
    cluster: Cluster,
    *,
    now: datetime,
    seconds: float | None = None,
    start: Start = when_asked,
    live_only: bool = False,
) -> Rolled:
    """Bring the cluster's buckets up to `now - LATE`, or of what is `LIVE` alone; stops between slices after
    so many seconds.

    Where another worker rolls this cluster, it does nothing. `start` may compute in other processes: facts
    are read after the marks are taken, whoever reads them.
    """
    done = Rolled()
    stop = None if seconds is None else time.monotonic() + seconds
    _advance(cluster, now)
    if not _MARKED(cluster.pk):
        return done  # most ticks: nothing is locked for that
    while (stop is None or time.monotonic() < stop) and _slice(cluster, done, start, live_only=live_only):
        pass
    return done


def prune(cluster: Cluster, *, now: datetime) -> int:
    """Drop the rows of 300 s before the days that are kept so fine; hours and days stay. How many went.

    RULE: whole days only, none with a mark: what is dropped has been summed up. They go a day before their
    samples at the latest, because a bucket without its samples could not be made anew.
    """
    with transaction.atomic():
        position = RollPosition.objects.select_for_update().filter(cluster=cluster).first()
        if position is None:
            return 0
        days = min(settings.CONFIG.ledger_fine_days, settings.CONFIG.telemetry_retention_days - 1)
        kept = min(now, position.until) - timedelta(days=days)
        before = floor(kept, _DAY)
        marked = DirtySpan.objects.filter(cluster=cluster, starts_at__lt=before)
        if marked.exists() or (position.pruned_until and position.pruned_until >= before):
            return 0
        fine = {"cluster": cluster, "level": _BUCKET, "starts_at__lt": before}
        gone = Bucket.objects.filter(**fine).delete()[0]
        AccountSum.objects.filter(**fine).delete()
        RollPosition.objects.filter(pk=position.pk).update(pruned_until=before)
    return gone


def _marked(cluster: Any) -> QuerySet[DirtySpan, int]:
    until = RollPosition.objects.filter(cluster=cluster).values("until")
    marks = DirtySpan.objects.filter(cluster=cluster, starts_at__lt=Subquery(until))
    return marks.values_list("pk", flat=True)[:1]


_CLUSTERS = Prepared(Cluster.objects.all)
_MARKED = Prepared(_marked, UUIDField())
_FIRST = Prepared(
    lambda cluster: (
        HardwareFact.objects.filter(cluster=cluster).order_by("at").values_list("at", flat=True)[:1]
    ),
    UUIDField(),
)
_POSITION = Prepared(lambda cluster: RollPosition.objects.filter(cluster=cluster), UUIDField())


def _advance(cluster: Cluster, now: datetime) -> None:
    """Time itself makes buckets: those that ended since the last roll are marked for every GPU there was."""
    until, first = floor(now - LATE, _BUCKET), _FIRST.first(cluster.pk)
    if first is None:
        return
    since, known = floor(first, _BUCKET), _POSITION.first(cluster.pk)
    if known is None or known.until < until or known.since > since:
        _mark_time(cluster, since, until)


@transaction.atomic
def _mark_time(cluster: Cluster, since: datetime, until: datetime) -> None:
    position, _ = RollPosition.objects.get_or_create(
        cluster=cluster, defaults={"since": since, "until": min(since, until)}
    )
    locked = RollPosition.objects.select_for_update(skip_locked=True).filter(pk=position.pk).first()
    if locked is None or (locked.until >= until and locked.since <= since):
        return
    # Facts of a time before the first one known may come later: an imported past.
    for begins, ends in ((since, locked.since), (locked.until, until)):
        if begins < ends:
            invalidation.mark(cluster, [(gpu, begins, ends) for gpu in there(cluster, begins, ends)])
    RollPosition.objects.filter(pk=position.pk).update(
        since=min(since, locked.since), until=max(until, locked.until)
    )


def there(cluster: Cluster, begins: datetime, ends: datetime) -> list[str]:
    """The GPUs that were there at some moment of [begins, ends)."""
    was: dict[str, bool] = {}
    presence = [ChangeKind.PRESENT, ChangeKind.GONE]
    for row in facts.of_hardware(cluster, begins, ends, kind__in=presence):
        present = row.kind == ChangeKind.PRESENT
        was[row.gpu] = present or (was.get(row.gpu, False) and row.at > begins)
    return sorted(gpu for gpu, so in was.items() if so)


def _slice(cluster: Cluster, done: Rolled, start: Start, *, live_only: bool) -> bool:
    """One transaction's work; False when there is nothing left, or somebody else does it."""
    with transaction.atomic():
        position = RollPosition.objects.select_for_update(skip_locked=True).filter(cluster=cluster).first()
        if position is None:
            return False
        taken = _take(cluster, position.until, live_only=live_only)
        oldest = position.pruned_until
        spots = [spot for spot in taken if oldest is None or spot[1] >= oldest]
        started = [(part, start(cluster, part.gpus, *part.window)) for part in _parts(cluster, spots)]
        for part, computed in started:
            _remake(cluster, part, computed(), done)
    return len(taken) == SLICE


def _roll_ahead(cluster: Cluster, done: Rolled, *, now: datetime) -> None:
    """What lies between the ledger's end and now, of the GPUs that new findings are of, as far as it goes.

    RULE: a finding that was opened since the ledger's end is shown with its money, which would be 0 for up to
    six minutes. Whoever reads up to the ledger's end sees nothing of it; its buckets are made anew, like all
    others, when their time is over.
    """
    position = _POSITION.first(cluster.pk)
    if position is None or position.until >= now:
        return
    gpus = facts.gpus_with_new_findings(cluster, since=position.until)
    if not gpus:
        return
    with transaction.atomic():
        same = RollPosition.objects.filter(pk=position.pk, until=position.until)
        if same.select_for_update(skip_locked=True).first() is not None:
            part = _Part(gpus, (position.until, floor(now, _BUCKET) + ledger_buckets.BUCKET))
            _remake(cluster, part, facts.compute(cluster, gpus, position.until, now), done)


def _take(cluster: Cluster, until: datetime, *, live_only: bool) -> list[Spot]:
    """The next marks, which are gone with it, in the order of GPU and time.

    RULE: what is live comes before all that is older, of whatever GPU: a long backlog keeps nobody's pictures
    waiting.
    """
    marks = DirtySpan.objects.select_for_update(skip_locked=True).filter(cluster=cluster, starts_at__lt=until)
    taken: list[Spot] = []
    gpus = there(cluster, until - LIVE, until)
    for begin in range(0, len(gpus), ASKED):
        live = marks.filter(gpu__in=gpus[begin : begin + ASKED], starts_at__gte=until - LIVE)
        taken += _removed(live, SLICE - len(taken))
    if not live_only:
        taken += _removed(marks, SLICE - len(taken))
    return sorted(taken)


def _removed(marks: QuerySet[DirtySpan], most: int) -> list[Spot]:
    found = list(marks.order_by("gpu", "starts_at").values_list("pk", "gpu", "starts_at")[:most])
    DirtySpan.objects.filter(pk__in=[pk for pk, _, _ in found]).delete()
    return [(gpu, at) for _, gpu, at in found]


def _runs(spots: Sequence[Spot]) -> dict[Window, list[str]]:
    """Marks, in the order of GPU and time, as windows with the GPUs that have them.

    RULE: a window ends with its day: it is summed up by the day, and of a long past one part is written while
    the next are computed.
    """
    found: dict[Window, list[str]] = {}
    run: tuple[str, datetime, datetime] | None = None
    for gpu, at in spots:
        near = run is not None and run[0] == gpu and at - run[2] <= GAP * ledger_buckets.BUCKET
        if run is not None and near and run[1].date() == at.date():
            run = (gpu, run[1], at + ledger_buckets.BUCKET)
            continue
        if run is not None:
            found.setdefault(run[1:], []).append(run[0])
        run = (gpu, at, at + ledger_buckets.BUCKET)
    if run is not None:
        found.setdefault(run[1:], []).append(run[0])
    return found


class _Part(NamedTuple):
    gpus: Sequence[str]
    window: Window


def _parts(cluster: Cluster, spots: Sequence[Spot]) -> Iterator[_Part]:
    """The windows to make anew, with as many of their GPUs as are computed together."""
    for window, gpus in _runs(spots).items():
        most = max(1, TOGETHER // ((window[1] - window[0]) // ledger_buckets.BUCKET))
        held = _holders(cluster, gpus, window) if len(gpus) > 1 else Counter[str]()
        part, holders = list[str](), 0
        for gpu in gpus:
            if part and (len(part) == most or holders + held[gpu] > HOLDERS):
                yield _Part(part, window)
                part, holders = [], 0
            part.append(gpu)
            holders += held[gpu]
        yield _Part(part, window)


def _holders(cluster: Cluster, gpus: Sequence[str], window: Window) -> Counter[str]:
    """How many workloads each GPU has in a window, before corrections."""
    count: Counter[str] = Counter()
    began = facts.on(cluster, gpus).filter(started_at__lt=window[1]).order_by()
    # Two questions, as in `facts`.
    for rows in (began.filter(ended_at=None), began.filter(ended_at__gt=window[0])):
        for gpu, uuid, held in rows.values_list("gpu", "device_uuid").annotate(held=Count("pk")):
            count[gpu or uuid] += held
    return count


def _whose(book: Book, part: _Part, rows: Rows) -> Holders:
    """Who holds something in a window, or did by what was known before; None, which is all, of whole days."""
    if all(floor(at, _DAY) == at for at in part.window):
        return None
    known = book.holders(_BUCKET, part.gpus, part.window)
    return known.union(row.holder for group in rows.values() for row in group)


def _remake(cluster: Cluster, part: _Part, computed: Computed, done: Rolled) -> None:
    """Make a window of some GPUs anew, and the hours and days that it lies in.

    RULE: of an hour and a day only the rows of those in the window are summed up anew: a day of thousands who
    came and went is not read again for each who comes.
    """
    gpus, window = part
    book, rows = Book(cluster, computed.allocations), computed.rows
    whose = _whose(book, part, rows)
    done.rows += book.replace(_BUCKET, gpus, window, rows)
    for finer, level in ((_BUCKET, _HOUR), (_HOUR, _DAY)):
        last = floor(window[1] - facts.MICROSECOND, level)
        wide = (floor(window[0], level), last + timedelta(seconds=level))
        # What was just made is not read again, only what lies beside it in the same hour or day.
        before = book.read(finer, gpus, (wide[0], window[0]), holders=whose)
        after = book.read(finer, gpus, (window[1], wide[1]), holders=whose)
        rows = bucket_store.summed({**before, **rows, **after}, level)
        if whose is not None and not book.parts_alike(level, gpus, wide, rows):
            # A GPU was cut anew meanwhile: the shares of all are counted in parts that divide either cut.
            rows, whose = bucket_store.summed(book.read(finer, gpus, wide), level), None
        done.rows += book.replace(level, gpus, wide, rows, holders=whose)
        window = wide
    done.buckets += len(computed.there)
    done.workloads |= {str(row.workload_id) for row in computed.allocations.values()}
    # Of an allocation that was cut short no row may be left; what was made with kubectl has rows alone.
    done.tenants |= {str(row.tenant_id) for row in computed.allocations.values()}
    done.tenants |= {row.tenant for group in computed.rows.values() for row in group if row.tenant}


def roll_up(*, now: datetime, live_only: bool = False) -> Rolled:
    """Brings every cluster's buckets up to now; what it rolled, of all clusters. `live_only`: somebody else
    rolls what is older.
    """
    every = Rolled()
    for cluster in _CLUSTERS():
        done = roll(cluster, now=now, seconds=SECONDS, live_only=live_only)
        _roll_ahead(cluster, done, now=now)
        every.buckets, every.rows = every.buckets + done.buckets, every.rows + done.rows
        every.tenants |= done.tenants
        every.workloads |= done.workloads
    return every


def prune_ledger(*, now: datetime) -> None:
    """Drops the fine rows of the days that only hours are kept of."""
    for cluster in Cluster.objects.all():
        prune(cluster, now=now)


def tell_pages(done: Rolled) -> None:
    """The open pages of what was rolled. RULE: once all that counts by it is priced; told before, a page
    would show the old money until the next time.
    """
    if not done.buckets:
        return
    data = {"type": "ledger.rolled"}
    events.publish(["console"], part=_CONSOLE, data=data)
    slugs = Tenant.objects.filter(pk__in=done.tenants).values_list("slug", flat=True)
    events.publish([f"tenant:{slug}" for slug in slugs], part=_TENANT, data=data)
    events.publish([f"workload:{pk}" for pk in sorted(done.workloads)], part=_WORKLOAD, data=data)
