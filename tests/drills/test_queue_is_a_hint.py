"""The queue only hints: lost, repeated and reordered messages change nothing of where everything ends."""

import os
from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from apps.workloads import specs
from tests import factories
from tests.drills.dump import dump
from tests.drills.schedules import Schedule
from tests.drills.world import Ask, Hint, World

SCHEDULES = int(os.environ.get("DRILL_SCHEDULES", "6"))
STEPS = int(os.environ.get("DRILL_STEPS", "20"))


@pytest.mark.timeout(7200)
def test_whatever_the_schedule_the_last_generation_wins(
    db: None, hints: list[Hint], one_thread: None, record_property: Callable[[str, object], None]
) -> None:
    totals: Counter[str] = Counter()

    def make() -> World:
        hints.clear()
        return World(factories.make_cluster(), hints)

    bound = type("Bound", (Schedule,), {"make": staticmethod(make), "totals": totals})
    run_state_machine_as_test(
        bound,
        settings=settings(
            max_examples=SCHEDULES,
            stateful_step_count=STEPS,
            deadline=None,
            derandomize="DRILL_SCHEDULES" not in os.environ,
            suppress_health_check=list(HealthCheck),
            phases=[Phase.explicit, Phase.generate, Phase.shrink],
            database=None,
            print_blob=True,
        ),
    )
    for what, count in totals.items():
        record_property(what, count)
    assert totals["schedules"] > 0
    assert totals["acted while a worker was at it"] > 0


def test_the_sweep_alone_brings_everything_up_and_down(world: World) -> None:
    """No hint is ever delivered."""
    notebook = world.submit(Ask("nb"))
    job = world.submit(Ask("job", kind="job", offer="h100-3g-40gb"))
    world.settle_deaf()
    assert [world.phase(row) for row in (notebook, job)] == [specs.Phase.RUNNING] * 2
    for row in (notebook, job):
        world.act("stop", row)
    world.settle_deaf()
    assert [world.phase(row) for row in (notebook, job)] == [specs.Phase.STOPPED] * 2
    for row in (notebook, job):
        world.act("delete", row)
    world.settle_deaf()
    assert [dump(world, row)["row"]["lives"] for row in (notebook, job)] == [False, False]


def test_a_job_that_ends_is_seen_to_end_without_any_hint(world: World) -> None:
    job = world.submit(Ask("job", kind="job", seconds=60))
    world.settle_deaf()
    assert world.phase(job) == specs.Phase.RUNNING
    world.manager.advance(60)
    world.settle_deaf()
    assert world.phase(job) == specs.Phase.SUCCEEDED


def test_every_message_three_times_costs_no_call_more(world: World) -> None:
    row = world.submit(Ask("nb"))
    world.settle()
    once = sorted(write.point for write in world.gateway.writes)
    world.act("delete", row)
    world.settle()
    world.gateway.forget()

    again = world.submit(Ask("nb"))
    for _ in range(12):
        world.hints += world.hints * 2
        taken = list(world.hints)
        world.hints.clear()
        for owner, pk in taken:
            world.reconcile(owner, pk)
        world.manager.advance(3)
        world.watch.deliver()

    assert world.phase(again) == specs.Phase.RUNNING
    assert sorted(write.point for write in world.gateway.writes) == once
