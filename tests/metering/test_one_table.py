"""What was held by kubectl moves among the allocations, and back: with its ids, times and findings."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.apps.registry import Apps
from django.db import IntegrityError, connection, transaction
from django.db.migrations.executor import MigrationExecutor
from django.db.models import Model

from apps.metering.models import Allocation
from apps.workloads.models import Workload
from tests.conftest import Cast
from tests.factories import make_workload
from tests.metering.books import AT, HOUR

BEFORE, AFTER = [("metering", "0009_counters_and_watts")], [("metering", "0012_one_table")]
COLUMNS = (
    "id", "cluster_id", "tenant_id", "offer_id", "capacity", "claim_uid", "device", "device_uuid", "gpu",
    "node", "root", "share_numerator", "share_denominator", "started_at", "ended_at",
)  # fmt: skip
SHARE = {"node": "n1", "gpu": "GPU-1", "share_numerator": 1, "share_denominator": 7}


def migrated(target: list[tuple[str, str]]) -> Apps:
    executor = MigrationExecutor(connection)
    executor.migrate(target)
    return executor.loader.project_state(target).apps


@pytest.fixture
def back() -> Iterator[None]:
    """Whatever a test leaves, the next one finds today's tables."""
    yield
    migrated(MigrationExecutor(connection).loader.graph.leaf_nodes("metering"))


def table(apps: Apps, name: str) -> Any:
    """A model of metering as it was then."""
    return apps.get_model("metering", name)


def rows_of(model: Any, **narrowed: Any) -> list[dict[str, Any]]:
    return list(model.objects.filter(**narrowed).order_by("pk").values(*COLUMNS))


def held_by_kubectl(old: Apps, cast: Cast) -> list[Model]:
    """Two intervals of one claim's device, which became of an offer meanwhile; the second is open."""
    same = {"cluster_id": cast.vision.cluster_id, "tenant_id": cast.vision.pk, "claim_uid": "r1",
            "device": "n1/d", "root": "job/train", "device_uuid": "MIG-1", **SHARE}  # fmt: skip
    make = table(old, "KubectlHolding").objects.create
    return [
        make(**same, started_at=AT, ended_at=AT + HOUR),
        make(**same, started_at=AT + HOUR, offer_id=cast.offer.pk, capacity="spot"),
    ]


def found(old: Apps, cast: Cast, made: UUID) -> UUID:
    row = table(old, "Finding").objects.create(
        made_id=made, tenant_id=cast.vision.pk, kind="hoarder", since=AT, created_at=AT, judged_at=AT
    )
    pk: UUID = row.pk
    return pk


@pytest.mark.exhaustive
@pytest.mark.django_db(transaction=True)
def test_rows_move_there_and_back_as_they_are(cast: Cast, back: None) -> None:
    work = make_workload(cast.speech, cast.rosa, cast.offer, slug="train")
    old = migrated(BEFORE)
    own = table(old, "Allocation").objects.create(
        cluster_id=work.cluster_id, workload_id=work.pk, offer_id=cast.offer.pk, claim_uid="c", device="n1/x",
        started_at=AT, **SHARE,
    )  # fmt: skip
    moved = held_by_kubectl(old, cast)
    finding = found(old, cast, moved[1].pk)
    holdings = table(old, "KubectlHolding")
    written = rows_of(holdings)

    new = migrated(AFTER)
    allocations = table(new, "Allocation").objects
    assert rows_of(table(new, "Allocation"), origin="kubectl") == written
    assert {row.created_at for row in allocations.filter(origin="kubectl")} == {AT, AT + HOUR}
    kept = allocations.get(origin="allotment")
    assert (kept.pk, kept.tenant_id, kept.created_at) == (own.pk, cast.speech.pk, own.created_at)
    assert table(new, "Finding").objects.get(pk=finding).made_id == moved[1].pk
    assert "metering_kubectlholding" not in connection.introspection.table_names()

    again = migrated(BEFORE)
    assert rows_of(table(again, "KubectlHolding")) == written
    assert table(again, "Allocation").objects.get().pk == own.pk
    assert table(again, "Finding").objects.get(pk=finding).made_id == moved[1].pk


def held(work: Workload, **more: Any) -> Allocation:
    given = {"tenant": work.tenant, "claim_uid": uuid4().hex, "device": "n1/d", "started_at": AT, **SHARE}
    return Allocation.objects.create(cluster=work.cluster, **{**given, **more})


@pytest.mark.django_db
def test_the_database_refuses_what_no_origin_makes(cast: Cast) -> None:
    work = make_workload(cast.vision, cast.rosa, cast.offer, slug="train")
    ended, same = AT + timedelta(minutes=1), {"claim_uid": "r1"}
    held(work, origin="kubectl", ended_at=ended, **same)
    held(work, origin="kubectl", **same)
    held(work, workload=work, offer=cast.offer, **same)
    for wrong in (
        {"origin": "kubectl", "workload": work},
        {"origin": "allotment", "offer": cast.offer},
        {"origin": "allotment", "workload": work},
        {"origin": "kubectl", **same},
        {"origin": "allotment", "workload": work, "offer": cast.offer, "ended_at": ended, **same},
    ):
        with pytest.raises(IntegrityError), transaction.atomic():
            held(work, **wrong)
