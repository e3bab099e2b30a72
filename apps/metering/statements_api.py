"""REST of bills and statements. Contract: docs/api.md."""

from collections.abc import Mapping
from datetime import date
from decimal import Decimal
from typing import Any
from uuid import UUID

from django.conf import settings
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.specs import ScopeGroup
from apps.errors import FieldProblem, Invalid, NotFound
from apps.metering import burning, monthly, statements
from apps.metering.burning import Ahead, Spent
from apps.metering.monthly import Month, Row
from apps.metering.outlook import Outlook
from apps.metering.pages import bill
from apps.metering.statement_models import Statement
from apps.quotas import budget, spending
from apps.quotas.budget_bodies import limit_body
from apps.quotas.references import TENANT, asked_tenant, found
from apps.quotas.specs import BudgetUnit
from apps.tenants.selectors import tenant_for
from apps.web.amounts import money
from apps.web.api import ApiView, idempotent, paginate
from apps.web.queries import Text
from apps.web.refusals import BadParameter
from apps.web.serializers import StrictSerializer
from apps.web.writing import written
from apps.workloads.api_reads import AnyAccept

Body = Mapping[str, Any]


class NewStatementSerializer(StrictSerializer):
    """Which month of which tenant to close."""

    tenant = serializers.CharField(max_length=40, help_text="slug or id")
    month = serializers.RegexField(r"^[0-9]{4}-[0-9]{2}$", help_text="such as 2026-10, in UTC")


class StatementSerializer(serializers.Serializer[Any]):
    """A closed month; its lines with `GET statements/{id}`."""

    object = serializers.CharField(default="statement")
    id = serializers.UUIDField()
    tenant = serializers.CharField()
    spec = serializers.JSONField(help_text="month")
    status = serializers.JSONField(help_text="number, sums, digest, lines")


class BillSerializer(serializers.Serializer[Any]):
    """A month as it stands, closed or not."""

    tenant = serializers.CharField()
    month = serializers.CharField()
    statement = serializers.CharField(allow_null=True, help_text="its number once it is closed")
    lines = serializers.JSONField()
    outlook = serializers.JSONField(allow_null=True, help_text="of the present month")
    days = serializers.JSONField(help_text="day, charged for devices, cumulated")


class BurnSerializer(serializers.Serializer[Any]):
    """How a budget goes this month, in its own unit."""

    budget = serializers.UUIDField()
    month = serializers.CharField()
    until = serializers.DateTimeField()
    soft_limit = serializers.JSONField(allow_null=True)
    hard_limit = serializers.JSONField(allow_null=True)
    days = serializers.JSONField(help_text="day, charged, cumulated")
    forecast = serializers.JSONField(help_text="by the end of each day: day, expected, low, high")


MONTH = Text("month", "The present one where it is absent.", r"\d{4}-\d{2}", "written 2026-10")


class StatementsView(ApiView):
    """The closed months of one's tenants."""

    scope_group = ScopeGroup.METERING
    lists = True
    sorts = ("-created_at",)
    parameters = (TENANT,)

    @extend_schema(operation_id="statements_list", responses=StatementSerializer(many=True))
    def get(self, request: Request) -> Response:
        """Newest first, without their lines."""
        tenant, rows = asked_tenant(self, request), monthly.statements_for(self.actor)
        return paginate(request, rows.filter(tenant=tenant) if tenant else rows, statement_body)

    @extend_schema(request=NewStatementSerializer, responses={201: StatementSerializer})
    def post(self, request: Request) -> Response:
        """Close a month: never changed again."""

        def answer(made: Statement) -> Response:
            headers = {"Location": f"/api/v1/statements/{made.pk}"}
            return Response(_whole(made), status=201, headers=headers)

        return idempotent(request, lambda: written(request, self._close, answer))

    def _close(self) -> Statement:
        statements.require_closer(self.actor)
        asked = NewStatementSerializer.checked(self.request.data)
        tenant = found("/tenant", lambda: tenant_for(self.actor, asked["tenant"]))
        try:
            month = date.fromisoformat(f"{asked['month']}-01")
        except ValueError:
            words = "A month is written 2026-10."
            raise Invalid([FieldProblem("/month", "invalid_value", words)]) from None
        return statements.close_month(actor=self.actor, tenant=tenant, month=month, now=timezone.now())


class StatementView(ApiView):
    """One closed month."""

    scope_group = ScopeGroup.METERING

    @extend_schema(operation_id="statements_retrieve", responses=StatementSerializer)
    def get(self, request: Request, key: str) -> Response:  # noqa: ARG002 - Django's signature
        """By id, with its lines."""
        return Response(_whole(_statement(self, key)))


class StatementFile(ApiView):
    """A closed month as CSV: `lines.csv` as they are, `focus.csv` in the columns of FOCUS."""

    scope_group = ScopeGroup.METERING
    content_negotiation_class = AnyAccept

    @extend_schema(operation_id="statements_file", responses={(200, "text/csv"): str})
    def get(self, request: Request, key: str, file: str) -> Any:  # noqa: ARG002 - Django's signature
        """text/csv."""
        row = _statement(self, key)
        if file not in bill.FILES:
            raise NotFound
        return bill.file_of(monthly.month_of_statement(row), file)


