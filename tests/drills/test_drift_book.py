"""What drifted is in the book: with fields and who wrote them, with the reason where it stays; bounded."""

import copy
from datetime import timedelta
from importlib import import_module
from typing import Any

import pytest
from django.apps import apps
from django.db.models import F

from apps.cluster.errors import Unreachable
from apps.cluster.mirror.selectors.differing import differing, owners_of_differing
from apps.cluster.models import Drift, MirrorObject
from apps.cluster.objects.names import LABEL_MANAGED_BY
from apps.cluster.reconciling.services import drift_book, repairs, sweep
from apps.cluster.specs import EventType, WatchEvent
from apps.cluster.watching.services.ingest import Saw
from apps.workloads.models import Workload
from apps.workloads.specs import Phase
from sandbox.api.storage.store import Place
from tests.drills.by_hand import CHANGES, KUBECTL, flip, kubectl
from tests.drills.door import Write
from tests.drills.dump import difference, dump
from tests.drills.world import Ask, Clock, World


def book() -> Any:
    return Drift.objects.order_by("found_at", "kind")


def test_what_was_put_back_is_in_the_book_with_who_did_it(world: World, served: Workload) -> None:
    name, change = CHANGES["the ports of its service"]
    kubectl(world, name, served.object_name, change, world.tenant.object_name)
    world.settle_deaf()
    (row,) = book()
    assert (row.kind, row.name, row.tenant, row.how) == (
        "Service", served.object_name, world.tenant.slug, "changed"
    )  # fmt: skip
    assert (row.owner_kind, row.owner_id, row.times) == ("workload", str(served.pk), 1)
    assert row.healed_at is not None
    told = {field["path"].rpartition(".")[2]: field for field in row.fields}
    assert (told["targetPort"]["theirs"], told["targetPort"]["manager"]) == ("1", KUBECTL)
    assert told["targetPort"]["ours"] != "1"
    assert told["targetPort"]["at"]


def test_what_was_deleted_by_hand_is_in_the_book(world: World, served: Workload) -> None:
    person = world.door.simulated.client("person", KUBECTL)
    person.delete("services", served.object_name, world.tenant.object_name)
    world.settle_deaf()
    (row,) = book()
    assert (row.kind, row.how, row.fields) == ("Service", "missing", [])
    assert row.healed_at is not None


def test_a_deletion_is_told_although_the_watch_sees_the_new_object_first(
    world: World, served: Workload
) -> None:
    person = world.door.simulated.client("person", KUBECTL)
    person.delete("services", served.object_name, world.tenant.object_name)
    world.watch.deliver()

    def seen_first(write: Write, answer: Any) -> Any:
        world.watch.deliver()
        return answer

    world.gateway.after = seen_first
    world.work()
    (row,) = book()
    assert (row.kind, row.how, row.healed_at is not None) == ("Service", "missing", True)


@pytest.fixture
def finished(world: World) -> Workload:
    row = world.submit(Ask("train", kind="job", seconds=5))
    for _ in range(10):
        world.settle()
        if world.phase(row) == Phase.SUCCEEDED:
            return row
        world.manager.advance(5.0)
    raise AssertionError(world.told())


@pytest.mark.parametrize("what", ["deleted", "edited"])
def test_what_finished_work_left_behind_is_no_drift(world: World, finished: Workload, what: str) -> None:
    space = world.tenant.object_name
    if what == "deleted":
        world.door.simulated.client("person", KUBECTL).delete("jobs.batch", finished.object_name, space)
    else:
        change = {"metadata": {"labels": {"allotment.dev/tenant": None}}}
        kubectl(world, "jobs.batch", finished.object_name, change, space)
    world.watch.deliver()
    assert MirrorObject.objects.filter(kind="Job", name=finished.object_name).count() == 1
    world.work()
    sweep.note_living(owners_of_differing(world.cluster))
    drift_book.settle(now=world.now + timedelta(minutes=1))
    world.work()
    drift_book.settle(now=world.now + timedelta(minutes=1))
    assert list(book()) == []


def test_what_was_removed_and_is_wanted_no_more_is_not_told_as_put_back(
    world: World, finished: Workload
) -> None:
    """Workers are slower than the sweep's patience."""
    client = world.door.simulated.client("person", KUBECTL)
    client.delete("jobs.batch", finished.object_name, world.tenant.object_name)
    MirrorObject.objects.filter(kind="Job").update(sent_hash="sent")
    world.watch.deliver()
    drift_book.settle(now=world.now + timedelta(minutes=1))
    assert [row.how for row in book()] == ["missing"]
    world.work()
    drift_book.settle(now=world.now + timedelta(minutes=1))
    assert list(book()) == []


def test_a_row_that_was_woken_a_moment_ago_opens_no_line(world: World, served: Workload) -> None:
    service = MirrorObject.objects.filter(kind="Service", name=served.object_name)
    service.update(gone_at=world.now - timedelta(hours=1))
    Workload.objects.filter(pk=served.pk).update(due_at=world.now)
    drift_book.settle(now=world.now)
    assert list(book()) == []
    drift_book.settle(now=world.now + timedelta(minutes=1))
    assert [row.how for row in book()] == ["missing"]
    Workload.objects.filter(pk=served.pk).update(due_at=world.now)
    drift_book.settle(now=world.now)
    assert [(row.how, row.healed_at) for row in book()] == [("missing", None)], "once told, it stays"


