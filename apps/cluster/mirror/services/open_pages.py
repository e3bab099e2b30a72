"""What open pages are told when something of a cluster has changed."""

from collections.abc import Collection, Mapping
from datetime import datetime
from uuid import UUID

from apps.cluster.mirror.services.mirror_table import Changes
from apps.web.streams import events

_PARTS = {
    "Node": "needs use rows", "ResourceSlice": "needs use rows", "ResourceClaim": "needs use rows",
    "ClusterQueue": "needs use rows",
}  # fmt: skip
"""The parts of the console that show each kind."""


def topics_of(changes: Changes) -> dict[str, set[str]]:
    """Which parts of which pages show what changed in the mirror."""
    found: dict[str, set[str]] = {f"tenant:{tenant}": {"quota"} for tenant in changes.tenants}
    for kind in changes.kinds & _PARTS.keys():
        found.setdefault("console", set()).update(_PARTS[kind].split())
    return found


def tell(cluster: UUID, topics: Mapping[str, Collection[str]], *, now: datetime) -> None:
    """These parts have something new to show; `topics` as of `topics_of`."""
    for topic, parts in topics.items():
        tenant = topic.partition(":")[2] or None
        fact = events.Fact("fleet.updated", now, "cluster", str(cluster), tenant)
        events.publish([topic], part=" ".join(sorted(parts)), data=fact.as_data())
