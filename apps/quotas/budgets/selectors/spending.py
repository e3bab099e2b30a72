"""Budgets, grants and quota requests as an actor sees them, and why a tenant's queue is held. Reads only."""

from collections.abc import Iterable
from datetime import datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db.models import Q, QuerySet, Sum, UUIDField

from apps.accounts.specs import Actor
from apps.prepared import Prepared
from apps.quotas.budgets.rules import budget as months
from apps.quotas.models import Budget, Grant, QuotaRequest, Spend, TenantQueue
from apps.quotas.specs import BudgetUnit, GrantSpan
from apps.tenants import selectors as tenancy
from apps.tenants.models import Tenant
from apps.web.requests.lookups import by_id


def grants_for(actor: Actor) -> QuerySet[Grant]:
    """The grants of the tenants an actor sees, past and future ones too."""
    found = Grant.objects.select_related("tenant__department", "tenant__cluster", "offer__flavor")
    return found.filter(tenant__in=tenancy.tenants_for(actor))


def grant_for(actor: Actor, pk: str | UUID, *, lock: bool = False) -> Grant:
    """One grant by id, if the actor sees it; raises NotFound."""
    return by_id(grants_for(actor), pk, lock=lock)


def spans(grants: Iterable[Grant]) -> list[GrantSpan]:
    """Grants as the ledger takes them."""
    return [GrantSpan(grant.count, grant.starts_at, grant.ends_at) for grant in grants]


def requests_for(actor: Actor) -> QuerySet[QuotaRequest]:
    """The quota requests of the tenants an actor sees."""
    found = QuotaRequest.objects.select_related(
        "tenant__department", "tenant__cluster", "offer__flavor", "asked_by", "grant"
    )
    return found.filter(tenant__in=tenancy.tenants_for(actor))


def request_for(actor: Actor, pk: str | UUID) -> QuotaRequest:
    """One quota request by id, if the actor sees it; raises NotFound."""
    return by_id(requests_for(actor), pk)


def budgets_for(actor: Actor) -> QuerySet[Budget]:
    """The budgets of the tenants an actor sees, and of their departments."""
    found = Budget.objects.select_related("tenant__department", "department")
    return found.filter(
        Q(tenant__in=tenancy.tenants_for(actor)) | Q(department__in=tenancy.departments_for(actor))
    )


def budget_for(actor: Actor, pk: str | UUID, *, lock: bool = False) -> Budget:
    """One budget by id, if the actor sees it; raises NotFound."""
    return by_id(budgets_for(actor), pk, lock=lock)


def budgets_of(*tenants: Tenant) -> QuerySet[Budget]:
    """The budgets that bind a tenant, or one of several: its own, its department's and those of the
    departments above.
    """
    return _binding([tenant.pk for tenant in tenants], _above(tenants))


def locked_budgets_of(*tenants: Tenant) -> list[Budget]:
    """The same, locked."""
    return _LOCKED([tenant.pk for tenant in tenants], _above(tenants))


def _above(tenants: Iterable[Tenant]) -> list[UUID]:
    departments = {tenant.department_id: tenant.department for tenant in tenants}
    return sorted({pk for department in departments.values() for pk in tenancy.lineage(department)})


def _binding(tenants: Any, departments: Any) -> QuerySet[Budget]:
    found = Budget.objects.select_related("tenant", "department")
    return found.filter(Q(tenant__pk__in=tenants) | Q(department__pk__in=departments)).order_by("unit", "pk")


_LOCKED = Prepared(
    lambda *places: _binding(*places).select_for_update(of=("self",)), UUIDField(), UUIDField()
)


def tenants_counted(budget: Budget) -> QuerySet[Tenant]:
    """The tenants whose charges a budget counts, those deleted meanwhile included: its own, or all of its
    department and of those below.
    """
    if budget.department_id:
        return Tenant.objects.filter(department__in=tenancy.below(budget.department_id))
    return Tenant.objects.filter(budgets=budget.pk)


def tenants_under(budget: Budget) -> QuerySet[Tenant]:
    """The tenants that a budget binds."""
    return tenants_counted(budget).filter(deleted_at=None).select_related("department")


def limits_of(budget: Budget) -> months.Limits:
    """The limits as the arithmetic takes them."""
    return months.Limits(BudgetUnit(budget.unit), budget.soft_limit, budget.hard_limit)


def spent(budget: Budget, now: datetime) -> Decimal:
    """What was spent of it in the month of `now` by those it counts, as metering last summed it."""
    column = "money" if budget.unit == BudgetUnit.MONEY else "gpu_hours"
    rows = Spend.objects.filter(tenant__in=tenants_counted(budget), month=months.month_of(now))
    return rows.aggregate(total=Sum(column))["total"] or Decimal(0)


def amount(budget: Budget, value: Decimal) -> str:
    """A figure of that budget in words: `900.00 EUR`."""
    return months.amount(BudgetUnit(budget.unit), value, settings.CONFIG.currency)


def exhausted(tenant: Tenant, now: datetime) -> list[months.Exhausted]:
    """The budgets of the tenant whose hard limit is reached this month."""
    _, until = months.bounds(months.month_of(now))
    found = []
    for budget in budgets_of(tenant).exclude(hard_limit=None):
        so_far = spent(budget, now)
        if budget.hard_limit is not None and so_far >= budget.hard_limit:
            found.append(months.Exhausted(budget.whose, amount(budget, budget.hard_limit), until))
    return found


def hold_of(queue: TenantQueue, now: datetime) -> months.Hold:
    """Why the tenant's queue admits nothing new at this moment, from its sources and not from what is
    stored.
    """
    return months.hold(
        suspend=tenancy.suspension_of(queue.tenant),
        exhausted=exhausted(queue.tenant, now),
        manual=queue.manual_hold,
    )


def next_hold_change(queue: TenantQueue, now: datetime) -> datetime | None:
    """When a hold ends by itself: a spent budget with its month; None where no budget holds."""
    ends = [each.until for each in exhausted(queue.tenant, now)]
    return min(ends, default=None)
