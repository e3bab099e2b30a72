"""The life of findings on what was made with kubectl: the same detector and the same rows as of workloads.

They tell, and nothing else: the product stops nothing that it did not make, and no idle policy counts down.

Level-triggered: every call brings the rows to what one judgement says, and running it again changes nothing.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from django.db import transaction
from django.db.models import Q, QuerySet

from apps.metering import advice, blocking, countdown, evidence, findings, judging, wasting
from apps.metering import finding_selectors as selectors
from apps.metering import finding_words as words
from apps.metering.idleness import Policy
from apps.metering.judging import Judged
from apps.metering.models import Allocation, Finding, KubectlJudgement
from apps.metering.specs import FindingKind, FindingPhase, Origin
from apps.notices.specs import Kind

KINDS = countdown.STOPPED
"""What idles is told. What is of the wrong size is not: there is no next start to take another offer at."""
BUDGET = 10.0
"""Seconds of one slice."""
_NEVER = datetime(1970, 1, 1, tzinfo=UTC)


def judge_due(*, now: datetime, budget: float = BUDGET) -> int:
    """One slice, as `findings.judge_due`: closes what holds nothing any more, and judges what is due."""
    close_ended(now=now)

    def put_off(uid: str) -> None:
        _keep(uid, now, findings.EVERY)

    return findings.each_due(_due(now), lambda uid: judge_one(uid, now=now), put_off, budget=budget)


def judge_one(uid: str, *, now: datetime) -> Judged | None:
    """Judges the devices of one claim or pod, and keeps what follows; None where there is nothing to judge:
    not for long enough, or a device that no offer is like.
    """
    rows = _held_now().filter(claim_uid=uid).order_by("device")
    held = list(rows.select_related("tenant__department", "offer__flavor", "cluster"))
    if not held:
        return None
    policy = selectors.policy_told(held[0].tenant)
    judged = judging.judge(rows, policy, now=now)
    if judged is None:
        _keep(uid, now, findings.EVERY)
    else:
        record(held, judged, policy, now=now)
    return judged


@transaction.atomic
def record(held: Sequence[Allocation], judged: Judged, policy: Policy, *, now: datetime) -> None:
    """Brings the findings of a claim or pod to what a judgement of its devices says.

    RULE: as `findings.record`; what cannot be known leaves every finding as it is.
    """
    made = held[0]
    alike = Allocation.objects.select_for_update().filter(pk__in=[each.pk for each in held])
    if not list(alike.filter(ended_at=None).order_by("pk")):
        return  # it was ended meanwhile
    rows = Finding.objects.select_for_update(of=("self",)).filter(_of(made), closed_at=None)
    known = {FindingKind(each.kind): each for each in rows.select_related("made__offer", "made__cluster")}
    for each in known.values():
        each.tenant = made.tenant
    if judged.is_known:
        kinds = [kind for kind in findings.kinds_of(judged) if kind in KINDS]
        for kind in kinds:
            each = (
                known.get(kind)
                or findings.rename_idle_finding(known, kind)
                or findings.opened(kind, made, now=now)
            )
            known[kind] = _seen(each, held, judged, policy, now=now)
        for kind in known.keys() - set(kinds):
            findings.resolve(known.pop(kind), judged, now=now)
    _keep(made.claim_uid, now, findings.ATTENTIVE if known else findings.EVERY)


@transaction.atomic
def close_ended(*, now: datetime) -> None:
    """Resolves what is open of claims and pods that hold nothing any more."""
    there = _held_now().values("claim_uid")
    ended = Finding.objects.filter(closed_at=None, made__isnull=False).exclude(made__claim_uid__in=there)
    ended.update(phase=FindingPhase.RESOLVED, closed_at=now)
    KubectlJudgement.objects.exclude(claim_uid__in=there).delete()


def _held_now() -> QuerySet[Allocation]:
    return Allocation.objects.filter(origin=Origin.KUBECTL, ended_at=None)


def _due(now: datetime) -> list[str]:
    """Longest overdue first; what was never judged before all."""
    held = set(_held_now().values_list("claim_uid", flat=True))
    due = dict(KubectlJudgement.objects.values_list("claim_uid", "due_at"))
    waiting = sorted((due.get(uid, _NEVER), uid) for uid in held)
    return [uid for at, uid in waiting if at <= now][: findings.MOST]


def _keep(uid: str, now: datetime, wait: timedelta) -> None:
    values = {"judged_at": now, "due_at": now + wait}
    KubectlJudgement.objects.update_or_create(claim_uid=uid, defaults=values)


def _of(made: Allocation) -> Q:
    return Q(made__claim_uid=made.claim_uid, made__cluster=made.cluster)


def _seen(
    row: Finding, held: Sequence[Allocation], judged: Judged, policy: Policy, *, now: datetime
) -> Finding:
    """The same said once more: figures and money brought up to date; people are told once it is sure."""
    before = list(row.idle)
    row.judged_at = now
    row.idle = [list(span) for span in findings.idle_of(row, judged)]
    waste = wasting.idle_waste(held[0], judged, [(a, b) for a, b in row.idle], now=now)
    hourly = sum((wasting.hourly(each, 1, now) for each in held), Decimal(0))
    row.wasted, row.weekly = waste.wasted, hourly * wasting.WEEK
    how = words.ended_by(row.tenant.object_name, held[0].root)
    row.suggestion = advice.by_kubectl(FindingKind(row.kind), row.weekly, how)
    row.blocks = blocking.blocked_by_all({each.offer_id: each for each in held}.values()).as_json()
    row.since = min(row.since, evidence.since(row, judged))
    row.evidence = evidence.of(row, judged, policy, waste)
    findings.wake(row, now)
    is_news = row.confirmed_at is None and now - row.created_at >= findings.CONFIRMED_AFTER
    row.confirmed_at = now if is_news else row.confirmed_at
    row.save()
    if is_news and row.phase == FindingPhase.OPEN:
        message = words.found(selectors.said_of(row), row.suggestion, asks=False)
        countdown.tell(row, Kind.FINDING_FOUND, message, now=now)
    findings.mark(row, findings.changed(before, row.idle))
    return row
