"""Stores estimates of starts and their outcomes.

The clock calls it; there is no actor. Nothing is ever corrected afterwards.
"""

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db.models import DateTimeField, F, Q, QuerySet, UUIDField

from apps.prepared import Prepared, PreparedUpdate
from apps.quotas.models import Offer
from apps.workloads.changes.services import telling
from apps.workloads.models import StartEstimate, Workload, WorkloadEvent
from apps.workloads.specs import Phase
from apps.workloads.waiting.rules import eta
from apps.workloads.waiting.rules.eta import Interval
from apps.workloads.waiting.selectors import foresight

LEAST_MOVE = timedelta(minutes=1)
MOVE = 0.1
"""A new estimate is stored when a bound moves by more than this part of the expected wait."""
BEGUN = (str(Phase.STARTING), str(Phase.RUNNING), str(Phase.SUCCEEDED))
MOST_SETTLED = 500
MOST_POOLS = 20
RUN_SECONDS = 15
"""How often the clock asks."""


def predict(*, now: datetime) -> int:
    """Look at the queues in which something of ours waits; answers how many new estimates were stored.

    RULE: at most MOST_POOLS queues a run, all of them in turn, so that a run has an end.
    """
    pools = sorted(set(_POOLS()))
    begin = int(now.timestamp()) // RUN_SECONDS * MOST_POOLS % max(1, len(pools))
    chosen = (pools[begin:] + pools[:begin])[:MOST_POOLS]
    offers = {offer.pk: offer for offer in _OFFERS()} if chosen else {}
    return sum(_predict(offers[offer], department, now) for offer, department in chosen)


def _predict(offer: Offer, department: UUID, now: datetime) -> int:
    foreseen = foresight.foresee(offer, department, now=now)
    rows = _PENDING(list(foreseen))
    latest = _latest(foreseen)
    fresh, same = [], []
    for row in rows:
        found, before = foreseen[str(row.pk)], latest.get(row.pk)
        if before and before.asked_at == row.asked_at and not _moved(before, found.starts, now):
            same.append(before.pk)
        elif found.starts or (before and before.p50 and before.asked_at == row.asked_at):
            fresh.append(_estimate(row, found, now))
            telling.tell_estimate(row)
    _LOOKED.write_all([(pk, now) for pk in same])
    StartEstimate.objects.bulk_create(fresh)
    return len(fresh)


def _latest(ids: dict[str, foresight.Foreseen]) -> dict[UUID, StartEstimate]:
    return {estimate.workload_id: estimate for estimate in _UNSETTLED(list(ids))}


def _pools() -> QuerySet[Workload, Any]:
    waiting = Workload.objects.filter(phase=Phase.PENDING, deleted_at=None, held_at=None)
    return waiting.order_by().values_list("offer", "tenant__department").distinct()


def _unsettled(workloads: Any) -> QuerySet[StartEstimate]:
    rows = StartEstimate.objects.filter(workload__pk__in=workloads, settled_at=None)
    return rows.order_by("made_at")


_POOLS = Prepared(_pools)
_OFFERS = Prepared(lambda: Offer.objects.select_related("cluster", "flavor"))
_PENDING = Prepared(
    lambda pks: Workload.objects.filter(pk__in=pks, phase=Phase.PENDING).select_related("tenant"),
    UUIDField(),
)
_UNSETTLED = Prepared(_unsettled, UUIDField())
_LOOKED = PreparedUpdate(
    lambda pk, now: (StartEstimate.objects.filter(pk=pk), {"looked_at": now}),
    StartEstimate._meta.pk,
    DateTimeField(),
)


def _moved(before: StartEstimate, found: Interval | None, now: datetime) -> bool:
    if found is None or before.p10 is None or before.p50 is None or before.p90 is None:
        return (found is None) != (before.p50 is None)
    limit = max(LEAST_MOVE, (found.p90 - now) * MOVE)
    pairs = ((before.p10, found.p10), (before.p50, found.p50), (before.p90, found.p90))
    return any(abs(max(old, now) - new) > limit for old, new in pairs)


def _estimate(row: Workload, found: foresight.Foreseen, now: datetime) -> StartEstimate:
    starts = found.starts
    return StartEstimate(
        workload=row,
        asked_at=row.asked_at,
        made_at=now,
        looked_at=now,
        p10=starts.p10 if starts else None,
        p50=starts.p50 if starts else None,
        p90=starts.p90 if starts else None,
        position=found.position,
    )


def settle(*, now: datetime) -> int:
    """Give every prediction whose wait is over its outcome: when it left the queue, or that it never did."""
    over = _OVER()
    for estimate in over:
        begun = _begun(estimate)
        StartEstimate.objects.filter(pk=estimate.pk).update(settled_at=now, started_at=begun)
    return len(over)


def _over() -> QuerySet[StartEstimate]:
    still = Q(workload__phase=Phase.PENDING, workload__asked_at=F("asked_at"), workload__deleted_at=None)
    return StartEstimate.objects.filter(settled_at=None).exclude(still).order_by("made_at")[:MOST_SETTLED]


_OVER = Prepared(_over)


def _begun(estimate: StartEstimate) -> datetime | None:
    later = Q(at__gte=estimate.made_at) & Q(reason__in=BEGUN)
    begun = WorkloadEvent.objects.filter(later, workload=estimate.workload_id, source="allotment")
    first = begun.order_by("at").values_list("at", flat=True).first()
    again = WorkloadEvent.objects.filter(
        workload=estimate.workload_id, reason="ResumeRequested", at__gt=estimate.made_at
    )
    asked_again = again.order_by("at").values_list("at", flat=True).first()
    return None if first and asked_again and asked_again < first else first


def coverage() -> tuple[int, int]:
    """How many starts fell inside their estimate, and of how many; withdrawn waits do not count."""
    judged = StartEstimate.objects.filter(started_at__isnull=False, p10__isnull=False)
    rows = judged.values_list("p10", "p90", "started_at")
    return eta.coverage((low, high, at) for low, high, at in rows if low and high and at)
