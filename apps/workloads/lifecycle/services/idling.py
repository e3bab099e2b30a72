"""What metering and people decide about a workload that idles: badges and countdown from below the line, and
another offer for its next start.
"""

from datetime import datetime
from uuid import UUID

from django.db import transaction
from django.db.models import UUIDField

from apps.accounts.specs import Actor
from apps.audit import services as audit
from apps.cluster.objects.conditions import Condition, set_condition
from apps.errors import Conflict
from apps.prepared import Prepared
from apps.quotas.models import Offer
from apps.workloads.changes.services import telling, writing
from apps.workloads.lifecycle.selectors import admission_check
from apps.workloads.models import Workload
from apps.workloads.selectors import reading
from apps.workloads.specs import Idleness, Phase

PARTS = "head why story"


@transaction.atomic
def record_finding(*, workload_id: UUID, found: Idleness, now: datetime) -> bool:
    """Keeps what metering found of a workload's use; answers whether anything changed. No generation: nobody
    asked for it. What does not run holds no badge. The lease's end is another column and stays.
    """
    row = _LOCKED.first(workload_id)
    if row is None:
        return False
    seen = found if row.phase == Phase.RUNNING and not row.suspended else Idleness()
    badges: list[Condition] = []
    for fact in seen.badges:
        known = [entry for entry in row.badges if entry["type"] == fact["type"]]
        badges += set_condition(known, fact, generation=row.generation, now=now)
    told = dict(seen.told) if seen.told and seen.stops_at else None
    before = (row.badges, row.idle_stops_at, row.idle, row.gpu_idle_since)
    if before == (badges, seen.stops_at, told, seen.since):
        return False
    row.badges, row.idle_stops_at, row.idle, row.gpu_idle_since = badges, seen.stops_at, told, seen.since
    row.save(update_fields=["badges", "idle_stops_at", "idle", "gpu_idle_since", "updated_at"])
    telling.tell(row, parts=PARTS)
    return True


_LOCKED = Prepared(
    lambda pk: (
        Workload.objects.select_for_update(of=("self",))
        .select_related("tenant")
        .filter(pk=pk, deleted_at=None)
    ),
    UUIDField(),
)


@transaction.atomic
def resize_on_restart(
    *, actor: Actor, workload: Workload, offer: Offer, reason: str, now: datetime
) -> Workload:
    """Chooses the offer that a workload takes when it starts again; its present one takes the choice back.

    Rule: as stop; the offer is judged now as for new work, and once more at the start.
    """
    row = writing.locked(actor, workload)
    writing.require_alive(row)
    if offer.pk not in (row.offer_id, row.next_offer_id):
        admission_check.check(row.tenant, reading.spec_on(row, offer), now=now)
    return choose(actor=actor, row=row, offer=offer, reason=reason, now=now)


def choose(*, actor: Actor, row: Workload, offer: Offer, reason: str, now: datetime) -> Workload:
    """Writes the offer of a locked row's next start, the story's line and the audit event; the same again
    changes nothing. Its own offer takes the choice back.
    """
    chosen = None if offer.pk == row.offer_id else offer
    if row.next_offer_id == (chosen.pk if chosen else None):
        return row
    before, row.next_offer = row.next_offer, chosen
    row.save(update_fields=["next_offer", "updated_at"])
    changes = {"next_offer": [before.slug if before else None, chosen.slug if chosen else None]}
    audit.record(actor, "workload.resize", row, now=now, changes=changes, reason=reason)
    words = f"{actor.username} chose {chosen.name} for its next start" if chosen else "It keeps its offer"
    writing.note(row, now, "ResizeChosen", writing.said(words, reason))
    telling.tell(row, parts=PARTS)
    return row


@transaction.atomic
def step_back(*, actor: Actor, workload: Workload, reason: str, now: datetime) -> Workload:
    """After a resize was too tight: its next start takes the former offer again, once. Raises Conflict where
    it was not resized. Rule: as stop; what has failed for good keeps the choice for its copy.
    """
    row = writing.locked(actor, workload)
    if row.former_offer_id is None:
        raise Conflict("It was not resized.", hint="Choose an offer for its next start.")
    old = Offer.objects.get(pk=row.former_offer_id)
    row.next_offer, row.former_offer = old, None
    row.save(update_fields=["next_offer", "former_offer", "updated_at"])
    changes = {"next_offer": [None, old.slug]}
    audit.record(actor, "workload.step_back", row, now=now, changes=changes, reason=reason)
    writing.note(row, now, "SteppedBack", writing.said(f"Its next start takes {old.name} again", reason))
    telling.tell(row, parts=PARTS)
    return row
