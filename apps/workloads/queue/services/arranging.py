"""Moving, holding and releasing what waits: permission, rule, write and audit, and the effect beforehand.

Records intent only: the reconcile writes priority and `active` of Kueue's own Workload. Nothing that runs is
touched.
"""

from collections.abc import Sequence
from datetime import datetime

from django.db import transaction

from apps.accounts.specs import Actor
from apps.audit import services as audit
from apps.cluster.models import MirrorObject
from apps.cluster.objects import queueing
from apps.errors import Conflict, NotAllowed
from apps.workloads import policies
from apps.workloads.changes.services import telling, writing
from apps.workloads.models import StartEstimate, Workload
from apps.workloads.queue.rules import effects
from apps.workloads.queue.rules.effects import MOST_NAMES, Arrangement, Effect, Queue, Standing
from apps.workloads.selectors import reading
from apps.workloads.specs import Phase
from apps.workloads.waiting.selectors import obstacles, places

_ACTIONS = {
    Arrangement.FRONT: ("workload.move", "Moved", "moved it to the front"),
    Arrangement.USUAL: ("workload.move", "Moved", "moved it back to its usual place"),
    Arrangement.HOLD: ("workload.hold", "Held", "held it"),
    Arrangement.RELEASE: ("workload.release", "Released", "released it"),
}


def effect_of(*, actor: Actor, workload: Workload, arrangement: Arrangement) -> Effect:
    """What it would change, in words; the same refusals as doing it."""
    require_arrange(actor, workload)
    _require_waiting(workload)
    entry = _entry(workload)
    if entry is None:
        raise Conflict("Kueue has not seen it yet.", hint="Wait a moment: it is on its way into the queue.")
    own = _standing(entry, workload.name, usual=reading.usual_priority(workload))
    return effects.effect(arrangement, own, _queue(entry, own, is_held=workload.held_at is not None))


@transaction.atomic
def arrange_workload(
    *, actor: Actor, workload: Workload, arrangement: Arrangement, reason: str, now: datetime
) -> Workload:
    """Move, hold or release waiting work. Doing it again changes nothing.

    Rule: platform engineers; only what waits. A hold and a move last for this wait: a stop ends them.
    """
    row = writing.locked(actor, workload)
    found = effect_of(actor=actor, workload=row, arrangement=arrangement)
    before = _facts(row)
    if arrangement is Arrangement.FRONT:
        row.queue_priority = found.priority
    elif arrangement is Arrangement.USUAL:
        row.queue_priority = None
    elif arrangement is Arrangement.HOLD and row.held_at is None:
        row.held_at, row.hold_reason = now, reason
    elif arrangement is Arrangement.RELEASE:
        row.held_at, row.hold_reason = None, ""
    changes = {k: [before[k], v] for k, v in _facts(row).items() if v != before[k]}
    if not changes:
        return row
    action, event, words = _ACTIONS[arrangement]
    audit.record(actor, action, row, now=now, changes=changes, reason=reason)
    writing.note(row, now, event, writing.said(f"A platform engineer {words}", reason))
    # Earlier estimates did not know of this, so their outcome does not count.
    StartEstimate.objects.filter(workload=row, settled_at=None).update(settled_at=now)
    telling.tell_neighbours(row)
    return writing.changed(row)


def require_arrange(actor: Actor, workload: Workload) -> None:
    """Raises NotAllowed unless the actor may change the order of this queue."""
    if not policies.can_arrange(actor, workload):
        raise NotAllowed("Only platform engineers move, hold and release waiting work.")


def _require_waiting(row: Workload) -> None:
    writing.require_alive(row)
    if row.phase != Phase.PENDING or row.suspended:
        raise Conflict(
            f"It is {Phase(row.phase).label.lower()}: only waiting work can be moved or held.",
            hint="Stop it instead.",
        )
    if obstacles.is_admitted(row):
        raise Conflict("It is admitted already, and waits for a node.", hint="Stop it, or ask for less.")


def _entry(row: Workload) -> MirrorObject | None:
    return places.entry_of(row) or places.held_in([row.cluster_id]).filter(owner_id=str(row.pk)).first()


def _queue(entry: MirrorObject, own: Standing, *, is_held: bool) -> Queue:
    """Counts over the queue's index, and the few rows that are named: it costs the same however many wait."""
    others = places.beside(entry)
    first = others.order_by("queue_rank").first()

    def ahead_at(priority: int) -> int:
        rank = queueing.at_priority(entry.queue_rank, priority)
        return others.filter(queue_rank__lt=rank).count()

    def between(priority: int) -> tuple[list[str], int]:
        ends = sorted((entry.queue_rank, queueing.at_priority(entry.queue_rank, priority)))
        passed = others.filter(queue_rank__gt=ends[0], queue_rank__lt=ends[1]).order_by("queue_rank")
        shown = list(passed[:MOST_NAMES])
        names = _names(shown)
        return [names.get(each.owner_id, each.name) for each in shown], passed.count()

    return Queue(
        before=None if is_held else ahead_at(own.priority) + 1,
        others=others.count(),
        first=_standing(first, first.name) if first else None,
        ahead_at=ahead_at,
        between=between,
    )


def _names(entries: Sequence[MirrorObject]) -> dict[str, str]:
    """What people call them, by the row's id; work made outside the portal keeps Kueue's name."""
    ids = [entry.owner_id for entry in entries if entry.owner_kind == "workload"]
    return {str(pk): name for pk, name in Workload.objects.filter(pk__in=ids).values_list("pk", "name")}


def _standing(entry: MirrorObject, name: str, *, usual: int | None = None) -> Standing:
    priority = int(entry.body.get("spec", {}).get("priority") or 0)
    _, _, place = entry.queue_rank.partition(" ")
    return Standing(name, priority, priority if usual is None else usual, place)


def _facts(row: Workload) -> dict[str, object]:
    return {"held": row.held_at is not None, "priority": row.queue_priority}
