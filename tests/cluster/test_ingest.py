"""What watches tell becomes rows, positions, phases and hints."""

import threading
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.utils import timezone

from apps.cluster.mirror.services import mirror_table
from apps.cluster.models import Cluster, MirrorObject, WatchPosition
from apps.cluster.objects import names
from apps.cluster.reconciling.services import wake
from apps.cluster.specs import EventType, WatchEvent
from apps.cluster.watching.services import ingest, positions
from apps.cluster.watching.services.capabilities import Facts
from apps.cluster.watching.services.ingest import Beat, Detected, Ingest, Listed, Met, Pace, Saw
from apps.tenants.models import Department
from apps.web.streams import events
from tests import factories
from tests.patience import patient

pytestmark = pytest.mark.both_databases

ROW = str(uuid4())


def body(name: str, version: int, **labels: str) -> dict[str, Any]:
    labels |= names.owner_labels(owner="department", uid=ROW)
    return {
        "metadata": {"name": name, "uid": f"uid-{name}", "resourceVersion": str(version), "labels": labels}
    }


def saw(type_: EventType, name: str, version: int, kind: str = "Job", **labels: str) -> Saw:
    return Saw(kind, WatchEvent(type_, body(name, version, **labels)))


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """Hints and live events, caught before the broker (which has tests of its own)."""
    sent: list[tuple[str, str]] = []
    monkeypatch.setattr(wake, "hint", lambda owner, pk, **_how: sent.append((owner, str(pk))))
    monkeypatch.setattr(
        events, "publish", lambda topics, *, part, **_: sent.extend((t, part) for t in topics)
    )
    return sent


@pytest.fixture
def writer(cluster: Cluster, told: list[tuple[str, str]]) -> Ingest:
    return Ingest(cluster, lambda _is_known: None)


@pytest.fixture
def row(cluster: Cluster) -> Department:
    """Whose objects they are."""
    made = factories.make_department(cluster, "research")
    Department.objects.filter(pk=made.pk).update(id=ROW)
    return Department.objects.get()


def position(kind: str = "Job") -> str:
    return WatchPosition.objects.get(kind=kind).resource_version


@pytest.mark.usefixtures("row")
def test_a_list_then_events_leave_the_newest_state_and_its_position(writer: Ingest, told: list[Any]) -> None:
    writer.write([Listed("Job", [body("a", 5), body("b", 6)], "10")])
    writer.write(
        [
            saw(EventType.MODIFIED, "a", 11, state="new"),
            saw(EventType.DELETED, "b", 12),
            saw(EventType.BOOKMARK, "", 20),
        ]
    )

    (left,) = mirror_table.observed_for(ROW).values()
    assert left.body["metadata"]["labels"]["state"] == "new"
    assert position() == "20"
    assert told.count(("department", ROW)) == 1, "one hint, however much has changed"


def test_a_list_buries_what_is_missing_in_it(writer: Ingest) -> None:
    writer.write([Listed("Job", [body("a", 5), body("b", 6)], "10")])

    writer.write([Listed("Job", [body("a", 5)], "30")])

    assert {ref.name for ref in mirror_table.observed_for(ROW)} == {"a"}
    assert MirrorObject.objects.get(name="b").gone_at is not None


def test_messages_are_written_in_the_order_they_came(writer: Ingest) -> None:
    writer.write(
        [
            Listed("Job", [body("a", 5)], "10"),
            saw(EventType.MODIFIED, "a", 11, state="one"),
            Listed("Job", [body("a", 15)], "20"),
            saw(EventType.MODIFIED, "a", 21, state="two"),
        ]
    )

    assert MirrorObject.objects.get().body["metadata"]["labels"]["state"] == "two"
    assert position() == "20", "at most once a second"
    writer._note_positions(0.0)
    assert position() == "21"


def test_who_watches_waits_while_the_writer_is_behind(writer: Ingest) -> None:
    for _ in range(ingest.ROOM):
        writer.put(Beat())
    late = threading.Thread(target=writer.put, args=[Beat("late")], daemon=True)
    late.start()
    late.join(0.05)
    assert late.is_alive(), "memory holds no more of what a burst brings"

    writer.take()
    late.join(patient(5))
    assert not late.is_alive()


