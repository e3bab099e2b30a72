"""The sweep finds what no hint told of."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from apps.cluster.models import Cluster
from apps.cluster.reconciling.services import lease, sweep, wake
from apps.cluster.reconciling.services.sweep import News
from apps.tenants.models import Department
from tests import factories

pytestmark = pytest.mark.both_databases

LATER = timedelta(hours=1)


@pytest.mark.parametrize(
    ("facts", "is_due"),
    [
        ({}, True),
        ({"observed_generation": 1}, False),
        ({"generation": 2, "observed_generation": 1, "due_at": LATER}, True),
        ({"attempts": 2, "due_at": LATER}, False),
        ({"attempts": 2, "due_at": -LATER}, True),
        ({"observed_generation": 1, "due_at": -LATER}, True),
        ({"observed_generation": 1, "due_at": LATER}, False),
        ({"observed_generation": 1, "lease_until": -LATER}, True),
        ({"lease_until": LATER}, False),
        ({"deleted_at": -LATER}, False),
    ],
    ids=[
        "never brought up", "at rest", "changed although a later date is set", "failed and waiting",
        "failed and waited", "its date has come", "its date is to come", "its worker died", "held", "gone",
    ],
)  # fmt: skip
def test_a_row_is_due_when(facts: dict[str, Any], is_due: bool, cluster: Cluster) -> None:  # noqa: FBT001
    now = timezone.now()
    row = factories.make_department(cluster, "research")
    moments = {name: now + value if isinstance(value, timedelta) else value for name, value in facts.items()}
    Department.objects.filter(pk=row.pk).update(**moments)

    assert sweep.due(Department, now) == ([row.pk] if is_due else [])


@pytest.mark.parametrize(
    ("facts", "news"),
    [
        ({}, News.WISH),
        ({"observed_generation": 1}, News.NONE),
        ({"observed_generation": 1, "due_at": -LATER}, News.DUE),
        ({"observed_generation": 1, "due_at": LATER}, News.NONE),
        ({"observed_generation": 1, "lease_until": -LATER}, News.DUE),
        ({"attempts": 2, "due_at": LATER}, News.DUE),
        ({"deleted_at": -LATER}, News.NONE),
        ({"lease_until": LATER, "lease_owner": "another"}, News.NONE),
        ({"lease_until": LATER, "lease_owner": "another", "due_at": -LATER}, News.NONE),
        ({"lease_until": LATER, "lease_owner": "the dead"}, News.WISH),
    ],
    ids=[
        "unobserved", "at rest", "noted", "later", "its worker died", "asked while it backs off", "gone",
        "held", "noted while it is held", "held by one that just died",
    ],
)  # fmt: skip
def test_a_hint_tells_something_new_when(
    facts: dict[str, Any], news: News, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease, "is_dead", lambda owner: owner == "the dead")
    now = timezone.now()
    row = factories.make_department(cluster, "research")
    moments = {name: now + value if isinstance(value, timedelta) else value for name, value in facts.items()}
    Department.objects.filter(pk=row.pk).update(**moments)

    assert sweep.news(Department, row.pk) == news


def test_a_sweep_takes_no_more_than_its_limit(cluster: Cluster) -> None:
    for slug in ("a", "b", "c"):
        factories.make_department(cluster, slug)

    assert len(sweep.due(Department, timezone.now(), limit=2)) == 2


def test_a_claimed_row_is_not_due(cluster: Cluster) -> None:
    row = factories.make_department(cluster, "research")
    assert lease.claim(Department, row.pk, owner="a", seconds=30)

    assert sweep.due(Department, timezone.now()) == []


def test_what_the_sweep_finds_stands_behind_what_people_ask_for(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, django_capture_on_commit_callbacks: Any
) -> None:
    row, sent = factories.make_department(cluster, "research"), list[tuple[str, int]]()
    monkeypatch.setattr(wake, "_send", lambda _task, pk, priority: sent.append((pk, priority)))

    with django_capture_on_commit_callbacks(execute=True):
        assert sweep.hint_due(Department, "department", timezone.now()) == 1
        Department.objects.filter(pk=row.pk).update(attempts=1)
        assert sweep.recover(cluster, timezone.now()) == 1

    assert sent == [(str(row.pk), wake.LATER)] * 2


def test_when_a_cluster_answers_again_its_failed_rows_are_due_at_once(cluster: Cluster) -> None:
    failed, fine = (factories.make_department(cluster, slug) for slug in ("failed", "fine"))
    Department.objects.filter(pk=failed.pk).update(attempts=3, due_at=timezone.now() + LATER)
    Department.objects.filter(pk=fine.pk).update(observed_generation=1)
    elsewhere = factories.make_department(factories.make_cluster("south"), "elsewhere")
    Department.objects.filter(pk=elsewhere.pk).update(attempts=3, due_at=timezone.now() + LATER)
    now = timezone.now()

    assert sweep.recover(cluster, now) == 1
    assert sweep.due(Department, now) == [failed.pk]
    failed.refresh_from_db()
    assert failed.attempts == 1, "it backs off as after a first failure"
