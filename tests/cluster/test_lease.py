"""Who may write a row, decided by the database alone."""

import subprocess
from datetime import timedelta

import pytest
from django.utils import timezone

from apps.cluster.models import Cluster
from apps.cluster.reconciling.services import lease, sweep
from apps.tenants.models import Department
from tests import factories
from tests.patience import patient

pytestmark = pytest.mark.both_databases


@pytest.fixture
def row(cluster: Cluster) -> Department:
    return factories.make_department(cluster, "research")


def expire(row: Department) -> None:
    Department.objects.filter(pk=row.pk).update(lease_until=timezone.now() - timedelta(seconds=1))


def test_only_one_worker_gets_a_row(row: Department) -> None:
    first = lease.claim(Department, row.pk, owner="a", seconds=30)

    assert first is not None
    assert lease.claim(Department, row.pk, owner="b", seconds=30) is None


def test_a_released_row_can_be_claimed_again_with_a_higher_fence(row: Department) -> None:
    first = lease.claim(Department, row.pk, owner="a", seconds=30)
    assert first is not None
    assert first.release({"attempts": 3})

    second = lease.claim(Department, row.pk, owner="a", seconds=30)

    assert second is not None
    assert second.fence == first.fence + 1
    row.refresh_from_db()
    assert row.attempts == 3


def test_a_lease_ends_by_the_clock_of_the_database(row: Department) -> None:
    assert lease.claim(Department, row.pk, owner="a", seconds=30)
    row.refresh_from_db()
    assert row.lease_until is not None
    assert timedelta(seconds=30 - patient(5)) < row.lease_until - timezone.now() < timedelta(seconds=35)
    expire(row)

    assert lease.claim(Department, row.pk, owner="b", seconds=30)


def test_a_worker_that_slept_past_its_lease_can_no_longer_write(row: Department) -> None:
    sleeper = lease.claim(Department, row.pk, owner="a", seconds=30)
    expire(row)
    successor = lease.claim(Department, row.pk, owner="b", seconds=30)
    assert sleeper is not None
    assert successor is not None

    assert not sleeper.save({"name": "stale"})
    assert not sleeper.release({"name": "stale"})
    assert successor.save({"name": "fresh"})

    row.refresh_from_db()
    assert row.name == "fresh"
    assert row.lease_owner == successor.token


def test_a_lost_lease_is_lost_even_to_a_worker_of_the_same_name(row: Department) -> None:
    sleeper = lease.claim(Department, row.pk, owner="a", seconds=30)
    expire(row)
    assert lease.claim(Department, row.pk, owner="a", seconds=30)

    assert sleeper is not None
    assert not sleeper.release()


def test_a_row_that_is_not_there_cannot_be_claimed(cluster: Cluster) -> None:
    assert lease.claim(Department, cluster.pk, owner="a", seconds=30) is None


def test_a_row_that_is_gone_cannot_be_claimed(row: Department) -> None:
    Department.objects.filter(pk=row.pk).update(deleted_at=timezone.now())

    assert lease.claim(Department, row.pk, owner="a", seconds=30) is None


def test_a_row_that_is_gone_and_whose_worker_died_is_brought_to_rest(row: Department) -> None:
    seen_again = timezone.now() - timedelta(seconds=1)
    Department.objects.filter(pk=row.pk).update(deleted_at=seen_again, due_at=seen_again)
    assert lease.claim(Department, row.pk, owner="dies", seconds=30)
    assert lease.claim(Department, row.pk, owner="a", seconds=30) is None, "it may live still"
    expire(row)

    successor = lease.claim(Department, row.pk, owner="a", seconds=30)

    assert successor is not None
    assert successor.release({"due_at": None})
    row.refresh_from_db()
    assert (row.due_at, row.lease_owner, row.lease_until) == (None, "", None)


@pytest.fixture
def dead() -> str:
    """A process of this machine that was."""
    with subprocess.Popen(["true"]) as process:
        process.wait()
    return f"{lease.this_process().rpartition(':')[0]}:{process.pid}"


def test_the_lease_of_a_dead_process_of_this_machine_ends_at_once(row: Department, dead: str) -> None:
    assert lease.claim(Department, row.pk, owner=dead, seconds=30)
    now = timezone.now()

    assert lease.end_of_dead(Department) == 1

    assert sweep.due(Department, now) == [row.pk], "for the sweep that asked"
    assert lease.claim(Department, row.pk, owner="a", seconds=30)


@pytest.mark.parametrize("whose", ["one that lives", "another machine's", "another numbering's"])
def test_other_leases_run_out(whose: str, row: Department, dead: str) -> None:
    machine, numbering, number = dead.split(":")
    owners = {
        "one that lives": lease.this_process(),
        "another machine's": f"{machine}-2:{numbering}:{number}",
        "another numbering's": f"{machine}:{numbering}0:{number}",
    }
    assert lease.claim(Department, row.pk, owner=owners[whose], seconds=30)

    assert lease.end_of_dead(Department, row.pk) == 0

    assert lease.claim(Department, row.pk, owner="a", seconds=30) is None


def test_a_poke_while_the_row_is_held_leaves_a_date(row: Department) -> None:
    assert lease.claim(Department, row.pk, owner="a", seconds=30)

    lease.poke(Department, row.pk)

    row.refresh_from_db()
    assert row.due_at is not None
    assert abs(row.due_at - timezone.now()) < timedelta(seconds=5)
