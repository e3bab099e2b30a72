"""Watches one cluster: a thread per kind lists and follows, one heartbeat proves that it answers, one writer
writes.

Threads that watch never touch the database. A watch goes on from its stored position; where that is too old
(410) the kind is listed again. Every failure is answered by waiting, longer each time and never all at once.
"""

import logging
import random
import threading
from collections.abc import Callable
from datetime import timedelta

from apps.cluster.errors import Expired, Rejected, Unreachable
from apps.cluster.gateway.port import Gateway, WatchStream
from apps.cluster.leading.services.leadership import Leader
from apps.cluster.models import Cluster
from apps.cluster.objects.kinds import KINDS, OPTIONAL, WATCHED
from apps.cluster.specs import Page
from apps.cluster.watching.services import capabilities, positions
from apps.cluster.watching.services.ingest import Beat, Detected, Ingest, Listed, Met, Saw

_BEAT_SECONDS = 5.0
_DETECT_EVERY, _DETECT_AGAIN = 120, 6
"""Beats between two looks at what the cluster can do; while it lacks something that people bring."""
_WATCH_SECONDS = 240
_LONGEST_WAIT = 8.0
_STARTING_WAIT, _ABSENT_WAIT = 2.0, 30.0
_STALE_POSITION = timedelta(hours=1)
_GOODBYE = 2.0
_LISTS_AT_ONCE = 2
"""One is asked for while another is written: more would only wait for the one writer, in memory."""
_PATIENCE = 0.5

_log = logging.getLogger(__name__)


class Follower(threading.Thread):
    """Keeps one kind in view until told to stop."""

    def __init__(self, kind: str, version: str, watcher: "Watcher") -> None:
        super().__init__(name=f"watch-{kind}", daemon=True)
        self._kind = KINDS[kind]
        self._version = version
        self._watcher = watcher
        self._stream: WatchStream | None = None
        self._failures = 0
        self._refusals, self._refused = 0, ""
        self._forget = threading.Event()

    def run(self) -> None:
        """List or resume, follow, and begin again whatever happens."""
        while not self._watcher.stop.is_set():
            if self._forget.is_set():
                self._forget.clear()
                self._version = ""
            try:
                self._follow()
                self._failures, self._refusals, self._refused = 0, 0, ""
            except Expired:
                self._version = ""
            except Rejected as error:
                self._version = ""
                self._watcher.stop.wait(self._refusal(error.message) * random.uniform(0.5, 1.0))
            except Unreachable as error:
                self._stumble(error)
            except Exception:  # noqa: BLE001 - a mistake of ours must not end the watch of a kind for good
                _log.exception("the watch of %s failed", self._kind.kind)
                self._version = ""
                self._watcher.stop.wait(_LONGEST_WAIT)

    def _refusal(self, words: str) -> float:
        """The kind is not served, or not for us: look again now and then, and say so once. Answers in how
        many seconds.

        RULE: the first time, soon and without a word. An API server that has just started refuses for a
        moment what it grants.
        """
        self._refusals += 1
        if self._refusals == 1:
            return _STARTING_WAIT
        if words != self._refused:
            _log.info("%s is not watched: %s", self._kind.kind, words)
        self._refused = words
        return _ABSENT_WAIT

    def forget(self) -> None:
        """List anew: what was known is of another cluster."""
        self._forget.set()
        self.interrupt()

    def interrupt(self) -> None:
        """End the running watch from another thread."""
        if self._stream is not None:
            self._stream.close()

    def _follow(self) -> None:
        gateway = self._watcher.gateway()
        name, selector = self._kind.kind, self._kind.selector
        if not self._version:
            with self._watcher.room:
                self._version = self._list(gateway)
        if not self._version:
            return
        seconds = int(_WATCH_SECONDS * random.uniform(0.8, 1.2))
        self._stream = gateway.watch(name, self._version, seconds, label_selector=selector)
        if self._watcher.stop.is_set():
            self._stream.close()
        for event in self._stream:
            self._failures = 0
            self._version = event.resource_version or self._version
            self._watcher.ingest.put(Saw(name, event))

    def _list(self, gateway: Gateway) -> str:
        """Hand the list over page by page; answers its version, empty where the list was broken off.

        RULE: the next page is asked for once this one is written: memory holds a few pages, never a fleet.
        """
        earlier: set[str] = set()
        version, going_on = "", ""
        while not (self._watcher.stop.is_set() or self._forget.is_set()):
            page = self._page(gateway, going_on)
            version, going_on = version or page.version, page.going_on
            told = Listed(self._kind.kind, page.items, version, earlier, is_last=not going_on)
            self._watcher.hand_over(told)
            if not going_on:
                return version
            earlier.update(item["metadata"]["uid"] for item in page.items)
            del page, told
        return ""

    def _page(self, gateway: Gateway, going_on: str) -> Page:
        """The first page, or the one after; a snapshot that ran out before its end is tried again later."""
        kind = self._kind
        try:
            return gateway.page(kind.kind, label_selector=kind.selector, going_on=going_on)
        except Expired as error:
            # Listing again at once would never end on a cluster that forgets faster than we write.
            words = f"The list of {kind.kind} could not be read to its end: {error.message}"
            raise Unreachable(words, reason=error.reason) from error

    def _stumble(self, error: Unreachable) -> None:
        self._failures += 1
        if self._failures > 3:
            # A server that was restored may refuse a version from its future for ever; a list needs none.
            self._version = ""
        wait = max(min(_LONGEST_WAIT, 0.25 * 2**self._failures), getattr(error, "retry_after", 0.0))
        self._watcher.stop.wait(wait * random.uniform(0.5, 1.0))


