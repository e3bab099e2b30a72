"""How the watch of one kind goes on after whatever happens to it."""

from collections.abc import Iterator
from threading import Event
from typing import Any

import pytest

from apps.cluster.errors import Expired, Rejected, Throttled, Unreachable
from apps.cluster.models import Cluster
from apps.cluster.specs import Body, EventType, WatchEvent
from apps.cluster.watching.services import watch
from apps.cluster.watching.services.ingest import Ingest, Listed, Message, Saw
from apps.cluster.watching.services.watch import Follower, Watcher
from tests.cluster.doubles import FakeCluster


def event(version: int, type_: EventType = EventType.MODIFIED) -> WatchEvent:
    return WatchEvent(type_, {"metadata": {"name": "nb", "resourceVersion": str(version)}})


class Stream:
    """A watch that tells its events and then ends, or fails."""

    def __init__(self, told: list[WatchEvent | Exception]) -> None:
        self._told = told
        self.closed = False

    def __iter__(self) -> Iterator[WatchEvent]:
        for entry in self._told:
            if isinstance(entry, Exception):
                raise entry
            yield entry

    def close(self) -> None:
        self.closed = True


class Scripted(FakeCluster):
    """Plays one script per watch; after the last it stops the watcher. Lists answer version 100, 200, ..."""

    def __init__(self, *scripts: list[WatchEvent | Exception]) -> None:
        super().__init__()
        self.scripts = list(scripts)
        self.asked: list[str] = []
        self.watcher: Watcher | None = None
        self.lists = 0

    def list(self, kind: str, **_: Any) -> tuple[list[Body], str]:  # noqa: ARG002
        self.lists += 1
        return [], str(100 * self.lists)

    def watch(self, kind: str, resource_version: str, timeout_seconds: int, **_: Any) -> Stream:  # noqa: ARG002
        self.asked.append(resource_version)
        script = self.scripts.pop(0)
        if not self.scripts and self.watcher:
            self.watcher.stop.set()
        return Stream(script)


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "_LONGEST_WAIT", 0.001)
    monkeypatch.setattr(watch, "_STARTING_WAIT", 0.001)
    monkeypatch.setattr(watch, "_ABSENT_WAIT", 0.002)


class Told(Ingest):
    """Takes everything as written at once: these tests have no writer."""

    def put(self, message: Message) -> None:
        super().put(message)
        if isinstance(message, Listed):
            message.written.set()


class Waits(Event):
    """Remembers for how long somebody would have waited."""

    def __init__(self) -> None:
        super().__init__()
        self.waits: list[float] = []

    def wait(self, timeout: float | None = None) -> bool:
        self.waits.append(timeout or 0.0)
        return self.is_set()


def watching(scripted: Scripted) -> Watcher:
    watcher = scripted.watcher = Watcher(Cluster(slug="north"), lambda: scripted)
    watcher.ingest = Told(watcher.cluster, lambda _is_known: None)
    return watcher


def follow(scripted: Scripted, version: str = "") -> list[Message]:
    watcher = watching(scripted)
    Follower("Job", version, watcher).run()
    return watcher.ingest.take()


def test_a_new_watch_lists_first_and_goes_on_from_there() -> None:
    scripted = Scripted([event(101), event(150, EventType.BOOKMARK)], [])

    told = follow(scripted)

    assert scripted.asked == ["100", "150"]
    assert [type(message) for message in told] == [Listed, Saw, Saw]


def test_a_stored_position_saves_the_list() -> None:
    scripted = Scripted([event(8)], [])

    follow(scripted, version="7")

    assert (scripted.lists, scripted.asked) == (0, ["7", "8"])


def test_a_version_that_is_no_longer_kept_means_a_new_list() -> None:
    scripted = Scripted([Expired("too old")], [event(101)], [])

    told = follow(scripted, version="7")

    assert scripted.asked == ["7", "100", "101"]
    assert [type(message) for message in told] == [Listed, Saw]


def test_a_cut_connection_goes_on_where_it_was() -> None:
    scripted = Scripted([event(8), Unreachable("cut")], [event(9)], [])

    follow(scripted, version="7")

    assert (scripted.lists, scripted.asked) == (0, ["7", "8", "9"])


def test_a_server_that_refuses_a_version_for_ever_is_listed_again() -> None:
    refusal: list[WatchEvent | Exception] = [Throttled("too large resource version", retry_after=0)]
    scripted = Scripted(refusal, refusal, refusal, refusal, [])

    follow(scripted, version="999")

    assert scripted.asked == ["999", "999", "999", "999", "100"]


def test_a_kind_of_another_cluster_is_listed_anew() -> None:
    scripted = Scripted([event(101)], [])
    follower = Follower("Job", "7", watching(scripted))

    follower.forget()
    follower.run()

    assert scripted.asked == ["100", "101"]


def test_a_kind_that_is_not_served_is_looked_for_again() -> None:
    scripted = Scripted([Rejected(404, "NotFound", "the server could not find it")], [])

    follow(scripted)

    assert (scripted.lists, scripted.asked) == (2, ["100", "200"])


@pytest.mark.parametrize(("times", "longest", "words"), [(1, 0.001, 0), (3, 0.002, 1)])
def test_a_kind_that_is_refused_once_is_looked_at_again_soon_and_without_a_word(
    times: int, longest: float, words: int, caplog: pytest.LogCaptureFixture
) -> None:
    """As by a server that has just started; one that goes on refusing is asked now and then."""
    caplog.set_level("INFO")
    refusal: list[WatchEvent | Exception] = [Rejected(403, "Forbidden", "cannot list jobs")]
    watcher = watching(Scripted(*[refusal] * times, []))
    watcher.stop = Waits()

    Follower("Job", "", watcher).run()

    assert longest / 2 <= max(watcher.stop.waits) <= longest
    assert caplog.text.count("Job is not watched") == words


def test_a_mistake_of_ours_does_not_end_the_watch_of_a_kind(caplog: pytest.LogCaptureFixture) -> None:
    scripted = Scripted([ValueError("ours")], [])

    follow(scripted)

    assert scripted.lists == 2
    assert "the watch of Job failed" in caplog.text
