"""Workers that judge, stop and answer at the same instant; needs a database with more than one writer."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.conf import settings
from django.db import connection

from apps.audit.models import AuditEvent
from apps.errors import Conflict
from apps.metering.findings.services import auto_stop, lifecycle, responses
from apps.metering.models import Finding
from apps.notices.models import Notice
from apps.workloads.models import Workload
from tests.conftest import Cast, as_actor
from tests.metering.idle_job import MINUTE, counted, job
from tests.metering.traced import NOW

__all__ = ["job"]
pytestmark = [
    pytest.mark.postgres,
    pytest.mark.skipif(not settings.CONFIG.database_url, reason="needs PostgreSQL (ALLOTMENT_DATABASE_URL)"),
    pytest.mark.django_db(transaction=True),
    pytest.mark.both_databases,
]
THREADS = 6


def all_at_once(*acts: Callable[[], object]) -> list[object]:
    def one(act: Callable[[], object]) -> object:
        try:
            return act()
        except Conflict as refusal:
            return refusal
        finally:
            connection.close()

    with ThreadPoolExecutor(len(acts)) as pool:
        return list(pool.map(one, acts))


def test_six_workers_open_one_finding(job: Workload) -> None:
    all_at_once(*[lambda: lifecycle.judge_one(job.pk, now=NOW)] * THREADS)
    assert Finding.objects.count() == 1


def test_six_workers_stop_once_and_tell_once(job: Workload) -> None:
    counted(job)
    stops = all_at_once(*[lambda: auto_stop.stop_due(now=NOW + 41 * MINUTE)] * THREADS)
    assert sum(int(str(each)) for each in stops) == 1
    assert AuditEvent.objects.filter(action="workload.stop").count() == 1
    assert AuditEvent.objects.filter(action="finding.stop").count() == 1
    assert Notice.objects.filter(kind="idle.stopped").count() == 2


def test_a_dismissal_and_a_stop_at_once_leave_one_of_the_two(cast: Cast, job: Workload) -> None:
    row, leon = counted(job), as_actor(cast.leon)

    def dismisses() -> object:
        return responses.dismiss(
            actor=leon, finding=row, reason="a rehearsal", until=None, now=NOW + 41 * MINUTE
        )

    all_at_once(dismisses, lambda: auto_stop.stop_due(now=NOW + 41 * MINUTE), dismisses)
    row.refresh_from_db()
    job.refresh_from_db()
    assert (row.phase, job.suspended) in (("Acted", True), ("Dismissed", False))
    assert row.stops_at is None
