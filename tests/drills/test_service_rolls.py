"""A service in the simulated cluster: replicas come, a new version replaces them, and one always answers."""

from dataclasses import replace
from typing import Any

import pytest

from apps.cluster.models import Cluster
from apps.cluster.watching.services import capabilities
from apps.quotas.allowances.services import quota_changes
from apps.quotas.allowances.services.quota_changes import Amounts
from apps.quotas.models import Offer
from apps.workloads.lifecycle.services import verbs
from apps.workloads.models import Workload
from apps.workloads.selectors import reading
from apps.workloads.specs import Phase, WorkloadChange
from tests.drills.dump import orphans
from tests.drills.world import Ask, Hint, World
from tests.tenants.in_process import resource

pytestmark = pytest.mark.django_db(transaction=True)
GPU = "h100-whole"


def allow(world: World, devices: int) -> None:
    offer = Offer.objects.get(slug=GPU)
    quota_changes.set_quota(
        actor=world.petra, tenant=world.tenant, offer=offer, amounts=Amounts(devices), now=world.now
    )
    world.settle()


def change(world: World, row: Workload, *, image: str = "", **block: Any) -> None:
    spec = reading.spec_of(row)
    changed: Any = replace(spec.block, **block)  # type: ignore[type-var]
    spec = replace(spec, block=changed, image=image or spec.image)
    verbs.update_workload(actor=world.rosa, workload=row, change=WorkloadChange(spec=spec), now=world.now)
    row.refresh_from_db()


def images(world: World) -> list[str]:
    pods = world.door.client.list(resource("Pod"), world.tenant.object_name)
    return sorted(pod["spec"]["containers"][0]["image"] for pod in pods)


def uid(world: World) -> str:
    (found,) = world.door.client.list(resource("Deployment"), world.tenant.object_name)
    return str(found["metadata"]["uid"])


def seen(row: Workload) -> tuple[int, int, int, int]:
    found = row.replicas or {}
    return found["wanted"], found["ready"], found["updated"], found["waiting"]


def rolled(world: World, row: Workload, image: str) -> int:
    """Bring a new version in; answers how many replicas answered at the least."""
    change(world, row, image=image)
    least = seen(row)[1]
    for _ in range(25):
        world.step()
        row.refresh_from_db()
        assert row.phase == Phase.RUNNING
        least = min(least, seen(row)[1])
    return least


def served(world: World, replicas: int) -> Workload:
    allow(world, replicas)
    row = world.submit(Ask("llm", kind="service", offer=GPU, replicas=replicas))
    world.settle()
    assert world.phase(row) is Phase.RUNNING, world.told()
    assert seen(row) == (replicas, replicas, replicas, 0)
    return row


def test_a_full_quota_holds_up_no_new_version_of_several_replicas(
    cluster: Cluster, hints: list[Hint]
) -> None:
    world = World(cluster, hints)
    assert capabilities.facts(world.door).queues_deployments
    row = served(world, 2)
    deployment, began = uid(world), row.started_at
    assert rolled(world, row, "serve:2") >= 1
    assert images(world) == ["serve:2", "serve:2"]
    assert (uid(world), row.started_at) == (deployment, began)
    assert seen(row) == (2, 2, 2, 0)
    change(world, row, replicas=1)
    world.settle()
    assert world.phase(row) is Phase.RUNNING
    assert (seen(row), len(row.placement)) == ((1, 1, 1, 0), 1)


def test_a_single_replica_stays_until_its_successor_answers_and_leaves_nothing_behind(
    cluster: Cluster, hints: list[Hint]
) -> None:
    world = World(cluster, hints)
    row = served(world, 1)
    assert rolled(world, row, "serve:2") == 1
    assert images(world) == ["python:3.13", "serve:2"]
    assert seen(row) == (1, 1, 1, 1)
    assert "1 waits in the queue" in next(c["message"] for c in row.conditions if c["type"] == "Ready")
    allow(world, 2)
    assert images(world) == ["serve:2"]
    for verb, phase, left in (("stop", Phase.STOPPED, []), ("resume", Phase.RUNNING, ["serve:2"])):
        world.act(verb, row)
        world.settle()
        assert (world.phase(row), images(world)) == (phase, left)
    world.act("delete", row)
    world.settle()
    assert (orphans(world), images(world)) == ([], [])
