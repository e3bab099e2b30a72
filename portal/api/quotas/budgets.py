"""REST for budgets and for holding a tenant's queue by hand."""

from collections.abc import Callable
from typing import Any

from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.specs import ScopeGroup
from apps.errors import AlreadyExists, FieldProblem, Invalid
from apps.quotas.allowances.selectors import entitlements
from apps.quotas.budgets.selectors import spending
from apps.quotas.budgets.services import budgeting, holding
from apps.quotas.kueue.manifests import render_queue
from apps.quotas.models import Budget, TenantQueue
from apps.tenants import selectors as tenancy
from portal.api.base.documents import DocumentView, documents
from portal.api.base.references import TENANT, asked_tenant, department_in, tenant_in
from portal.api.base.views import ApiView, etag, idempotent, paginate
from portal.api.base.writing import made, settled, written
from portal.api.declared.declaring import answers, named, pages, refuses, takes
from portal.api.quotas.budgets_bodies import (
    Body,
    BudgetBody,
    BudgetDocumentSerializer,
    HoldWishSerializer,
    NewBudgetSerializer,
    QueueBody,
    budget_body,
    limits_in,
    queue_body,
)


class BudgetsView(ApiView):
    """The budgets of the caller's tenants and of their departments."""

    scope_group = ScopeGroup.QUOTAS
    lists = True
    sorts = ("-created_at", "updated_at")
    parameters = (TENANT,)

    @pages(BudgetBody)
    def get(self, request: Request) -> Response:
        """With what is spent this month; `?tenant=` for those that bind one tenant."""
        tenant, rows, now = asked_tenant(self, request), spending.budgets_for(self.actor), timezone.now()
        rows = rows.filter(pk__in=spending.budgets_of(tenant).values("pk")) if tenant else rows
        return paginate(request, rows, lambda row: budget_body(row, now))

    @takes(NewBudgetSerializer)
    @answers(201, BudgetBody, etag=True, location=True)
    @refuses("already_exists")
    def post(self, request: Request) -> Response:
        """Give a tenant or department a budget; 409 already_exists where it has one in that unit."""

        def answer(row: Budget) -> Response:
            return made(budget_body(row, timezone.now()), f"/api/v1/budgets/{row.pk}", row)

        return idempotent(request, lambda: written(request, self._make, answer))

    def _make(self) -> Budget:
        asked = NewBudgetSerializer.checked(self.request.data)
        owner = self._owner(asked["tenant"], asked["department"])
        budgeting.require_budgeter(self.actor, owner)
        limits = limits_in(asked["spec"])
        if owner.budgets.filter(unit=limits.unit).exists():
            raise AlreadyExists(f"{owner.slug} already has a budget in that unit.", hint="Change that one.")
        return budgeting.set_budget(actor=self.actor, owner=owner, limits=limits, now=timezone.now())

    def _owner(self, tenant: str | None, department: str | None) -> budgeting.Owner:
        if (tenant is None) == (department is None):
            words = "Name either a tenant or a department."
            raise Invalid([FieldProblem("/tenant", "required", words)])
        return department_in(self.actor, department) if department else tenant_in(self.actor, tenant or "")


@documents(
    BudgetDocumentSerializer,
    BudgetBody,
    get="By id.",
    put="Replace the limits; an omitted one is none.",
    patch="Merge (RFC 7396); null is no limit.",
)
class BudgetView(DocumentView[Budget]):
    """One budget."""

    scope_group = ScopeGroup.QUOTAS
    find = staticmethod(spending.budget_for)

    @answers(204)
    def delete(self, request: Request, key: str) -> Response:
        """Take it away, and what it held."""

        def take(row: Budget) -> None:
            budgeting.delete_budget(actor=self.actor, row=row, now=timezone.now())

        return self.remove(request, key, take)

    def require(self, row: Budget) -> None:
        """As the service."""
        budgeting.require_budgeter(self.actor, row.tenant or row.department)

    def shown(self, row: Budget) -> BudgetBody:
        """With what is spent this month."""
        return budget_body(row, timezone.now())

    def change(self, row: Budget, asked: Body) -> Budget:
        """Other limits; the unit is fixed."""
        limits = limits_in(asked["spec"])
        if limits.unit != row.unit:
            words = "The unit is fixed once a budget is made: make another one."
            raise Invalid([FieldProblem("/spec/hard_limit", "read_only_field", words)])
        owner = row.tenant or row.department
        assert owner is not None  # noqa: S101 - the table's constraint says so
        return budgeting.set_budget(actor=self.actor, owner=owner, limits=limits, now=timezone.now())


class QueueView(ApiView):
    """A tenant's queue: whether and why it is held."""

    scope_group = ScopeGroup.QUOTAS

    @named("tenant_queue")
    @answers(200, QueueBody, etag=True)
    def get(self, request: Request, key: str) -> Response:  # noqa: ARG002 - Django's signature
        """By the tenant's slug or id."""
        tenant = tenancy.tenant_for(self.actor, key)
        return _queue(entitlements.queue_of(tenant))


class HoldView(ApiView):
    """Holding a queue by hand."""

    scope_group = ScopeGroup.QUOTAS

    @named("tenant_hold")
    @takes(HoldWishSerializer)
    @answers(200, QueueBody, etag=True)
    @refuses("wrong_phase")
    def post(self, request: Request, key: str) -> Response:
        """Nothing new starts, what runs goes on."""
        return _moved(self, request, key, holding.hold_queue)


class ReleaseView(ApiView):
    """Letting it go."""

    scope_group = ScopeGroup.QUOTAS

    @named("tenant_release")
    @takes(HoldWishSerializer)
    @answers(200, QueueBody, etag=True)
    @refuses("wrong_phase")
    def post(self, request: Request, key: str) -> Response:
        """Take the hold by hand away; a budget or a suspension may still hold."""
        return _moved(self, request, key, holding.release_queue)


def _moved(view: ApiView, request: Request, key: str, move: Callable[..., TenantQueue]) -> Response:
    tenant = tenancy.tenant_for(view.actor, key)
    holding.require_holder(view.actor, tenant)
    reason = HoldWishSerializer.checked(request.data)["reason"]

    def write() -> TenantQueue:
        return move(actor=view.actor, tenant=tenant, reason=reason, now=timezone.now())

    response = idempotent(request, lambda: written(request, write, _queue, manifests=_manifests))
    return settled(
        request,
        response,
        reload=lambda _pk: entitlements.queue_of(tenant),
        is_done=_is_observed,
        body=lambda row: queue_body(row, tenant),
    )


def _is_observed(queue: TenantQueue) -> bool:
    return queue.observed_generation == queue.generation


def _queue(queue: TenantQueue) -> Response:
    return Response(queue_body(queue, queue.tenant), headers={"ETag": etag(queue)})


def _manifests(queue: TenantQueue) -> list[dict[str, Any]]:
    return render_queue(entitlements.queue_spec(queue, namespace_is_there=True))
