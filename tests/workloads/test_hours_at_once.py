"""Workers and people at the same instant; needs a database with more than one writer."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.conf import settings
from django.db import connection

from apps.audit.models import AuditEvent
from apps.workloads.lifecycle.services import verbs, working_hours
from apps.workloads.models import Workload
from tests.conftest import Cast, as_actor
from tests.workloads.office import FRIDAY_END, MONDAY, now_of, running, tick

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
        finally:
            connection.close()

    with ThreadPoolExecutor(len(acts)) as pool:
        return list(pool.map(one, acts))


def acts_of(row: Workload, verb: str) -> int:
    return AuditEvent.objects.filter(target_id=str(row.pk), action=f"workload.{verb}").count()


def test_six_workers_stop_once_and_start_once(cast: Cast) -> None:
    row = running(cast)
    for at, verb in ((FRIDAY_END, "stop"), (MONDAY, "resume")):
        done = all_at_once(*[lambda at=at: working_hours.keep_due(now=at)] * THREADS)
        assert sum(int(str(each)) for each in done) == 1
        assert acts_of(row, verb) == 1


def test_a_hand_and_a_worker_at_once_leave_one_stop_and_the_next_start(cast: Cast) -> None:
    row, rosa = running(cast), as_actor(cast.rosa)

    def by_hand() -> object:
        return verbs.stop_workload(actor=rosa, workload=row, reason="", now=FRIDAY_END)

    all_at_once(by_hand, lambda: working_hours.keep_due(now=FRIDAY_END), by_hand)
    assert acts_of(row, "stop") == 1
    assert (now_of(row).suspended, now_of(row).hours_due_at) == (True, MONDAY)
    assert tick(row, MONDAY)[:2] == (1, False)
