"""The open findings that cost most. Reads only."""

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from django.db.models import Count, Min, QuerySet, Sum

from apps.accounts.specs import Actor
from apps.metering.findings.selectors.finding_selectors import findings_for, name_of, open_findings, url_of
from apps.metering.models import Finding
from apps.metering.specs import FindingKind
from apps.tenants.models import Tenant
from portal.pages.team.workloads import workload_detail

MOST = 10
LOOKS = {FindingKind.HOARDER: ("triangle-alert", "bad"), FindingKind.ZOMBIE: ("octagon-alert", "bad")}


@dataclass(frozen=True)
class Row:
    """A finding as a table shows it."""

    finding: Finding
    word: str
    icon: str
    tone: str
    url: str
    name: str

    @property
    def blocks(self) -> int:
        """How many workloads wait for what it holds."""
        return int(self.finding.blocks.get("count", 0))


@dataclass(frozen=True)
class Worst:
    """The dearest, how many are open in all, and what they waste in a week."""

    rows: list[Row]
    count: int
    weekly: Decimal
    oldest: datetime | None


def of_tenant(actor: Actor, tenant: Tenant) -> Worst:
    """Of one team."""
    return _worst(findings_for(actor).filter(tenant=tenant))


def of_all(actor: Actor) -> Worst:
    """Of all that the actor sees."""
    return _worst(findings_for(actor))


def _worst(found: QuerySet[Finding]) -> Worst:
    live = open_findings(found).select_related("workload__tenant", "workload__owner", "tenant")
    said = live.order_by().aggregate(weekly=Sum("weekly"), oldest=Min("since"), count=Count("pk"))
    rows = live.order_by("-wasted", "-weekly", "since")[:MOST] if said["count"] else ()
    return Worst([_row(each) for each in rows], said["count"], said["weekly"] or Decimal(0), said["oldest"])


def _row(found: Finding) -> Row:
    kind = FindingKind(found.kind)
    icon, tone = LOOKS.get(kind, ("triangle-alert", "warn"))
    work = found.workload
    url = workload_detail.url(work) if work else url_of(found)
    return Row(found, kind.label, icon, tone, url, name_of(found))
