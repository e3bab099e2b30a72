"""How budgets and held queues look in REST, and what writes of them take. No rules on who or when."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Literal, TypedDict

from django.conf import settings
from rest_framework import serializers

from apps.errors import FieldProblem, Invalid
from apps.quotas.budgets.rules import budget as months
from apps.quotas.budgets.selectors import spending
from apps.quotas.models import Budget, TenantQueue
from apps.quotas.specs import BudgetUnit, HoldReason
from apps.ranges import MOST_MONEY
from apps.tenants.models import Tenant
from apps.web.shapes.bodies import Id, ObjectHead, common
from portal.api.base.money import LimitBody, limit_body
from portal.api.base.serializers import StrictSerializer
from portal.api.quotas.quotas_bodies import ObservedBody

Body = Mapping[str, Any]


class LimitSerializer(StrictSerializer):
    """Money `{"amount", "currency"}`, or `{"amount", "unit": "gpu_hours"}`."""

    amount = serializers.DecimalField(max_digits=20, decimal_places=8, min_value=0, max_value=MOST_MONEY)
    currency = serializers.CharField(max_length=3, required=False, allow_null=True)
    unit = serializers.ChoiceField(choices=[BudgetUnit.GPU_HOURS.value], required=False, allow_null=True)


class BudgetSpecSerializer(StrictSerializer):
    """Limits per calendar month (UTC), both in one unit; null is no limit."""

    period = serializers.ChoiceField(choices=["month"], default="month")
    soft_limit = LimitSerializer(allow_null=True, default=None)
    hard_limit = LimitSerializer(allow_null=True, default=None)


class BudgetDocumentSerializer(StrictSerializer):
    """The writable part of a budget: what PUT takes, and PATCH after merging."""

    spec = BudgetSpecSerializer()


class NewBudgetSerializer(BudgetDocumentSerializer):
    """What POST takes: for a tenant or for a department, one of them."""

    tenant = serializers.CharField(max_length=40, allow_null=True, default=None, help_text="slug or id")
    department = serializers.CharField(max_length=40, allow_null=True, default=None, help_text="slug or id")


class HoldWishSerializer(StrictSerializer):
    """Why; the team reads it."""

    reason = serializers.CharField(
        max_length=500, allow_blank=True, default="", help_text="needed for a hold, not for a release"
    )


class BudgetSpecBody(TypedDict):
    """Limits per calendar month (UTC), both in one unit; null is no limit."""

    period: Literal["month"]
    soft_limit: LimitBody | None
    hard_limit: LimitBody | None


class BudgetStatusBody(ObservedBody):
    """What is spent of it this month."""

    month: Annotated[str, "Such as 2026-10."]
    spent: LimitBody | None
    marked: Annotated[int, "The percent that was announced: 0, 50, 80 or 100."]
    holds: bool
    exhausts_at: Annotated[datetime | None, "Null: not this month."]


class BudgetBody(ObjectHead):
    """A monthly budget of a tenant or a department."""

    object: Literal["budget"]
    department: Annotated[str | None, "The department's slug; null for a tenant's."]
    spec: BudgetSpecBody
    status: BudgetStatusBody


class QueueSpecBody(TypedDict):
    """What is asked of it."""

    hold: Annotated[str | None, "Who holds it by hand and why."]


class QueueStatusBody(ObservedBody):
    """Whether it is held, and why."""

    hold_reason: HoldReason
    hold_detail: str | None


class QueueBody(TypedDict):
    """A tenant's queue."""

    object: Literal["queue"]
    id: Annotated[Id | None, "Null while it is not stored yet."]
    tenant: str
    generation: int
    spec: QueueSpecBody
    status: QueueStatusBody


def limits_in(spec: Mapping[str, Any]) -> months.Limits:
    """The limits of a checked body; raises Invalid where they mix units or name another currency."""
    given = {name: spec[f"{name}_limit"] for name in ("soft", "hard")}
    units = {name: _unit(limit) for name, limit in given.items() if limit is not None}
    problems = [
        FieldProblem(f"/spec/{name}_limit/currency", "invalid_value", f"Money is {settings.CONFIG.currency}.")
        for name, limit in given.items()
        if limit and not limit.get("unit") and limit.get("currency") != settings.CONFIG.currency
    ]
    if len(set(units.values())) > 1:
        problems.append(FieldProblem("/spec/soft_limit", "invalid_value", "Both limits have one unit."))
    if problems:
        raise Invalid(problems)
    amounts = {name: limit and limit["amount"] for name, limit in given.items()}
    return months.Limits(next(iter(units.values()), BudgetUnit.MONEY), amounts["soft"], amounts["hard"])


def _unit(limit: Mapping[str, Any]) -> BudgetUnit:
    return BudgetUnit.GPU_HOURS if limit.get("unit") else BudgetUnit.MONEY


def budget_body(row: Budget, now: datetime) -> BudgetBody:
    """A budget as REST shows it, with this month's spend."""
    spent, month, limits = spending.spent(row, now), months.month_of(now), spending.limits_of(row)
    return {
        "object": "budget",
        **common(row, tenant=row.tenant.slug if row.tenant else None, created_by=row.created_by),
        "department": row.department.slug if row.department else None,
        "spec": {
            "period": "month",
            "soft_limit": limit_body(row.unit, row.soft_limit),
            "hard_limit": limit_body(row.unit, row.hard_limit),
        },
        "status": {
            "month": f"{month:%Y-%m}",
            "spent": limit_body(row.unit, spent),
            "marked": months.mark(limits, spent),
            "holds": months.is_exhausted(limits, spent),
            "exhausts_at": months.exhausts_at(limits, spent, month=month, now=now),
            "observed_generation": row.generation,
            "conditions": [],
        },
    }


def queue_body(queue: TenantQueue, tenant: Tenant) -> QueueBody:
    """A tenant's queue as REST shows it; one that is not stored yet has no id."""
    return {
        "object": "queue",
        "id": None if queue._state.adding else str(queue.pk),
        "tenant": tenant.slug,
        "generation": queue.generation,
        "spec": {"hold": queue.manual_hold or None},
        "status": {
            "hold_reason": HoldReason(queue.hold_reason),
            "hold_detail": None if queue.hold_reason == HoldReason.NONE else queue.hold_detail,
            "observed_generation": queue.observed_generation,
            "conditions": queue.conditions,
        },
    }