def test_a_label_by_which_we_find_it_is_told_as_that(world: World, served: Workload) -> None:
    kubectl(
        world, "services", served.object_name, {"metadata": {"labels": {LABEL_MANAGED_BY: None}}},
        world.tenant.object_name,
    )  # fmt: skip
    person = world.door.simulated
    gone = person.store.get("services", Place(world.tenant.object_name, served.object_name))
    assert gone is not None
    world.watch.pending.append(Saw("Service", WatchEvent(EventType.DELETED, copy.deepcopy(gone.obj))))
    world.settle_deaf()
    (row,) = book()
    assert (row.how, [field["theirs"] for field in row.fields]) == ("changed", [None])
    assert LABEL_MANAGED_BY in row.fields[0]["path"]


def test_what_people_ask_of_the_product_is_no_drift(world: World, served: Workload) -> None:
    for verb in ("stop", "resume", "delete"):
        world.act(verb, served)
        world.settle()
    drift_book.settle(now=world.now + timedelta(hours=1))
    assert list(book()) == []


@pytest.mark.usefixtures("one_thread")
def test_a_delete_of_ours_whose_answer_was_lost_is_no_drift(world: World, served: Workload) -> None:
    lost: list[Write] = []

    def lose(write: Write, answer: Any) -> Any:
        if write.verb == "delete" and not lost:
            lost.append(write)
            world.watch.deliver()
            raise Unreachable("The cluster does not answer: connection reset.")
        return answer

    world.gateway.after = lose
    world.act("stop", served)
    world.settle()
    assert lost
    assert owners_of_differing(world.cluster) == set()
    world.act("resume", served)
    world.settle()
    assert list(book()) == []


def test_what_the_old_release_deleted_is_no_drift_after_the_upgrade(world: World, served: Workload) -> None:
    kept = MirrorObject.objects.exclude(sent_hash="").filter(gone_at=None, owner_id=str(served.pk))
    count = kept.count()
    kept.filter(kind="Service").update(gone_at=world.now)
    kept.filter(kind="Deployment").update(deleting=True)
    assert owners_of_differing(world.cluster) == {("workload", str(served.pk))}
    import_module("apps.cluster.migrations.0005_drift").let_go(apps, None)
    assert owners_of_differing(world.cluster) == set()
    assert kept.count() == count - 2


def test_who_is_not_fought_stays_open_with_the_reason(world: World, served: Workload, clock: Clock) -> None:
    for turn in range(5):
        clock.ahead = timedelta(seconds=30 * turn)
        flip(world, served, f"9{turn}")
        drift_book.settle(now=world.now)
    (row,) = book()
    assert (row.healed_at, row.times) == (None, 4), "one line that counts"
    assert KUBECTL in row.message
    (field,) = row.fields
    assert (field["theirs"], field["manager"]) == ('"94"', KUBECTL)


def test_a_wish_of_ours_that_meets_a_change_by_hand_is_not_told_as_drift(
    world: World, notebook: Workload
) -> None:
    kubectl(world, *CHANGES["its generation"][:1], notebook.object_name, CHANGES["its generation"][1],
            world.tenant.object_name)  # fmt: skip
    Workload.objects.filter(pk=notebook.pk).update(generation=F("generation") + 1)
    world.settle_deaf()
    told = [field for row in book() for field in row.fields]
    assert {field["manager"] for field in told} == {KUBECTL}


def test_a_repair_takes_it_back_at_once(world: World, served: Workload, clock: Clock) -> None:
    before = dump(world, served)["objects"]
    for turn in range(5):
        flip(world, served, f"9{turn}")
    repairs.repair(actor=world.petra, drift=book().get(), reason="", now=world.now)
    world.work()
    (row,) = book()
    assert row.healed_at is not None
    assert row.asked_by == "petra"
    world.watch.deliver()
    assert difference(dump(world, served)["objects"], before) == []


def test_what_no_worker_comes_to_is_opened_by_the_sweep(world: World, served: Workload) -> None:
    kubectl(world, "services", served.object_name, CHANGES["the ports of its service"][1],
            world.tenant.object_name)  # fmt: skip
    world.watch.deliver()
    drift_book.settle(now=world.now)
    assert list(book()) == [], "a reconcile needs a moment"
    drift_book.settle(now=world.now + timedelta(minutes=1))
    assert [row.how for row in book()] == ["unread"]
    world.settle_deaf()
    drift_book.settle(now=world.now)
    assert [(row.how, bool(row.healed_at)) for row in book()] == [("changed", True)]


def test_what_a_reconcile_writes_while_the_sweep_looks_is_kept(
    world: World, served: Workload, monkeypatch: pytest.MonkeyPatch
) -> None:
    kubectl(world, "services", served.object_name, CHANGES["the ports of its service"][1],
            world.tenant.object_name)  # fmt: skip
    world.watch.deliver()
    compared = list[Any]()

    def compared_meanwhile(owners: Any) -> list[MirrorObject]:
        found = differing(owners)
        with monkeypatch.context() as during:
            during.setattr(drift_book, "put_back", lambda *_, **__: None)
            world.work()
        compared.extend(row.fields for row in book())
        return found

    monkeypatch.setattr(f"{drift_book.__name__}.differing_of", compared_meanwhile)
    drift_book.settle(now=world.now + timedelta(minutes=1))
    assert [(row.how, row.fields) for row in book()] == [("changed", compared[-1])]
    assert compared[-1] != []


def test_the_book_is_bounded(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drift_book, "MOST_KEPT", 3)
    for number in range(6):
        Drift.objects.create(
            cluster=world.cluster, kind="Service", name=f"s-{number}", how="changed", found_at=world.now,
            seen_at=world.now, healed_at=world.now - timedelta(days=8 * number),
        )  # fmt: skip
    Drift.objects.create(
        cluster=world.cluster, kind="Service", name="open", how="changed",
        found_at=world.now - timedelta(days=90), seen_at=world.now,
    )  # fmt: skip
    assert drift_book.prune(now=world.now) == 3
    assert set(book().values_list("name", flat=True)) == {"s-0", "s-1", "s-2", "open"}
