"""What a watch does not tell is found by the list that follows it; what it tells twice counts once."""

import time
from collections.abc import Callable
from typing import Any

import pytest

from apps.cluster.models import MirrorObject, WatchPosition
from apps.cluster.objects.names import LABEL_UID
from apps.cluster.watching.services import ingest
from apps.cluster.watching.services.ingest import Ingest, Pace
from apps.workloads.models import Workload
from apps.workloads.specs import Phase
from tests.drills.dump import dump, duplicates, orphans
from tests.drills.world import Ask, Watch, World
from tests.patience import patient


@pytest.fixture
def pair(world: World) -> tuple[Workload, Workload]:
    """A notebook and a job that run."""
    rows = world.submit(Ask("nb")), world.submit(Ask("job", kind="job", offer="h100-3g-40gb", seconds=600))
    world.settle()
    assert [world.phase(row) for row in rows] == [Phase.RUNNING] * 2
    return rows


def uid(world: World, resource: str, row: Workload) -> str:
    found = world.door.client.get(resource, row.object_name, world.tenant.object_name)
    return str(found["metadata"]["uid"]) if found else ""


def name_of(world: World, resource: str, row: Workload) -> str:
    (found,) = world.door.client.list(resource, labels=f"{LABEL_UID}={row.pk}")
    return str(found["metadata"]["name"])


def remove(world: World, resource: str, name: str) -> None:
    """Somebody deletes it with kubectl."""
    world.door.simulated.client("person", "kubectl").delete(resource, name, world.tenant.object_name)


def test_after_a_410_everything_that_happened_meanwhile_is_known(
    world: World, pair: tuple[Workload, Workload], record_property: Callable[[str, object], None]
) -> None:
    notebook, job = pair
    remove(world, "pods", notebook.object_name)
    world.manager.advance(700)
    world.watch.lose()
    began = time.monotonic()
    world.watch.relist()
    took = time.monotonic() - began
    record_property("relist_seconds", round(took, 2))
    assert took < patient(10)
    world.settle()
    assert (world.phase(notebook), world.phase(job)) == (Phase.RUNNING, Phase.SUCCEEDED)
    assert uid(world, "pods", notebook) != ""
    assert duplicates(world) == []


def test_what_came_and_went_unseen_leaves_no_ghost(world: World, pair: tuple[Workload, Workload]) -> None:
    third = world.submit(Ask("third", kind="job", offer="h100-whole", seconds=30))
    world.work()
    world.manager.advance(5)
    world.act("delete", third)
    world.work()
    world.manager.advance(60)
    world.watch.lose()
    world.watch.relist()
    world.settle_deaf()
    third.refresh_from_db()
    assert third.deleted_at is not None
    left = MirrorObject.objects.filter(owner_id=str(third.pk), gone_at=None).exclude(kind="Event")
    assert list(left) == []
    assert orphans(world) == []


def test_another_object_of_the_same_name_is_not_taken_for_the_old_one(
    world: World, pair: tuple[Workload, Workload]
) -> None:
    notebook, _ = pair
    before = uid(world, "pods", notebook)
    remove(world, "pods", notebook.object_name)
    world.manager.advance(60)
    body = {"name": notebook.object_name, "namespace": world.tenant.object_name}
    claim = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": body, "data": {"theirs": "yes"}}
    world.door.simulated.client("person", "kubectl").create("configmaps", claim, world.tenant.object_name)
    world.watch.lose()
    world.watch.relist()
    world.settle()
    assert uid(world, "pods", notebook) not in ("", before)
    assert world.phase(notebook) == Phase.RUNNING
    assert uid(world, "configmaps", notebook) != "", "what is not ours stays"


def test_two_watchers_at_once_do_nothing_twice(world: World) -> None:
    second = Watch(world.door, Ingest(world.cluster, lambda _known: None, Pace(0)))
    row = world.submit(Ask("nb"))
    for _ in range(12):
        world.step()
        second.deliver()
        world.work()
    world.settle()
    assert world.phase(row) == Phase.RUNNING
    points = sorted(write.point for write in world.gateway.writes)
    assert points == [f"apply {kind} 1" for kind in ("PersistentVolumeClaim", "Pod", "Secret")]
    assert dump(world, row)["row"]["story"] == ["Accepted", "Running"]


def restore(yesterday: list[Any]) -> None:
    """The mirror table comes back from a backup, and the positions with it."""
    MirrorObject.objects.all().delete()
    MirrorObject.objects.bulk_create(yesterday)
    WatchPosition.objects.all().delete()


def test_a_mirror_of_yesterday_is_brought_up_to_date_and_does_no_harm(
    world: World, pair: tuple[Workload, Workload]
) -> None:
    notebook, job = pair
    yesterday = list(MirrorObject.objects.all())
    world.act("stop", notebook)
    world.act("delete", job)
    later = world.submit(Ask("later", offer="h100-whole"))
    world.settle()
    truth = [dump(world, row) for row in (notebook, later)]
    kept = uid(world, "pods", later)

    restore(yesterday)
    world.sweep(later=ingest.SILENCE * 100)
    for row in (notebook, later):
        world.reconcile("workload", row.pk)  # a worker comes before the watcher
    world.watch.lose()
    world.watch.relist()
    world.settle()

    assert [dump(world, row)["objects"] for row in (notebook, later)] == [entry["objects"] for entry in truth]
    assert uid(world, "pods", later) == kept, "it was not made anew"
    assert [world.phase(row) for row in (notebook, later)] == [Phase.STOPPED, Phase.RUNNING]
    assert (orphans(world), duplicates(world)) == ([], [])


def test_another_cluster_behind_the_address_gets_what_it_lacks(
    world: World, pair: tuple[Workload, Workload]
) -> None:
    notebook, _ = pair
    ingest.recognise(world.cluster, "one")
    for gone in ("pods", "persistentvolumeclaims"):
        remove(world, gone, name_of(world, gone, notebook))
    world.manager.advance(60)
    world.watch.lose()

    assert ingest.recognise(world.cluster, "another") is False
    world.watch.relist()
    world.settle_deaf()

    assert uid(world, "pods", notebook) != ""
    assert world.phase(notebook) == Phase.RUNNING
