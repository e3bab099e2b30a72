"""What people answer to a finding: dismissed, snoozed, extended, warned, stopped, resized. Permission, rule,
write and audit in one transaction each.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta

from django.db import transaction

from apps.accounts.specs import Actor
from apps.errors import Conflict, FieldProblem, Invalid, NotAllowed
from apps.metering import policies
from apps.metering.findings.rules import idle_policy
from apps.metering.findings.rules import messages as words
from apps.metering.findings.rules.idle_policy import Policy
from apps.metering.findings.selectors import finding_selectors as selectors
from apps.metering.findings.services import auto_stop, countdown, lifecycle, measuring
from apps.metering.models import Finding, Judgement
from apps.metering.specs import FindingKind, FindingPhase
from apps.quotas.catalogue.selectors.offers import offers_of
from apps.workloads.lifecycle.services import idling

LONGEST = timedelta(days=90)
OWN_LONGEST = timedelta(days=7)
"""How long an owner may put off a finding that stops nothing."""
BLIND = "No telemetry arrives, so nothing is counted down."


@transaction.atomic
def dismiss(*, actor: Actor, finding: Finding, reason: str, until: datetime | None, now: datetime) -> Finding:
    """Says that it is not so, and why; the countdown ends. It stays dismissed until `until` (None: while the
    detector goes on saying it), whatever is judged meanwhile.

    Rule: owner, leads, managers, platform engineers. An owner's dismissal of something that may be stopped is
    worth the extensions that are left, and uses them up; of anything else it lasts a week at most.
    """
    row = _answered(actor, finding)
    if not reason.strip():
        raise Invalid([FieldProblem("/reason", "required", "Say why the finding is wrong.")])
    row.snoozed_until = _bounded(actor, row, until, now)
    return _put_aside(row, FindingPhase.DISMISSED, actor, reason, now=now)


@transaction.atomic
def snooze(*, actor: Actor, finding: Finding, until: datetime, reason: str, now: datetime) -> Finding:
    """Puts a finding off until a moment; then it is open again. Rule: as `dismiss`; 90 days at most."""
    row = _answered(actor, finding)
    row.snoozed_until = _bounded(actor, row, until, now)
    return _put_aside(row, FindingPhase.SNOOZED, actor, reason, now=now)


@transaction.atomic
def extend(*, actor: Actor, finding: Finding, reason: str, now: datetime) -> Finding:
    """Puts the stop off by the policy's extension, counted from its present end.

    Rule: as `dismiss`; an owner as often as the policy says, leads and platform engineers without bound.
    """
    row = _acted_on(actor, finding)
    policy = selectors.policy_by(row)
    if row.stops_at is None:
        raise Conflict("No countdown runs.", hint="There is nothing to extend.")
    if not policies.answers_freely(actor, row) and not selectors.extensions_left(row, policy):
        raise Conflict(
            "It has been extended as often as the idle policy allows.",
            code="extension_limit",
            hint="Use it, stop it, or ask a lead.",
        )
    row.stops_at = policy.extended(row.stops_at)
    row.extended += 1
    row.save(update_fields=["stops_at", "extended"])
    _hand_down(row, policy, now)
    auto_stop.record(row, actor, "finding.extend", reason=reason, now=now)
    return row


@transaction.atomic
def warn(*, actor: Actor, finding: Finding, reason: str, now: datetime) -> Finding:
    """Begins a countdown of 30 minutes, whatever the policy's mode; one that runs stays as it is.

    Rule: leads, managers, platform engineers; only where it could be stopped: with fresh telemetry, and not
    protected. Quiet hours are respected.
    """
    row = _acted_on(actor, finding)
    if not policies.can_warn(actor, row):
        raise NotAllowed(f"Only a lead of {row.tenant.slug} or a platform engineer may warn.")
    if row.stops_at is not None:
        return row
    policy = selectors.policy_by(row)
    row.phase, row.snoozed_until, row.warned_by = FindingPhase.OPEN, None, actor.username
    why = countdown.hindrance(row, policy, fresh=_is_fresh(row, now))
    if why:
        raise Conflict(f"No warning can be sent: {why}.", hint="Stop it yourself if you have to.")
    row.reason, row.decided_by = reason, actor.username
    countdown.begin(row, policy, policy.allowed(now + countdown.WARNING), now=now)
    row.save()
    _soon(row, now)
    _hand_down(row, policy, now)
    auto_stop.record(row, actor, "finding.warn", reason=reason, now=now)
    return row


@transaction.atomic
def stop(*, actor: Actor, finding: Finding, reason: str, now: datetime) -> Finding:
    """Stops the workload now. Rule: as stopping it; a person may also without telemetry."""
    row = _acted_on(actor, finding)
    auto_stop.stop(row, actor=actor, reason=reason or FindingKind(row.kind).label.lower(), now=now)
    return row


@transaction.atomic
def resize(*, actor: Actor, finding: Finding, reason: str, now: datetime) -> Finding:
    """Takes the suggested offer at the workload's next start, and keeps the finding until then.

    Rule: as stopping it; the suggestion must name an offer.
    """
    row = _acted_on(actor, finding)
    slug = row.suggestion.get("offer")
    offer = offers_of(row.tenant).filter(slug=slug).first() if slug else None
    if offer is None:
        raise Conflict("It suggests no other offer.", hint="Read what it suggests.")
    idling.resize_on_restart(actor=actor, workload=row.work, offer=offer, reason=reason, now=now)
    row.reason, row.decided_by = reason, actor.username
    row.save(update_fields=["reason", "decided_by"])
    auto_stop.record(row, actor, "finding.resize", reason=reason, now=now)
    return row


def require_answer(actor: Actor, finding: Finding) -> None:
    """Raises NotAllowed unless the actor may answer this finding."""
    if not policies.can_answer(actor, finding):
        raise NotAllowed(f"Only its owner or a lead of {finding.tenant.slug} may do this.")


def _answered(actor: Actor, finding: Finding) -> Finding:
    """The locked row, if the actor may answer it and it is still there to be answered."""
    row = auto_stop.locked(finding.pk)
    require_answer(actor, row)
    if row.closed_at is not None:
        phase = FindingPhase(row.phase).label.lower()
        raise Conflict(f"It is closed: {phase}.", hint="There is nothing left to do.")
    return row


def _acted_on(actor: Actor, finding: Finding) -> Finding:
    """The same of a workload's. RULE: what was made with kubectl is only told of, and answered."""
    row = _answered(actor, finding)
    if row.made is not None:
        how = words.ended_by(row.tenant.object_name, row.made.root)
        raise Conflict("It was made with kubectl, so the portal cannot act on it.", hint=how)
    return row


