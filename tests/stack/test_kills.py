"""What may die under people at work: each part, each server, and the cluster. Nothing that was acknowledged
is lost or made twice, and how long it takes until work goes on is counted.
"""

import json
import os
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest
import redis
from websockets.exceptions import ConnectionClosedError
from websockets.sync.client import ClientConnection, connect

from tests import services
from tests.controlplane.plane import Outage
from tests.patience import patient, until
from tests.stack.conftest import folder
from tests.stack.installation import COUNTS, Stack, standing
from tests.stack.load import Load
from tests.story.by_ssh import allow

pytestmark = [pytest.mark.exhaustive, pytest.mark.plane, pytest.mark.timeout(1800)]

AWAY_SECONDS = float(os.environ.get("STACK_AWAY_SECONDS", "20"))
"""How long the cluster is away; a server of ours at most 60."""
BEFORE_SECONDS = 5.0
READ_SECONDS = 30.0
"""Until an agent that is back was read and a web process says so: each looks every 5 s."""
OF_KUBERNETES = 90.0
"""How long its own controllers may take to look again after their server was away."""
Record = Callable[[str, object], None]


@dataclass(frozen=True)
class Fault:
    """What happens, and what may come of it, in seconds afterwards: a job that was asked for meanwhile is in
    the cluster within `applied` and runs within `runs`; where it `refuses`, requests may fail while it lasts.
    """

    happen: Callable[[Stack], None]
    runs: float = 20
    applied: float = 10
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
    "web killed": Fault(killed("web"), refuses=True),
    "worker killed": Fault(killed("worker")),
    "beat killed": Fault(killed("beat")),
    "watcher killed": Fault(killed("watcher")),
    "door killed": Fault(killed("door")),
    "PostgreSQL dies": Fault(database_dies, refuses=True),
    "Redis emptied": Fault(queue_is_emptied),
    "Redis away": Fault(queue_is_away),
    "API server killed": Fault(away("kube-apiserver", Outage.KILL), OF_KUBERNETES),
    "API server hung": Fault(away("kube-apiserver", Outage.PAUSE), OF_KUBERNETES),
    "Kueue killed": Fault(away("kueue", Outage.KILL), OF_KUBERNETES),
}


def meanwhile(load: Load) -> str:
    """Ask for a job while the fault lasts; its id, once somebody acknowledged it."""
    time.sleep(0.5)
    load.stays = f"{load.name}-meanwhile"
    return load.ask(load.stays)


def waited(is_so: Callable[[], bool], what: str, since: float) -> float:
    """Until it is so; the seconds since a moment."""
    until(is_so, what, 2 * OF_KUBERNETES, every=0.5)
    return time.monotonic() - since


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
        applied = waited(lambda: load.state(pk)[0], "what was asked for meanwhile in the cluster", over)
        ran = waited(lambda: load.state(pk)[1] == "Running", "what was asked for meanwhile to run", over)
        time.sleep(BEFORE_SECONDS)
        back = time.monotonic()
        load.stop()
        refused, after = load.failed_between(begins, over + ran), load.failed_between(over + ran, back)
        record_property("seconds_until_applied", round(applied, 1))
        record_property("seconds_until_it_runs", round(ran, 1))
        record_property("refused", dict(refused))
        record_property("requests", len(load.asked))
        record_property("slowest_seconds", round(max(each.seconds for each in load.asked), 1))
        load.settle(120)
        load.clear(120)
    assert (before, dict(after)) == ([], {}), "who has no fault must not be refused"
    assert fault.refuses or not refused
    assert (applied <= patient(fault.applied), ran <= patient(fault.runs)) == (True, True)


def test_who_was_inside_when_the_door_was_killed_comes_in_again(
    stack: Stack, record_property: Record
) -> None:
    """A terminal ends with the door, and nothing else does: a new one opens as soon as the door is back."""
    with Load(stack) as load:
        allow(load.rest["platform"], "vision", is_on=True)
        load.stays = f"{load.name}-inside"
        pk = load.ask(load.stays)
        waited(lambda: load.state(pk)[1] == "Running", "a job to look into", time.monotonic())
        with terminal(stack, load, pk) as inside:
            type_into(inside, "before")
            died = time.monotonic()
            stack.kill(("door", 1))
            with pytest.raises(ConnectionClosedError):
                list(inside)
        time.sleep(1)
        stack.start(("door", 1))
        stack.wait(("door", 1))
        with terminal(stack, load, pk) as inside:
            type_into(inside, "after")
        record_property("seconds_until_inside_again", round(time.monotonic() - died, 1))
        load.stop()
        record_property("requests", len(load.asked))
        load.settle(120)
        load.clear(120)
    assert load.failed == []


def test_an_agent_that_was_killed_is_read_again(stack: Stack, record_property: Record) -> None:
    """What GPUs did is unknown while it is away, and nothing else is."""
    with Load(stack) as load:
        began = datetime.now(UTC)
        until(lambda: read_until(load) > began, "the agent to be read", 60)
        killed("agent")(stack)
        back, over = datetime.now(UTC), time.monotonic()
        again = waited(lambda: read_until(load) > back, "the agent to be read again", over)
        record_property("seconds_until_it_is_read_again", round(again, 1))
        load.stop()
        record_property("requests", len(load.asked))
        load.settle(120)
        load.clear(120)
    assert load.failed == []
    assert again <= patient(READ_SECONDS)


def read_until(load: Load) -> datetime:
    """The moment up to which the telemetry is read, by what a web process knew within the last 5 s; at least,
    for it tells whole seconds.
    """
    health = load.rest["platform"].get("/health").json()
    (cluster,) = health["clusters"]
    if cluster["telemetry_seconds"] is None:
        return datetime.min.replace(tzinfo=UTC)
    return datetime.fromisoformat(health["checked_at"]) - timedelta(seconds=cluster["telemetry_seconds"] + 1)


@contextmanager
def terminal(stack: Stack, load: Load, pk: str) -> Iterator[ClientConnection]:
    """A shell in a workload through the door, as docs/ssh.md has it."""
    offered = load.rest["researcher"].post(f"/workloads/{pk}/terminal", json={})
    assert offered.status_code == 200, offered.text
    # As a browser does: every name below localhost is this machine.
    wire = socket.create_connection(("127.0.0.1", stack.ports["door", 1]))
    with connect(offered.json()["url"], sock=wire) as inside:
        inside.send(json.dumps({"code": offered.json()["code"], "pod": 0, "columns": 100, "rows": 30}))
        yield inside


def type_into(inside: ClientConnection, word: str) -> None:
    """Back once the shell has done what was typed, which its echo alone does not look like."""
    inside.send(f"printf '%s-%s\\n' {word} {word}\n".encode())
    written = b""
    while f"{word}-{word}".encode() not in written:
        message = inside.recv(timeout=patient(20))
        assert isinstance(message, bytes), message
        written += message


def test_the_ledger_holds(stack: Stack, record_property: Record) -> None:
    """After all of the above: whatever was missed meanwhile, no device is held twice and no time is lost."""
    said = stack.manage("verify_ledger").strip()
    record_property("ledger", said)
    assert said.endswith("The ledger balances.")


def test_a_stack_has_no_traceback_left(stack: Stack) -> None:
    """After all of the above: what failed was said in words, but for Celery's consumer when Redis goes."""
    assert stack.tracebacks() == {}
