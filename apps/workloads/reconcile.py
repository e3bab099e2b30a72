"""Brings one workload and its cluster together: render, diff, converge, derive, one fenced write.

Level-triggered and idempotent. The end of a lease is not its business: `periodic` asks for the stop.
"""

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.conf import settings

from apps.cluster import mirror
from apps.cluster.converge import Outcome, run
from apps.cluster.gateway import Gateway
from apps.cluster.plan import diff
from apps.cluster.queueing import QueueState, state_of
from apps.cluster.reconciling import Result, run_reconcile
from apps.cluster.specs import Manifest, ObjectRef, Observed, ref_of
from apps.workloads import gathering, manifests, protection, selectors, status, telling
from apps.workloads.models import Workload, WorkloadEvent
from apps.workloads.specs import Kind, Phase
from apps.workloads.status import Derived, Facts, ObservedWorkload

LOOK_AGAIN = timedelta(seconds=5)
RELATED = ("cluster", "offer__flavor", "tenant__department")
"""What a reconcile reads of other rows, in the query that loads its own."""

Seen = dict[ObjectRef, Observed]


def reconcile(pk: str | UUID, *, gateway: Gateway | None = None) -> None:
    """One workload. What it found is told to pages only once it is stored."""
    before: list[Any] = []

    def body(row: Workload, gateway: Gateway, now: datetime) -> Result:
        before.append(_shown(row))
        return _body(row, gateway, now)

    row = run_reconcile(Workload, pk, body, owner="workload", gateway=gateway, related=RELATED)
    if row is not None:
        _tell(row, before[0])


def _shown(row: Workload) -> tuple[Any, ...]:
    return row.phase, row.updated_at, row.generation


def _tell(row: Workload, before: tuple[Any, ...]) -> None:
    if _shown(row) == before:
        return
    telling.tell(row, parts=telling.EVERYTHING)
    if row.phase != before[0]:
        telling.tell_neighbours(row)


def _body(row: Workload, gateway: Gateway, now: datetime) -> Result:
    """RULE: all that a workload applies is applied at once, its network policy beside what makes its pods:
    that policy only opens a door. Its namespace denied all traffic before anything of a workload was there.
    """
    observed = mirror.observed_for(row.pk)
    facts = selectors.facts_of(row, observed.values())
    desired = _desired(row, facts, _gather(row, observed), now)
    if desired is not None:
        desired += _arranged(row, facts, observed, now)
    outcome = Outcome()
    if desired is not None:
        plan = diff(desired, observed, owner_id=str(row.pk), in_order=False)
        outcome = run(gateway, row.cluster, plan, now=now)
    observed = mirror.observed_for(row.pk) if outcome.deleted else {**observed, **outcome.answers}
    seen = _gather(row, observed)
    derived = status.derive(seen, facts, now=now)
    ends = None if derived.phase.is_final else _protected_until(row, seen.queued)
    return Result(
        conditions=derived.conditions,
        outcome=outcome,
        updates=_columns(row, derived) | {"protected_until": ends},
        lines=[WorkloadEvent(workload=row, **event.__dict__) for event in derived.events],
        due_at=min(filter(None, (_due(facts, derived, seen, now), _to_come(ends, now))), default=None),
        done=facts.deleting and not (set(observed) - _kept(desired)),
    )


def _gather(row: Workload, observed: Seen) -> ObservedWorkload:
    kind = manifests.controller_kind(Kind(row.kind))
    wanted = not row.suspended and row.deleting_at is None
    return gathering.gather(observed.values(), controller_kind=kind, wanted=wanted)


def _desired(row: Workload, facts: Facts, seen: ObservedWorkload, now: datetime) -> list[Manifest] | None:
    """What should be there; None: leave everything as it is.

    What has finished is never applied again, or a job that somebody removed would run a second time.
    """
    spec, place = selectors.applied_spec(row), selectors.place_of(row)
    if facts.deleting:
        return manifests.render(spec, place, running=False) if row.keep_volumes else []
    gave_up = status.has_waited_too_long(seen, facts, now=now)
    if facts.phase.is_final and not gave_up:
        return None
    running = facts.wanted and not gave_up and not seen.remains
    if running and not manifests.is_current(seen.controller, spec, place):
        # The pod template of what is there cannot be changed: it goes first, and the next run makes it anew.
        running = False
    return manifests.render(spec, place, running=running)


def _arranged(row: Workload, facts: Facts, observed: Seen, now: datetime) -> list[Manifest]:
    """Its place in the queue, if somebody changed it, and its priority once its protection is over."""
    if not facts.wanted or facts.deleting or facts.phase.is_final:
        return []
    queued = [seen for seen in observed.values() if seen.ref.kind == "Workload" and not seen.deleting]
    return [
        manifests.arrange(seen.ref, selectors.place_of(row), active=active, priority=priority)
        for seen in queued
        for active, priority in _order(row, seen, now)
    ]


def _order(row: Workload, seen: Observed, now: datetime) -> list[tuple[bool, int]]:
    """Whether it queues and how early; nothing where that is Kueue's own business.

    RULE: a hold is written only while it waits, or it would stop what runs; of what runs only the end of its
    protection is.
    """
    state = state_of(seen.body)
    if state == QueueState.HOLDS:
        ends = _protected_until(row, seen.body)
        is_ours = ends is not None and (now >= ends or seen.sent_hash)
        return [(True, protection.priority_at(selectors.spec_of(row), ends, now))] if ends and is_ours else []
    is_touched = row.held_at is not None or row.queue_priority is not None
    if state not in (QueueState.WAITS, QueueState.HELD) or not (is_touched or seen.sent_hash):
        return []
    usual = selectors.usual_priority(row)
    return [(row.held_at is None, usual if row.queue_priority is None else row.queue_priority)]


def _protected_until(row: Workload, queued: Any) -> datetime | None:
    return protection.ends_at(selectors.spec_of(row), queued, settings.CONFIG.protection)


def _to_come(moment: datetime | None, now: datetime) -> datetime | None:
    return moment if moment is not None and moment > now else None


def _kept(desired: list[Manifest] | None) -> set[ObjectRef]:
    return {ref_of(manifest) for manifest in desired or ()}


def _columns(row: Workload, derived: Derived) -> dict[str, Any]:
    lease = selectors.applied_spec(row).max_run_seconds
    ends = derived.started_at and lease is not None and derived.phase is Phase.RUNNING
    return {
        "phase": derived.phase,
        "queue": derived.queue,
        "placement": derived.placement,
        "started_at": derived.started_at,
        "ended_at": derived.ended_at,
        "stops_at": derived.started_at + timedelta(seconds=lease or 0)
        if ends and derived.started_at
        else None,
    }


def _due(facts: Facts, derived: Derived, seen: ObservedWorkload, now: datetime) -> datetime | None:
    """When to look again even if no watch says so: while something goes, while Kueue has not seen it, and
    when a wait becomes too long.
    """
    if derived.phase in (Phase.STOPPING, Phase.DELETING):
        return now + LOOK_AGAIN
    if derived.phase is not Phase.PENDING:
        return None
    dates = [] if seen.queued else [now + status.KUEUE_PATIENCE]
    if facts.max_wait_seconds is not None:
        dates.append(
            max(facts.asked_at + timedelta(seconds=facts.max_wait_seconds), now + timedelta(seconds=1))
        )
    return min(dates, default=None)
