"""A notebook that loses its place says so: its pod goes, and its place in the queue with the pod."""

import pytest

from apps.cluster.models import MirrorObject
from apps.workloads.models import WorkloadEvent
from apps.workloads.specs import Phase
from apps.workloads.waiting.rules.situation import Cause
from apps.workloads.waiting.selectors import obstacles
from tests.conftest import Cast
from tests.factories import NOW
from tests.workloads import bodies
from tests.workloads.asking import submit
from tests.workloads.in_process import House

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]


@pytest.fixture
def house(cast: Cast) -> House:
    return House(submit(cast))


def test_an_eviction_is_said_while_its_pod_goes_and_while_it_waits_again(house: House) -> None:
    house.start()
    evicted = bodies.condition("Evicted", reason="Preempted", message="Preempted to accommodate another.")
    by_whom = bodies.condition("Preempted", reason="InCohortReclamation")
    entry = bodies.queued(evicted, by_whom, owner=house.controller["uid"])
    house.tell(entry)
    before = {**house.queued, "metadata": {**house.controller, "deletionTimestamp": NOW.isoformat()}}
    house.tell(before, labelled=True)
    assert house.turn().phase == Phase.PENDING
    assert "Preempted" in WorkloadEvent.objects.values_list("reason", flat=True)
    house.cluster.objects = {ref: body for ref, body in house.cluster.objects.items() if ref.kind != "Pod"}
    house.tell(before, labelled=True, is_gone=True)
    house.tell(entry, is_gone=True)
    house.turn()
    place = {**bodies.queued(owner=house.controller["uid"])["metadata"], "name": "pod-w-2", "uid": "k2"}
    house.tell({**bodies.waiting(), "metadata": place})
    row = house.turn()
    loss = obstacles.loss_of(row, MirrorObject.objects.get(kind="Workload", gone_at=None))
    assert loss is not None
    assert loss.cause is Cause.RECLAIMED


def evictions(house: House) -> list[str]:
    house.row.refresh_from_db()
    return [c["status"] for c in house.row.conditions if c["type"] == "Evicted"]


@pytest.mark.parametrize("looks", ["when the pod is gone", "when both are", "when both came at once"])
def test_an_eviction_is_said_also_where_it_is_seen_after_what_it_ended(house: House, looks: str) -> None:
    """Kinds are watched apart, and a pod's place in the queue goes with the pod."""
    house.start()
    before = house.queued
    evicted = bodies.condition("Evicted", reason="ClusterQueueStopped", message="The queue is stopped.")
    entry = bodies.queued(evicted, owner=house.controller["uid"])
    house.cluster.objects = {ref: body for ref, body in house.cluster.objects.items() if ref.kind != "Pod"}
    house.tell(before, labelled=True, is_gone=True)
    if looks == "when the pod is gone":
        assert house.turn().phase == Phase.PENDING
        assert evictions(house) == []
    if looks == "when both came at once":
        house.tell(bodies.admitted() | {"metadata": entry["metadata"]})  # of a batch the end alone is written
    else:
        house.tell(entry)
    house.tell(entry, is_gone=True)
    house.forget("ResourceClaim")
    row = house.turn()
    assert (row.phase, "Pod" in house.kinds()) == (Phase.PENDING, True)
    run = row.last_run or {}
    assert (run["outcome"], run["cause"]) == ("evicted", "ClusterQueueStopped: The queue is stopped.")
    assert "ClusterQueueStopped" in WorkloadEvent.objects.values_list("reason", flat=True)
    assert evictions(house) == ["True"]
    house.tell(house.queued, labelled=True)
    place = {**bodies.queued(owner=house.controller["uid"])["metadata"], "name": "pod-w-2", "uid": "k2"}
    house.tell({**bodies.waiting(), "metadata": place})
    house.turn()
    assert evictions(house) == ["True"], "it waits since then"
    house.tell(bodies.admitted() | {"metadata": place})
    house.turn()
    assert evictions(house) == ["False"]