def _hand_down(row: Finding, policy: Policy, now: datetime) -> None:
    if row.workload is not None:
        lifecycle.hand_down(row.workload, _open(row), policy, now=now)


def _bounded(actor: Actor, row: Finding, until: datetime | None, now: datetime) -> datetime | None:
    """The end of an answer. Raises Invalid for one that is past or too far."""
    longest = _longest(actor, row, now)
    if until is None:
        return None if policies.answers_freely(actor, row) else now + longest
    if not now < until <= now + longest:
        bound = f"Choose a time from now to {now + longest:%Y-%m-%d %H:%M} UTC."
        raise Invalid([FieldProblem("/until", "out_of_range", bound)])
    return until


def _longest(actor: Actor, row: Finding, now: datetime) -> timedelta:
    if policies.answers_freely(actor, row):
        return LONGEST
    policy = selectors.policy_by(row)
    if row.kind not in idle_policy.STOPPED or not (policy.stops or row.warned_by):
        return OWN_LONGEST
    left = selectors.extensions_left(row, policy)
    if not left:
        raise Conflict(
            "It has been put off as often as the idle policy allows.",
            code="extension_limit",
            hint="Use it, stop it, or ask a lead.",
        )
    return max(row.stops_at or now, now) - now + timedelta(seconds=left * policy.extension_seconds)


def _put_aside(row: Finding, phase: FindingPhase, actor: Actor, reason: str, *, now: datetime) -> Finding:
    policy = selectors.policy_by(row)
    if _uses_up(actor, row, policy):
        row.extended = max(row.extended, policy.extensions)
    row.phase, row.stops_at, row.warned_by = phase, None, ""
    row.reason, row.decided_by = reason, actor.username
    row.save()
    if row.kind in measuring.MARKED:
        lifecycle.mark(row, [(a, b) for a, b in row.idle])
    _hand_down(row, policy, now)
    action = "finding.dismiss" if phase is FindingPhase.DISMISSED else "finding.snooze"
    auto_stop.record(row, actor, action, reason=reason, now=now)
    return row


def _uses_up(actor: Actor, row: Finding, policy: Policy) -> bool:
    may_be_stopped = row.kind in idle_policy.STOPPED and (policy.stops or bool(row.warned_by))
    return may_be_stopped and not policies.answers_freely(actor, row)


def _open(row: Finding) -> Iterable[Finding]:
    """All that is open of its workload, with this row as it is now."""
    others = Finding.objects.filter(workload=row.workload_id, closed_at=None).exclude(pk=row.pk)
    found = [row, *others.select_related("tenant")]
    for each in found:
        each.workload = row.workload
    return found


def _is_fresh(row: Finding, now: datetime) -> bool:
    """By the last judgement: its countdown is judged again within a minute."""
    last = Judgement.objects.filter(workload=row.workload_id).first()
    if last is None or last.seen_until is None or str(FindingKind(row.kind)) not in last.labels:
        return False
    return now - last.seen_until <= 3 * timedelta(minutes=5)


def _soon(row: Finding, now: datetime) -> None:
    Judgement.objects.filter(workload=row.workload_id).update(due_at=now)
