"""What has come and gone costs a tick nothing, or a known little: no statement reads all that ever was.

Counted in steps of SQLite's machine, which are the same on every machine. It has no statistics, so that its
plans are those of ten thousand rows.
"""

import gc
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection
from django.utils import timezone

from apps.cluster.mirror.selectors import inventory
from apps.cluster.models import MirrorObject
from apps.metering.allocations.services.collect import _pods, collect
from apps.metering.billing.services import pricing_run
from apps.metering.ledger.rules.segments import ChangeKind
from apps.metering.ledger.selectors.facts import compute
from apps.metering.models import Allocation, HardwareFact
from apps.workloads.models import Workload, WorkloadEvent
from apps.workloads.specs import Phase
from apps.workloads.waiting.selectors import foresight
from portal.celery import app
from tests.conftest import Cast
from tests.factories import make_workload

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.skipif(connection.vendor != "sqlite", reason="the planner of PostgreSQL knows what is there"),
]
FINE = 10
"""Steps that are counted at once."""
COUNT = 100
ROUNDED = 0.5
"""Nothing, as it is counted."""
AGO = timedelta(minutes=30)


def come_and_gone(cast: Cast) -> None:
    """So many more workloads, half an hour ago, that held a device for a while; for each it was cut anew."""
    at = timezone.now() - AGO
    over = at + timedelta(minutes=1)
    rows = [
        Workload(
            cluster=cast.vision.cluster, tenant=cast.vision, owner=cast.rosa, offer=cast.offer, slug="gone",
            name="gone", kind="notebook", spec={}, object_name=f"gone-{uuid4().hex}", observed_generation=1,
            phase=Phase.SUCCEEDED, started_at=at, deleted_at=over, deleting_at=over, cost_as_of=over,
            cost_waste=0, cost_recoverable=0,
        )
        for _ in range(COUNT)
    ]  # fmt: skip
    Workload.objects.bulk_create(rows)
    lines = ("Accepted", "Running", "DeleteRequested")
    WorkloadEvent.objects.bulk_create(
        WorkloadEvent(workload=row, at=at, source="allotment", type="Normal", reason=line)
        for row in rows
        for line in lines
    )
    Allocation.objects.bulk_create(held(row, started_at=at, ended_at=over) for row in rows)
    HardwareFact.objects.bulk_create(
        HardwareFact(
            cluster=row.cluster, gpu="GPU-0", kind=ChangeKind.LAYOUT, at=at, recorded_at=at, outdone_at=over,
            value={"instances": {f"gpu-01/{row.pk}": 1}},
        )
        for row in rows
    )  # fmt: skip
    MirrorObject.objects.bulk_create(
        MirrorObject(
            cluster=row.cluster, kind=kind, namespace="vision", name=f"{row.pk}", uid=f"{kind}-{row.pk}",
            owner_kind="workload", owner_id=str(row.pk), gone_at=over,
        )
        for row in rows
        for kind in ("Pod", "ResourceClaim", "Workload")
    )  # fmt: skip


def held(row: Workload, **when: Any) -> Allocation:
    return Allocation(
        cluster=row.cluster, tenant=row.tenant, workload=row, offer=row.offer, device="gpu-01/gpu-0",
        claim_uid=f"ResourceClaim-{row.pk}", node="gpu-01", gpu="GPU-0", share_numerator=1,
        share_denominator=7, **when,
    )  # fmt: skip


def steps(act: Callable[[], object]) -> int:
    """That SQLite takes for it, the second time."""
    act()
    count = [0]

    def more() -> None:
        count[0] += FINE

    connection.connection.set_progress_handler(more, FINE)
    try:
        act()
    finally:
        connection.connection.set_progress_handler(None, 0)
    return count[0]


def _bill(cast: Cast) -> None:
    held_now = Workload.objects.filter(tenant=cast.vision, deleted_at=None)
    pricing_run.bill(held_now.values_list("pk", flat=True), now=timezone.now())


def _rolled(cast: Cast) -> None:
    compute(cast.vision.cluster, ["GPU-0"], timezone.now() - timedelta(minutes=5), timezone.now())


def _tick(name: str) -> Callable[[Cast], object]:
    return lambda _: app.tasks[name].run()


ACTS: dict[str, tuple[Callable[[Cast], object], float]] = {
    "clock.round": (_tick("clock.round"), ROUNDED),
    "metering.judge": (_tick("metering.judge"), ROUNDED),
    "metering.roll": (_tick("metering.roll"), ROUNDED),
    "past runs": (lambda cast: foresight.history([cast.vision], now=timezone.now()), ROUNDED),
    "what there is": (lambda cast: inventory.bodies(cast.vision.cluster, "Pod"), ROUNDED),
    "pods": (lambda cast: _pods(cast.vision.cluster, [str(uuid4())]), ROUNDED),
    "what is rolled": (_rolled, ROUNDED),
    "collect": (lambda cast: collect(cast.vision.cluster, now=timezone.now()), 40),
    "bill": (_bill, 90),
}
"""By name: what is done, and how many steps more one workload of the past may make it. A month's spend is the
sum of all its allocations, and of each tombstone it is asked whether its end is recorded.
"""


@pytest.mark.parametrize("name", ACTS)
def test_what_has_ended_costs_a_tick_next_to_nothing(cast: Cast, name: str) -> None:
    app.loader.import_default_modules()
    act, most = ACTS[name]
    row = make_workload(cast.vision, cast.rosa, cast.offer, slug="held")
    Workload.objects.update(observed_generation=1, phase=Phase.RUNNING)
    held(row, started_at=timezone.now() - AGO).save()
    about = {"namespace": "vision", "name": "held", "uid": f"ResourceClaim-{row.pk}"}
    MirrorObject.objects.create(
        cluster=row.cluster, kind="ResourceClaim", **about, owner_kind="workload", owner_id=str(row.pk),
        body={"metadata": about},
    )  # fmt: skip
    come_and_gone(cast)
    few = steps(lambda: act(cast))
    come_and_gone(cast)
    grown = (steps(lambda: act(cast)) - few) / COUNT
    assert grown <= most, f"{grown} steps more for each"


def test_what_a_roll_read_of_the_past_is_freed_at_once(cast: Cast) -> None:
    """And not when the collector comes by: an hour of short notebooks has a thousand holders."""
    come_and_gone(cast)
    at = timezone.now() - AGO
    gc.collect()
    gc.disable()
    try:
        compute(cast.vision.cluster, ["GPU-0"], at - timedelta(hours=1), at + timedelta(hours=1))
        assert [each for each in gc.get_objects() if isinstance(each, Allocation)] == []
    finally:
        gc.enable()
