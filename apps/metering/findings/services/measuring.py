"""The time and the money of findings: what a judgement says of them, and what the ledger has of them."""

from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import islice
from typing import Any
from uuid import UUID

from django.db.models import DateTimeField, JSONField, Q, QuerySet, UUIDField

from apps.metering.billing.rules import pricing
from apps.metering.detector import usage
from apps.metering.findings.rules import idle_policy, money
from apps.metering.findings.rules import messages as words
from apps.metering.findings.rules.idle_policy import Policy
from apps.metering.findings.selectors import evidence, recommendations, waste
from apps.metering.findings.selectors.verdicts import Judged
from apps.metering.findings.selectors.waste import Waste
from apps.metering.models import Finding
from apps.metering.specs import FindingKind, FindingPhase
from apps.prepared import PreparedUpdate

TIMED = idle_policy.STOPPED | {FindingKind.SCALE_TO_ZERO, FindingKind.CRASH_LOOP}
"""Findings whose waste is idle time; of the others it is a part of the time judged."""
MARKED = frozenset(money.RECOVERED)
"""Findings that name the cause of waste in the ledger."""
SETTLED = timedelta(hours=1)
"""How long the ledger may still learn of a finding that is closed."""
AT_ONCE = 100
"""Findings that are priced together."""


def measure(row: Finding, judged: Judged, policy: Policy, *, left: Decimal, now: datetime) -> Decimal:
    """What a judgement says of a finding: its time, evidence, coming week, and what would help. Answers the
    part of what it costs that is this finding's, at most what others have left.
    """
    kind, fits, stops_at, hours = FindingKind(row.kind), None, None, None
    row.idle = [list(span) for span in _spans_of(row, judged)]
    if row.made is None:
        row.suggestion, fits = recommendations.suggestion(kind, row.work, judged, now=now)
        stops_at, hours = row.work.stops_at, row.work.hours
    part = waste.part_of(row, judged, fits.hourly if fits else None, now=now)
    row.too_much, taken = money.millionths(part), min(part, left)
    whole = waste.hourly_of((each.held for each in judged.devices), now)
    row.weekly = (whole * taken * money.hours_ahead(stops_at, hours, now)).quantize(pricing.STEP)
    if row.made is not None:
        how = words.ended_by(row.tenant.object_name, judged.devices[0].held.root)
        row.suggestion = recommendations.by_kubectl(kind, row.weekly, how)
    row.since = min(row.since, evidence.since(row, judged))
    row.evidence = evidence.of(row, judged, policy, now) | _priced(row)
    return taken


def reached(row: Finding) -> tuple[datetime, datetime] | None:
    """The roll-ups that its money is of. RULE: a judgement that finds it in the same ones need not price it:
    what the ledger learns of them is priced when it learns it (`price_rolled`).
    """
    return waste.window(row) if row.idle else None


def price_one(row: Finding, *, now: datetime) -> None:
    """What the ledger says that it wasted so far, whatever else is open."""
    causes = money.CAUSES.get(FindingKind(row.kind), frozenset())
    _put(row, waste.so_far({row: causes}, now=now)[row])


def price_rolled(tenants: Iterable[UUID], *, now: datetime) -> None:
    """What the ledger has learned of these tenants' findings: of open ones, and of those closed lately."""
    chosen = list(tenants)
    lately = Q(closed_at=None) | Q(closed_at__gte=now - SETTLED)
    price(Finding.objects.filter(lately, tenant__in=chosen) if chosen else (), now=now)


def price_workloads(ids: Iterable[UUID], *, now: datetime) -> None:
    """All findings of these workloads: of a past that was summed up after it was judged."""
    price(Finding.objects.filter(workload__in=ids), now=now)


def price(rows: Iterable[Finding], *, now: datetime) -> None:
    """Keeps what the ledger says that findings wasted so far.

    RULE: of open findings of one workload that share a cause, the first in the order of kinds has it. What is
    judged meanwhile is priced by that.
    """
    causes = _causes(rows)
    lots = iter(causes.items())
    while some := dict(islice(lots, AT_ONCE)):
        for row, found in waste.so_far(some, now=now).items():
            before = (row.wasted, row.evidence)
            _put(row, found)
            if before != (row.wasted, row.evidence):
                _KEEP(row.wasted, row.evidence, row.pk, row.judged_at)


def _causes(rows: Iterable[Finding]) -> dict[Finding, frozenset[str]]:
    """The causes of waste that are each finding's."""
    groups = defaultdict[tuple[UUID | None, UUID | None], list[Finding]](list)
    for row in rows:
        groups[row.workload_id, row.made_id].append(row)
    found = {}
    for group in groups.values():
        taken: frozenset[str] = frozenset()
        for kind in money.in_order({FindingKind(row.kind) for row in group}):
            causes = money.CAUSES.get(kind, frozenset())
            for row in (each for each in group if each.kind == kind):
                is_open = row.closed_at is None
                found[row] = causes - taken if is_open else causes
                if is_open and row.phase != FindingPhase.DISMISSED:
                    taken |= causes
    return found


def _put(row: Finding, found: Waste) -> None:
    row.wasted = found.wasted
    row.evidence = {**row.evidence, "allocated": f"{found.charged:f}", "effective": f"{found.effective:f}"}


def _priced(row: Finding) -> dict[str, Any]:
    """What `_put` has put into its evidence."""
    return {name: row.evidence[name] for name in ("allocated", "effective") if name in row.evidence}


def _keep(wasted: Any, evidence: Any, pk: Any, judged_at: Any) -> tuple[QuerySet[Finding], dict[str, Any]]:
    return Finding.objects.filter(pk=pk, judged_at=judged_at), {"wasted": wasted, "evidence": evidence}


_KEEP = PreparedUpdate(_keep, Finding._meta.get_field("wasted"), JSONField(), UUIDField(), DateTimeField())


def _spans_of(row: Finding, judged: Judged) -> list[usage.Span]:
    """Its time: idle, or all that was judged where it is a part that is wasted.

    RULE: what is known of earlier than the window stays; what an earlier finding of the same causes had is
    that one's.
    """
    kind = FindingKind(row.kind)
    if kind not in money.CAUSES:
        return []
    begins = judged.begins.timestamp() if judged.begins else 0.0
    kept = [(a, min(b, begins)) for a, b in row.idle if a < begins]
    found = judged.idle if kind in TIMED else [each.verdict.evidence for each in judged.devices]
    since = _end_of_earlier(row, kind)
    return [(max(a, since), b) for a, b in usage.merged([*kept, *found]) if b > since]


def _end_of_earlier(row: Finding, kind: FindingKind) -> float:
    alike = [each for each, causes in money.CAUSES.items() if causes & money.CAUSES[kind]]
    of = Q(workload=row.workload)
    if row.made is not None:
        of = Q(made__claim_uid=row.made.claim_uid, made__cluster=row.made.cluster)
    earlier = Finding.objects.filter(of, kind__in=alike, closed_at__lte=row.created_at).exclude(pk=row.pk)
    last = earlier.order_by("-closed_at").values_list("closed_at", flat=True).first()
    return last.timestamp() if last else 0.0
