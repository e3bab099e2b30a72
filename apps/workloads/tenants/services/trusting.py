"""A tenant changed together with what follows for its work: on a lower trust level, the offer of each next
start.
"""

from collections.abc import Iterable
from datetime import datetime

from django.db import transaction

from apps.accounts.specs import Actor
from apps.tenants.lifecycle.services import tenancy
from apps.tenants.lifecycle.services.tenancy import TenantChange
from apps.tenants.models import Tenant
from apps.tenants.specs import TrustLevel
from apps.workloads.lifecycle.services import idling
from apps.workloads.models import Workload
from apps.workloads.tenants.selectors.trust_moves import Move, moves_for


@transaction.atomic
def update_tenant(*, actor: Actor, tenant: Tenant, change: TenantChange, now: datetime) -> Tenant:
    """As `tenants.services.update_tenant`. A lower trust level also gives what can no longer start where it
    is the offer that the rehearsal showed, for its next start; what was chosen for it before stays if it is
    legal.
    """
    moves = _moves(tenancy.locked(tenant), change, now)
    # Locked before anything is recorded: whoever changes a workload locks its row first, then the record.
    rows = _locked(moves)
    after = tenancy.update_tenant(actor=actor, tenant=tenant, change=change, now=now)
    reason = f"{after.slug} is now of trust level {after.trust_level}"
    for move in moves:
        row = rows.get(move.workload.pk)
        if row is not None and row.offer_id == move.workload.offer_id and move.target is not None:
            idling.choose(actor=actor, row=row, offer=move.target, reason=reason, now=now)
    return after


def _moves(tenant: Tenant, change: TenantChange, now: datetime) -> tuple[Move, ...]:
    level = change.trust_level
    if level is None or level.rank >= TrustLevel(tenant.trust_level).rank:
        return ()
    return moves_for(tenant, level, now=now).moves


def _locked(moves: Iterable[Move]) -> dict[object, Workload]:
    rows = Workload.objects.select_for_update(of=("self",)).filter(deleted_at=None, deleting_at=None)
    chosen = rows.filter(pk__in=[move.workload.pk for move in moves if move.target]).order_by("pk")
    return {row.pk: row for row in chosen.select_related("tenant", "next_offer")}