class Watcher:
    """All watches of one cluster."""

    def __init__(
        self, cluster: Cluster, gateway: Callable[[], Gateway], leader: Leader | None = None
    ) -> None:
        """With a `leader` nothing is written while somebody else may lead."""
        self.cluster = cluster
        self.gateway = gateway
        self.ingest = Ingest(cluster, self._met, leader=leader)
        self.stop = threading.Event()
        self.room = threading.Semaphore(_LISTS_AT_ONCE)
        self._followers: list[Follower] = []

    def run(self) -> None:
        """Watch until `stop` is set; then end within seconds, with everything written that had arrived."""
        self.start()
        self.ingest.run(self.stop)

    def start(self) -> None:
        """Start the heartbeat; once the cluster has said who it is, the writer starts the rest (`_met`)."""
        threading.Thread(target=self._beat, name="watch-heart", daemon=True).start()

    def shut_down(self) -> None:
        """Ask everything to end: no new watch, the open ones cut."""
        self.stop.set()
        for follower in self._followers:
            follower.interrupt()
        for follower in self._followers:
            follower.join(_GOODBYE / len(self._followers))

    def hand_over(self, page: Listed) -> None:
        """Give a page to the writer and wait until it is in the mirror, or until all ends."""
        self.ingest.put(page)
        while not page.written.wait(_PATIENCE) and not self.stop.is_set():
            continue

    def _met(self, is_known: bool) -> None:  # noqa: FBT001 - the callback's one fact
        """Follow every kind from its stored position; of another cluster than before, everything anew."""
        if not self._followers:
            known = positions.known(self.cluster, not_before=_STALE_POSITION)
            self._followers = [Follower(kind, known.get(kind, ""), self) for kind in (*WATCHED, *OPTIONAL)]
            for follower in self._followers:
                follower.start()
        elif not is_known:
            for follower in self._followers:
                follower.forget()

    def _beat(self) -> None:
        has_met, beats, every = False, 0, _DETECT_EVERY
        while not self.stop.is_set():
            try:
                gateway = self.gateway()
                gateway.server_version()
                self.ingest.put(Beat())
                if not has_met:
                    self.ingest.put(Met(capabilities.identity(gateway)))
                has_met = True
                if beats % every == 0:
                    facts = capabilities.facts(gateway)
                    every = _DETECT_AGAIN if capabilities.is_curable(facts) else _DETECT_EVERY
                    self.ingest.put(Detected(facts))
                beats += 1
            except (Unreachable, Rejected) as error:
                has_met = False
                self.ingest.put(Beat(str(error)))
            self.stop.wait(_BEAT_SECONDS)
