"""Brings one workload and its cluster together: render, diff, converge, derive, one fenced write.

Level-triggered and idempotent. The end of a lease is not its business: `periodic` asks for the stop.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any
from uuid import UUID

from django.conf import settings

from apps.cluster.gateway.port import Gateway
from apps.cluster.mirror.services import mirror_table
from apps.cluster.objects.conditions import condition, find
from apps.cluster.objects.queueing import QueueState, state_of
from apps.cluster.reconciling.rules.plan import diff
from apps.cluster.reconciling.services import traced
from apps.cluster.reconciling.services.converge import Outcome, run
from apps.cluster.reconciling.services.frame import Result, run_reconcile
from apps.cluster.specs import Manifest, ObjectRef, Observed, ref_of
from apps.sealing import IDE, KeyMissing, derived, key_in_force
from apps.workloads import registry
from apps.workloads.changes.services import telling
from apps.workloads.lifecycle.services import log_keeping
from apps.workloads.lifecycle.services.log_keeping import End
from apps.workloads.manifests import rendering, secrets
from apps.workloads.models import Workload, WorkloadEvent
from apps.workloads.secrets.selectors import sealed
from apps.workloads.selectors import reading
from apps.workloads.specs import ALONE, Kind, Phase, PlacementSpec, WorkloadSpec
from apps.workloads.status import derivation, gathering, last_run, protection, retries, waits
from apps.workloads.status.containers import waiting_of
from apps.workloads.status.derivation import BAD_IMAGE, Derived, Facts, ObservedWorkload
from apps.workloads.status.last_run import LastRun
from apps.workloads.waiting.rules import kueue_states

LOOK_AGAIN = timedelta(seconds=5)
SECRETS_READ = "SecretsRead"
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
    if row is not None and before:  # else nothing was looked at: its cluster is held, or cannot be opened
        _tell(row, before[0])


def _shown(row: Workload) -> tuple[Any, ...]:
    return row.phase, row.updated_at, row.generation


def _tell(row: Workload, before: tuple[Any, ...]) -> None:
    if _shown(row) == before:
        return
    telling.tell(row, parts=telling.EVERYTHING)
    if row.phase != before[0]:
        if row.phase == Phase.RUNNING:
            traced.seen(row, "workload", "runs")
        telling.tell_neighbours(row)


def _body(row: Workload, gateway: Gateway, now: datetime) -> Result:
    """RULE: all that a workload applies is applied at once, its network policy beside what makes its pods:
    that policy only opens a door. Its namespace denied all traffic before anything of a workload was there.
    """
    observed = mirror_table.observed_for(row.pk)
    before = _gather(row, observed)
    settled = _settled(row, before)
    turn = _turn(row, before, observed, now)
    desired = _desired(turn, before)
    end = _end(turn, before, observed, desired)
    ended = log_keeping.keep(end, partial(gateway.read_log, row.tenant.object_name)) if end else None
    if desired is not None:
        desired += _arranged(turn, observed)
    outcome = Outcome()
    left = secrets.of(observed) if desired is None else {}
    if desired is not None or left:
        plan = diff(desired or [], left or observed, owner_id=str(row.pk), in_order=False)
        outcome = run(gateway, row.cluster, plan, now=now)
    if desired is None:
        mirror_table.let_all_go(row.pk)
    observed = mirror_table.observed_for(row.pk) if outcome.deleted else {**observed, **outcome.answers}
    seen = replace(_gather(row, observed), lost=before.lost, failed=before.failed)
    derived = derivation.derive(seen, turn.facts, now=now)
    ends = None if derived.phase.is_final else _protected_until(turn, seen.queued)
    next_end = None if derived.phase.is_final else _next_end(turn, observed)
    dates = (_due(turn, derived, seen), next_end, _look_again(ended, now))
    return Result(
        conditions=[*derived.conditions, *_read(turn)],
        outcome=outcome,
        updates=_columns(turn, derived) | {"protected_until": ends, **settled, **_kept_of(ended)},
        lines=[
            *(WorkloadEvent(workload=row, **event.__dict__) for event in derived.events),
            *(log_keeping.new_events(row) if ended and ended.failures < 2 else ()),
        ],
        due_at=min(filter(None, dates), default=None),
        done=turn.facts.deleting and not (set(observed) - _kept(desired)),
    )


@dataclass(frozen=True)
class Turn:
    """One reconcile of a row: what it asks for, read once, where that goes, and what the row says."""

    row: Workload
    spec: WorkloadSpec
    place: PlacementSpec
    facts: Facts
    now: datetime
    is_out: bool = False
    """It was taken out of its queue, and its pod with it: none is made until somebody asks for it."""
    tried_again_at: datetime | None = None
    """When the next pod is made after one that failed."""
    unreadable: tuple[str, ...] = ()
    """Its secrets that were sealed with another secret key."""

    @property
    def pauses(self) -> bool:
        """Whether no pod of it is made at present."""
        return self.is_out or (self.tried_again_at is not None and self.now < self.tried_again_at)


def _turn(row: Workload, before: ObservedWorkload, observed: Seen, now: datetime) -> Turn:
    spec = reading.applied_spec(row)
    found = sealed.unsealed(row)
    place = replace(
        reading.place_of(row, before.controller),
        ide_token=_ide_token(row),
        secret_values=found.values,
    )
    facts = reading.facts_of(row, spec, observed.values())
    failure = reading.failure_of(row)
    at = retries.tried_again_at(failure) if failure else None
    return Turn(row, spec, place, facts, now, _is_out(facts, before), at, found.unreadable)


def _is_out(facts: Facts, seen: ObservedWorkload) -> bool:
    """RULE: what still has its pod still has its Kueue Workload, which stands out of the queue itself."""
    if rendering.controller_kind(facts.kind) != ALONE or seen.controller is not None:
        return False
    evicted = derivation.condition_of(seen.queued or seen.lost, "Evicted")
    return waits.takes_out(evicted, facts.asked_at) or waits.taken_out(facts) is not None


def _ide_token(row: Workload) -> str:
    """Where the secret key of its run is gone, that of the next run."""
    try:
        return sealed.ide_token(row)
    except KeyMissing:
        return derived(IDE, str(row.pk))


def _end(turn: Turn, before: ObservedWorkload, observed: Seen, desired: list[Manifest] | None) -> End | None:
    """That the present run ends in this turn, or has just ended; None while it goes on."""
    facts, is_there = turn.facts, turn.facts.wanted and before.controller is not None
    removes = is_there and desired is not None and not any(map(rendering.makes_pods, desired))
    derived = derivation.derive(before, facts, now=turn.now)
    outcome = last_run.outcome_of(facts, derived, before, removes=removes)
    if outcome is None:
        return None
    pods = [seen.body for seen in observed.values() if seen.ref.kind == "Pod"]
    return End(turn.row, facts, derived, outcome, before, pods, turn.now)


def _kept_of(run: LastRun | None) -> dict[str, Any]:
    return {"last_run": run.as_json()} if run else {}


def _look_again(run: LastRun | None, now: datetime) -> datetime | None:
    return now + LOOK_AGAIN if run and not run.is_settled else None


def _read(turn: Turn) -> list[dict[str, str]]:
    """Whether its secrets could be read; nothing while they always could."""
    if turn.unreadable:
        words = f"Sealed with another secret key, set them anew: {', '.join(turn.unreadable)}."
        return [condition(SECRETS_READ, False, "Unreadable", words)]
    was_wrong = find(turn.row.conditions, SECRETS_READ) is not None
    return [condition(SECRETS_READ, True, "Read", "Its secrets can be read.")] if was_wrong else []


def _settled(row: Workload, seen: ObservedWorkload) -> dict[str, Any]:
    """How its image is pulled, which secrets its pods name and of which key its IDE's token is, put on the
    row where it changes.

    RULE: it is settled as a run is made, because a changed pod template means another object; and once more
    while its image cannot be pulled, so that a pull secret which is added then helps; where pods are replaced
    one by one also while others run. Where such a one gets another image, the verb settles it. What waits for
    quota takes secrets that are set meanwhile: no pod of it has run.
    """
    found = _pulls(row, seen)
    is_waiting = seen.controller is not None and not derivation.is_true(seen.queued, "Admitted")
    if seen.controller is None or is_waiting:
        found |= _moved(row, {"run_secrets": row.secret_names, "run_key": key_in_force()})
    return found


def _pulls(row: Workload, seen: ObservedWorkload) -> dict[str, Any]:
    ready = find(row.conditions, "Ready")
    is_stuck = row.phase == Phase.STARTING and ready is not None and ready["reason"] in BAD_IMAGE
    if registry.of(row.kind).rolls:
        is_stuck = any(map(_lacks_image, seen.pods))
    if seen.controller is not None and not is_stuck:
        return {}
    return _moved(row, dict(zip(("keeps_image", "names_pull_secret"), reading.pull_of(row), strict=True)))


def _moved(row: Workload, wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Put on the row; what of it was otherwise."""
    moved = {name: value for name, value in wanted.items() if getattr(row, name) != value}
    for name, value in moved.items():
        setattr(row, name, value)
    return moved


