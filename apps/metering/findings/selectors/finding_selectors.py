"""Which findings an actor sees, and a row in the shapes that the pure modules take. Reads only."""

from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db.models import Count, Min, Q, QuerySet, Sum, UUIDField

from apps.accounts.specs import Actor
from apps.metering.findings.rules.idle_policy import Policy, for_workload
from apps.metering.findings.rules.messages import Said
from apps.metering.findings.rules.money import RECOVERED
from apps.metering.models import Allocation, Finding, IdlePolicy
from apps.metering.specs import FindingKind, FindingPhase, IdleMode, Origin
from apps.prepared import Prepared
from apps.tenants.models import Tenant
from apps.tenants.selectors import seen_by
from apps.web.requests.lookups import by_id
from apps.workloads.models import Workload
from apps.workloads.selectors.reading import spec_of

OPEN = (FindingPhase.OPEN, FindingPhase.SNOOZED)


def findings_for(actor: Actor) -> QuerySet[Finding]:
    """The findings of the tenants an actor sees, closed ones included."""
    found = Finding.objects.filter(tenant__in=seen_by(actor))
    related = ("owner", "offer__flavor", "cluster", "next_offer")
    others = ("tenant__department", "made__offer", "made__cluster")
    return found.select_related(*others, *(f"workload__{name}" for name in related))


def open_findings(rows: QuerySet[Finding]) -> QuerySet[Finding]:
    """Those that the detector still says and nobody has dismissed, dearest first."""
    return rows.filter(closed_at=None, phase__in=OPEN).order_by("-weekly", "-wasted", "pk")


@dataclass(frozen=True)
class Found:
    """What open findings come to: so far and in a week, recoverable waste and inefficiency apart."""

    count: int
    oldest: datetime | None
    recoverable: Decimal
    recoverable_weekly: Decimal
    inefficiency: Decimal
    inefficiency_weekly: Decimal


def found_in(rows: QuerySet[Finding]) -> Found:
    """Of those among them that are open. RULE: every page that sums findings sums them here."""
    recovered = Q(kind__in=RECOVERED)
    said = open_findings(rows).order_by().aggregate(
        count=Count("pk"), oldest=Min("since"),
        recoverable=Sum("wasted", filter=recovered), recoverable_weekly=Sum("weekly", filter=recovered),
        inefficiency=Sum("wasted", filter=~recovered), inefficiency_weekly=Sum("weekly", filter=~recovered),
    )  # fmt: skip
    money = {name: value or Decimal(0) for name, value in said.items() if name not in ("count", "oldest")}
    return Found(said["count"], said["oldest"], **money)


def finding_for(actor: Actor, pk: str | UUID, tenant: str | None = None) -> Finding:
    """One finding by id, of that tenant if one is named, if the actor sees it; raises NotFound."""
    rows = findings_for(actor)
    if tenant is not None:
        rows = rows.filter(tenant__slug=tenant)
    return by_id(rows, pk)


def url_of(row: Finding) -> str:
    """Its page, of the portal."""
    return f"/t/{row.tenant.slug}/findings/{row.pk}/"


def policy_row(tenant: Tenant) -> IdlePolicy:
    """The stored policy of a tenant; one not stored yet has the defaults."""
    return _POLICY.first(tenant.pk) or IdlePolicy(tenant=tenant)


_POLICY = Prepared(lambda pk: IdlePolicy.objects.filter(tenant__pk=pk), UUIDField())


def policy_of(tenant: Tenant) -> Policy:
    """The tenant's idle policy."""
    return as_policy(policy_row(tenant))


def policy_for(row: Workload) -> Policy:
    """What holds for one workload: its team's policy, and what was wished of its own."""
    wish = spec_of(row).idle_policy
    return for_workload(policy_of(row.tenant), wish, as_given=row.idle_by_lead)


def policy_by(row: Finding) -> Policy:
    """What holds for what a finding is of. RULE: what was made with kubectl is told of, never stopped."""
    if row.workload is not None:
        return policy_for(row.workload)
    return policy_told(row.tenant)


def policy_told(tenant: Tenant) -> Policy:
    """What holds for what a tenant made with kubectl: its team's, without any stop."""
    return replace(policy_of(tenant), mode=IdleMode.TELL)


def held_by(row: Finding) -> QuerySet[Allocation]:
    """All that the workload, or the claim or pod made with kubectl, ever held."""
    if row.made is None:
        return row.work.allocations.all()
    return alike(row.made)


def alike(made: Allocation) -> QuerySet[Allocation]:
    """All that the same claim or pod made with kubectl ever held."""
    same = Allocation.objects.filter(cluster=made.cluster_id, claim_uid=made.claim_uid)
    return same.filter(origin=Origin.KUBECTL)


def name_of(row: Finding) -> str:
    """Of the workload; of what was made with kubectl its namespace and what made its pod."""
    if row.made is None:
        return row.work.name
    return f"{row.tenant.object_name}/{row.made.root or row.made.claim_uid} (made with kubectl)"


def as_policy(row: IdlePolicy) -> Policy:
    """A row as the pure module takes it; hours count only where both ends are set."""
    quiet = (row.quiet_from, row.quiet_to) if row.quiet_from and row.quiet_to else None
    office = (row.office_from, row.office_to) if row.office_from and row.office_to else None
    return Policy(
        IdleMode(row.mode),
        row.idle_seconds,
        row.countdown_seconds,
        row.extension_seconds,
        row.most_extensions,
        quiet,
        office,
        row.time_zone,
    )


def said_of(row: Finding) -> Said:
    """What its sentences are made of."""
    evidence: dict[str, Any] = row.evidence
    return Said(
        name=name_of(row),
        devices=len(evidence.get("devices", ())) or 1,
        offer=_offer_name(row),
        kind=FindingKind(row.kind),
        figures=evidence.get("figures", {}),
        seconds=float(evidence.get("idle_seconds", 0)),
        wasted=row.wasted,
        allocated=decimal(evidence.get("allocated")),
        currency=settings.CONFIG.currency,
        ide=evidence.get("ide"),
        in_shell=bool(evidence.get("in_shell")),
    )


def _offer_name(row: Finding) -> str:
    offer = row.made.offer if row.made else row.work.offer
    return offer.name if offer else "device"


def extensions_left(row: Finding, policy: Policy) -> int:
    """How often its owner may still put the stop off."""
    return max(0, policy.extensions - row.extended)


def extendable_until(row: Finding, policy: Policy) -> datetime | None:
    """How far its owner may put the stop off; None while no countdown runs."""
    if row.stops_at is None:
        return None
    until = row.stops_at
    for _ in range(extensions_left(row, policy)):
        until = policy.extended(until)
    return until


def decimal(text: str | None) -> Decimal:
    """Money that a JSON column keeps as text; nothing is 0."""
    return Decimal(text or 0)
