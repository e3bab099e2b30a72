"""The mirror holds the newest version, whoever writes when, and knows whose every object is."""

import itertools
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection

from apps.cluster.mirror.rules.mirror_columns import Sighting
from apps.cluster.mirror.services import mirror_table
from apps.cluster.models import Cluster, MirrorObject
from apps.cluster.objects import names
from apps.cluster.specs import ObjectRef

pytestmark = pytest.mark.both_databases

NOW = datetime(2026, 11, 20, 9, 0, tzinfo=UTC)
ROW = str(uuid4())


def body(
    name: str, version: int, *, uid: str = "u1", owner: str = "", parent: str = "", **rest: Any
) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": name, "namespace": "ns", "uid": uid, "resourceVersion": str(version)}
    if owner:
        metadata["labels"] = names.owner_labels(owner="workload", uid=owner, tenant="vision")
    if parent:
        metadata["ownerReferences"] = [{"uid": "other"}, {"uid": parent, "controller": True}]
    return {"metadata": metadata, **rest}


def see(cluster: Cluster, *sightings: Sighting) -> mirror_table.Changes:
    return mirror_table.record_seen(cluster, sightings, now=NOW)


def row(name: str = "nb", kind: str = "Job") -> MirrorObject:
    return MirrorObject.objects.get(kind=kind, name=name)


def test_a_new_object_wakes_its_row(cluster: Cluster) -> None:
    changes = see(cluster, Sighting("Job", body("nb", 5, owner=ROW)))

    assert changes.owners == {("workload", ROW)}
    assert (row().uid, row().resource_version, row().is_managed) == ("u1", 5, True)


def test_an_older_version_never_overwrites_a_newer_one(cluster: Cluster) -> None:
    see(cluster, Sighting("Job", body("nb", 5, owner=ROW, status={"active": 1})))

    changes = see(cluster, Sighting("Job", body("nb", 4, owner=ROW, status={"active": 0})))

    assert changes.rows == []
    assert row().body["status"] == {"active": 1}


def test_the_echo_of_our_own_apply_wakes_nobody(cluster: Cluster) -> None:
    mirror_table.record_applied(cluster, [mirror_table.Answer("Job", body("nb", 5, owner=ROW), "s")])

    assert see(cluster, Sighting("Job", body("nb", 5, owner=ROW))).rows == []
    assert row().sent_hash == "s"


def test_an_answer_that_comes_after_a_newer_event_keeps_the_event_and_adds_the_hashes(
    cluster: Cluster,
) -> None:
    see(cluster, Sighting("Job", body("nb", 9, owner=ROW, status={"active": 1})))

    mirror_table.record_applied(cluster, [mirror_table.Answer("Job", body("nb", 7, owner=ROW), "s")])

    assert (row().resource_version, row().sent_hash) == (9, "s")
    assert row().body["status"] == {"active": 1}


def test_an_answer_about_an_object_that_was_replaced_meanwhile_is_forgotten(cluster: Cluster) -> None:
    see(cluster, Sighting("Job", body("nb", 9, uid="u2", owner=ROW)))

    mirror_table.record_applied(
        cluster, [mirror_table.Answer("Job", body("nb", 7, uid="u1", owner=ROW), "s")]
    )

    assert (row().uid, row().sent_hash) == ("u2", "")


def test_another_object_under_the_same_name_starts_afresh(cluster: Cluster) -> None:
    mirror_table.record_applied(cluster, [mirror_table.Answer("Job", body("nb", 5, owner=ROW), "s")])
    ref = ObjectRef("Job", "ns", "nb")
    mirror_table.note_forces(cluster, ref, [NOW])

    see(cluster, Sighting("Job", body("nb", 8, uid="u2", owner=ROW)))

    assert (row().uid, row().sent_hash, row().applied_hash) == ("u2", "", "")
    assert mirror_table.forces(cluster, ref) == []


def test_a_deleted_object_leaves_a_tombstone_and_wakes_its_row(cluster: Cluster) -> None:
    see(cluster, Sighting("Job", body("nb", 5, owner=ROW)))

    changes = see(cluster, Sighting("Job", body("nb", 6, owner=ROW), is_gone=True))

    assert changes.owners == {("workload", ROW)}
    assert row().gone_at == NOW
    assert mirror_table.observed_for(ROW) == {}


def test_an_answer_from_before_the_deletion_does_not_bring_an_object_back(cluster: Cluster) -> None:
    see(cluster, Sighting("Job", body("nb", 5, owner=ROW)))
    see(cluster, Sighting("Job", body("nb", 6, owner=ROW), is_gone=True))

    mirror_table.record_applied(cluster, [mirror_table.Answer("Job", body("nb", 5, owner=ROW), "s")])

    assert row().gone_at == NOW


def test_an_object_that_comes_again_is_there_again(cluster: Cluster) -> None:
    see(cluster, Sighting("Job", body("nb", 5, owner=ROW)))
    see(cluster, Sighting("Job", body("nb", 6, owner=ROW), is_gone=True))

    see(cluster, Sighting("Job", body("nb", 7, uid="u2", owner=ROW)))

    assert row().gone_at is None
    assert list(mirror_table.observed_for(ROW)) == [ObjectRef("Job", "ns", "nb")]


def test_of_several_events_of_one_object_in_a_batch_the_last_counts(cluster: Cluster) -> None:
    see(
        cluster,
        Sighting("Job", body("nb", 5, owner=ROW)),
        Sighting("Job", body("nb", 6, owner=ROW, status={"active": 1})),
        Sighting("Job", body("nb", 7, owner=ROW, status={"succeeded": 1})),
    )

    assert row().body["status"] == {"succeeded": 1}