def _lacks_image(pod: Mapping[str, Any]) -> bool:
    return any(waiting.get("reason") in BAD_IMAGE for waiting in waiting_of(pod))


def _gather(row: Workload, observed: Seen) -> ObservedWorkload:
    kind = rendering.controller_kind(Kind(row.kind))
    wanted = not row.suspended and row.deleting_at is None
    seen = gathering.gather(observed.values(), controller_kind=kind, wanted=wanted)
    is_lost = (
        kind == ALONE and wanted and not seen.remains and not derivation.is_true(seen.queued, "Admitted")
    )
    if not is_lost or not waits.had_its_turn(Kind(row.kind), Phase(row.phase), row.conditions):
        return seen
    # A pod's place in the queue goes with the pod: both may be gone before anybody sees why.
    place = reading.last_place(row)
    if place is None or waits.is_asked_since(derivation.condition_of(place.body, "Evicted"), row.asked_at):
        return seen
    return replace(seen, lost=place.body)


def _desired(turn: Turn, seen: ObservedWorkload) -> list[Manifest] | None:
    """What should be there; None: leave everything as it is.

    What has finished is never applied again, or a job that somebody removed would run a second time. Its
    secrets alone go.
    """
    facts, spec, place = turn.facts, turn.spec, turn.place
    if facts.deleting:
        return rendering.render(spec, place, running=False) if turn.row.keep_volumes else []
    gave_up = derivation.has_waited_too_long(seen, facts, now=turn.now)
    if facts.phase.is_final and not gave_up:
        return None
    if not facts.wanted or gave_up:
        return rendering.render(spec, place, running=False)
    rendered = rendering.render(spec, place)
    if not seen.remains and not turn.pauses and rendering.is_current(seen.controller, rendered):
        return rendered
    # A pod template cannot be changed: what has it goes first, and the next run makes it anew.
    return [manifest for manifest in rendered if not rendering.makes_pods(manifest)]


