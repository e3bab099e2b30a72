"""What the home page shows."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Case, When

from apps.accounts.specs import Actor
from apps.cluster import request_cache
from apps.cluster.objects.conditions import find
from apps.tenants.models import Tenant
from apps.tenants.selectors import first_for
from apps.workloads.models import UNLISTED, Workload
from apps.workloads.selectors.reading import complete, workloads_for
from apps.workloads.specs import Phase
from portal.pages.parts import budget_lines, figures, workload_lines
from portal.pages.parts.quota_bars import bars
from portal.pages.parts.workload_lines import Line

PARTS = frozenset({"needs", "mine", "balance"})
MOST = 50
OVER = (Phase.STOPPED, Phase.SUCCEEDED, Phase.FAILED)
_IS_OVER = Case(When(phase__in=OVER, then=1), default=0)
UNSHOWN = (*UNLISTED, "labels", "placement")
"""Columns that no row of the page shows: JSON is slow to read."""
STOPS_SOON = timedelta(hours=4)
MOST_TENANTS = 8


@dataclass(frozen=True)
class Need:
    """A workload that needs a hand: it stops soon, or it failed by `trouble`."""

    workload: Workload
    trouble: str | None = None

    @property
    def button(self) -> str:
        """The id of what extends it."""
        return f"extend-{self.workload.pk}"

    @property
    def is_idle(self) -> bool:
        """Whether the idle policy stops it, and nothing before."""
        row = self.workload
        return bool(row.idle) and row.first_stop == row.idle_stops_at


@request_cache.scope()
def page(actor: Actor, *, now: datetime) -> dict[str, Any]:
    """The actor's workloads, those that need attention first, and the quota of the actor's tenants."""
    own = workloads_for(actor).filter(owner_id=actor.user_id)
    mine = list(own.select_related(None).defer(*UNSHOWN).order_by(_IS_OVER, "-created_at")[:MOST])
    complete(mine)
    live = [row for row in mine if row.phase not in OVER]
    teams = first_for(actor, MOST_TENANTS)
    stops = [row.first_stop for row in mine if row.phase == Phase.RUNNING and row.first_stop]
    counted = figures.counts(own)
    return {
        "count": counted,
        "spent": counted.spent,
        "live": workload_lines.lines(actor, live, now=now),
        "over": [Line(row) for row in mine if row.phase in OVER],
        "needs": [need for row in mine if (need := _need(row, now))],
        "next_stop": min(stops, default=None),
        "teams": [_team(actor, team, now) for team in teams],
        "first_tenant": teams[0] if teams else None,
        "live_topics": [f"user:{actor.user_id}", *(f"tenant:{team.slug}" for team in teams)],
    }


def _team(actor: Actor, team: Tenant, now: datetime) -> dict[str, Any]:
    return {
        "tenant": team,
        "bars": bars(actor, team, now=now),
        "budgets": budget_lines.of_tenant(team, now),
    }


def _need(row: Workload, now: datetime) -> Need | None:
    if row.phase == Phase.RUNNING:
        stop = row.first_stop
        return Need(row) if stop is not None and stop - now < STOPS_SOON else None
    if row.phase != Phase.FAILED:
        return None
    ready = find(row.conditions, "Ready")
    return Need(row, ready["message"] if ready else "")
