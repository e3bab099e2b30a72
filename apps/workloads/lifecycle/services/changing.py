"""Another request put on the row of a workload that is there. It must run inside the verb's transaction."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from typing import Any

from apps.accounts.specs import Actor
from apps.errors import Conflict, Invalid
from apps.quotas.models import Offer
from apps.workloads import registry
from apps.workloads.changes.services import writing
from apps.workloads.images.selectors import catalogue
from apps.workloads.lifecycle.selectors import admission_check
from apps.workloads.lifecycle.selectors.admission_check import NOTHING_HELD, Held
from apps.workloads.models import Workload
from apps.workloads.selectors import reading
from apps.workloads.spec import parsing
from apps.workloads.specs import Phase, WorkloadSpec
from apps.workloads.waiting.selectors import obstacles

ON = (Phase.STARTING, Phase.RUNNING)


@dataclass(frozen=True)
class Wanted:
    """What shall be asked for, at the price per hour that was seen (None: any). `restart`: as in
    `WorkloadChange`.
    """

    spec: WorkloadSpec
    seen_hourly: Decimal | None = None
    restart: bool = False


def apply_spec(actor: Actor, row: Workload, wanted: Wanted, *, now: datetime) -> dict[str, Any]:
    """Put a new spec on the row; answers what changed. Raises for what may not change now, or costs another
    price per hour than was seen.
    """
    before, spec = reading.spec_of(row), reading.as_kept(row, wanted.spec)
    problems = admission_check.fixed(before, spec, Phase(row.phase))
    restarts = wanted.restart and needs_restart(row, spec)
    if restarts:
        require_restart(row)
        problems = admission_check.fixed(before, spec, Phase.PENDING)
    if problems:
        raise Invalid(problems)
    if spec == before:
        return {}
    writing.require_alive(row)
    if admission_check.asks_for_no_more(before, spec):
        return _put(row, spec, row.offer, now)
    ask = admission_check.check(row.tenant, spec, now=now, held=held(row, spec))
    if spec.image != before.image:
        catalogue.require_allowed(row.tenant, spec)
    admission_check.require_price(ask, wanted.seen_hourly)
    if restarts:
        _begin_again(actor, row, now)
    return _put(row, ask.spec, ask.offer, now)


def _put(row: Workload, spec: WorkloadSpec, offer: Offer, now: datetime) -> dict[str, Any]:
    before, hours = reading.spec_of(row), row.hours
    if spec.suspend != before.suspend:
        row.phase = Phase.STOPPING if spec.suspend else Phase.PENDING
        row.asked_at = now
    elif row.phase == Phase.PENDING and obstacles.is_deactivated(row):
        row.asked_at = now  # what is corrected is asked for again
    row.suspended, row.offer = spec.suspend, offer
    if spec.offer != before.offer:
        row.next_offer = row.former_offer = None
    old: Mapping[str, Any] = parsing.as_json(replace(before, suspend=False))
    new: Mapping[str, Any] = parsing.as_json(replace(spec, suspend=False))
    moved = {key: [old[key], new[key]] for key in sorted(new) if old[key] != new[key]}
    row.spec = parsing.kept(spec)
    if spec.image != before.image and registry.of(row.kind).rolls:
        # No other run is made of it, in which the reconcile would settle this.
        row.keeps_image, row.names_pull_secret = reading.pull_of(row)
    if spec.suspend != before.suspend or row.hours != hours:
        follow_hours(row, now)
    if spec.suspend != before.suspend:
        moved["suspend"] = [before.suspend, spec.suspend]
    return moved


def needs_restart(row: Workload, wanted: WorkloadSpec) -> bool:
    """Whether it runs, and this changes what cannot change under it."""
    before, spec, phase = reading.spec_of(row), reading.as_kept(row, wanted), Phase(row.phase)
    return phase in ON and not spec.suspend and bool(admission_check.fixed(before, spec, phase))


def require_restart(row: Workload) -> None:
    """Raises Conflict for what is not simply started again: work that runs to an end begins anew."""
    if not registry.of(row.kind).begins_again:
        words = f"A {row.kind} that runs is not restarted: what it has done would be lost."
        raise Conflict(words, hint="Make a new one like it, or stop it first.")


def held(row: Workload, wanted: WorkloadSpec) -> Held:
    """What it has of that offer and gives back itself when it starts again."""
    is_same, is_placed = wanted.offer in (row.offer.slug, str(row.offer_id)), row.phase in ON
    has_quota = is_placed or obstacles.is_admitted(row)
    return Held(reading.spec_of(row).devices, is_placed) if is_same and has_quota else NOTHING_HELD


def follow_hours(row: Workload, after: datetime) -> None:
    """When its working hours next stop it or, while it is stopped, start it.

    RULE: whoever stops or starts it, or sets its hours, is right until then: nothing happens at once.
    """
    hours, row.hours_due_at = row.hours, None
    if hours is not None:
        row.hours_due_at = hours.next_begin(after) if row.suspended else hours.next_end(after)


def leave_queue(row: Workload) -> None:
    """A hold and a move are for one wait only."""
    row.held_at, row.hold_reason, row.queue_priority = None, "", None


def _begin_again(actor: Actor, row: Workload, now: datetime) -> None:
    """RULE: as a stop and a start: the reconcile removes what no longer is as asked for, and then makes it
    anew. It queues like new work, with a fresh lease.
    """
    row.phase, row.asked_at = Phase.PENDING, now
    row.started_at = row.ended_at = row.stops_at = None
    row.extended_seconds = 0
    leave_queue(row)
    writing.forget_idleness(row)
    writing.note(row, now, "Restarted", f"{actor.username} changed its size: it starts again.")
