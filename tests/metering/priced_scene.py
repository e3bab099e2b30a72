"""Allocations and prices of one day, and lines of a bill about them."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.conf import settings

from apps.metering.billing.selectors import costs
from apps.metering.billing.selectors.costs import Group
from apps.metering.models import Allocation
from apps.quotas.models import Offer, Price
from apps.workloads.models import Workload, WorkloadEvent

AT = datetime(2026, 11, 18, 10, 0, tzinfo=UTC)


DAY, HOUR, SECOND = timedelta(days=1), timedelta(hours=1), timedelta(seconds=1)


NOW = AT + timedelta(days=4)


def held(row: Workload, begins: datetime, ends: datetime | None, name: str = "a", **more: Any) -> Allocation:
    return Allocation.objects.create(
        cluster=row.cluster, tenant=row.tenant, workload=row,
        offer=more.pop("offer", row.offer), claim_uid=name, node="gpu-01",
        device=name, share_numerator=1, share_denominator=7, started_at=begins, ended_at=ends, **more,
    )  # fmt: skip


def price(offer: Offer | None, hourly: str, begins: datetime, **more: Any) -> Price:
    return Price.objects.create(
        offer=offer, hourly=Decimal(hourly), currency="EUR", valid_from=begins, **more
    )


def preempt(row: Workload, at: datetime) -> None:
    WorkloadEvent.objects.create(
        workload=row, at=at, source="kueue", type="Warning", reason="Preempted", message="taken back"
    )


def line(group: Group = Group.TENANT, **period: Any) -> costs.CostLine:
    period = {"begins": AT, "ends": NOW, "now": NOW} | period
    (found,) = costs.costs(Allocation.objects.all(), group, **period)
    return found


def count_by(monkeypatch: pytest.MonkeyPatch, formula: str) -> None:
    changed = settings.CONFIG.model_copy(update={"effective_formula": formula})
    monkeypatch.setattr(settings, "CONFIG", changed)
