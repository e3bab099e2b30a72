"""REST of one tenant, with what a change of it does to work: the resource itself is `apps.tenants.api`'s."""

from collections.abc import Mapping
from typing import Any

from django.utils import timezone

from apps.tenants import api
from apps.tenants.models import Tenant
from apps.tenants.services import TenantChange
from apps.tenants.specs import TrustLevel
from apps.workloads import trusting
from apps.workloads.serializers import money
from apps.workloads.trust_moves import Move, TrustMoves, moves_for, words


class TenantView(api.TenantView):
    """One tenant. A rehearsal of a lower trust level lists what would become illegal, and where it moves; the
    change itself keeps the moves for the next starts.
    """

    def update(self, tenant: Tenant, change: TenantChange) -> Tenant:
        """With the moves of its work."""
        return trusting.update_tenant(actor=self.actor, tenant=tenant, change=change, now=timezone.now())

    def told(self, before: Tenant, after: Tenant) -> Mapping[str, Any]:
        """`warnings` in words, `moves` one for each workload."""
        level = TrustLevel(after.trust_level)
        if level.rank >= TrustLevel(before.trust_level).rank:
            return {"moves": []}
        found = moves_for(after, level, now=timezone.now())
        return {
            "warnings": words(found),
            "illegal": _illegal(found),
            "moves": [_move(m) for m in found.moves],
        }


def _illegal(found: TrustMoves) -> Mapping[str, Any]:
    return {
        "offers": [offer.slug for offer in found.offers],
        "quotas": [
            {"id": str(quota.pk), "offer": quota.offer.slug, "nominal_quota": quota.nominal_quota}
            for quota in found.quotas
        ],
        "grants": [
            {"id": str(grant.pk), "offer": grant.offer.slug, "count": grant.count, "ends_at": grant.ends_at}
            for grant in found.grants
        ],
        "kubectl": [
            {"name": each.name, "offer": each.offer.slug, "state": str(each.state)} for each in found.past
        ],
    }


def _move(move: Move) -> Mapping[str, Any]:
    row = move.workload
    return {
        "workload": str(row.pk),
        "name": row.name,
        "owner": row.owner.username,
        "phase": row.phase,
        "from": {"offer": row.offer.slug, "hourly": money(move.before)},
        "to": None if move.target is None else {"offer": move.target.slug, "hourly": money(move.after)},
    }
