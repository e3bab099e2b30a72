"""One of several equal processes leads, judged by the database; it stops before another can begin."""

import threading
import time
from datetime import timedelta
from typing import Any, ClassVar
from uuid import UUID

import pytest
from django.db import OperationalError
from django.utils import timezone

from apps.cluster.leading.services.leadership import Leader
from apps.cluster.management.commands import watch_cluster
from apps.cluster.models import Cluster, Leadership, MirrorObject
from apps.cluster.specs import EventType, WatchEvent
from apps.cluster.watching.services.ingest import Ingest, Saw

pytestmark = [pytest.mark.both_databases, pytest.mark.django_db]


def leader(seconds: float = 60) -> Leader:
    return Leader("clock", seconds=seconds)


def expire() -> None:
    Leadership.objects.update(until=timezone.now() - timedelta(seconds=1))


def test_the_first_leads_and_the_others_wait() -> None:
    first, second = leader(), leader()
    assert (first.keep(), second.keep()) == (True, False)
    assert (first.is_held, second.is_held) == (True, False)
    assert Leadership.objects.get().term == 1


def test_who_leads_goes_on_and_its_term_stays() -> None:
    first = leader(seconds=0.3)
    assert first.keep()
    was = Leadership.objects.get().until
    time.sleep(first.pause)
    assert first.keep()
    row = Leadership.objects.get()
    assert (row.term, row.holder) == (1, first.holder)
    assert row.until > was


def test_another_takes_over_what_ran_out_and_the_first_does_not_get_it_back() -> None:
    first, second = leader(seconds=0.3), leader()
    assert first.keep()
    expire()
    assert second.keep()
    time.sleep(first.pause)
    assert not first.keep()
    assert not first.is_held
    assert Leadership.objects.get().term == 2


def test_what_is_given_back_is_free_at_once_and_only_by_its_holder() -> None:
    first, second = leader(), leader()
    assert first.keep()
    second.give_back()
    assert not second.keep()
    first.give_back()
    assert not first.is_held
    assert leader().keep()


def test_a_leader_counts_on_its_own_clock_and_stops_before_the_database_lets_another_begin() -> None:
    first = leader(seconds=0.2)
    assert first.keep()
    local_end, row = time.monotonic() + 0.2, Leadership.objects.get()
    assert row.until - timezone.now() <= timedelta(seconds=0.2)
    while first.is_held:
        assert time.monotonic() <= local_end
        time.sleep(0.005)


def test_without_the_database_it_leads_until_its_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    first = leader(seconds=0.3)
    assert first.keep()

    def fail() -> bool:
        raise OperationalError("gone")

    monkeypatch.setattr(first, "_take", fail)
    time.sleep(first.pause)
    assert first.keep()
    time.sleep(2 * first.pause + 0.01)
    assert not first.keep()


@pytest.mark.django_db(transaction=True)
def test_a_watcher_that_does_not_lead_writes_nothing(cluster: Cluster) -> None:
    other, ours = Leader("watcher:x"), Leader("watcher:x")
    assert other.keep()
    assert not ours.keep()
    ingest = Ingest(cluster, lambda _: None, leader=ours)
    node = {"kind": "Node", "metadata": {"name": "n1", "uid": "u1", "resourceVersion": "7"}}
    ingest.put(Saw("Node", WatchEvent(EventType.ADDED, node)))
    stop = Stopped(after=2)
    ingest.run(stop)
    assert not MirrorObject.objects.filter(kind="Node", name="n1").exists()


class Watching:
    """A watcher that sees nothing; the generations of the registrations that were begun with."""

    begun: ClassVar[list[int]] = []

    def __init__(self, cluster: Cluster, *_: object) -> None:
        self.begun.append(cluster.generation)
        self._over = threading.Event()

    def run(self) -> None:
        self._over.wait()

    def shut_down(self) -> None:
        self._over.set()


def test_a_cluster_is_watched_by_one_process_and_anew_when_its_registration_changes(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch_cluster, "Watcher", Watching)
    # The test's own connection is in a transaction.
    monkeypatch.setattr(watch_cluster, "close_old_connections", lambda: None)
    monkeypatch.setattr(Watching, "begun", [])
    running: dict[watch_cluster.Key, tuple[Any, threading.Thread]] = {}
    leaders: dict[UUID, Leader] = {}
    watch_cluster.Command()._follow(running, leaders, "")
    watch_cluster.Command()._follow({}, {}, "")
    assert Watching.begun == [cluster.generation]
    Cluster.objects.update(generation=cluster.generation + 1)
    watch_cluster.Command()._follow(running, leaders, "")
    ((watcher, thread),) = running.values()
    watcher.shut_down()
    thread.join()
    assert Watching.begun == [cluster.generation, cluster.generation + 1]


class Stopped(threading.Event):
    """Is set after it was waited for so often."""

    def __init__(self, after: int) -> None:
        super().__init__()
        self.left = after

    def wait(self, timeout: float | None = None) -> bool:  # noqa: ARG002 - nobody has to wait
        self.left -= 1
        if self.left <= 0:
            self.set()
        return self.is_set()
