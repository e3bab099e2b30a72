"""Keeps how a run ended: the end of its containers' logs, and the cluster's events, which both go with its
objects.

Part of the reconcile, before it removes anything. Whatever the cluster does, one turn waits for it no longer
than `SECONDS`, and what was removed meanwhile is said.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import Q, Sum

from apps.cluster.errors import Rejected, Unreachable
from apps.workloads.lifecycle.rules.log_end import LogEnd
from apps.workloads.log_models import KeptLog, LogPiece
from apps.workloads.models import Workload, WorkloadEvent
from apps.workloads.selectors import reading
from apps.workloads.status import last_run, retries
from apps.workloads.status.derivation import Body, Derived, Facts, ObservedWorkload
from apps.workloads.status.last_run import LastRun, LogNote, Outcome, Source

SECONDS = 6.0
"""For all logs of a run together, and half of it more for the last part; of a short lease a third."""
TAILS = (200_000, 20_000, 1_000)
"""How many lines are asked for: at each try fewer, where the ones before came too slowly."""
MOST_EVENTS = 50
MEGABYTE = 1024 * 1024
NOT_KEPT = "Logs are not kept in this installation."

Read = Callable[..., Iterator[bytes]]
"""`Gateway.read_log` of the run's namespace."""


@dataclass(frozen=True)
class End:
    """A turn of the reconcile in which a run ends, or has just ended."""

    row: Workload
    facts: Facts
    derived: Derived
    outcome: Outcome
    seen: ObservedWorkload
    pods: Sequence[Body]
    """Of earlier tries too."""
    now: datetime

    @property
    def is_ahead(self) -> bool:
        """Whether it will fail, and has not yet."""
        return self.outcome is Outcome.FAILED and not self.derived.phase.is_final


def keep(end: End, read: Read) -> LastRun | None:
    """What the row is to keep of the run; None where that does not change. Safe to repeat: what was read
    stands in its own tables at once, and is not read again.
    """
    before = last_run.stored(end.row.last_run)
    known = last_run.of_this_run(before, end.outcome, end.facts, end.seen)
    if known is None and not _is_news(end):
        return None
    if known is not None and known.is_settled:
        return None
    run = _current(end, known) if known else _counted(end, _current(end, None), before)
    if run.is_due(end.now):
        run = _with_logs(end, run, read)
    return run if end.is_ahead else run.settled(end.now)


def new_events(row: Workload) -> list[WorkloadEvent]:
    """The cluster's events about its objects that its story does not have: the cluster drops them soon."""
    kept = set(
        WorkloadEvent.objects.filter(workload=row, source="kubernetes").values_list("at", "reason", "message")
    )
    lines = sorted(reading.cluster_events_of(row), key=lambda line: line.at)[-MOST_EVENTS:]
    return [
        WorkloadEvent(workload=row, **line.__dict__ | {"reason": line.reason[:64]})
        for line in lines
        if (line.at, line.reason[:64], line.message) not in kept
    ]


def prune(now: datetime) -> int:
    """Forget logs that are too old, and those of workloads that were deleted; answers how many."""
    oldest = now - timedelta(days=settings.CONFIG.kept_log_days)
    which = Q(kept_at__lt=oldest) | Q(workload__deleted_at__isnull=False)
    return KeptLog.objects.filter(which).delete()[1].get("workloads.KeptLog", 0)


def _is_news(end: End) -> bool:
    """Whether anything ended here: not what had ended before such things were kept, nor what never ran."""
    if end.facts.phase.is_final:
        return False
    return end.outcome is not Outcome.STOPPED or bool(end.row.started_at or last_run.has_begun(end.pods))


