"""Many writers at once on a real PostgreSQL: one holder per row, and the newest version wins."""

import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import UUID

import pytest
from django.db import connection, transaction
from django.utils import timezone

from apps.cluster.mirror.rules.mirror_columns import Sighting
from apps.cluster.mirror.services import mirror_table
from apps.cluster.models import Cluster, MirrorObject
from apps.cluster.objects import names
from apps.cluster.reconciling.services import lease, sweep
from apps.tenants.models import Department
from tests import factories

pytestmark = [
    pytest.mark.postgres,
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite has one writer at a time anyway"),
    pytest.mark.both_databases,
]


def at_once(work: Callable[[Any], Any], items: list[Any]) -> list[Any]:
    def alone(item: Any) -> Any:
        try:
            return work(item)
        finally:
            connection.close()

    with ThreadPoolExecutor(max_workers=8) as pool:
        return list(pool.map(alone, items))


def test_of_eight_workers_exactly_one_gets_each_row() -> None:
    cluster = factories.make_cluster()
    rows = [factories.make_department(cluster, f"d{n}").pk for n in range(20)]

    def claim(pk: UUID) -> lease.Lease[Any] | None:
        return lease.claim(Department, pk, owner="worker", seconds=30)

    won = [taken.row.pk for taken in at_once(claim, rows * 8) if taken]

    assert sorted(won) == sorted(rows)
    assert set(Department.objects.values_list("fence", flat=True)) == {1}


@pytest.mark.parametrize("seed", range(5))
def test_whatever_the_order_of_answers_and_events_the_newest_version_stays(seed: int) -> None:
    cluster = factories.make_cluster()
    chance = random.Random(seed)
    versions = [(name, version) for name in ("a", "b", "c") for version in range(1, 21)]
    chance.shuffle(versions)

    def write(entry: tuple[str, int]) -> None:
        name, version = entry
        labels = names.owner_labels(owner="workload", uid="row")
        metadata = {
            "name": name,
            "namespace": "ns",
            "uid": name,
            "resourceVersion": str(version),
            "labels": labels,
        }
        body = {"metadata": metadata, "status": {"active": version}}
        if version % 3 == 0:
            mirror_table.record_applied(cluster, [mirror_table.Answer("Job", body, f"sent-{version}")])
            return
        with transaction.atomic():
            mirror_table.record_seen(cluster, [Sighting("Job", body)], now=timezone.now())

    at_once(write, versions)

    found = {
        row.name: (row.resource_version, row.body["status"]["active"]) for row in MirrorObject.objects.all()
    }
    assert found == {"a": (20, 20), "b": (20, 20), "c": (20, 20)}
    assert Cluster.objects.count() == 1


def test_who_write_the_same_objects_in_any_order_do_not_wait_for_each_other() -> None:
    """The watcher, and the check of a whole cluster: each writes a batch and notes whose objects it was."""
    cluster, chance = factories.make_cluster(), random.Random(3)
    owners = [("department", str(factories.make_department(cluster, f"d{n}").pk)) for n in range(6)]

    def seen(name: str, version: int) -> Sighting:
        metadata = {"name": name, "namespace": "ns", "uid": name, "resourceVersion": str(version)}
        return Sighting("Job", {"metadata": metadata, "status": {"active": version}})

    def write(version: int) -> None:
        batch = [seen(f"j{n}", version) for n in range(20)]
        chance.shuffle(batch)
        with transaction.atomic():
            mirror_table.record_seen(cluster, batch, now=timezone.now())
            sweep.note(chance.sample(owners, len(owners)))

    write(1)
    at_once(write, list(range(2, 130)))

    assert set(MirrorObject.objects.values_list("resource_version", flat=True)) == {129}
    assert Department.objects.filter(due_at=None).count() == 0


@pytest.mark.parametrize("seed", range(3))
def test_who_buries_does_not_wait_for_who_writes(seed: int) -> None:
    cluster, chance = factories.make_cluster(), random.Random(seed)
    names_of = [f"j{n}" for n in chance.sample(range(60), 60)]
    metadata = [{"name": n, "namespace": "ns", "uid": n, "resourceVersion": "1"} for n in names_of]
    for each in metadata:
        with transaction.atomic():
            mirror_table.record_seen(cluster, [Sighting("Job", {"metadata": each})], now=timezone.now())

    def write(number: int) -> None:
        version = str(number + 2)
        batch = [Sighting("Job", {"metadata": {**m, "resourceVersion": version}}) for m in metadata]
        with transaction.atomic():
            if number % 2:
                mirror_table.bury_absent(cluster, "Job", [], resource_version=number + 2, now=timezone.now())
            else:
                mirror_table.record_seen(cluster, batch, now=timezone.now())

    at_once(write, list(range(30)))

    assert MirrorObject.objects.count() == 60
