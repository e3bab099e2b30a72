"""What a prediction starts from and what it answers. Frozen shapes; pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

FlavorResource = tuple[str, str]
"""A flavor's name and a resource's name: what quota is counted by."""


@dataclass(frozen=True)
class ResourceQuota:
    """Quota of one resource of a flavor in whole units (CPU: thousandths of a core, memory: bytes). None: no
    limit.
    """

    nominal: int
    borrowing_limit: int | None = None
    lending_limit: int | None = None


@dataclass(frozen=True)
class Cohort:
    """A cohort; its own quota is in `quotas`, `parent` is empty for a root."""

    name: str
    parent: str = ""
    quotas: Mapping[FlavorResource, ResourceQuota] = field(default_factory=dict)


@dataclass(frozen=True)
class Queue:
    """A ClusterQueue. `flavors` is the order in which they are tried; the preemption policies are Kueue's
    words; `cohort` is empty for a queue of its own.
    """

    name: str
    cohort: str
    flavors: tuple[str, ...]
    quotas: Mapping[FlavorResource, ResourceQuota]
    reclaim_within_cohort: str = "Never"
    within_cluster_queue: str = "Never"
    is_strict: bool = False
    is_stopped: bool = False


@dataclass(frozen=True)
class Work:
    """A Kueue Workload: what it asks for in all, and, once quota is reserved, the flavor of each resource."""

    key: str
    queue: str
    requests: Mapping[str, int]
    created: datetime
    priority: int = 0
    flavors: Mapping[str, str] = field(default_factory=dict)
    reserved_at: datetime | None = None
    uid: str = ""

    @property
    def usage(self) -> dict[FlavorResource, int]:
        """What it counts against, by flavor and resource; empty while nothing is reserved for it."""
        return (
            {(self.flavors[name], name): amount for name, amount in self.requests.items()}
            if self.flavors
            else {}
        )


@dataclass(frozen=True)
class View:
    """All that decides about one or more cohort trees."""

    cohorts: tuple[Cohort, ...]
    queues: tuple[Queue, ...]
    work: tuple[Work, ...]


@dataclass(frozen=True)
class Prediction:
    """Keys of workloads once Kueue has come to rest.

    `starts` wait now and will hold quota; `preempted` hold quota now and will lose it, each with the key of
    the workload it goes to; `returns` are those of `preempted` that hold quota again at the end.
    """

    holds: frozenset[str]
    waits: frozenset[str]
    starts: tuple[str, ...]
    preempted: Mapping[str, str]
    returns: frozenset[str] = frozenset()
    is_settled: bool = True
