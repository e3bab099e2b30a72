"""The life of findings on what was made with kubectl: the same detector and the same rows as of workloads.

They tell, and nothing else: the product stops nothing that it did not make, and no idle policy counts down.

Level-triggered: every call brings the rows to what one judgement says, and running it again changes nothing.
"""

from datetime import UTC, datetime, timedelta

from django.db import transaction
from django.db.models import QuerySet

from apps.metering.findings.rules import idle_policy
from apps.metering.findings.rules.idle_policy import Policy
from apps.metering.findings.selectors import finding_selectors as selectors
from apps.metering.findings.selectors import verdicts
from apps.metering.findings.selectors.verdicts import Judged
from apps.metering.findings.services import judgements, lifecycle
from apps.metering.models import Allocation, Finding, KubectlJudgement
from apps.metering.specs import FindingKind, FindingPhase, Origin
from apps.prepared import Prepared

KINDS = idle_policy.STOPPED
"""What idles is told. What is of the wrong size is not: there is no next start to take another offer at."""
BUDGET = 10.0
"""Seconds of one slice."""
_NEVER = datetime(1970, 1, 1, tzinfo=UTC)


def judge_due(*, now: datetime, budget: float = BUDGET) -> int:
    """One slice, as `findings.judge_due`: closes what holds nothing any more, and judges what is due."""
    close_ended(now=now)

    def put_off(uid: str) -> None:
        _keep(uid, now, judgements.EVERY)

    return lifecycle.each_due(_due(now), lambda uid: judge_one(uid, now=now), put_off, budget=budget)


def judge_one(uid: str, *, now: datetime) -> Judged | None:
    """Judges the devices of one claim or pod, and keeps what follows; None where there is nothing to judge:
    not for long enough, or a device that no offer is like.
    """
    rows = _held_now().filter(claim_uid=uid).order_by("device")
    made = rows.select_related("tenant__department", "offer__flavor", "cluster").first()
    if made is None:
        return None
    policy = selectors.policy_told(made.tenant)
    judged = verdicts.judge_held(list(verdicts.measured(rows)), policy, now=now)
    if judged is None:
        _keep(uid, now, judgements.EVERY)
    else:
        record(made, judged, policy, now=now)
    return judged


@transaction.atomic
def record(made: Allocation, judged: Judged, policy: Policy, *, now: datetime) -> None:
    """Brings the findings of a claim or pod to what a judgement of its devices says.

    RULE: as `findings.record`; what cannot be known leaves every finding as it is.
    """
    judged_of = [each.held.pk for each in judged.devices]
    if not list(_held_now().select_for_update().filter(pk__in=judged_of).order_by("pk")):
        return  # it was ended meanwhile
    same = Finding.objects.filter(made__claim_uid=made.claim_uid, made__cluster=made.cluster, closed_at=None)
    rows = same.select_for_update(of=("self",)).select_related("made__offer", "made__cluster")
    known = {FindingKind(each.kind): each for each in rows}
    for each in known.values():
        each.tenant = made.tenant
    if judged.is_known:
        kinds = [kind for kind in lifecycle.kinds_of(judged) if kind in KINDS]
        lifecycle.settle(known, kinds, judged, policy, of=made, now=now)
    _keep(made.claim_uid, now, judgements.ATTENTIVE if known else judgements.EVERY)


def close_ended(*, now: datetime) -> None:
    """Resolves what is open of claims and pods that hold nothing any more."""
    if _LEFT_OPEN() or _LEFT_JUDGED():
        with transaction.atomic():
            _left_open().update(phase=FindingPhase.RESOLVED, closed_at=now)
            _left_judged().delete()


def _left_open() -> QuerySet[Finding]:
    there = _held_now().values("claim_uid")
    return Finding.objects.filter(closed_at=None, made__isnull=False).exclude(made__claim_uid__in=there)


def _left_judged() -> QuerySet[KubectlJudgement]:
    return KubectlJudgement.objects.exclude(claim_uid__in=_held_now().values("claim_uid"))


def _held_now() -> QuerySet[Allocation]:
    return Allocation.objects.filter(origin=Origin.KUBECTL, ended_at=None)


_LEFT_OPEN = Prepared(lambda: _left_open().values_list("pk", flat=True)[:1])
_LEFT_JUDGED = Prepared(lambda: _left_judged().values_list("pk", flat=True)[:1])
_HELD = Prepared(lambda: _held_now().values_list("claim_uid", flat=True))
_JUDGED = Prepared(lambda: KubectlJudgement.objects.values_list("claim_uid", "due_at"))


def _due(now: datetime) -> list[str]:
    """Longest overdue first; what was never judged before all."""
    held = set(_HELD())
    due = dict(_JUDGED()) if held else {}
    waiting = sorted((due.get(uid, _NEVER), uid) for uid in held)
    return [uid for at, uid in waiting if at <= now][: judgements.MOST]


def _keep(uid: str, now: datetime, wait: timedelta) -> None:
    values = {"judged_at": now, "due_at": now + wait}
    KubectlJudgement.objects.update_or_create(claim_uid=uid, defaults=values)
