"""A whole cluster is compared: what the watch missed is found, and a silent cluster is told as that."""

from datetime import timedelta

import pytest
from django.utils import timezone

from apps.audit.models import AuditEvent
from apps.cluster import periodic
from apps.cluster.mirror.selectors.differing import owners_of_differing
from apps.cluster.models import Cluster, Drift, DriftCheck, MirrorObject
from apps.cluster.reconciling.services import wake
from apps.cluster.watching.services import drift_checks
from apps.errors import NotAllowed
from apps.web.streams import events
from apps.workloads.models import Workload
from tests.drills.by_hand import CHANGES, KUBECTL, kubectl
from tests.drills.world import Ask, World

pytestmark = pytest.mark.both_databases


@pytest.fixture
def served(world: World) -> Workload:
    row = world.submit(Ask("llm", kind="service"))
    world.settle()
    return row


def check(world: World) -> DriftCheck:
    drift_checks.run(world.cluster.pk, gateway=world.door)
    return DriftCheck.objects.get(cluster=world.cluster)


def asked(world: World) -> DriftCheck:
    return drift_checks.ask(actor=world.petra, cluster=world.cluster, now=world.now)


def test_what_the_watch_missed_is_found_and_put_back(world: World, served: Workload) -> None:
    space = world.tenant.object_name
    kubectl(world, "services", served.object_name, CHANGES["the ports of its service"][1], space)
    policies = world.door.client.list("networkpolicies.networking.k8s.io", space)
    gone = policies[0]["metadata"]["name"]
    world.door.simulated.client("person", KUBECTL).delete("networkpolicies.networking.k8s.io", gone, space)
    world.watch.lose()
    world.sweep(later=timedelta(hours=1))
    world.work()
    assert not Drift.objects.exists(), "nobody has seen it"
    asked(world)
    found = check(world)
    world.work()
    told = {(row.kind, row.how, bool(row.healed_at)) for row in Drift.objects.all()}
    assert told == {("Service", "changed", True), ("NetworkPolicy", "missing", True)}
    assert (found.begun_at, found.asked_at, found.message) == (None, None, "")
    assert (found.done, found.ended_at is not None) == (found.of, True)
    assert found.objects_seen > 10


def test_a_fleet_as_it_should_be_wakes_nobody(world: World, served: Workload) -> None:
    asked(world)
    check(world)
    world.hints.clear()
    world.gateway.forget()
    asked(world)
    check(world)
    assert (world.hints, Drift.objects.count()) == ([], 0)


def test_a_cluster_that_does_not_answer_is_no_cluster_without_drift(world: World, served: Workload) -> None:
    asked(world)
    before = check(world).ended_at
    asked(world)
    world.door.silent = True
    found = check(world)
    assert found.message == "The cluster does not answer."
    assert (found.ended_at, found.begun_at, found.asked_at) == (before, None, None)


def test_another_cluster_at_the_same_address_is_not_compared(world: World, served: Workload) -> None:
    Cluster.objects.filter(pk=world.cluster.pk).update(identity="another")
    asked(world)
    assert "Another cluster answers" in check(world).message
    assert Workload.objects.get(pk=served.pk).attempts == 0


def test_one_compares_at_a_time_and_one_that_died_is_followed(world: World) -> None:
    asked(world)
    began = timezone.now() - timedelta(minutes=1)
    DriftCheck.objects.update(begun_at=began)
    assert check(world).begun_at == began
    DriftCheck.objects.update(begun_at=began - drift_checks.LONGEST)
    assert check(world).begun_at is None


def test_of_many_hints_the_first_does_it_all(world: World) -> None:
    asked(world)
    first = check(world)
    assert first.ended_at is not None
    world.door.silent = True
    again = check(world)
    assert (again.tried_at, again.message) == (first.tried_at, ""), "nobody asked the cluster"
    DriftCheck.objects.update(tried_at=timezone.now() - drift_checks.EVERY - timedelta(minutes=1))
    assert check(world).message == "The cluster does not answer."


def test_what_the_check_finds_is_told_to_open_pages(
    world: World, served: Workload, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: set[tuple[str, str]] = set()
    monkeypatch.setattr(
        events, "publish", lambda topics, *, part, **_: told.update((t, part) for t in topics)
    )
    queue = MirrorObject.objects.get(kind="ClusterQueue")
    kubectl(world, "clusterqueues.kueue.x-k8s.io", queue.name, {"spec": {"stopPolicy": "Hold"}})
    world.watch.lose()
    asked(world)
    check(world)
    assert {("console", "needs rows use"), (f"tenant:{world.tenant.slug}", "quota")} <= told


def test_a_row_that_is_gone_is_not_woken_by_what_it_left(world: World, served: Workload) -> None:
    world.act("delete", served)
    world.settle()
    MirrorObject.objects.filter(owner_id=str(served.pk)).update(sent_hash="sent", gone_at=world.now)
    assert owners_of_differing(world.cluster) == {("workload", str(served.pk))}
    Workload.objects.update(due_at=None)
    world.hints.clear()
    asked(world)
    check(world)
    assert world.hints == []
    assert Workload.objects.get(pk=served.pk).due_at is None


def test_the_clock_starts_what_is_asked_for_or_due(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[str] = []
    monkeypatch.setattr(wake, "hint", lambda _owner, pk, **_how: sent.append(str(pk)))
    Cluster.objects.filter(pk=world.cluster.pk).update(phase=Cluster.Phase.SILENT)
    periodic.sweep_drift()
    assert sent == [], "a silent one only when somebody asks"
    asked(world)
    sent.clear()
    periodic.sweep_drift()
    assert sent == [str(world.cluster.pk)]
    check(world)
    Cluster.objects.filter(pk=world.cluster.pk).update(phase=Cluster.Phase.READY)
    sent.clear()
    periodic.sweep_drift()
    assert sent == [], "it was compared just now"
    DriftCheck.objects.update(tried_at=timezone.now() - drift_checks.EVERY - timedelta(minutes=1))
    periodic.sweep_drift()
    assert sent == [str(world.cluster.pk)]


def test_only_platform_engineers_ask_and_the_record_has_it(world: World) -> None:
    with pytest.raises(NotAllowed):
        drift_checks.ask(actor=world.rosa, cluster=world.cluster, now=world.now)
    asked(world)
    assert AuditEvent.objects.filter(action="cluster.check_drift", actor="petra").count() == 1
