"""Real Celery workers on a real control plane: killed at work, and asleep for longer than their lease."""

import os
import random
import threading
import time
from collections.abc import Callable
from functools import partial
from statistics import quantiles
from typing import Any
from uuid import UUID

import pytest

from tests.drills.installed import Installed, Victim, clear, labelled
from tests.patience import until, within

pytestmark = [pytest.mark.exhaustive, pytest.mark.plane, pytest.mark.timeout(7200)]

KILLS = int(os.environ.get("DRILL_KILLS", "1"))
SLEEPS = int(os.environ.get("DRILL_SLEEPS", "1"))
MOST_TO_RESUME = 20.0
"""Shorter than a lease: the others see that its holder is dead."""
AWAKE_SECONDS = 6.0
"""What a sleeper gets to finish its old work before anybody judges."""

Record = Callable[[str, object], None]


class Resumed(threading.Thread):
    """Notes how long after its worker's death each row was reconciled again.

    On a busy machine the next victim takes up a row that the last one left, and dies with it too: the time
    counts from the last death that ended a lease of the row. A lease that its holder gave back is the one
    that the row's fence still names.
    """

    def __init__(self, demo: Installed) -> None:
        super().__init__(daemon=True)
        self.demo = demo
        self.deaths: dict[str, list[tuple[int, float]]] = {}
        """Of each row that was hit: the fence of the lease that was held at a death, and when."""
        self.took: dict[str, float] = {}

    def hit(self, pk: str, at: float) -> None:
        """A victim died: this row is watched from now on where it held a lease, the others as they are."""
        held = {UUID(key): fence for key, fence in self.demo.rows("id, fence", "lease_owner != ''")}
        if UUID(pk) in held:
            self.deaths[pk] = []
        for key, deaths in list(self.deaths.items()):
            fence = held.get(UUID(key))
            if fence is not None and fence not in dict(deaths):
                deaths.append((fence, at))

    def again(self) -> int:
        """How many rows were hit more than once."""
        return sum(len(deaths) > 1 for deaths in self.deaths.values())

    def run(self) -> None:
        while True:
            for pk in self.deaths.keys() - self.took.keys():
                done, fence = self.demo.row(
                    pk, "generation = observed_generation and lease_owner = '', fence"
                )
                ended = [at for lease, at in self.deaths[pk] if lease < fence]
                if done == 1 and ended:
                    self.took[pk] = time.monotonic() - ended[-1]
            time.sleep(0.1)


def at_work(demo: Installed, chance: random.Random, slug: str) -> tuple[Victim, str]:
    """A worker that has taken a new notebook, at a random moment of its reconcile; no other worker moves."""
    victim = Victim(demo.home)
    until(lambda: len(victim.pids()) >= 3, "the victim to come up", 90)
    time.sleep(2.0)
    victim.alone()
    try:
        pk = demo.submit(slug)
        deadline = within(10)
        while not demo.row(pk, "lease_owner")[0] and time.monotonic() < deadline:
            time.sleep(0.002)
        time.sleep(chance.uniform(0, 0.03))
    except BaseException:
        victim.kill()
        raise
    return victim, pk


def test_the_work_of_killed_workers_is_resumed(demo: Installed, record_property: Record) -> None:
    """One kill after the other, without waiting for what the last one left behind."""
    chance, resumed = random.Random(7), Resumed(demo)
    resumed.start()
    asked: list[str] = []
    while len(resumed.deaths) < KILLS and len(asked) < 3 * KILLS:
        victim, pk = at_work(demo, chance, f"kill-{len(asked)}")
        at = victim.kill()
        asked.append(pk)
        resumed.hit(pk, at)
    until(lambda: len(resumed.took) == len(resumed.deaths), "every row to be resumed", 120)
    held = sorted(resumed.took.values())
    p95 = quantiles(held, n=20, method="inclusive")[-1] if len(held) > 1 else held[0]
    record_property("kills", len(asked))
    record_property("killed_while_holding_a_lease", len(held))
    record_property("of_them_hit_by_a_later_kill_too", resumed.again())
    record_property("resumed_median_seconds", round(held[len(held) // 2], 1))
    record_property("resumed_p95_seconds", round(p95, 1))
    record_property("resumed_most_seconds", round(held[-1], 1))
    until(lambda: len(labelled(demo, "pod")) == len(asked), "each to have its object", 60)
    assert p95 <= MOST_TO_RESUME
    clear(demo)
    assert labelled(demo, "service,pvc,pod") == []


def is_at(demo: Installed, pk: str, columns: str, values: tuple[Any, ...]) -> bool:
    return demo.row(pk, columns) == values


def test_a_worker_that_slept_past_its_lease_changes_nothing_that_lasts(
    demo: Installed, record_property: Record
) -> None:
    """It is paused at work; its lease ends, the notebook is stopped by others; then it goes on."""
    chance, held = random.Random(11), 0
    columns = "phase, suspended, generation, observed_generation"
    for number in range(SLEEPS):
        victim, pk = at_work(demo, chance, f"sleep-{number}")
        victim.pause()
        held += bool(demo.row(pk, "lease_owner")[0])
        try:
            stopped = demo.rest.post(f"/workloads/{pk}/stop", json={}, headers={"If-Match": "*"})
            assert stopped.is_success, stopped.text
            until(lambda at=pk: demo.row(at, "phase")[0] == "Stopped", "others to stop it", 90)  # type: ignore[misc]
            before = demo.row(pk, columns)
            victim.go_on()
            time.sleep(AWAKE_SECONDS)
            until(lambda: not labelled(demo, "pod"), "what it applied late to be undone", 60)
            until(partial(is_at, demo, pk, columns, before), "its row to be as it was", 60)
            assert demo.row(pk, "lease_owner")[0] == ""
        finally:
            victim.kill()
        clear(demo)
    record_property("n", SLEEPS)
    record_property("paused_while_holding_a_lease", held)
    assert labelled(demo, "service,pvc,pod") == []
