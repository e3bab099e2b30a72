"""What may die under people at work: each part, each server, and the cluster. Nothing that was acknowledged
is lost or made twice, and how long it takes until work goes on is counted.
"""

import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest
import redis

from tests import services
from tests.controlplane.plane import Outage
from tests.patience import patient, until
from tests.stack.conftest import folder
from tests.stack.installation import COUNTS, Stack, standing
from tests.stack.load import Load

pytestmark = [pytest.mark.exhaustive, pytest.mark.plane, pytest.mark.timeout(1800)]

AWAY_SECONDS = float(os.environ.get("STACK_AWAY_SECONDS", "20"))
"""How long the cluster is away; a server of ours at most 60."""
BEFORE_SECONDS = 5.0
Record = Callable[[str, object], None]


@dataclass(frozen=True)
class Fault:
    """What happens, and what may come of it: `soon` is in how many seconds afterwards a job runs that was
    asked for meanwhile; where it `refuses`, requests may fail while it lasts.
    """

    happen: Callable[[Stack], None]
    soon: float
    refuses: bool = False


def killed(part: str) -> Callable[[Stack], None]:
    """Each process of it with SIGKILL, one after the other; after a second another starts."""

    def happen(stack: Stack) -> None:
        for number in range(1, COUNTS[part] + 1):
            stack.kill((part, number))
            time.sleep(1)
            stack.start((part, number))
            stack.wait((part, number))

    return happen


def database_dies(stack: Stack) -> None:
    services.stop_postgres(stack.home, "immediate")
    time.sleep(6)
    services.start_postgres(stack.home)


def queue_is_emptied(stack: Stack) -> None:
    with redis.Redis.from_url(stack.redis) as server:
        for _ in range(5):
            server.flushall()
            time.sleep(1)


def queue_is_away(stack: Stack) -> None:
    port = int(stack.redis.rpartition(":")[2].partition("/")[0])
    services.stop_redis(stack.home)
    time.sleep(min(AWAY_SECONDS, 60))
    services.start_redis(stack.home, port)


def away(component: str, how: Outage) -> Callable[[Stack], None]:
    """A part of the cluster for AWAY_SECONDS."""

    def happen(stack: Stack) -> None:
        stack.plane.stop_component(component, how)
        try:
            time.sleep(AWAY_SECONDS)
        finally:
            stack.plane.start_component(component)

    return happen


FAULTS = {
    "web killed": Fault(killed("web"), 20, refuses=True),
    "worker killed": Fault(killed("worker"), 35),
    "beat killed": Fault(killed("beat"), 20),
    "watcher killed": Fault(killed("watcher"), 20),
    "PostgreSQL dies": Fault(database_dies, 20, refuses=True),
    "Redis emptied": Fault(queue_is_emptied, 20),
    "Redis away": Fault(queue_is_away, 20),
    "API server killed": Fault(away("kube-apiserver", Outage.KILL), 90),
    "API server hung": Fault(away("kube-apiserver", Outage.PAUSE), 90),
    "Kueue killed": Fault(away("kueue", Outage.KILL), 90),
}


def meanwhile(load: Load) -> str:
    """Ask for a job while the fault lasts; its id, once somebody acknowledged it."""
    time.sleep(0.5)
    load.stays = f"{load.name}-meanwhile"
    return load.ask(load.stays)


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    with folder() as home, standing(home) as stack:
        yield stack


@pytest.mark.parametrize("name", FAULTS)
def test_nothing_is_lost_and_work_goes_on(stack: Stack, name: str, record_property: Record) -> None:
    fault = FAULTS[name]
    with Load(stack) as load, ThreadPoolExecutor(1) as beside:
        time.sleep(BEFORE_SECONDS)
        before = load.failed
        begins = time.monotonic()
        asked = beside.submit(meanwhile, load)
        fault.happen(stack)
        over = time.monotonic()
        pk = asked.result()
        until(
            lambda: load.phase(pk) == "Running", "what was asked for meanwhile to run", fault.soon, every=0.5,
            told=lambda: load.phase(pk),
        )  # fmt: skip
        took = time.monotonic() - over
        time.sleep(BEFORE_SECONDS)
        back = time.monotonic()
        load.stop()
        refused, after = load.failed_between(begins, over + took), load.failed_between(over + took, back)
        record_property("seconds_until_work_goes_on", round(took, 1))
        record_property("refused", dict(refused))
        record_property("requests", len(load.asked))
        record_property("slowest_seconds", round(max(each.seconds for each in load.asked), 1))
        load.settle(120)
        load.clear(120)
    assert (before, dict(after)) == ([], {}), "who has no fault must not be refused"
    assert fault.refuses or not refused
    assert took <= patient(fault.soon)


def test_a_stack_has_no_traceback_left(stack: Stack) -> None:
    """After all of the above: what failed was said in words."""
    said = {name: stack.log(name).read_text().partition("Traceback") for name in stack.names}
    assert {
        name: before[-500:] + after[:2500] for name, (before, found, after) in said.items() if found
    } == {}
