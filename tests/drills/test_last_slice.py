"""Many ask for the last slice at once: one holds it, the others wait and are told why."""

import os
import random
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from apps.cluster.objects.quantities import whole_number
from apps.quotas.allowances.selectors import standing
from apps.workloads.models import Workload
from apps.workloads.specs import Phase
from apps.workloads.waiting.selectors import waiting
from tests.drills.dump import duplicates, orphans
from tests.drills.world import Ask, World

pytestmark = [pytest.mark.exhaustive, pytest.mark.both_databases]

ROUNDS = int(os.environ.get("DRILL_RACE_ROUNDS", "1"))
ASKERS = int(os.environ.get("DRILL_RACE_ASKERS", "25"))
RESOURCE = "allotment.dev/h100-1g-10gb"


def held(world: World) -> int:
    """What Kueue says is used of the slice in the tenant's queue."""
    queue = world.door.client.get("clusterqueues.kueue.x-k8s.io", world.tenant.object_name)
    return sum(
        whole_number(resource.get("total", "0"))
        for flavor in (queue or {}).get("status", {}).get("flavorsUsage") or ()
        for resource in flavor["resources"]
        if resource["name"] == RESOURCE
    )


def in_any_order(world: World, chance: random.Random) -> None:
    """Workers take the hints as they come, and now and then the cluster moves in between."""
    while world.hints:
        owner, pk = world.hints.pop(chance.randrange(len(world.hints)))
        world.reconcile(owner, pk)
        if chance.random() < 0.1:
            world.manager.advance(1)
            world.watch.deliver()
        assert held(world) <= 1


@pytest.mark.timeout(7200)
def test_one_holds_the_last_slice_and_the_others_wait_with_a_reason(
    world: World, record_property: Callable[[str, object], None]
) -> None:
    for number in range(ROUNDS):
        kind = ("notebook", "job")[number % 2]
        rows = [world.submit(Ask(f"r{number}-{n}", kind=kind)) for n in range(ASKERS)]
        in_any_order(world, random.Random(number))
        world.settle()
        phases = [world.phase(row) for row in rows]
        assert (phases.count(Phase.RUNNING), phases.count(Phase.PENDING)) == (1, ASKERS - 1)
        assert held(world) == 1 == _ledger(world)
        assert [row.slug for row in rows if row.phase == Phase.PENDING and not _why(world, row)] == []
        assert duplicates(world) == []
        for row in rows:
            world.act("delete", row)
        world.settle(most=200)
        world.sweep(later=timedelta(minutes=1))
        assert (orphans(world), held(world)) == ([], 0)
    record_property("n", ROUNDS * ASKERS)


def _ledger(world: World) -> int:
    """What the pages show as used."""
    bars = standing.quota_bars(world.rosa, world.tenant, now=timezone.now())
    return sum(bar.used for bar in bars if bar.offer.resource_name == RESOURCE)


def _why(world: World, row: Workload) -> str:
    told: Any = waiting.queue_of(world.rosa, row, world.now) or {}
    return str(told.get("message", ""))
