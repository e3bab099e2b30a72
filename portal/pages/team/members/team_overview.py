"""What a tenant's page shows."""

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from django.conf import settings
from django.db.models import Count, Q, Sum
from django.urls import reverse
from django.utils import timezone

from apps.accounts.specs import Actor
from apps.metering.billing.selectors import line_items
from apps.quotas.budgets.selectors import spending
from apps.tenants import policies
from apps.tenants.models import Tenant
from apps.tenants.selectors import fence_of, members_of
from apps.tenants.specs import Role
from apps.web.shapes.amounts import to_the_cent
from apps.workloads.selectors.reading import workloads_for
from apps.workloads.specs import Phase
from portal.pages.parts import budget_lines, figures, needs
from portal.pages.parts.needs import Need
from portal.pages.parts.quota_bars import bars
from portal.pages.team.usage import worst
from portal.pages.team.usage.worst import Worst

PARTS = frozenset({"needs", "worst", "quota", "who"})


@dataclass(frozen=True)
class Member:
    """A person of the team, with what that person runs and what it cost."""

    name: str
    username: str
    role: Role
    running: int
    waiting: int
    spent: Decimal


def page(actor: Actor, tenant: Tenant) -> dict[str, Any]:
    """Quota bars, members, isolation."""
    now = timezone.now()
    found = worst.of_tenant(actor, tenant, since=line_items.midnight(now))
    counted = figures.counts(workloads_for(actor).filter(tenant=tenant))
    return {
        "tenant": tenant,
        "fence": fence_of(tenant),
        "count": counted,
        "spent": counted.spent,
        "bars": bars(actor, tenant, now=now),
        "budgets": budget_lines.of_tenant(tenant, now),
        "members": _members(actor, tenant),
        "needs": _needs(actor, tenant, found) if policies.can_lead(actor, tenant) else None,
        "worst": found,
        "troubles": figures.conditions_wrong(tenant.conditions),
        "live_topics": [f"tenant:{tenant.slug}"],
    }


def _needs(actor: Actor, tenant: Tenant, found: Worst) -> list[Need]:
    """What a lead sees first: waste to recover, and what was asked for."""
    asked = spending.requests_for(actor).filter(tenant=tenant)
    quota = needs.requests(asked, "not decided yet", reverse("team-quota", args=[tenant.slug]))
    if not found.count:
        return [*quota]
    what = f"{found.count} finding{'s' if found.count != 1 else ''}"
    why = f"{to_the_cent(found.weekly)} {settings.CONFIG.currency} a week to recover"
    url = reverse("findings", args=[tenant.slug])
    return [Need(what, why, "triangle-alert", "warn", url, found.oldest), *quota]


def _members(actor: Actor, tenant: Tenant) -> list[Member]:
    used = {
        each["owner"]: each
        for each in workloads_for(actor)
        .filter(tenant=tenant)
        .order_by()
        .values("owner")
        .annotate(
            running=Count("id", filter=Q(phase__in=figures.RUNNING)),
            waiting=Count("id", filter=Q(phase=Phase.PENDING)),
            spent=Sum(figures.CHARGED),
        )
    }
    nothing: dict[str, Any] = {"running": 0, "waiting": 0, "spent": Decimal(0)}
    return [
        Member(
            name=each.user.shown_name,
            username=each.user.username,
            role=Role(each.role),
            running=(own := used.get(each.user_id, nothing))["running"],
            waiting=own["waiting"],
            spent=own["spent"],
        )
        for each in members_of(tenant)
    ]
