"""REST of bills and statements. Contract: docs/api.md."""

from datetime import date
from typing import Any

from django.utils import timezone
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.specs import ScopeGroup
from apps.errors import FieldProblem, Invalid, NotFound
from apps.metering.billing.selectors import bill_files, burn_down, months
from apps.metering.billing.services import statements
from apps.metering.models import Statement
from apps.quotas.budgets.rules import budget
from apps.quotas.budgets.selectors import spending
from apps.tenants.selectors import tenant_for
from apps.web.requests.lookups import by_id
from apps.web.requests.periods import month_asked, month_named
from portal.api.base.negotiation import AnyAccept
from portal.api.base.references import TENANT, asked_tenant, found
from portal.api.base.serializers import StrictSerializer
from portal.api.base.views import ApiView, idempotent, paginate
from portal.api.base.writing import made, written
from portal.api.declared.declaring import answers, named, pages, refuses, takes
from portal.api.declared.queries import Text
from portal.api.metering.statements_bodies import (
    BillBody,
    BurnDownBody,
    ClosedStatementBody,
    StatementBody,
    bill_body,
    burn_body,
    closed_body,
    statement_body,
)


class NewStatementSerializer(StrictSerializer):
    """Which month of which tenant to close."""

    tenant = serializers.CharField(max_length=40, help_text="slug or id")
    month = serializers.RegexField(r"^[0-9]{4}-[0-9]{2}$", help_text="such as 2026-10, in UTC")


MONTH = Text("month", "The present one where it is absent.", r"\d{4}-\d{2}", "written 2026-10")


class StatementsView(ApiView):
    """The closed months of your tenants."""

    scope_group = ScopeGroup.METERING
    lists = True
    sorts = ("-created_at",)
    parameters = (TENANT,)

    @pages(StatementBody)
    def get(self, request: Request) -> Response:
        """Newest first, without their lines."""
        tenant, rows = asked_tenant(self, request), months.statements_for(self.actor)
        return paginate(request, rows.filter(tenant=tenant) if tenant else rows, statement_body)

    @takes(NewStatementSerializer)
    @answers(201, ClosedStatementBody, location=True)
    @refuses("wrong_phase", "already_exists")
    def post(self, request: Request) -> Response:
        """Close a month: never changed again."""

        def answer(row: Statement) -> Response:
            return made(closed_body(row), f"/api/v1/statements/{row.pk}")

        return idempotent(request, lambda: written(request, self._close, answer))

    def _close(self) -> Statement:
        statements.require_closer(self.actor)
        asked = NewStatementSerializer.checked(self.request.data)
        tenant = found("/tenant", lambda: tenant_for(self.actor, asked["tenant"]))
        month = month_named(asked["month"])
        if month is None:
            words = "A month is written 2026-10."
            raise Invalid([FieldProblem("/month", "invalid_value", words)])
        return statements.close_month(actor=self.actor, tenant=tenant, month=month, now=timezone.now())


class StatementView(ApiView):
    """One closed month."""

    scope_group = ScopeGroup.METERING

    @answers(200, ClosedStatementBody)
    def get(self, request: Request, key: str) -> Response:  # noqa: ARG002 - Django's signature
        """By id, with its lines."""
        return Response(closed_body(by_id(months.statements_for(self.actor), key)))


class StatementFile(ApiView):
    """A closed month as CSV: `lines.csv` as they are, `focus.csv` in the columns of FOCUS."""

    scope_group = ScopeGroup.METERING
    content_negotiation_class = AnyAccept

    @named("statements_file")
    @answers(200, str, media="text/csv", headers=("Content-Disposition",))
    def get(self, request: Request, key: str, file: str) -> Any:  # noqa: ARG002 - Django's signature
        """text/csv."""
        row = by_id(months.statements_for(self.actor), key)
        if file not in bill_files.FILES:
            raise NotFound
        return bill_files.file_of(months.month_of_statement(row), file, now=timezone.now())


class BillView(ApiView):
    """`tenants/{slug}/bill`: a month in two prices, as it stands."""

    scope_group = ScopeGroup.METERING
    parameters = (MONTH,)

    @named("tenants_bill")
    @answers(200, BillBody)
    def get(self, request: Request, key: str) -> Response:
        """`?month=2026-10`; without it the present one, with what the whole month may come to."""
        tenant, now = tenant_for(self.actor, key), timezone.now()
        month = months.month_of(tenant, _month(request, budget.month_of(now)), now=now)
        return Response(bill_body(month, now=now))


class BurnView(ApiView):
    """`budgets/{id}/burn-down`: the charges by day, and the forecast."""

    scope_group = ScopeGroup.QUOTAS

    @named("budgets_burn_down")
    @answers(200, BurnDownBody)
    def get(self, request: Request, key: str) -> Response:  # noqa: ARG002 - Django's signature
        """Of the present month."""
        row, now = spending.budget_for(self.actor, key), timezone.now()
        found = burn_down.of_budget(row, budget.month_of(now), now=now)
        return Response(burn_body(str(row.pk), found))


def _month(request: Request, this: date) -> date:
    text = MONTH.of(request)
    return this if text is None else month_asked(MONTH.name, text)
