"""The open findings that cost most, and those that were closed lately. Reads only."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from django.db.models import QuerySet

from apps.accounts.specs import Actor
from apps.metering.findings.selectors.finding_selectors import (
    Found,
    findings_for,
    found_in,
    name_of,
    open_findings,
    url_of,
)
from apps.metering.models import Finding
from apps.metering.specs import FindingKind
from apps.ranges import IDLE_FOR_SECONDS
from apps.tenants.models import Tenant
from apps.workloads.models import Workload
from apps.workloads.policies import can_stop
from apps.workloads.selectors.reading import spec_of
from portal.pages.team.usage.finding_pages import LOOKS, USUAL_LOOK
from portal.pages.team.workloads import workload_detail

MOST = 10


@dataclass(frozen=True)
class Row:
    """A finding as a table shows it; `stop_url` is empty where nothing is left to stop, or not by who looks.

    `window` is its workload's own, in seconds; None where its team's policy says when idle time counts.
    """

    finding: Finding
    word: str
    icon: str
    tone: str
    url: str
    work_url: str
    name: str
    stop_url: str
    window: int | None

    @property
    def blocks(self) -> int:
        """How many workloads wait for what it holds."""
        return int(self.finding.blocks.get("count", 0))


@dataclass(frozen=True)
class Worst:
    """The dearest open ones, then the dearest of those closed since the moment that the page's money counts
    from; and what all that are open come to.
    """

    rows: list[Row]
    found: Found

    @property
    def count(self) -> int:
        """How many are open."""
        return self.found.count

    @property
    def has_short_window(self) -> bool:
        """Whether one of them is judged by a window that no team may have."""
        return any(row.window and row.window < IDLE_FOR_SECONDS.least for row in self.rows)

    @property
    def oldest(self) -> datetime | None:
        """Since when."""
        return self.found.oldest

    @property
    def weekly(self) -> Decimal:
        """What a week of them would waste that could be recovered."""
        return self.found.recoverable_weekly


def of_tenant(actor: Actor, tenant: Tenant, *, since: datetime) -> Worst:
    """Of one team."""
    return _worst(actor, findings_for(actor).filter(tenant=tenant), since)


def of_all(actor: Actor, *, since: datetime) -> Worst:
    """Of all that the actor sees."""
    return _worst(actor, findings_for(actor), since)


def _worst(actor: Actor, found: QuerySet[Finding], since: datetime) -> Worst:
    """RULE: money that was wasted since then has its findings beside it, though nothing is open any more."""
    said = found_in(found)
    # Of eleven tables that a finding's own page reads, this one shows these.
    found = found.select_related(None).select_related("tenant", "workload__owner", "made")
    rows = list(open_findings(found).order_by("-wasted", "-weekly", "since")[:MOST]) if said.count else []
    if len(rows) < MOST:
        over = found.filter(closed_at__gte=since, wasted__gt=0)
        rows += over.order_by("-wasted", "-closed_at")[: MOST - len(rows)]
    may_stop = _stopper(actor)
    return Worst([_row(each, may_stop) for each in rows], said)


def _stopper(actor: Actor) -> Callable[[Workload], bool]:
    """Whether the actor may stop a workload; asked once of each team, of the own and of others' work."""
    known: dict[tuple[object, bool], bool] = {}

    def may(work: Workload) -> bool:
        key = (work.tenant_id, work.owner_id == actor.user_id)
        if key not in known:
            known[key] = can_stop(actor, work)
        return known[key]

    return may


def _row(found: Finding, may_stop: Callable[[Workload], bool]) -> Row:
    kind = FindingKind(found.kind)
    icon, tone = LOOKS.get(kind, USUAL_LOOK)
    if found.closed_at is not None:
        icon, tone = "circle-check", "muted"
    work, url = found.workload, url_of(found)
    if work:
        work.tenant = found.tenant  # the same one, read once
    wish = spec_of(work).idle_policy if work else None
    return Row(
        found, kind.label, icon, tone, url, workload_detail.url(work) if work else url, name_of(found),
        f"{url}stop/" if work and found.closed_at is None and may_stop(work) else "",
        wish.for_seconds if wish else None,
    )  # fmt: skip