def test_a_change_of_nothing_we_keep_wakes_nobody(cluster: Cluster) -> None:
    see(cluster, Sighting("Job", body("nb", 5, owner=ROW)))

    changes = see(cluster, Sighting("Job", body("nb", 6, owner=ROW, status={"uncountedTerminatedPods": {}})))

    assert changes.rows == []
    assert row().resource_version == 6


@pytest.mark.parametrize("children_first", [False, True])
def test_a_claim_belongs_to_the_workload_of_its_pod_in_whatever_order_they_are_seen(
    cluster: Cluster,
    children_first: bool,  # noqa: FBT001
) -> None:
    steps = [
        Sighting("StatefulSet", body("nb", 1, uid="set", owner=ROW)),
        Sighting("Workload", body("kueue-nb", 2, uid="wl", parent="set")),
        Sighting("Pod", body("nb-0", 3, uid="pod", parent="set")),
        Sighting("ResourceClaim", body("nb-0-gpu", 4, uid="claim", parent="pod")),
    ]
    for step in reversed(steps) if children_first else steps:
        last = see(cluster, step)

    assert {ref.kind for ref in mirror_table.observed_for(ROW)} == {
        "StatefulSet",
        "Workload",
        "Pod",
        "ResourceClaim",
    }
    assert ("workload", ROW) in last.owners


def test_a_child_keeps_its_row_when_it_changes(cluster: Cluster) -> None:
    see(cluster, Sighting("StatefulSet", body("nb", 1, uid="set", owner=ROW)))
    see(cluster, Sighting("Pod", body("nb-0", 3, uid="pod", parent="set")))

    changes = see(
        cluster, Sighting("Pod", body("nb-0", 5, uid="pod", parent="set", status={"phase": "Running"}))
    )

    assert changes.owners == {("workload", ROW)}
    assert {ref.name for ref in mirror_table.observed_for(ROW)} == {"nb", "nb-0"}


@pytest.mark.skipif(connection.vendor != "sqlite", reason="counts the steps of SQLite's own machine")
def test_seeing_a_child_costs_the_same_however_much_the_mirror_holds(cluster: Cluster) -> None:
    """An index that is not used reads every row of the cluster; no clock sees it before there are many."""

    def steps(number: int) -> int:
        parent, pod = f"set-{number}", body(f"nb-{number}-0", 3, uid=f"pod-{number}", parent=f"set-{number}")
        see(cluster, Sighting("StatefulSet", body(f"nb-{number}", 1, uid=parent, owner=ROW)))
        counted = itertools.count()
        connection.connection.set_progress_handler(lambda: next(counted) and None, 1)
        try:
            see(cluster, Sighting("Pod", pod), normal_event(f"e-{number}", about=parent))
        finally:
            connection.connection.set_progress_handler(None, 1)
        return next(counted)

    steps(0)
    few = steps(1)
    see(
        cluster, *(Sighting("Pod", body(f"theirs-{n}", n, uid=f"theirs-{n}", parent="x")) for n in range(300))
    )
    many = steps(2)

    assert few > 100, "the steps are counted"
    assert many - few < 100, "less than one for each of the 300"


def normal_event(name: str, *, about: str) -> Sighting:
    facts: dict[str, Any] = {
        "involvedObject": {"uid": about},
        "type": "Normal",
        "reason": "R",
        "message": name,
    }
    return Sighting("Event", body(name, 4, uid=name, **facts))


def test_of_strangers_only_warnings_are_kept_of_ours_every_event(cluster: Cluster) -> None:
    def event(name: str, about: str, type_: str) -> Sighting:
        facts: dict[str, Any] = {
            "involvedObject": {"uid": about},
            "type": type_,
            "reason": "R",
            "message": name,
        }
        return Sighting("Event", body(name, 9, uid=name, **facts))

    see(cluster, Sighting("Job", body("nb", 5, owner=ROW)))
    see(
        cluster,
        event("a", "u1", "Normal"),
        event("b", "stranger", "Normal"),
        event("c", "stranger", "Warning"),
    )

    assert set(MirrorObject.objects.filter(kind="Event").values_list("name", flat=True)) == {"a", "c"}
    assert [entry["message"] for entry in mirror_table.events_for(ROW)] == ["a"]


def test_a_list_buries_what_it_no_longer_shows_but_nothing_newer_than_itself(cluster: Cluster) -> None:
    see(
        cluster,
        Sighting("Job", body("old", 5, uid="o", owner=ROW)),
        Sighting("Job", body("kept", 6, uid="k", owner=ROW)),
    )
    mirror_table.record_applied(
        cluster, [mirror_table.Answer("Job", body("new", 50, uid="n", owner=ROW), "s")]
    )

    changes = mirror_table.bury_absent(
        cluster, "Job", [body("kept", 6, uid="k")], resource_version=40, now=NOW
    )

    assert [changed.name for changed in changes.rows] == ["old"]
    assert {ref.name for ref in mirror_table.observed_for(ROW)} == {"kept", "new"}


def test_tombstones_are_forgotten_after_their_time(cluster: Cluster) -> None:
    see(
        cluster,
        Sighting("Job", body("nb", 5, owner=ROW)),
        Sighting("Job", body("other", 5, uid="u9", owner=ROW)),
    )
    see(cluster, Sighting("Job", body("nb", 6, owner=ROW), is_gone=True))

    assert mirror_table.prune(NOW + timedelta(hours=23), older_than=timedelta(days=1)) == 0
    assert mirror_table.prune(NOW + timedelta(hours=25), older_than=timedelta(days=1)) == 1
    assert MirrorObject.objects.get().name == "other"
