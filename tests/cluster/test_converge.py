"""A plan becomes calls, and their answers the mirror."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from apps.cluster.errors import Rejected, Unreachable
from apps.cluster.mirror.rules.mirror_columns import Sighting
from apps.cluster.mirror.services import mirror_table
from apps.cluster.models import Cluster, Drift
from apps.cluster.objects import names
from apps.cluster.objects.kinds import APPLIED, KINDS
from apps.cluster.reconciling.rules.plan import Plan, diff
from apps.cluster.reconciling.services import converge
from apps.cluster.specs import Body, ObjectRef, ref_of
from tests.cluster.doubles import FakeCluster
from tests.controlplane import rights

CHART = Path(__file__).parents[2] / "k8s" / "allotment" / "templates"

NOW = datetime(2026, 11, 20, 9, 0, tzinfo=UTC)
ROW = str(uuid4())


def manifest(kind: str, name: str, **spec: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "ns", "labels": names.owner_labels(owner="workload", uid=ROW)}
    return {"apiVersion": "v1", "kind": kind, "metadata": metadata, "spec": spec or {"a": 1}}


SERVICE, QUOTA = manifest("Service", "nb"), manifest("ResourceQuota", "objects")
REF = ref_of(SERVICE)


def planned(*wanted: dict[str, Any]) -> Plan:
    return diff(list(wanted), mirror_table.observed_for(ROW), owner_id=ROW)


@pytest.fixture
def fake() -> FakeCluster:
    return FakeCluster()


def bring(
    fake: FakeCluster, cluster: Cluster, *wanted: dict[str, Any], now: datetime = NOW
) -> converge.Outcome:
    return converge.run(fake, cluster, planned(*wanted), now=now)


def test_what_was_applied_once_makes_no_call_the_second_time(fake: FakeCluster, cluster: Cluster) -> None:
    first = bring(fake, cluster, SERVICE, QUOTA)
    calls = len(fake.calls)

    second = bring(fake, cluster, SERVICE, QUOTA)

    assert (first.applied, first.is_complete) == (2, True)
    assert (second.applied, len(fake.calls)) == (0, calls)


def test_drift_is_taken_back_at_once(fake: FakeCluster, cluster: Cluster) -> None:
    bring(fake, cluster, SERVICE)
    mirror_table.record_seen(cluster, [Sighting("Service", fake.steal(REF, "spec.a", 2))], now=NOW)

    outcome = bring(fake, cluster, SERVICE)

    assert outcome.applied == 1
    assert fake.objects[REF]["spec"] == {"a": 1}
    assert planned(SERVICE).is_empty


def test_two_who_fight_over_a_field_stop_after_three_rounds_in_ten_minutes(
    fake: FakeCluster, cluster: Cluster
) -> None:
    bring(fake, cluster, SERVICE)
    outcomes = []
    for minute in range(5):
        mirror_table.record_seen(
            cluster, [Sighting("Service", fake.steal(REF, "spec.a", 10 + minute))], now=NOW
        )
        outcomes.append(bring(fake, cluster, SERVICE, now=NOW + timedelta(minutes=minute)))

    assert [outcome.applied for outcome in outcomes] == [1, 1, 1, 0, 0]
    (failure,) = outcomes[-1].failures
    assert failure.reason == "FieldConflict"
    assert "kubectl-edit keeps changing fields" in failure.message
    assert bring(fake, cluster, SERVICE, now=NOW + timedelta(minutes=11)).applied == 1


class Bound(FakeCluster):
    """Lists only what the product's own rights list."""

    def __init__(self, *withheld: str) -> None:
        super().__init__()
        granted = rights.granted(rights.chart_documents(CHART / "rbac.yaml"))
        self.listed = {right.resource for right in granted if right.verb == "list"} - set(withheld)

    def look(self, ref: ObjectRef) -> Body | None:
        if KINDS[ref.kind].plural not in self.listed:
            raise Rejected(403, "Forbidden", f"cannot list resource {KINDS[ref.kind].plural}")
        return super().look(ref)


def test_all_that_is_compared_may_be_listed() -> None:
    assert {KINDS[kind].plural for kind in APPLIED} <= Bound().listed
    assert "secrets" not in Bound().listed


def test_a_secret_that_somebody_edited_is_taken_back_without_being_read(cluster: Cluster) -> None:
    fake, secret = Bound(), manifest("Secret", "ide", token="a")
    bring(fake, cluster, secret)
    fake.steal(ref_of(secret), "spec.token", "theirs")
    anew = manifest("Secret", "ide", token="b")

    outcome = bring(fake, cluster, anew)

    assert outcome.is_complete
    assert fake.objects[ref_of(anew)]["spec"] == {"token": "b"}
    assert not Drift.objects.exists()


