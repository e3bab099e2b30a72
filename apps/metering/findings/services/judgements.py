"""When each running workload is judged, and what was said of it last."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db.models import DateTimeField, F, JSONField, Q, QuerySet, UUIDField

from apps.metering.findings.rules.idle_policy import Policy
from apps.metering.models import Judgement
from apps.prepared import Prepared, PreparedUpdate
from apps.workloads.models import Workload
from apps.workloads.specs import Phase

EVERY, ATTENTIVE, COUNTING = timedelta(minutes=10), timedelta(minutes=5), timedelta(seconds=55)
"""How soon a workload is judged again: usually, while a finding is open, while a countdown runs; never later
than a quarter of its policy's window.
"""
SLACK = timedelta(seconds=5)
"""Due a moment before the tick that is to judge it: a moment after it is a minute late."""
MOST = 500
"""Workloads of one slice; what is left over comes first in the next."""


def due(now: datetime) -> list[UUID]:
    """Those that run and are to be judged, longest overdue first."""
    return _DUE(now)


def put_off(pk: UUID, *, wait: timedelta, now: datetime) -> None:
    """Nothing is said of it, and it is looked at again after `wait`."""
    if not _PUT_OFF(now, now + wait, [], pk):
        defaults = {"judged_at": now, "due_at": now + wait, "labels": []}
        Judgement.objects.update_or_create(workload_id=pk, defaults=defaults)


def keep(
    pk: UUID, labels: Sequence[str], seen_until: datetime | None, *, wait: timedelta, now: datetime
) -> None:
    """What is said of it now; it is looked at again after `wait`."""
    if not _KEEP(now, now + wait, list(labels), seen_until, pk):
        defaults = {
            "judged_at": now, "due_at": now + wait, "labels": list(labels), "seen_until": seen_until
        }  # fmt: skip
        Judgement.objects.update_or_create(workload_id=pk, defaults=defaults)


def wait(usual: timedelta, policy: Policy) -> timedelta:
    """RULE: at most a quarter of the policy's window, less `SLACK`."""
    return min(usual, timedelta(seconds=policy.idle_seconds / 4) - SLACK)


def _due(now: Any) -> QuerySet[Workload, UUID]:
    rows = Workload.objects.filter(phase=Phase.RUNNING, suspended=False, deleted_at=None)
    are_due = rows.filter(Q(judgement=None) | Q(judgement__due_at__lte=now))
    ordered = are_due.order_by(F("judgement__due_at").asc(nulls_first=True))
    return ordered.values_list("pk", flat=True)[:MOST]


_DUE = Prepared(_due, DateTimeField())
_PUT_OFF = PreparedUpdate(
    lambda judged_at, due_at, labels, pk: (
        Judgement.objects.filter(workload__pk=pk),
        {"judged_at": judged_at, "due_at": due_at, "labels": labels},
    ),
    DateTimeField(),
    DateTimeField(),
    JSONField(),
    UUIDField(),
)
_KEEP = PreparedUpdate(
    lambda judged_at, due_at, labels, seen_until, pk: (
        Judgement.objects.filter(workload__pk=pk),
        {"judged_at": judged_at, "due_at": due_at, "labels": labels, "seen_until": seen_until},
    ),
    DateTimeField(),
    DateTimeField(),
    JSONField(),
    DateTimeField(),
    UUIDField(),
)
