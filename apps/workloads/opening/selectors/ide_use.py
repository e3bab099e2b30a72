"""What is known of a notebook's use from its IDE, and which IDEs are due to be asked. Reads only."""

from datetime import datetime, timedelta

from django.db.models import F, Q, QuerySet

from apps.workloads.models import Workload
from apps.workloads.opening.rules import ide_activity
from apps.workloads.opening.rules.ide_activity import Activity
from apps.workloads.specs import Kind, Phase

EVERY = timedelta(minutes=5)


def activity_of(row: Workload, now: datetime) -> Activity | None:
    """What its IDE last said; None: unknown, or it has none."""
    if row.kind != Kind.NOTEBOOK or row.phase != Phase.RUNNING:
        return None
    return ide_activity.believed(row.ide, row.started_at, now)


def words_of(row: Workload, now: datetime) -> str:
    """What a page says of it; "" where there is no IDE to speak of."""
    if row.kind != Kind.NOTEBOOK or row.phase != Phase.RUNNING:
        return ""
    found = activity_of(row, now)
    if found is None:
        return f"What its IDE does is unknown: {ide_activity.problem(row.ide)}."
    return ide_activity.words(found, row.gpu_idle_since, now)


def due(now: datetime) -> QuerySet[Workload]:
    """Notebooks that run and were not asked lately, those that wait longest first."""
    rows = Workload.objects.filter(
        kind=Kind.NOTEBOOK, phase=Phase.RUNNING, suspended=False, deleting_at=None, deleted_at=None
    )
    asked = Q(ide_asked_at=None) | Q(ide_asked_at__lte=now - EVERY)
    ordered = rows.filter(asked).order_by(F("ide_asked_at").asc(nulls_first=True), "pk")
    return ordered.select_related("tenant", "cluster")
