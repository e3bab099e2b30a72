"""What the home page shows."""

from datetime import datetime, timedelta
from typing import Any

from apps.accounts.specs import Actor
from apps.cluster import request_cache
from apps.cluster.conditions import find
from apps.tenants.selectors import first_for
from apps.workloads.models import Workload
from apps.workloads.selectors import complete, workloads_for
from apps.workloads.specs import Phase
from portal.pages.parts import figures
from portal.pages.parts.quota_bars import bars

PARTS = frozenset({"needs", "mine", "balance"})
MOST = 50
UNSHOWN = ("spec", "labels", "queue", "placement")
"""Columns that no row of the page shows: JSON that is slow to read."""
STOPS_SOON = timedelta(hours=4)
MOST_TENANTS = 8


@request_cache.scope()
def page(actor: Actor, *, now: datetime) -> dict[str, Any]:
    """The actor's workloads, those that need attention first, and the quota of the actor's tenants."""
    own = workloads_for(actor).filter(owner_id=actor.user_id)
    mine = list(own.select_related(None).defer(*UNSHOWN).order_by("-created_at")[:MOST])
    complete(mine)
    teams = first_for(actor, MOST_TENANTS)
    stops = [row.first_stop for row in mine if row.phase == Phase.RUNNING and row.first_stop]
    counted = figures.counts(own)
    return {
        "count": counted,
        "spent": counted.spent,
        "mine": mine,
        "needs": [row for row in mine if _needs(row, now)],
        "next_stop": min(stops, default=None),
        "teams": [{"tenant": team, "bars": bars(actor, team, now=now)} for team in teams],
        "first_tenant": teams[0] if teams else None,
        "live_topics": [f"user:{actor.user_id}", *(f"tenant:{team.slug}" for team in teams)],
    }


def _needs(row: Workload, now: datetime) -> bool:
    if row.phase == Phase.RUNNING:
        return row.first_stop is not None and row.first_stop - now < STOPS_SOON
    if row.phase != Phase.FAILED:
        return False
    ready = find(row.conditions, "Ready")
    row.trouble = ready["message"] if ready else ""  # type: ignore[attr-defined]
    return True
