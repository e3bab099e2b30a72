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
from apps.cluster.reconciling.services import lease
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
