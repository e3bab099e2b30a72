"""The database comes out of a backup while the cluster went on: nobody loses work by it unasked."""

import time
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from django.test import Client
from django.utils import timezone

from apps.accounts.models import User
from apps.audit.models import AuditEvent
from apps.cluster.models import Cluster
from apps.cluster.objects.conditions import find
from apps.cluster.reconciling.services import holds
from apps.metering.telemetry.services import partitions
from apps.workloads.models import Workload
from apps.workloads.specs import Phase
from portal.operate import restoring
from tests.drills.backups import Backup
from tests.drills.world import MUCH_LATER, Ask, World

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both_databases]
OTHER = "l4-whole"


def restore(step: str, *options: str) -> str:
    said = StringIO()
    call_command("restore", step, *options, stdout=said)
    return said.getvalue()


def look_around(world: World) -> list[str]:
    """Workers look at every row, twice; what they wrote to the cluster meanwhile."""
    world.gateway.writes.clear()
    for _ in range(2):
        world.sweep(later=MUCH_LATER)
        world.work()
        world.watch.deliver()
    return [write.point for write in world.gateway.writes]


def pods(world: World) -> dict[str, str]:
    """The uids of the pods that are there, by their names."""
    found = world.door.client.list("pods", world.tenant.object_name)
    return {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in found}


def test_a_backup_of_this_moment_changes_nothing(world: World, tmp_path: Path) -> None:
    row = world.submit(Ask("nb"))
    world.settle()
    before = pods(world)
    today = int(time.time()) // 86_400
    partitions.ensure({today})
    backup = Backup(tmp_path)
    partitions.ensure({today + 1})  # as the clock does each day
    backup.load()
    assert "1 clusters are held" in restore("begin")
    assert "1 clusters" not in restore("begin"), "again it changes nothing"
    assert "not listed yet" in restore("review")
    world.watch.relist()
    assert "north: the database and the cluster know the same." in restore("review")
    assert look_around(world) == []
    assert "1 clusters are written to again" in restore("finish")
    assert look_around(world) == []
    world.settle()
    assert (world.phase(row), pods(world)) == (Phase.RUNNING, before)


def test_while_a_cluster_is_held_wishes_wait_and_say_so(world: World) -> None:
    row = world.submit(Ask("nb"))
    world.settle()
    restore("begin")
    world.watch.relist()
    world.act("stop", row)
    assert look_around(world) == []
    row.refresh_from_db()
    synced = find(row.conditions, "Synced")
    assert synced is not None
    assert (synced["status"], synced["reason"]) == ("False", "ClusterHeld")
    with pytest.raises(CommandError, match="decide about these first"):
        restore("finish")
    restore("finish", "--as-listed")
    world.settle()
    assert (world.phase(row), pods(world)) == (Phase.STOPPED, {})
    acts = list(AuditEvent.objects.filter(action__startswith="cluster.").values_list("action", flat=True))
    assert [act for act in acts if act in ("cluster.held", "cluster.released")] == [
        "cluster.held",
        "cluster.released",
    ]


@pytest.fixture
def older(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Workload]:
    """A backup is loaded; since it was made `gone` was deleted, `back` resumed and `new` made."""
    monkeypatch.setattr(holds, "open_gateway", lambda _: world.door)
    rows = {"gone": world.submit(Ask("gone")), "back": world.submit(Ask("back", offer=OTHER))}
    world.settle()
    world.act("stop", rows["back"])
    world.settle()
    Client().force_login(User.objects.get(username="rosa"))
    backup = Backup(tmp_path)
    world.act("delete", rows["gone"])
    world.settle()
    world.act("resume", rows["back"])
    rows["new"] = world.submit(Ask("new"))
    world.settle()
    assert [world.phase(rows[name]) for name in ("back", "new")] == [Phase.RUNNING, Phase.RUNNING]
    backup.load()
    assert "1 sessions ended" in restore("begin")
    world.watch.relist()
    return rows


def test_an_older_backup_is_reviewed_before_anything_is_written(
    world: World, older: dict[str, Workload]
) -> None:
    """RULE: what it does not know is listed, and nobody goes on before somebody has decided."""
    assert not Workload.objects.filter(pk=older["new"].pk).exists()
    assert look_around(world) == []
    said = restore("review")
    assert f"belongs to nothing here (1):\n  workload {older['new'].pk}: " in said
    assert "would start anew (1):\n  vision/gone, notebook of rosa\n" in said
    assert "would be stopped (1):\n  vision/back, notebook of rosa\n" in said
    with pytest.raises(CommandError, match="decide about these first"):
        restore("finish")


def test_what_it_does_not_know_goes_on_or_ends_as_somebody_decides(
    world: World, older: dict[str, Workload]
) -> None:
    running = pods(world)
    said = restore("review", "--stop-missing", "--resume-running", "--remove-unknown")
    assert "Stopped: 1.\nAsked for again: 1.\nObjects removed: 1.\n" in said
    world.watch.deliver()
    assert "the database and the cluster know the same" not in said
    restore("finish", "--as-listed")
    world.settle()
    assert (world.phase(older["gone"]), world.phase(older["back"])) == (Phase.STOPPED, Phase.RUNNING)
    assert pods(world) == {name: uid for name, uid in running.items() if name.startswith("back-")}
    kept = world.door.client.list("persistentvolumeclaims", world.tenant.object_name)
    assert any(each["metadata"]["name"].startswith("new-") for each in kept), "somebody's files stay"


def test_the_console_says_that_a_cluster_is_held(world: World) -> None:
    restoring.begin(timezone.now())
    client = Client()
    client.force_login(User.objects.get(username="petra"))
    assert "A backup was loaded" in client.get("/console/").content.decode()
    (cluster,) = Cluster.objects.all()
    shown = client.get(f"/api/v1/clusters/{cluster.slug}").json()
    assert shown["status"]["held_since"] is not None
