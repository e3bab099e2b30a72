"""A notebook with working hours, and what a tick of the clock does with it."""

from datetime import datetime, timedelta
from typing import Any

from apps.workloads.lifecycle.services import working_hours
from apps.workloads.models import Workload
from apps.workloads.specs import Phase
from tests.conftest import Cast
from tests.factories import NOW
from tests.workloads.asking import submit

HOURS = {
    "days": ["Mon", "Tue", "Wed", "Thu", "Fri"],
    "from": "08:00",
    "until": "18:00",
    "time_zone": "Europe/Berlin",
}
HOUR = timedelta(hours=1)
FRIDAY_END = NOW + 8 * HOUR
"""NOW is a Friday in November, 10:00 in Berlin."""
MONDAY = FRIDAY_END + timedelta(days=2, hours=14)
MONDAY_END = MONDAY + 10 * HOUR


def kept(cast: Cast, **hours: Any) -> Workload:
    return submit(cast, notebook={"hours": {**HOURS, **hours}}, max_run_seconds=72 * 3600)


def running(cast: Cast, **hours: Any) -> Workload:
    row = kept(cast, **hours)
    Workload.objects.filter(pk=row.pk).update(phase=Phase.RUNNING, started_at=NOW, stops_at=NOW + 72 * HOUR)
    return now_of(row)


def now_of(row: Workload) -> Workload:
    return Workload.objects.get(pk=row.pk)


def tick(row: Workload, at: datetime) -> tuple[int, bool, datetime | None]:
    """How many acts a tick does, and what the row is then."""
    acted = working_hours.keep_due(now=at)
    after = now_of(row)
    return acted, after.suspended, after.hours_due_at