def _arranged(turn: Turn, observed: Seen) -> list[Manifest]:
    """Its place in the queue, if somebody changed it, and its priority once its protection is over."""
    if not turn.facts.wanted or turn.facts.deleting or turn.facts.phase.is_final:
        return []
    queued = [seen for seen in observed.values() if seen.ref.kind == "Workload" and not seen.deleting]
    return [
        rendering.arrange(seen.ref, turn.place, active=active, priority=priority)
        for seen in queued
        for active, priority in _order(turn, seen)
    ]


def _order(turn: Turn, seen: Observed) -> list[tuple[bool, int]]:
    """Whether it queues and how early; nothing where that is Kueue's own business.

    RULE: a hold is written only while it waits, or it would stop what runs; of what runs only the end of its
    protection is. What Kueue or a hand took out of the queue is put back once it is asked for again.
    """
    row, state = turn.row, state_of(seen.body)
    if state == QueueState.HOLDS:
        ends = _protected_until(turn, seen.body)
        is_ours = ends is not None and (turn.now >= ends or seen.sent_hash)
        return [(True, protection.priority_at(turn.spec, ends, turn.now))] if ends and is_ours else []
    usual = turn.spec.priority.rank
    is_ours = bool(seen.sent_hash)
    if row.held_at is None and kueue_states.out_since(seen.body, is_ours=is_ours) is not None:
        is_asked = kueue_states.starts_again(seen.body, row.asked_at, is_ours=is_ours)
        return [(True, usual)] if is_asked else []
    is_touched = row.held_at is not None or row.queue_priority is not None
    if state not in (QueueState.WAITS, QueueState.HELD) or not (is_touched or is_ours):
        return []
    return [(row.held_at is None, usual if row.queue_priority is None else row.queue_priority)]


def _protected_until(turn: Turn, queued: Any) -> datetime | None:
    return protection.ends_at(turn.spec, queued, settings.CONFIG.protection)


def _next_end(turn: Turn, observed: Seen) -> datetime | None:
    """When the next protection ends: each Workload of its has its own."""
    queued = (seen.body for seen in observed.values() if seen.ref.kind == "Workload" and not seen.deleting)
    ends = (_protected_until(turn, body) for body in queued)
    return min((end for end in ends if end is not None and end > turn.now), default=None)


def _kept(desired: list[Manifest] | None) -> set[ObjectRef]:
    return {ref_of(manifest) for manifest in desired or ()}


def _columns(turn: Turn, derived: Derived) -> dict[str, Any]:
    started_at, lease, stops_at = derived.started_at, turn.spec.max_run_seconds, None
    if derived.phase in derivation.ON and started_at is not None and lease is not None:
        stops_at = started_at + timedelta(seconds=lease)
    # A job's claims go with its pods' end: what it ran on is what was seen before.
    ended = derived.phase.is_final and bool(turn.row.placement)
    return {
        "phase": derived.phase,
        "queue": derived.queue,
        "placement": turn.row.placement if ended else derived.placement,
        "started_at": started_at,
        "ended_at": derived.ended_at,
        "stops_at": stops_at,
        # What came of an array outlives its Job, until it is asked for again.
        "items": derived.items or turn.row.items,
        "replicas": derived.replicas,
    }


def _due(turn: Turn, derived: Derived, seen: ObservedWorkload) -> datetime | None:
    """When to look again even if no watch says so: while something goes, while Kueue has not seen it, and
    when a wait becomes too long.
    """
    facts, now = turn.facts, turn.now
    if derived.phase in (Phase.STOPPING, Phase.DELETING):
        return now + LOOK_AGAIN
    if derived.phase.is_final and not facts.phase.is_final and turn.place.secrets:
        return now  # nothing else would let go of them
    if derived.phase is not Phase.PENDING:
        return None
    dates = [] if seen.queued or turn.pauses else [now + derivation.KUEUE_PATIENCE]
    if turn.tried_again_at is not None and now < turn.tried_again_at:
        dates.append(turn.tried_again_at)
    latest = None if derivation.is_true(seen.queued, "Admitted") else waits.latest(facts)
    if latest is not None:
        dates.append(max(latest, now + timedelta(seconds=1)))
    return min(dates, default=None)
