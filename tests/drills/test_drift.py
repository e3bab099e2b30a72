"""What somebody changes with kubectl is put back; who keeps changing it is named; what is not ours stays."""

from datetime import timedelta
from typing import Any

import pytest

from apps.cluster.objects.conditions import find
from apps.cluster.objects.names import LABEL_MANAGED_BY, LABEL_UID
from apps.workloads.models import Workload
from tests.drills.by_hand import CHANGES, KUBECTL, flip, forced, kubectl
from tests.drills.dump import difference, dump
from tests.drills.world import Clock, World


@pytest.mark.parametrize(("resource", "change"), CHANGES.values(), ids=CHANGES.keys())
def test_a_change_by_hand_is_put_back(
    world: World, request: pytest.FixtureRequest, resource: str, change: dict[str, Any]
) -> None:
    row: Workload = request.getfixturevalue("served" if resource == "services" else "notebook")
    before = dump(world, row)["objects"]
    kubectl(world, resource, row.object_name, change, world.tenant.object_name)
    assert dump(world, row)["objects"] != before
    world.settle_deaf()
    assert difference(dump(world, row)["objects"], before) == []


def test_what_is_deleted_by_hand_comes_back(world: World, served: Workload) -> None:
    before = dump(world, served)["objects"]
    person = world.door.simulated.client("person", KUBECTL)
    person.delete("services", served.object_name, world.tenant.object_name)
    world.settle_deaf()
    assert difference(dump(world, served)["objects"], before) == []


def test_a_fence_around_a_tenant_that_is_taken_down_is_put_up_again(world: World) -> None:
    policies = world.door.client.list("networkpolicies.networking.k8s.io", world.tenant.object_name)
    names = {policy["metadata"]["name"] for policy in policies}
    person = world.door.simulated.client("person", KUBECTL)
    for name in names:
        person.delete("networkpolicies.networking.k8s.io", name, world.tenant.object_name)
    world.settle_deaf()
    policies = world.door.client.list("networkpolicies.networking.k8s.io", world.tenant.object_name)
    assert {policy["metadata"]["name"] for policy in policies} == names


def test_who_keeps_changing_it_is_named_and_not_fought(world: World, served: Workload, clock: Clock) -> None:
    most = 0
    for turn in range(20):
        clock.ahead = timedelta(seconds=30 * turn)
        flip(world, served, f"9{turn}")
        most = max(most, forced(world))
    assert most == 3, "ten minutes, twenty changes"
    served.refresh_from_db()
    synced = find(served.conditions, "Synced")
    assert synced is not None
    assert (synced["status"], synced["reason"]) == ("False", "FieldConflict")
    assert KUBECTL in synced["message"]
    assert len(world.gateway.writes) <= 20 * 2 + 3, "no more than a try and a repeat for each change"


def test_once_the_other_stops_it_is_put_back(world: World, served: Workload, clock: Clock) -> None:
    before = dump(world, served)["objects"]
    for turn in range(5):
        flip(world, served, f"9{turn}")
    clock.ahead = timedelta(minutes=11)
    world.settle_deaf()
    assert difference(dump(world, served)["objects"], before) == []
    assert forced(world) == 4


def foreign(world: World, row: Workload) -> list[dict[str, Any]]:
    """What is not ours by label and uid together: unlabelled, half labelled, labelled for nobody."""
    labels: list[dict[str, str]] = [
        {},
        {LABEL_MANAGED_BY: "helm", LABEL_UID: str(row.pk)},
        {LABEL_MANAGED_BY: "allotment"},
        {LABEL_MANAGED_BY: "allotment", LABEL_UID: "not-a-uuid", "allotment.dev/owner": "workload"},
        {LABEL_UID: str(row.pk)},
    ]
    person = world.door.simulated.client("person", KUBECTL)
    made = []
    for number, marks in enumerate(labels):
        for resource, kind, version in (("configmaps", "ConfigMap", "v1"), ("services", "Service", "v1")):
            meta = {"name": f"theirs-{number}", "namespace": world.tenant.object_name, "labels": marks}
            body: dict[str, Any] = {"apiVersion": version, "kind": kind, "metadata": meta}
            body |= {"spec": {"ports": [{"port": 80}]}} if kind == "Service" else {"data": {"a": "b"}}
            made.append((resource, person.create(resource, body, world.tenant.object_name)))
    return [
        {"resource": r, "name": b["metadata"]["name"], "version": b["metadata"]["resourceVersion"]}
        for r, b in made
    ]


def test_what_is_not_ours_is_never_touched(world: World, notebook: Workload) -> None:
    theirs = foreign(world, notebook)
    world.settle()
    for verb in ("stop", "resume", "delete"):
        world.act(verb, notebook)
        world.settle()
    notebook.refresh_from_db()
    assert notebook.deleted_at is not None
    for thing in theirs:
        body = world.door.client.get(thing["resource"], thing["name"], world.tenant.object_name)
        assert body is not None, thing
        assert body["metadata"]["resourceVersion"] == thing["version"], thing


def test_the_namesake_of_what_we_deleted_is_spared(world: World, served: Workload) -> None:
    """Deleted and made again by somebody else before we look: the name is the same, the uid is not."""
    world.act("stop", served)
    person = world.door.simulated.client("person", KUBECTL)
    person.delete("services", served.object_name, world.tenant.object_name)
    meta = {"name": served.object_name, "namespace": world.tenant.object_name}
    body = {"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": {"ports": [{"port": 80}]}}
    made = person.create("services", body, world.tenant.object_name)
    world.watch.lose()
    world.work()  # the worker still knows the old uid
    left = world.door.client.get("services", served.object_name, world.tenant.object_name)
    assert left is not None
    assert left["metadata"]["uid"] == made["metadata"]["uid"]
