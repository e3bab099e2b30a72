"""The end of a countdown: looks once more, and stops through the workload's normal life cycle.

Level-triggered by `stops_at`. Stop, finding, audit record and messages are one transaction: of a worker that
is killed either all of it stays or nothing, and the next one does it.
"""

import logging
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import DateTimeField, QuerySet

from apps.accounts.specs import Actor, system_actor
from apps.audit import services as audit
from apps.audit.specs import Target
from apps.errors import Conflict, NotFound
from apps.metering.findings.rules import messages as words
from apps.metering.findings.selectors import finding_selectors as selectors
from apps.metering.findings.services import countdown, lifecycle
from apps.metering.models import Finding
from apps.metering.specs import FindingPhase
from apps.notices.specs import Kind
from apps.prepared import Prepared
from apps.web.stores import outage
from apps.workloads.lifecycle.services import verbs as workloads

POLICY = "idle-policy"
_log = logging.getLogger(__name__)


def stop_due(*, now: datetime) -> int:
    """Stops what is idle to the end of its countdown; answers how many.

    RULE: judged anew at that moment, with fresh telemetry, outside quiet hours, unless protected, extended,
    answered or used since: else the countdown is moved or taken back.
    """
    stopped = 0
    for pk, workload in _DUE(now):
        try:
            lifecycle.judge_one(workload, now=now)
            stopped += _stop_if_due(pk, now)
        except Exception as error:
            if outage.is_away(error):
                raise  # the whole task waits for it
            _log.exception("the end of the countdown of finding %s", pk)
    return stopped


def _due(now: Any) -> QuerySet[Finding, Any]:
    due = Finding.objects.filter(stops_at__lte=now, closed_at=None).order_by("stops_at")
    return due.values_list("pk", "workload")


_DUE = Prepared(_due, DateTimeField())


@transaction.atomic
def _stop_if_due(pk: UUID, now: datetime) -> bool:
    row = locked(pk)
    policy = selectors.policy_by(row)
    # A judgement of this very moment or none: what could not be judged must not be stopped.
    if row.closed_at is not None or row.stops_at is None or row.stops_at > now or row.judged_at != now:
        return False
    if policy.is_quiet(now):
        row.stops_at = policy.allowed(now)
        row.save(update_fields=["stops_at"])
        lifecycle.hand_down(row.work, [row], policy, now=now)
        return False
    said = selectors.said_of(row)
    reason = f"idle: {words.reason(said)}"
    return stop(row, actor=system_actor(POLICY), reason=reason, now=now)


def stop(row: Finding, *, actor: Actor, reason: str, now: datetime) -> bool:
    """Stops the workload of a locked finding and closes it as acted on; False where there was nothing to
    stop. Raises NotAllowed. A second call changes nothing.

    RULE: what the system stops because it does nothing, its working hours do not start again: nobody may
    have missed it.
    """
    try:
        with transaction.atomic():
            workloads.stop_workload(
                actor=actor, workload=row.work, reason=reason, now=now, until_asked=actor.user_id is None
            )
    except (Conflict, NotFound) as error:
        # It ended or was deleted since: then there is nothing to stop.
        _log.info("the finding on %s needs no stop: %s", row.work.slug, error.detail)
        row.phase, row.closed_at, row.stops_at = FindingPhase.RESOLVED, now, None
        row.save(update_fields=["phase", "closed_at", "stops_at"])
        return False
    row.phase, row.closed_at, row.stops_at = FindingPhase.ACTED, now, None
    row.reason, row.decided_by = reason, actor.username
    row.save(update_fields=["phase", "closed_at", "stops_at", "reason", "decided_by"])
    said = selectors.said_of(row)
    countdown.tell(row, Kind.IDLE_STOPPED, words.stopped(said.name, now, said.seconds), now=now)
    record(row, actor, "finding.stop", reason=reason, now=now)
    return True


def locked(pk: UUID) -> Finding:
    """The row, locked after its workload, if it is of one, with what its sentences need; raises NotFound."""
    workload = Finding.objects.filter(pk=pk).values_list("workload", flat=True).first()
    owner = lifecycle.locked(workload) if workload else None
    rows = Finding.objects.select_for_update(of=("self",)).filter(pk=pk)
    row = rows.select_related("tenant__department", "made__offer", "made__cluster").first()
    if row is None or (owner is None and row.made is None):
        raise NotFound
    row.workload = owner
    return row


def record(row: Finding, actor: Actor, action: str, *, reason: str, now: datetime) -> None:
    """What was done about a finding, in the tenant's audit chain."""
    changes = {
        "phase": [None, row.phase],
        "until": [None, row.snoozed_until],
        "stops_at": [None, row.stops_at],
    }
    name = f"{row.kind} {row.workload.slug if row.workload else selectors.name_of(row)}"
    target = Target("finding", row.pk, name, row.tenant.slug)
    audit.record(actor, action, target, now=now, changes=changes, reason=reason)
