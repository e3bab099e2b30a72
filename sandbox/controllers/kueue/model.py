"""What Kueue's admission decides on: queues, cohorts, flavors and workloads as plain values.

No Kubernetes objects, no time but the timestamps that order a queue.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple


class FlavorResource(NamedTuple):
    """The unit of quota: one resource in one flavor."""

    flavor: str
    resource: str


@dataclass(frozen=True)
class ResourceQuota:
    """Nominal, borrowing limit (None: unlimited) and lending limit (None: all) of one flavor resource."""

    nominal: int
    borrowing_limit: int | None = None
    lending_limit: int | None = None


@dataclass(frozen=True)
class Flavor:
    """A ResourceFlavor: what admission injects into pods and what a pod must tolerate."""

    name: str
    node_labels: Mapping[str, str] = field(default_factory=dict)
    node_taints: tuple[Mapping[str, Any], ...] = ()
    tolerations: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True)
class ResourceGroup:
    """Resources that share one ordered list of flavors."""

    covered: frozenset[str]
    flavors: tuple[str, ...]


@dataclass(frozen=True)
class Preemption:
    """A ClusterQueue's preemption policies, in the API's words."""

    reclaim_within_cohort: str = "Never"
    within_cluster_queue: str = "Never"
    borrow_within_cohort: str = "Never"
    borrow_threshold: int | None = None


@dataclass(frozen=True)
class Fungibility:
    """When a ClusterQueue goes on to the next flavor, in the API's words."""

    when_can_borrow: str = "MayStopSearch"
    when_can_preempt: str = "TryNextFlavor"
    preference: str = "BorrowingOverPreemption"


@dataclass(frozen=True)
class QueueSpec:
    """A ClusterQueue, active or not."""

    name: str
    cohort: str = ""
    groups: tuple[ResourceGroup, ...] = ()
    quotas: Mapping[FlavorResource, ResourceQuota] = field(default_factory=dict)
    preemption: Preemption = Preemption()
    fungibility: Fungibility = Fungibility()
    strict_fifo: bool = False
    active: bool = True

    def group_of(self, resource: str) -> ResourceGroup | None:
        """The resource group that covers a resource."""
        return next((group for group in self.groups if resource in group.covered), None)


@dataclass(frozen=True)
class CohortSpec:
    """A Cohort: its parent and the quota it owns itself."""

    name: str
    parent: str = ""
    quotas: Mapping[FlavorResource, ResourceQuota] = field(default_factory=dict)


@dataclass(frozen=True)
class PodSet:
    """Pods of one shape; `requests` is the total of all `count` pods, as Kueue counts amounts."""

    name: str
    count: int
    requests: Mapping[str, int]
    node_selector: Mapping[str, str] = field(default_factory=dict)
    affinity: Mapping[str, Any] = field(default_factory=dict)
    tolerations: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True)
class Work:
    """A Workload: pending when `usage` is empty and `reserved` false, otherwise holding quota.

    `shape` is equal for workloads the scheduler cannot tell apart. `order` is the queue timestamp,
    `reserved_at`
    the moment quota was reserved; both only compare.
    """

    key: str
    uid: str
    queue: str
    priority: int
    order: str
    pod_sets: tuple[PodSet, ...]
    job_uid: str = ""
    shape: str = ""
    reserved: bool = False
    reserved_at: str = ""
    evicted: bool = False
    usage: Mapping[FlavorResource, int] = field(default_factory=dict)
    blocked: str = ""


@dataclass(frozen=True)
class PodSetAdmission:
    """The flavors one pod set got, per resource."""

    name: str
    count: int
    flavors: Mapping[str, str]
    usage: Mapping[str, int]


@dataclass(frozen=True)
class Admit:
    """Reserve quota for a workload."""

    key: str
    queue: str
    pod_sets: tuple[PodSetAdmission, ...]


@dataclass(frozen=True)
class Evict:
    """Preempt a workload for another; `reason` is the Preempted condition's, `message` its text."""

    key: str
    by: str
    reason: str
    message: str


@dataclass(frozen=True)
class Wait:
    """A workload stays pending; `message` is what its QuotaReserved condition says."""

    key: str
    message: str


@dataclass(frozen=True)
class Outcome:
    """Everything one run of the scheduler decided, each in the order decided."""

    admitted: tuple[Admit, ...] = ()
    evicted: tuple[Evict, ...] = ()
    waiting: tuple[Wait, ...] = ()
