"""Disks of deleted workloads: kept by default, listed, taken into use again, deleted after a question."""

from datetime import timedelta

import pytest
from django.test import Client

from apps.audit.models import AuditEvent
from apps.workloads.models import Workload
from apps.workloads.specs import Phase
from tests.conftest import SignedIn
from tests.pages import fleet
from tests.pages.conftest import Scene

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]


@pytest.fixture
def left(scene: Scene) -> Workload:
    """Rosa's notebook, deleted an hour ago; its disk of 10 GiB is still in the cluster."""
    row = scene.running
    row.phase, row.keep_volumes = Phase.DELETING, True
    row.deleting_at = row.deleted_at = scene.now - timedelta(hours=1)
    row.save()
    claim = {
        "metadata": fleet.meta(f"{row.object_name}-home", namespace="tenant-vision", at=scene.now, row=row),
        "spec": {"resources": {"requests": {"storage": "10Gi"}}},
    }
    fleet.see(row.cluster, "PersistentVolumeClaim", [claim], now=scene.now)
    return row


@pytest.fixture
def rosa(scene: Scene, signed_in: SignedIn) -> Client:
    return signed_in(scene.cast.rosa)


def test_disks_are_kept_unless_the_tick_is_taken_away(scene: Scene, rosa: Client) -> None:
    shown = rosa.get(scene.url(scene.running, "delete/")).content.decode()
    (box,) = [line for line in shown.split("<input") if 'name="keep_volumes"' in line]
    assert "checked" in box


def test_a_kept_disk_is_listed_with_size_and_its_two_ways_out(rosa: Client, left: Workload) -> None:
    shown = rosa.get("/t/vision/disks/").content.decode()
    for words in (
        f"{left.object_name}-home",
        "10.0 GiB",
        f"disks/{left.pk}/reattach/",
        f"disks/{left.pk}/delete/",
    ):
        assert words in shown


def test_the_workload_runs_again_with_its_disk(scene: Scene, rosa: Client, left: Workload) -> None:
    answer = rosa.post(f"/t/vision/disks/{left.pk}/reattach/")
    assert answer["Location"] == scene.url(left)
    left.refresh_from_db()
    assert (left.deleted_at, left.deleting_at, left.phase) == (None, None, Phase.PENDING)
    assert left.object_name == scene.running.object_name, "the claim's name is made of it"
    assert AuditEvent.objects.filter(action="workload.restore").count() == 1
    assert left.object_name not in rosa.get("/t/vision/disks/").content.decode()


def test_a_slug_taken_meanwhile_gets_a_number(scene: Scene, rosa: Client, left: Workload) -> None:
    Workload.objects.filter(pk=scene.waiting.pk).update(slug=left.slug)
    rosa.post(f"/t/vision/disks/{left.pk}/reattach/")
    left.refresh_from_db()
    assert left.slug == "rag-dev-2"


def test_deleting_asks_first_and_then_lets_the_reconcile_remove_it(rosa: Client, left: Workload) -> None:
    path = f"/t/vision/disks/{left.pk}/delete/"
    assert "cannot be undone" in rosa.get(path).content.decode()
    left.refresh_from_db()
    assert left.keep_volumes
    assert rosa.post(path)["Location"] == "/t/vision/disks/"
    left.refresh_from_db()
    assert (left.deleted_at, left.keep_volumes, left.phase) == (None, False, Phase.DELETING)


def test_only_who_may_delete_a_workload_decides_on_its_disk(
    scene: Scene, signed_in: SignedIn, left: Workload
) -> None:
    ann = signed_in(scene.cast.ann)
    assert ann.post(f"/t/vision/disks/{left.pk}/reattach/").status_code == 403
    assert ann.post(f"/t/vision/disks/{left.pk}/delete/").status_code == 403
    assert signed_in(scene.cast.otto).get(f"/t/vision/disks/{left.pk}/delete/").status_code == 404
