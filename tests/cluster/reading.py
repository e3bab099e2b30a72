"""One kind listed page by page by the real follower, where the writer is the test."""

import time
from collections.abc import Callable
from typing import Any

from apps.cluster.gateway.port import Gateway
from apps.cluster.models import Cluster
from apps.cluster.watching.services.ingest import Listed
from apps.cluster.watching.services.watch import Follower, Watcher
from tests.patience import until, within

LONGEST = 30.0


def written(watcher: Watcher, is_so: Callable[[], Any], seconds: float = 60) -> None:
    """Write what the watcher's threads bring until it is so: the thread of the test is its writer."""

    def write() -> None:
        watcher.ingest.write(watcher.ingest.take())

    until(is_so, seconds=seconds, every=0, between=write)


class Reading:
    """The follower asks for a page once the one before is written: so a test can stand between two pages."""

    def __init__(self, cluster: Cluster, gateway: Gateway, kind: str) -> None:
        self._watcher = Watcher(cluster, lambda: gateway)
        self._follower = Follower(kind, "", self._watcher)
        self._follower.start()

    def page(self) -> Listed:
        """The page that waits to be written."""
        end = within(LONGEST)
        while time.monotonic() < end:
            for message in self._watcher.ingest.take():
                if isinstance(message, Listed):
                    return message
        raise AssertionError("no page has come")

    def write(self, page: Listed) -> list[str]:
        """Write it; the names on it."""
        self._watcher.ingest.write([page])
        return [item["metadata"]["name"] for item in page.items]

    def rest(self) -> list[list[str]]:
        """Write every page up to the last; the names on each."""
        told: list[list[str]] = []
        while True:
            page = self.page()
            told.append(self.write(page))
            if page.is_last:
                return told

    def end(self) -> None:
        self._watcher.stop.set()
        self._follower.interrupt()
        self._follower.join(LONGEST)
        assert not self._follower.is_alive()
