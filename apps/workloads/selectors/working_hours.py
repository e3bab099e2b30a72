"""What the working hours of a notebook do next, in words. Reads only."""

from datetime import datetime, timedelta

from apps.workloads.hours_specs import WEEK, WorkingHours
from apps.workloads.models import Workload
from apps.workloads.specs import Phase

RESTS = "Stopped because it did nothing: its working hours start it no more until somebody does."


def words_of(row: Workload, now: datetime) -> str:
    """When they next stop or start it, on their own clock; nothing of what has none, or is over."""
    hours = row.hours
    if hours is None or row.deleting_at is not None or Phase(row.phase).is_final:
        return ""
    if row.hours_due_at is None:
        return RESTS
    act = "start" if row.suspended else "stop"
    return f"Its working hours {act} it {_when(hours, row.hours_due_at, now)} {hours.time_zone}."


def _when(hours: WorkingHours, at: datetime, now: datetime) -> str:
    """On their own clock."""
    then, today = hours.local(at), hours.local(now).date()
    days = {today: "today", today + timedelta(days=1): "tomorrow"}
    day = days.get(then.date(), f"on {WEEK[then.weekday()].label}")
    return f"{day} at {then:%H:%M}"
