"""A running installation whose queue is emptied in a burst of requests, and whose Redis hangs."""

import os
import signal
import threading
import time
from collections.abc import Callable

import pytest
import redis

from tests.drills.installed import Installed, labelled, processes, workers_of
from tests.patience import patient, until

pytestmark = [pytest.mark.exhaustive, pytest.mark.plane, pytest.mark.timeout(3600)]

BURST = int(os.environ.get("DRILL_BURST", "20"))
DOWN_SECONDS = float(os.environ.get("DRILL_REDIS_SECONDS", "5"))
AT_ONCE = int(os.environ.get("DRILL_AT_ONCE", "6"))
FLUSHES = 4
MOST_SECONDS = 0.5
SLACK = 0.5
"""The machine's own unevenness: a request is compared with the slowest of those before."""

Record = Callable[[str, object], None]


def url(demo: Installed) -> str:
    """Where its Redis is, as its workers were told."""
    return next(iter(workers_of(demo.home).values()))["ALLOTMENT_REDIS_URL"]


def unreached(demo: Installed) -> int:
    """Rows whose wish has not reached the cluster."""
    return len(demo.rows("id", "deleted_at is null and generation != observed_generation"))


def test_a_queue_emptied_in_a_burst_of_requests_loses_none(demo: Installed, record_property: Record) -> None:
    queue, over = redis.Redis.from_url(url(demo)), threading.Event()
    lost: list[int] = []

    def empty_it() -> None:
        while not over.wait(1.0) and len(lost) < FLUSHES:
            lost.append(queue.llen("celery"))
            queue.flushall()

    thread = threading.Thread(target=empty_it)
    thread.start()
    pks = demo.submit_many([f"burst-{n}" for n in range(BURST)], at_once=AT_ONCE)
    over.set()
    thread.join()
    queue.flushall()
    began = time.monotonic()
    until(lambda: unreached(demo) == 0, "every request to reach the cluster", 300)
    record_property("n", len(pks))
    record_property("flushes", len(lost) + 1)
    record_property("hints_lost", sum(lost))
    record_property("all_applied_seconds_after", round(time.monotonic() - began, 1))
    assert len(labelled(demo, "pod")) == len(pks) == BURST


def test_while_redis_hangs_requests_are_answered_and_none_is_lost(
    demo: Installed, record_property: Record
) -> None:
    def submit(slug: str) -> float:
        began = time.monotonic()
        demo.submit(slug)
        return time.monotonic() - began

    plain = [submit(f"plain-{n}") for n in range(5)]
    (server,) = (pid for pid in processes("redis-server") if str(demo.home) in _words(pid))
    took: list[float] = []
    os.kill(server, signal.SIGSTOP)
    try:
        until_ = time.monotonic() + DOWN_SECONDS
        while time.monotonic() < until_:
            took.append(submit(f"down-{len(took)}"))
            time.sleep(2.0)
    finally:
        os.kill(server, signal.SIGCONT)
    began = time.monotonic()
    until(lambda: unreached(demo) == 0, "every request to reach the cluster", 120)
    record_property("n", len(took))
    record_property("slowest_request_slower_by_seconds", round(max(took) - max(plain), 2))
    record_property("all_applied_seconds_after", round(time.monotonic() - began, 1))
    assert max(took) - max(plain) < patient(MOST_SECONDS + SLACK)
    assert len(labelled(demo, "pod")) == len(took) + len(plain)


def _words(pid: int) -> str:
    with open(f"/proc/{pid}/cmdline", "rb") as file:  # noqa: PTH123 - one line of /proc
        return file.read().decode()
