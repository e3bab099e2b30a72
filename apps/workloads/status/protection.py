"""For how long work of the class `protected` keeps its devices, and what it counts as afterwards. Pure.

Kueue has no minimum run time. The nearest thing is a high priority at first and the usual one later: lent
devices are only taken back from lower priorities.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from apps.quotas.specs import Priority
from apps.workloads import registry
from apps.workloads.specs import WorkloadSpec
from apps.workloads.status.derivation import condition_of, is_true, time_of


def ends_at(spec: WorkloadSpec, queued: Mapping[str, Any] | None, lasts: timedelta) -> datetime | None:
    """When this run's protection ends: `lasts` after Kueue reserved its quota. None: it waits, or its class
    is another one. Who was sent back and let in again is protected anew.
    """
    if spec.priority is not Priority.PROTECTED or not is_true(queued, "QuotaReserved"):
        return None
    since = time_of((condition_of(queued, "QuotaReserved") or {}).get("lastTransitionTime"))
    return None if since is None else since + lasts


def priority_at(spec: WorkloadSpec, ends: datetime, now: datetime) -> int:
    """The value that it runs with at a moment."""
    return afterwards(spec).rank if now >= ends else spec.priority.rank


def afterwards(spec: WorkloadSpec) -> Priority:
    """The class that it counts as once it is no longer protected: the usual one of its kind."""
    return registry.of(spec.kind).priority
