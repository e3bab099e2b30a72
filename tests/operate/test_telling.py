"""What processes count and that they live, through a real Redis: sums over processes, and who is there."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis
from prometheus_client import Counter

from apps.web.stores import telling
from apps.web.stores.telling import Part, Teller, field_of

ROOT = Path(__file__).resolve().parents[2]
COUNTED = Counter("allotment_test_of_telling_total", "Of this test alone.", ["way"])
CHILD = """
import django; django.setup()
from tests.operate.test_telling import COUNTED
from apps.web.stores.telling import Teller
COUNTED.labels("in").inc(2.5); assert Teller("worker").tell()
"""


@pytest.fixture(autouse=True)
def empty(broker: str) -> Iterator[None]:
    server = redis.Redis.from_url(broker)
    server.flushall()
    yield
    server.flushall()


def total(way: str) -> float | None:
    return telling.read().totals.get(field_of("allotment_test_of_telling_total", {"way": way}))


@pytest.mark.programs
def test_counts_are_sums_over_processes_and_survive_their_end(broker: str) -> None:
    environment = {**os.environ, "ALLOTMENT_REDIS_URL": broker, "DJANGO_SETTINGS_MODULE": "portal.settings"}
    for _ in range(2):
        subprocess.run([sys.executable, "-c", CHILD], env=environment, cwd=ROOT, check=True, timeout=120)
    assert total("in") == 5.0
    assert telling.read().alive("worker") == 2
    assert telling.read().alive("beat") == 0


def test_a_process_tells_what_has_grown_and_nothing_twice() -> None:
    teller = Teller("", told=telling.counted())
    COUNTED.labels("once").inc()
    assert teller.tell()
    assert teller.tell()
    COUNTED.labels("once").inc(3)
    assert teller.tell()
    assert total("once") == 4.0
    assert telling.read().parts == ()


def test_what_redis_did_not_take_is_told_the_next_time(no_broker: None) -> None:
    teller = Teller("", told=telling.counted())
    COUNTED.labels("later").inc()
    assert not teller.tell()
    assert field_of("allotment_test_of_telling_total", {"way": "later"}) not in teller.told


def test_a_run_is_told_once_and_sets_no_later_one_of_another_process_back() -> None:
    telling.note_run("test.run")
    teller = Teller("")
    teller.tell()
    later = time.time() + 60
    telling.client().hset(telling.RAN, "test.run", later)
    teller.tell()
    assert telling.read().ran["test.run"] == later
    telling.note_run("test.run")
    teller.tell()
    assert telling.read().ran["test.run"] < later


def test_a_flushed_redis_begins_again() -> None:
    teller = Teller("", told=telling.counted())
    COUNTED.labels("flushed").inc(5)
    teller.tell()
    telling.client().flushall()
    COUNTED.labels("flushed").inc()
    teller.tell()
    assert total("flushed") == 1.0


def test_a_part_is_there_with_what_it_measures_until_it_is_silent() -> None:
    teller = Teller("web", {"streams": lambda: 7.0})
    teller.tell()
    (part,) = telling.read().parts
    assert part == Part("web", part.host, os.getpid(), teller.since, {"full": 0.0, "streams": 7.0})
    key = telling.client().smembers(telling.PARTS).pop()
    assert 0 < telling.client().ttl(key) <= telling.LIFE_SECONDS
    telling.client().delete(key)
    assert telling.read().parts == ()
    assert telling.client().scard(telling.PARTS) == 0, "what is gone is forgotten"


def test_a_forked_process_does_not_tell_what_its_parent_has_counted() -> None:
    COUNTED.labels("parent").inc(9)
    child = Teller("", told=telling.counted())
    child.tell()
    assert total("parent") is None


def test_when_a_task_last_succeeded_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(telling, "_ran", {})
    telling.note_run("workloads.sweep")
    Teller("").tell()
    assert abs(telling.read().ran["workloads.sweep"] - time.time()) < 60
