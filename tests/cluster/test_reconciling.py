"""The frame around every reconcile."""

import subprocess
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from django.db import OperationalError, connection
from django.utils import timezone

from apps.cluster.errors import WEBHOOK_AWAY, Rejected, Throttled, Unreachable
from apps.cluster.gateway.port import Gateway
from apps.cluster.models import Cluster
from apps.cluster.objects.conditions import condition, find
from apps.cluster.reconciling.services import burst, converge, frame, lease, wake
from apps.cluster.reconciling.services.frame import Result, run_reconcile
from apps.cluster.specs import ObjectRef
from apps.tenants.models import Department
from tests import factories
from tests.cluster.doubles import FakeCluster

pytestmark = pytest.mark.both_databases


@pytest.fixture
def row(cluster: Cluster) -> Department:
    return factories.make_department(cluster, "research")


@pytest.fixture
def hints(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """What would have been sent: the broker itself is tested in test_wake."""
    sent: list[tuple[str, str]] = []
    monkeypatch.setattr(wake, "hint", lambda owner, pk, **_how: sent.append((owner, str(pk))))
    return sent


def reconcile(row: Department, answer: Any) -> Department:
    def body(_row: Department, _gateway: Gateway, _now: datetime) -> Result:
        if isinstance(answer, Exception):
            raise answer
        result: Result = answer() if callable(answer) else answer
        return result

    run_reconcile(Department, row.pk, body, owner="department", gateway=FakeCluster())
    row.refresh_from_db()
    return row


def synced(row: Department) -> tuple[str, str, str]:
    entry = find(row.conditions, "Synced")
    assert entry is not None
    return entry["status"], entry["reason"], entry["message"]


def test_a_row_that_was_brought_up_says_so_and_is_free_again(row: Department) -> None:
    soon = timezone.now() + timedelta(minutes=5)
    done = Result([condition("Ready", True, "Ready")], converge.Outcome(2), {"name": "New"}, due_at=soon)

    reconcile(row, done)

    assert synced(row)[:2] == ("True", "Applied")
    ready = find(row.conditions, "Ready")
    assert ready is not None
    assert ready["observed_generation"] == 1
    assert (row.observed_generation, row.attempts, row.name, row.due_at) == (1, 0, "New", soon)
    assert (row.lease_owner, row.lease_until) == ("", None)


def test_a_silent_cluster_is_tried_again_later_and_later(row: Department) -> None:
    waits = []
    for _ in range(8):
        before = timezone.now()
        reconcile(row, Unreachable("The cluster does not answer: refused."))
        assert row.due_at is not None
        waits.append((row.due_at - before).total_seconds())

    assert synced(row) == ("False", "ClusterUnavailable", "The cluster does not answer: refused.")
    assert (row.observed_generation, row.attempts) == (0, 8)
    assert all(0.5 * 2**n <= wait <= 2**n + 1 for n, wait in enumerate(waits[:6]))
    assert max(waits) <= 61


KEPT_OUT = Unreachable("The cluster's webhook k does not answer.", reason=WEBHOOK_AWAY)


def longest_wait(row: Department) -> float:
    """The longest of the back-offs after many failures at a webhook, in seconds."""
    waits = []
    for _ in range(8):
        Department.objects.filter(pk=row.pk).update(attempts=9)
        before = timezone.now()
        reconcile(row, KEPT_OUT)
        assert row.due_at is not None
        waits.append((row.due_at - before).total_seconds())
    return max(waits)


def test_a_webhook_that_is_away_is_tried_every_few_seconds_while_few_wait_for_it(row: Department) -> None:
    assert longest_wait(row) <= 9
    for number in range(24):
        factories.make_department(row.cluster, f"waits-{number}")
    Department.objects.exclude(pk=row.pk).update(attempts=9)
    assert longest_wait(row) > 25


def test_the_first_that_a_webhook_lets_in_wakes_all_that_wait(
    row: Department, hints: list[tuple[str, str]]
) -> None:
    later = timezone.now() + timedelta(minutes=1)
    waits, fine = (factories.make_department(row.cluster, slug) for slug in ("waits", "fine"))
    Department.objects.filter(pk=waits.pk).update(attempts=6, due_at=later)
    Department.objects.filter(pk=fine.pk).update(due_at=later)
    done = Result(outcome=converge.Outcome(1))

    reconcile(row, done)
    reconcile(row, KEPT_OUT)
    reconcile(row, Unreachable("The cluster does not answer: refused."))
    assert hints == []
    reconcile(row, KEPT_OUT)
    reconcile(row, done)

    assert hints == [("department", str(waits.pk))]
    waits.refresh_from_db()
    fine.refresh_from_db()
    assert waits.due_at is not None
    assert waits.due_at <= timezone.now()
    assert fine.due_at == later


def test_a_busy_server_is_given_the_time_it_asks_for(row: Department) -> None:
    before = timezone.now()

    reconcile(row, Throttled("slow down", retry_after=40))

    assert row.due_at is not None
    assert row.due_at - before >= timedelta(seconds=40)


def test_a_refusal_is_shown_in_the_cluster_s_own_words(row: Department) -> None:
    reconcile(row, Rejected(422, "Invalid", "spec.x: must not be negative"))

    assert synced(row) == ("False", "Invalid", "spec.x: must not be negative")


def test_a_refused_object_is_named(row: Department) -> None:
    failure = converge.Failure(ObjectRef("Job", "ns", "train"), "Forbidden", "exceeded quota")

    reconcile(row, Result(outcome=converge.Outcome(failures=(failure,))))

    assert synced(row) == ("False", "Forbidden", "Job ns/train: exceeded quota")
    assert row.due_at is not None


def test_waiting_for_an_old_object_is_said(row: Department) -> None:
    reconcile(row, Result(outcome=converge.Outcome(waiting=(ObjectRef("Job", "ns", "train"),))))

    assert synced(row)[1:] == ("Terminating", "Waits until the old Job ns/train is gone.")
    assert row.observed_generation == 0


def test_a_mistake_of_ours_is_logged_shown_and_tried_again(
    row: Department, caplog: pytest.LogCaptureFixture
) -> None:
    reconcile(row, KeyError("spec"))

    assert synced(row)[1] == "InternalError"
    assert row.due_at is not None
    assert "KeyError" in caplog.text


@pytest.mark.django_db(transaction=True)
def test_a_row_is_given_back_once_a_database_that_went_away_answers(
    row: Department, hints: list[tuple[str, str]], caplog: pytest.LogCaptureFixture
) -> None:
    reconcile(row, OperationalError("the database system is shutting down"))

    assert (row.lease_owner, row.lease_until, row.attempts) == ("", None, 0)
    assert row.due_at is not None
    assert hints == [("department", str(row.pk))]
    assert "Traceback" not in caplog.text


def test_a_row_that_another_worker_holds_is_poked_and_looked_at_once_more(
    row: Department, hints: list[tuple[str, str]]
) -> None:
    def interrupted() -> Result:
        frame.run_reconcile(
            Department, row.pk, lambda *_: Result(), owner="department", gateway=FakeCluster()
        )
        return Result(due_at=timezone.now() + timedelta(hours=1))

    reconcile(row, interrupted)

    assert hints == [("department", str(row.pk))]
    assert row.due_at is not None
    assert row.due_at <= timezone.now(), "the sweep finds it even if the hint is lost"


def test_a_row_that_a_dead_process_holds_is_taken_over(row: Department) -> None:
    with subprocess.Popen(["true"]) as process:
        process.wait()
    dead = f"{lease.this_process().rpartition(':')[0]}:{process.pid}"
    assert lease.claim(Department, row.pk, owner=dead, seconds=30)

    assert synced(reconcile(row, Result()))[0] == "True"


def test_a_row_that_people_changed_meanwhile_is_hinted_again(
    row: Department, hints: list[tuple[str, str]]
) -> None:
    def changed() -> Result:
        Department.objects.filter(pk=row.pk).update(generation=2)
        return Result()

    reconcile(row, changed)

    assert (row.generation, row.observed_generation) == (2, 1)
    assert hints == [("department", str(row.pk))]


def test_a_worker_that_lost_its_lease_writes_nothing(row: Department) -> None:
    def slept() -> Result:
        Department.objects.filter(pk=row.pk).update(lease_until=timezone.now() - timedelta(seconds=1))
        assert lease.claim(Department, row.pk, owner="successor", seconds=30)
        return Result(updates={"name": "stale"})

    reconcile(row, slept)

    assert row.name != "stale"
    assert row.conditions == []
    assert row.lease_owner.startswith("successor#")


def test_a_row_being_deleted_is_gone_once_nothing_of_it_is_left(row: Department) -> None:
    assert reconcile(row, Result(done=True)).deleted_at is None
    Department.objects.filter(pk=row.pk).update(deleting_at=timezone.now())

    again = timezone.now() + timedelta(seconds=5)
    gone = reconcile(row, Result(done=True, due_at=again))

    assert (gone.deleted_at is not None, gone.due_at) == (True, None), "nothing is left to look at again"


def test_updated_at_moves_with_what_people_see_only(row: Department) -> None:
    reconcile(row, Result())
    before = row.updated_at

    reconcile(row, Result(due_at=timezone.now() + timedelta(minutes=1)))
    assert row.updated_at == before

    reconcile(row, Result(updates={"name": "New"}))
    assert row.updated_at > before


@pytest.mark.skipif(
    connection.vendor != "sqlite", reason="others take rows along: tests/workloads/test_burst"
)
def test_with_sqlite_a_hinted_row_goes_alone(cluster: Cluster) -> None:
    rows = [factories.make_department(cluster, slug).pk for slug in ("research", "bio")]
    seen = list[UUID | str]()

    burst.follow(Department, rows[0], seen.append, owner="department")

    assert seen == rows[:1]
