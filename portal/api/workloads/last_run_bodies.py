"""How a workload's last run ended, as REST has it."""

from datetime import timedelta

from django.conf import settings

from apps.workloads.models import Workload
from apps.workloads.status import last_run
from apps.workloads.status.last_run import LogNote
from portal.api.workloads.shapes import LastRunBody, LastRunLogBody


def shown(row: Workload) -> LastRunBody | None:
    """Its last run that is over; None where none is."""
    run = last_run.stored(row.last_run)
    if run is None:
        return None
    return {
        "outcome": run.outcome,
        "cause": run.cause,
        "started_at": run.started_at,
        "ended_at": run.ended_at,
        "logs": [_log(each) for each in run.logs],
        "logs_until": run.seen_at + timedelta(days=settings.CONFIG.kept_log_days),
    }


def _log(note: LogNote) -> LastRunLogBody:
    return {
        "pod": note.pod,
        "container": note.container,
        "size": note.size,
        "is_cut": note.is_cut,
        "problem": note.problem or None,
    }
