"""Counts and sums that several pages open with. Reads through querysets already cut to the viewer."""

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from django.db.models import Count, Q, QuerySet, Sum

from apps.accounts.specs import Actor
from apps.quotas import standing
from apps.tenants.models import Tenant
from apps.web.charts import QuotaBar
from apps.workloads.models import Workload
from apps.workloads.specs import Phase

RUNNING = (Phase.STARTING, Phase.RUNNING, Phase.STOPPING)


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
        spent=Sum("cost_allocated"),
    )
    return Counts(found["running"], found["waiting"], found["stopped"], found["spent"] or Decimal(0))


@dataclass(frozen=True)
class Bar:
    """A quota bar with the offer's name and what is free of it this moment."""

    name: str
    bar: QuotaBar
    free: int


def bars(actor: Actor, tenant: Tenant) -> list[Bar]:
    """One bar for each offer the tenant has a quota of."""
    return [Bar(each.offer.name, _picture(each), each.free) for each in standing.quota_bars(actor, tenant)]


def _picture(each: standing.QuotaBar) -> QuotaBar:
    return QuotaBar(
        offer=each.offer.name,
        guaranteed=each.guaranteed,
        used=each.used,
        lent=each.lent,
        borrow_limit=each.borrow_limit,
        pending=each.pending,
    )


def conditions_wrong(conditions: Iterable[Any]) -> list[Any]:
    """Conditions a person should read: the cluster refused or does not answer."""
    return [each for each in conditions if each.get("type") == "Synced" and each.get("status") == "False"]