def _current(end: End, known: LastRun | None) -> LastRun:
    cause = last_run.cause_of(end.outcome, end.facts, end.derived, end.seen)
    if known is not None:
        # What ended it may be seen only after the end itself was.
        is_better = end.outcome is Outcome.FAILED and last_run.tells(end.seen.pods)
        ended_at = end.derived.ended_at or known.ended_at
        return replace(known, cause=cause if is_better else known.cause, ended_at=ended_at)
    return LastRun(
        outcome=end.outcome,
        cause=cause,
        generation=end.facts.generation,
        seen_at=end.now,
        started_at=end.row.started_at or end.derived.started_at,
        ended_at=end.derived.ended_at or end.now,
    )


def _counted(end: End, run: LastRun, before: LastRun | None) -> LastRun:
    """With how often it has failed in a row, where it is tried again after that."""
    pod = end.seen.failed
    if end.outcome is not Outcome.FAILED or pod is None:
        return run
    return replace(
        run,
        pod=last_run.uid_of(pod),
        reason=str((pod.get("status") or {}).get("reason") or ""),
        failures=retries.failures(before, pod, end.facts.generation, end.now),
    )


def _with_logs(end: End, run: LastRun, read: Read) -> LastRun:
    logs = KeptLog.objects.filter(workload=end.row)
    # Those of the run before.
    logs.filter(kept_at__lt=run.started_at or end.row.asked_at).delete()
    kept = {(log.pod_uid, log.container): log for log in logs}
    notes = {(note.pod, note.container): note for note in (*run.logs, *map(_note, kept.values()))}
    ends = time.monotonic() + min(SECONDS, settings.CONFIG.lease_seconds / 3)
    fewer = partial(read, tail_lines=TAILS[run.tries])
    for source in last_run.sources(end.pods):
        if (source.uid, source.container) not in kept:
            note = _read(end, source, ends - time.monotonic(), fewer)
            notes[source.pod, source.container] = note
    return replace(run, logs=tuple(notes.values()), tries=run.tries + 1)


def _read(end: End, source: Source, seconds: float, read: Read) -> LogNote:
    """One log into its tables, or why not."""
    note = LogNote(source.pod, source.container)
    if not settings.CONFIG.kept_log_megabytes:
        return replace(note, problem=NOT_KEPT)
    if seconds <= 0:
        return replace(note, problem="The others took all the time there was.")
    kept = LogEnd()
    try:
        for chunk in read(source.pod, container=source.container, seconds=seconds):
            kept.add(chunk)
    except Rejected as error:
        return replace(note, problem=error.message)
    except Unreachable as error:
        return replace(note, problem=error.detail)
    return _note(_stored(end, source, kept.finish()))


@transaction.atomic
def _stored(end: End, source: Source, kept: LogEnd) -> KeptLog:
    log, is_new = KeptLog.objects.get_or_create(
        workload=end.row,
        pod_uid=source.uid,
        container=source.container,
        defaults={
            "tenant_id": end.row.tenant_id,
            "pod": source.pod,
            "place": source.place,
            "size": kept.size,
            "stored_size": sum(len(piece.data) for piece in kept.pieces),
            "is_cut": kept.is_cut,
            "kept_at": end.now,
        },
    )
    if is_new:
        pieces = (LogPiece(log=log, number=number, data=each.data) for number, each in enumerate(kept.pieces))
        LogPiece.objects.bulk_create(pieces, batch_size=8)
        _keep_bound(end.row.tenant_id)
    return log


def _keep_bound(tenant: Any) -> None:
    """RULE: the logs of one tenant take so much room and no more; the oldest go first."""
    logs, bound = KeptLog.objects.filter(tenant=tenant), settings.CONFIG.kept_log_megabytes * MEGABYTE
    over = (logs.aggregate(all=Sum("stored_size"))["all"] or 0) - bound
    if over <= 0:
        return
    oldest = []
    for pk, size in logs.order_by("kept_at", "pk").values_list("pk", "stored_size").iterator():
        oldest.append(pk)
        over -= size
        if over <= 0:
            break
    logs.filter(pk__in=oldest).delete()


def _note(log: KeptLog) -> LogNote:
    return LogNote(log.pod, log.container, log.size, log.is_cut)
