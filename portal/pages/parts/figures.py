"""Counts and sums at the top of several pages. Reads through querysets that are already limited to the
viewer.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from django.db.models import Count, F, Q, QuerySet, Sum

from apps.workloads.models import Workload
from apps.workloads.specs import Phase

RUNNING = (Phase.STARTING, Phase.RUNNING, Phase.STOPPING)


CHARGED = F("cost_allocated") - F("cost_refunded")
"""What a workload cost so far, in a query: as `Workload.cost_charged`."""


@dataclass(frozen=True)
class Counts:
    """How many workloads run, wait and rest, and what all of them cost so far."""

    running: int
    waiting: int
    stopped: int
    spent: Decimal


def counts(workloads: QuerySet[Workload]) -> Counts:
    """One query over the workloads given."""
    found = workloads.order_by().aggregate(
        running=Count("id", filter=Q(phase__in=RUNNING)),
        waiting=Count("id", filter=Q(phase=Phase.PENDING)),
        stopped=Count("id", filter=Q(phase=Phase.STOPPED)),
        spent=Sum(CHARGED),
    )
    return Counts(found["running"], found["waiting"], found["stopped"], found["spent"] or Decimal(0))


def conditions_wrong(conditions: Iterable[Any]) -> list[Any]:
    """Conditions a person should read: the cluster refused or does not answer."""
    told = ("Synced", "SecretsRead")
    return [each for each in conditions if each.get("type") in told and each.get("status") == "False"]
