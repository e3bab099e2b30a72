"""Keeps the working hours of notebooks: stops what runs at their end, starts it at their beginning.

Level-triggered by `hours_due_at`, which the same transaction moves on: of a worker that is killed either all
of it stays or nothing. Late, it looks at what the hours say by now.
"""

import logging
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import DateTimeField, QuerySet

from apps.accounts.specs import Actor, system_actor
from apps.errors import Conflict, DomainError
from apps.notices import services as notices
from apps.notices.specs import Kind
from apps.prepared import Prepared
from apps.web.stores import outage
from apps.workloads import policies
from apps.workloads.changes.services import writing
from apps.workloads.lifecycle.services import changing, verbs
from apps.workloads.models import Workload
from apps.workloads.selectors import working_hours
from apps.workloads.specs import Phase

OUTSIDE, BEGINS = "outside its working hours", "its working hours begin"
_log = logging.getLogger(__name__)


def keep_due(*, now: datetime) -> int:
    """Stops and starts what is due; answers how many."""
    acted = 0
    for pk in _DUE(now):
        try:
            acted += _keep(pk, now)
        except Exception as error:
            if outage.is_away(error):
                raise  # the whole task waits for it
            _log.exception("the working hours of workload %s", pk)
    return acted


def _due(now: Any) -> QuerySet[Workload, UUID]:
    return (
        Workload.objects.filter(hours_due_at__lte=now).order_by("hours_due_at").values_list("pk", flat=True)
    )


_DUE = Prepared(_due, DateTimeField())


@transaction.atomic
def _keep(pk: UUID, now: datetime) -> bool:
    """RULE: a stop that was missed is done late; a start that was missed, only while the hours last."""
    rows = Workload.objects.select_for_update(of=("self",)).select_related("tenant__department", "owner")
    row = rows.filter(pk=pk, hours_due_at__lte=now).first()
    if row is None:
        return False  # somebody was first
    hours = row.hours
    if hours is None or row.deleting_at is not None or Phase(row.phase).is_final:
        return _moved(row, None)
    if hours.hold(now) is not row.suspended:
        changing.follow_hours(row, now)
        return _moved(row, row.hours_due_at)
    if row.suspended:
        return _start(row, now)
    verbs.stop_workload(actor=system_actor("working-hours"), workload=row, reason=OUTSIDE, now=now)
    return True


def _moved(row: Workload, due: datetime | None) -> bool:
    """It is as its hours want it, or they count no more."""
    row.hours_due_at = due
    row.save(update_fields=["hours_due_at"])
    return False


def _start(row: Workload, now: datetime) -> bool:
    """As `resume_workload`; a refusal is told to its owner, and the next beginning is tried again."""
    try:
        with transaction.atomic():
            _require_owner(row)
            verbs.resume_workload(actor=system_actor("working-hours"), workload=row, reason=BEGINS, now=now)
    except DomainError as refusal:
        changing.follow_hours(row, now)
        _moved(row, row.hours_due_at)
        again = working_hours.words_of(row, now)
        words = f"It was not started when its working hours began: {refusal.detail} {again}"
        writing.note(row, now, "NotStarted", words)
        writing.woken(row)
        url = f"/t/{row.tenant.slug}/workloads/{row.pk}/"
        notices.tell(
            [row.owner_id], kind=Kind.WORKLOAD_WAITS, message=f"{row.name}: {words}", url=url, at=now,
            tenant=row.tenant.slug,
        )  # fmt: skip
        return False
    return True


def _require_owner(row: Workload) -> None:
    """Raises Conflict where its owner could not start it: nobody would open it."""
    owner = Actor(row.owner.username, user_id=row.owner_id, platform_role=row.owner.platform_role)
    if not row.owner.is_active or not policies.can_operate(owner, row):
        raise Conflict(f"{row.owner.username} may not run work in {row.tenant.slug} any more.")
