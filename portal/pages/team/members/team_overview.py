"""What a tenant's page shows."""

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from django.db.models import Count, Q, Sum
from django.utils import timezone

from apps.accounts.specs import Actor
from apps.tenants.models import Tenant
from apps.tenants.selectors import fence_of, members_of
from apps.tenants.specs import Role
from apps.workloads.selectors.reading import workloads_for
from apps.workloads.specs import Phase
from portal.pages.parts import figures
from portal.pages.parts.quota_bars import bars

PARTS = frozenset({"quota", "who"})


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
    counted = figures.counts(workloads_for(actor).filter(tenant=tenant))
    return {
        "tenant": tenant,
        "fence": fence_of(tenant),
        "count": counted,
        "spent": counted.spent,
        "bars": bars(actor, tenant, now=timezone.now()),
        "members": _members(actor, tenant),
        "troubles": figures.conditions_wrong(tenant.conditions),
        "live_topics": [f"tenant:{tenant.slug}"],
    }


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
            spent=Sum("cost_allocated"),
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