def test_nobody_waits_for_a_writer_that_has_ended(writer: Ingest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ingest, "_PATIENCE", 0.01)
    monkeypatch.setattr(writer, "_may_write", lambda: False)
    for _ in range(ingest.ROOM):
        writer.put(Beat())
    late = threading.Thread(target=writer.put, args=[Beat("late")], daemon=True)
    late.start()
    stop = threading.Event()
    stop.set()

    # In a thread of its own: it closes its connections.
    its = threading.Thread(target=writer.run, args=[stop], daemon=True)
    its.start()
    late.join(patient(5))

    assert not late.is_alive()


def test_a_watch_resumes_only_where_a_list_is_not_too_old(writer: Ingest, cluster: Cluster) -> None:
    writer.write([Listed("Job", [], "10"), Listed("Node", [], "11")])
    WatchPosition.objects.filter(kind="Node").update(listed_at=timezone.now() - timedelta(hours=2))

    assert positions.known(cluster, not_before=timedelta(hours=1)) == {"Job": "10"}


def test_a_cluster_without_an_answer_for_a_while_is_silent_with_the_reason(
    writer: Ingest, cluster: Cluster, told: list[Any]
) -> None:
    writer._answered -= 10
    writer.write([Beat("The cluster at x does not answer: refused.")])
    cluster.refresh_from_db()
    assert cluster.phase == Cluster.Phase.READY, "ten seconds are not yet silence"

    writer._answered -= 6
    writer.write([])

    cluster.refresh_from_db()
    assert cluster.phase == Cluster.Phase.SILENT
    assert "does not answer: refused" in cluster.message
    assert cluster.silent_since is not None
    assert timedelta(seconds=15) < timezone.now() - cluster.silent_since < timedelta(seconds=15 + patient(10))
    assert told[-1][0] == "console"


def test_a_cluster_that_answers_again_wakes_the_rows_that_failed(
    writer: Ingest, cluster: Cluster, told: list[Any]
) -> None:
    failed = factories.make_department(cluster, "research")
    Department.objects.filter(pk=failed.pk).update(attempts=4, due_at=timezone.now() + timedelta(minutes=1))
    writer._answered -= 20
    writer.write([])

    writer.write([Beat()])

    cluster.refresh_from_db()
    assert (cluster.phase, cluster.message, cluster.silent_since) == (Cluster.Phase.READY, "", None)
    assert ("department", str(failed.pk)) in told
    assert cluster.last_seen_at is not None
    assert abs(cluster.last_seen_at - timezone.now()) < timedelta(seconds=5)


def test_a_cluster_that_was_away_for_a_moment_wakes_the_rows_that_failed(
    writer: Ingest, cluster: Cluster, told: list[Any]
) -> None:
    failed = factories.make_department(cluster, "research")
    Department.objects.filter(pk=failed.pk).update(attempts=4, due_at=timezone.now() + timedelta(minutes=1))
    writer.write([Beat("The cluster at x does not answer: refused.")])
    assert ("department", str(failed.pk)) not in told

    writer.write([Beat()])
    assert told.count(("department", str(failed.pk))) == 1

    writer.write([Beat()])
    assert told.count(("department", str(failed.pk))) == 1, "once for an outage"


def test_what_a_cluster_can_do_is_kept(writer: Ingest, cluster: Cluster) -> None:
    writer.write([Detected(Facts(kubernetes="v1.36.3"))])

    cluster.refresh_from_db()
    assert cluster.version == "v1.36.3"
    assert {entry["name"] for entry in cluster.capabilities if entry["available"]} == {"kubernetes"}


def test_open_pages_are_hinted_at_most_once_a_second(writer: Ingest, told: list[Any]) -> None:
    for version in range(10):
        writer.write([saw(EventType.MODIFIED, "gpu-01", version + 1, kind="Node", beat=str(version))])

    assert [entry for entry in told if entry[0] == "console"] == [("console", "needs rows use")]


