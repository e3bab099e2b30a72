"""What a change of a tenant does to its work, as a rehearsal tells it."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, TypedDict

from django.utils import timezone

from apps.cluster.objects.queueing import QueueState
from apps.tenants.models import Tenant
from apps.tenants.specs import TrustLevel
from apps.web.shapes.bodies import Id, Money, Rehearsal
from apps.workloads.specs import Phase
from apps.workloads.tenants.selectors.trust_moves import Move, TrustMoves, moves_for, words
from portal.api.base.money import money
from portal.api.tenants.shapes import TenantBody


class IllegalQuotaBody(TypedDict):
    """Quota of an offer that is no longer allowed: it serves the rest of the department."""

    id: Id
    offer: str
    nominal_quota: int


class IllegalGrantBody(TypedDict):
    """A grant of an offer that is no longer allowed."""

    id: Id
    offer: str
    count: int
    ends_at: datetime


class IllegalKubectlBody(TypedDict):
    """Work on such an offer that was made with kubectl; the portal cannot move it."""

    name: str
    offer: str
    state: QueueState


class IllegalBody(TypedDict):
    """What a lower trust level no longer allows; empty lists where it is not lower."""

    offers: Annotated[list[str], "Slugs."]
    quotas: list[IllegalQuotaBody]
    grants: list[IllegalGrantBody]
    kubectl: list[IllegalKubectlBody]


class OfferPerHourBody(TypedDict):
    """An offer, and what the workload costs there per hour."""

    offer: str
    hourly: Annotated[Money | None, "Null where it has no price."]


TrustMoveEnds = TypedDict(
    "TrustMoveEnds",
    {"from": OfferPerHourBody, "to": Annotated[OfferPerHourBody | None, "Null: no legal offer holds it."]},
)


class TrustMoveBody(TrustMoveEnds):
    """A workload whose next start is elsewhere; it runs on until it ends."""

    workload: Id
    name: str
    owner: Annotated[str, "The username."]
    phase: Phase


class TenantChangeRehearsal(Rehearsal):
    """What a change of a tenant would do to its work."""

    result: TenantBody  # closer than any rehearsal's
    illegal: IllegalBody
    moves: list[TrustMoveBody]


def effect_on_work(before: Tenant, after: Tenant) -> Mapping[str, Any]:
    """`warnings` in words, `moves` one for each workload."""
    level = TrustLevel(after.trust_level)
    is_lower = level.rank < TrustLevel(before.trust_level).rank
    found = moves_for(after, level, now=timezone.now()) if is_lower else TrustMoves(level)
    return {"warnings": words(found), "illegal": _illegal(found), "moves": [_move(m) for m in found.moves]}


def _illegal(found: TrustMoves) -> IllegalBody:
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
            {"name": each.name, "offer": each.offer.slug, "state": each.state} for each in found.past
        ],
    }


def _move(move: Move) -> TrustMoveBody:
    row = move.workload
    return {
        "workload": str(row.pk),
        "name": row.name,
        "owner": row.owner.username,
        "phase": Phase(row.phase),
        "from": {"offer": row.offer.slug, "hourly": money(move.before)},
        "to": None if move.target is None else {"offer": move.target.slug, "hourly": money(move.after)},
    }
