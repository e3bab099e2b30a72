"""A queue that a platform engineer rearranges, on the simulated cluster with its Kueue."""

import pytest

from apps.accounts.specs import system_actor
from apps.workloads.models import StartEstimate, Workload
from apps.workloads.queue.rules.effects import Arrangement
from apps.workloads.queue.services import arranging
from apps.workloads.specs import Phase
from apps.workloads.waiting.rules.situation import Cause
from apps.workloads.waiting.selectors import places, waiting
from apps.workloads.waiting.services import predicting
from tests.drills.world import Ask, World

pytestmark = pytest.mark.django_db


def arrange(world: World, row: Workload, arrangement: Arrangement) -> None:
    arranging.arrange_workload(
        actor=system_actor("drill"), workload=row, arrangement=arrangement, reason="drill", now=world.now
    )
    world.settle()


def place(row: Workload) -> int | None:
    found = places.place(places.entry_of(row))
    return found.position if found else None


def line(world: World) -> list[Workload]:
    """One that holds the only slice, and three that wait for it."""
    rows = [world.submit(Ask("holder"))]
    world.settle()
    for slug in ("first", "second", "third"):
        rows.append(world.submit(Ask(slug)))
        world.settle()
        world.manager.advance(1)
    return rows


def test_a_moved_one_starts_before_those_who_came_first(world: World) -> None:
    holder, first, second, third = line(world)
    assert [place(row) for row in (first, second, third)] == [1, 2, 3]
    arrange(world, third, Arrangement.FRONT)
    assert [place(row) for row in (first, second, third)] == [2, 3, 1]
    world.act("stop", holder)
    world.settle()
    assert [world.phase(row) for row in (first, second, third)] == [
        Phase.PENDING, Phase.PENDING, Phase.RUNNING,
    ]  # fmt: skip


def test_a_held_one_is_passed_and_comes_back_to_its_place(world: World) -> None:
    holder, first, second, third = line(world)
    arrange(world, first, Arrangement.HOLD)
    assert [place(row) for row in (first, second, third)] == [None, 1, 2]
    first.refresh_from_db()
    told = waiting.explanation_for(world.rosa, first, world.now)
    assert told is not None
    assert told.cause is Cause.HELD
    world.act("stop", holder)
    world.settle()
    assert world.phase(second) == Phase.RUNNING
    arrange(world, first, Arrangement.RELEASE)
    assert [place(row) for row in (first, third)] == [1, 2]
    world.act("stop", second)
    world.settle()
    assert [world.phase(row) for row in (first, third)] == [Phase.RUNNING, Phase.PENDING]


def test_what_was_foretold_is_judged_by_what_came(world: World) -> None:
    holder, first, *_ = line(world)
    assert predicting.predict(now=world.now) > 0
    world.act("stop", holder)
    world.settle()
    assert world.phase(first) == Phase.RUNNING
    assert predicting.settle(now=world.now) == 1
    outcome = StartEstimate.objects.get(workload=first)
    assert outcome.started_at is not None
    assert predicting.coverage()[1] == 1