def test_what_may_not_be_looked_at_is_taken_back_all_the_same(cluster: Cluster) -> None:
    fake = Bound("services")
    bring(fake, cluster, SERVICE)
    mirror_table.record_seen(cluster, [Sighting("Service", fake.steal(REF, "spec.a", 2))], now=NOW)

    assert bring(fake, cluster, SERVICE).is_complete
    assert fake.objects[REF]["spec"] == {"a": 1}
    assert [(line.how, bool(line.healed_at)) for line in Drift.objects.all()] == [("unread", True)]


class Late(FakeCluster):
    """Refuses what it takes a moment later, as Kueue does while the pods of a StatefulSet still end."""

    def apply(self, manifest: Body, *, force: bool = False, dry_run: bool = False) -> Body:
        if dry_run:
            raise Rejected(403, "Forbidden", "scaling down is still in progress")
        return super().apply(manifest, force=force)


def test_what_is_taken_back_after_a_refused_rehearsal_has_its_fields_too(cluster: Cluster) -> None:
    late = Late()
    bring(late, cluster, SERVICE)
    mirror_table.record_seen(cluster, [Sighting("Service", late.steal(REF, "spec.a", 2))], now=NOW)

    assert bring(late, cluster, SERVICE).is_complete
    (line,) = Drift.objects.all()
    (field,) = line.fields
    assert (line.how, bool(line.healed_at)) == ("changed", True)
    assert (field["path"], field["ours"], field["theirs"]) == ("spec.a", "1", "2")


def test_the_place_of_work_in_the_queue_has_no_lines(cluster: Cluster) -> None:
    """Kueue's own object: the sweep would end a line that nobody has mended."""
    fake, place = Bound(), manifest("Workload", "kueue-nb")
    bring(fake, cluster, place)
    mirror_table.record_seen(cluster, [Sighting("Workload", fake.steal(ref_of(place), "spec.a", 2))], now=NOW)

    assert bring(fake, cluster, place).applied == 1
    assert not Drift.objects.exists()


def test_a_refusal_ends_the_run_after_its_level_with_the_cluster_s_words(
    fake: FakeCluster, cluster: Cluster
) -> None:
    fake.fail[ref_of(QUOTA)] = Rejected(422, "Invalid", "hard: no such resource")

    outcome = bring(fake, cluster, SERVICE, QUOTA)

    assert outcome.failures == (converge.Failure(ref_of(QUOTA), "Invalid", "hard: no such resource"),)
    assert REF not in fake.objects


def test_one_refusal_does_not_lose_the_answers_beside_it(fake: FakeCluster, cluster: Cluster) -> None:
    bad = manifest("StatefulSet", "nb")
    fake.fail[ref_of(bad)] = Rejected(422, "Invalid", "no")

    outcome = bring(fake, cluster, SERVICE, bad)

    assert outcome.applied == 1
    assert list(mirror_table.observed_for(ROW)) == [REF]


def test_a_cluster_that_falls_silent_within_a_level_keeps_what_was_answered(
    fake: FakeCluster, cluster: Cluster
) -> None:
    last = manifest("StatefulSet", "nb")
    fake.fail[ref_of(last)] = Unreachable("gone")

    with pytest.raises(Unreachable):
        bring(fake, cluster, SERVICE, last)

    assert list(mirror_table.observed_for(ROW)) == [REF]


def test_what_is_no_longer_wanted_is_deleted_once_and_waited_for(fake: FakeCluster, cluster: Cluster) -> None:
    bring(fake, cluster, SERVICE)

    assert bring(fake, cluster).deleted == 1
    assert planned().is_empty
    assert planned(SERVICE).waiting == (REF,)


def test_what_somebody_else_deleted_already_is_buried(fake: FakeCluster, cluster: Cluster) -> None:
    bring(fake, cluster, SERVICE)
    fake.objects.clear()

    bring(fake, cluster)

    assert mirror_table.observed_for(ROW) == {}


def test_an_object_of_somebody_else_under_our_name_survives_our_delete(
    fake: FakeCluster, cluster: Cluster
) -> None:
    bring(fake, cluster, SERVICE)
    fake.objects[REF]["metadata"]["uid"] = "another"

    bring(fake, cluster)

    assert ObjectRef("Service", "ns", "nb") in fake.objects


def test_deletes_come_before_applies(fake: FakeCluster, cluster: Cluster) -> None:
    bring(fake, cluster, SERVICE)
    fake.calls.clear()

    bring(fake, cluster, QUOTA)

    assert [verb for verb, _ in fake.calls] == ["delete", "apply"]
