"""What suites on the real plane need of a tenant: its cluster's row, its mirror, and patience."""

import time
from collections.abc import Callable

from apps.cluster.gateway import Gateway
from apps.cluster.kinds import WATCHED
from apps.cluster.mirror import bury_absent, record_seen
from apps.cluster.models import Cluster
from apps.cluster.sighting import Sighting
from tests.factories import NOW


def mirror(gateway: Gateway, cluster: Cluster) -> None:
    """What the watcher does: every watched kind as it is now."""
    for kind in WATCHED:
        items, version = gateway.list(kind)
        record_seen(cluster, [Sighting(kind, item) for item in items], now=NOW)
        bury_absent(cluster, kind, items, resource_version=int(version), now=NOW)


def until(reached: Callable[[], bool], *, seconds: float = 60) -> None:
    """Returns once it is so; fails after that many seconds."""
    end = time.monotonic() + seconds
    while not reached():
        assert time.monotonic() < end, f"not within {seconds} s"
        time.sleep(0.2)