class BillView(ApiView):
    """`tenants/{slug}/bill`: a month in two prices, as it stands."""

    scope_group = ScopeGroup.METERING
    parameters = (MONTH,)

    @extend_schema(operation_id="tenants_bill", responses=BillSerializer)
    def get(self, request: Request, key: str) -> Response:
        """`?month=2026-10`; without it the present one, with what the whole month may come to."""
        tenant, now = tenant_for(self.actor, key), timezone.now()
        shown = bill.shown(tenant, _month(request, budget.month_of(now)), now=now)
        month = shown.month
        told = {"tenant": tenant.slug, "month": f"{month.month:%Y-%m}", "until": month.until}
        number = month.statement.number if month.statement else None
        outlook = _outlook(shown.outlook, month.currency) if shown.outlook else None
        days = [_day(each, BudgetUnit.MONEY) for each in burning.money_days(tenant, month.month, now=now)]
        return Response({**told, "statement": number, **_sums(month), "outlook": outlook, "days": days})


class BurnView(ApiView):
    """`budgets/{id}/burn-down`: what was charged by day, and what is foreseen."""

    scope_group = ScopeGroup.QUOTAS

    @extend_schema(operation_id="budgets_burn_down", responses=BurnSerializer)
    def get(self, request: Request, key: str) -> Response:  # noqa: ARG002 - Django's signature
        """Of the present month."""
        row, now = spending.budget_for(self.actor, key), timezone.now()
        found = burning.of_budget(row, budget.month_of(now), now=now)
        limits, unit = found.limits, found.limits.unit
        told = {"budget": str(row.pk), "month": f"{found.month:%Y-%m}", "until": found.until}
        told |= {f"{name}_limit": limit_body(unit, getattr(limits, name)) for name in ("soft", "hard")}
        days = [_day(each, unit) for each in found.days]
        return Response({**told, "days": days, "forecast": [_ahead(each, unit) for each in found.ahead]})


def statement_body(row: Statement) -> Body:
    """A statement without its lines."""
    amounts = ("total", "effective", "waste", "unknown", "other")
    return {
        "object": "statement",
        "id": str(row.pk),
        "slug": None,
        "name": row.number,
        "tenant": row.tenant.slug,
        "labels": {},
        "generation": 1,
        "created_at": row.created_at,
        "updated_at": row.created_at,
        "created_by": row.closed_by,
        "spec": {"month": f"{row.month:%Y-%m}"},
        "status": {
            "observed_generation": 1,
            "conditions": [],
            "number": row.number,
            "formula": row.formula,
            **{name: money(getattr(row, name), row.currency) for name in amounts},
            "closed_at": row.closed_at,
            "digest": row.digest,
        },
    }


def _whole(row: Statement) -> Body:
    body, month = statement_body(row), monthly.month_of_statement(row)
    lines = {"lines": _sums(month)["lines"], "whole": statements.is_whole(row)}
    return {**body, "status": {**body["status"], **lines}}


def _sums(month: Month) -> dict[str, Any]:
    picture, currency = bill.picture(month), month.currency
    amounts = {
        "allocated": picture.allocated,
        "refunded": picture.refunded,
        "charged": picture.charged,
        "effective": picture.effective,
        "waste": picture.waste,
        "unknown": picture.unknown,
        "other": month.other,
        "corrections": month.corrections,
        "total": month.total,
    }
    causes = {name: getattr(picture, name) for name in ("hoarded", "zombie", "idle", "partly")}
    return {
        "formula": month.formula,
        **{name: money(value, currency) for name, value in amounts.items()},
        "waste_by_cause": {name: money(value, currency) for name, value in causes.items()},
        "lines": [_line(row, currency) for row in month.rows],
    }


def _line(row: Row, currency: str) -> Body:
    line = row.line
    parts = {"effective": line.effective, "waste": line.waste, "unknown": line.unknown}
    price = line.unit_price
    return {
        "kind": line.kind.value,
        "about": line.about.value,
        "description": line.description,
        "workload": str(line.key.workload) if line.key.workload else None,
        "offer": row.offer or None,
        "capacity": line.key.capacity or None,
        "from": line.begins,
        "to": line.ends,
        "quantity": f"{line.quantity:f}",
        "unit": line.unit or None,
        "unit_price": money(price, currency),
        "amount": money(line.amount, currency),
        **{name: money(value, currency) if row.is_measured else None for name, value in parts.items()},
        "waste_by_cause": {name: money(value, currency) for name, value in line.causes.items()},
    }


def _outlook(outlook: Outlook, currency: str) -> Body:
    amounts = {"expected": outlook.expected, "low": outlook.low, "high": outlook.high}
    shown = {name: {"amount": f"{value:.2f}", "currency": currency} for name, value in amounts.items()}
    return {**shown, "method": outlook.method}


def _day(each: Spent, unit: BudgetUnit) -> Body:
    amounts = {"charged": each.charged, "cumulated": each.cumulated}
    return {"day": each.day, **{name: _in(unit, value) for name, value in amounts.items()}}


def _ahead(each: Ahead, unit: BudgetUnit) -> Body:
    seen = {name: Decimal(f"{getattr(each.outlook, name):.2f}") for name in ("expected", "low", "high")}
    return {"day": each.day, **{name: _in(unit, value) for name, value in seen.items()}}


def _in(unit: BudgetUnit, value: Decimal) -> Body | None:
    """Money as everywhere, hours of whole GPUs as limits name them."""
    if unit is BudgetUnit.MONEY:
        return money(value, settings.CONFIG.currency)
    return limit_body(unit, value)


def _month(request: Request, this: date) -> date:
    text = MONTH.of(request)
    if text is None:
        return this
    try:
        return date.fromisoformat(f"{text}-01")
    except ValueError:
        raise BadParameter("month", "month is written 2026-10.") from None


def _statement(view: ApiView, key: str) -> Statement:
    try:
        row = monthly.statements_for(view.actor).filter(pk=UUID(key)).first()
    except ValueError:
        row = None
    if row is None:
        raise NotFound
    return row