def test_another_cluster_behind_the_same_address_starts_the_mirror_afresh(
    cluster: Cluster, told: list[Any]
) -> None:
    met: list[bool] = []
    writer = Ingest(cluster, met.append)
    writer.write([Met("one"), Listed("Job", [body("a", 5)], "10"), Met("one"), Met("")])
    assert MirrorObject.objects.exists()

    writer.write([Met("two")])

    assert met == [True, True, True, False]
    assert not MirrorObject.objects.exists()
    assert not WatchPosition.objects.exists()


def test_of_a_burst_about_one_row_the_first_is_hinted_at_once_and_the_rest_together() -> None:
    pace, row, other = Pace(0.25), ("workload", ROW), ("tenant", ROW)

    assert pace.hold({row}, 10.0) == set()
    assert pace.hold({row, other}, 10.1) == {row}
    assert pace.hold({row}, 10.2) == {row}
    assert pace.release(10.2) == set()
    assert pace.left(10.2) == pytest.approx(0.05)

    assert pace.release(10.26) == {row}
    assert pace.release(10.6) == set()
    assert pace.left(10.6) == 0.5
    assert pace.hold({row}, 10.6) == set()


def changed(version: int) -> Saw:
    """The object moved once more."""
    seen = saw(EventType.MODIFIED, "a", version)
    seen.event.object["status"] = {"startTime": f"2026-11-21T22:00:0{version}Z"}
    return seen


def test_a_row_whose_hint_is_held_is_due_all_the_same(
    writer: Ingest, row: Department, told: list[Any]
) -> None:
    writer.write([changed(1)])
    Department.objects.update(due_at=None)
    writer.write([changed(2)])

    row.refresh_from_db()
    assert row.due_at is not None
    assert told.count(("department", ROW)) == 1
    assert writer.take() == [], "it waits no longer than until the hint is due"
    writer.write([])
    assert told.count(("department", ROW)) == 2


@pytest.mark.parametrize(
    ("facts", "hinted"),
    [
        ({}, True),
        ({"due_at": timedelta(seconds=-1)}, False),
        ({"due_at": timedelta(minutes=1)}, True),
        ({"lease_until": timedelta(minutes=1)}, False),
        ({"lease_until": timedelta(seconds=-1)}, True),
        ({"deleted_at": timedelta(minutes=-1)}, True),
    ],
)
def test_a_change_is_hinted_where_nobody_would_look_else(
    cluster: Cluster, row: Department, told: list[Any], facts: dict[str, timedelta], *, hinted: bool
) -> None:
    now = timezone.now()
    Department.objects.update(**{name: now + away for name, away in facts.items()})

    Ingest(cluster, lambda _is_known: None, Pace(0)).write([changed(1)])

    row.refresh_from_db()
    assert row.due_at is not None
    assert row.due_at < now + timedelta(seconds=patient(10)), "the sweep finds it"
    assert (("department", ROW) in told) is hinted


@pytest.mark.parametrize(
    ("kind", "part", "wakes"),
    [
        ("LocalQueue", {"status": {"pendingWorkloads": 3}}, False),
        ("ResourceQuota", {"status": {"used": {"pods": "3"}}}, False),
        ("StatefulSet", {"status": {"observedGeneration": 3}}, False),
        ("Event", {"lastTimestamp": "2026-11-21T22:00:00Z"}, False),
        ("Workload", {"status": {"conditions": [{"type": "Admitted", "status": "True"}]}}, True),
        ("Pod", {"status": {"phase": "Running"}}, True),
    ],
)
@pytest.mark.usefixtures("row")
def test_only_what_a_reconcile_judges_by_wakes_its_row(
    cluster: Cluster, told: list[Any], kind: str, part: dict[str, Any], *, wakes: bool
) -> None:
    writer = Ingest(cluster, lambda _is_known: None, Pace(0))
    writer.write([Saw(kind, WatchEvent(EventType.ADDED, {"type": "Warning"} | body("a", 1)))])
    told.clear()
    Department.objects.update(due_at=None)

    writer.write([Saw(kind, WatchEvent(EventType.MODIFIED, {"type": "Warning"} | body("a", 2) | part))])

    assert MirrorObject.objects.get(name="a").resource_version == 2
    assert (("department", ROW) in told) is wakes
