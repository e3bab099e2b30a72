"""The life of findings: opened, confirmed and resolved as the detector says, with evidence, money and what
they block; handed down to the workload as badges and countdown.

Level-triggered: every call brings the rows to what one judgement says, and running it again changes nothing.
"""

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import partial
from typing import Any, TypeVar
from uuid import UUID

from django.db import transaction
from django.db.models import DateTimeField, Q, QuerySet, UUIDField

from apps.cluster.objects.conditions import condition
from apps.metering.detector import usage
from apps.metering.detector.rules import Finding as Label
from apps.metering.findings.rules import idle_policy, money
from apps.metering.findings.rules import messages as words
from apps.metering.findings.rules.idle_policy import Policy
from apps.metering.findings.selectors import blocking, evidence, verdicts
from apps.metering.findings.selectors import finding_selectors as selectors
from apps.metering.findings.selectors.blocking import Blocked
from apps.metering.findings.selectors.verdicts import Judged
from apps.metering.findings.services import countdown, judgements, measuring
from apps.metering.ledger.services import invalidation
from apps.metering.models import Allocation, Finding
from apps.metering.specs import FindingKind, FindingPhase, IdleMode
from apps.notices.specs import Kind
from apps.prepared import Prepared, PreparedUpdate
from apps.web.shapes.durations import duration
from apps.web.stores import outage
from apps.workloads.lifecycle.services import idling
from apps.workloads.models import Workload
from apps.workloads.specs import Badge, Idleness, Phase

CONFIRMED_AFTER = timedelta(minutes=5)
REMEMBERED = timedelta(days=30)
BUDGET = 10.0
"""Seconds of one slice; what is left over comes first in the next."""
RELATED = ("tenant__department", "owner", "offer__flavor", "cluster")
_log = logging.getLogger(__name__)
Due = TypeVar("Due", UUID, str)
"""A workload's id, or the claim's uid of what was made with kubectl."""


def judge_due(*, now: datetime, budget: float = BUDGET) -> int:
    """One slice: closes what has ended, and judges what is due, longest overdue first, for `budget` seconds
    at most; answers how many. One that fails is logged, and tried again when it is due next.
    """
    close_ended(now=now)
    put_off = partial(judgements.put_off, wait=judgements.EVERY, now=now)
    return each_due(judgements.due(now), lambda pk: judge_one(pk, now=now), put_off, budget=budget)


def each_due(
    due: Iterable[Due], judge: Callable[[Due], object], put_off: Callable[[Due], None], *, budget: float
) -> int:
    """Judges one after the other for `budget` seconds at most; answers how many. One that fails is logged and
    put off.
    """
    until, done = time.monotonic() + budget, 0
    for each in due:
        if time.monotonic() > until:
            break
        try:
            judge(each)
        except Exception as error:
            if outage.is_away(error):
                raise  # the whole task waits for it
            _log.exception("judging %s", each)
            put_off(each)
        done += 1
    return done


def judge_one(pk: UUID, *, now: datetime) -> Judged | None:
    """Judges one workload and keeps what follows; None where there is nothing to judge yet."""
    row = _ROW.first(pk)
    if row is None:
        return None
    policy = selectors.policy_for(row)
    judged = verdicts.judge(row, policy, now=now)
    if judged is None and not _OPEN(pk):
        judgements.put_off(pk, wait=judgements.wait(judgements.EVERY, policy), now=now)
    elif judged is None:
        record(pk, verdicts.NOTHING, policy, now=now)
    else:
        record(pk, judged, policy, now=now)
    return judged


def locked(pk: UUID) -> Workload | None:
    """The workload's row, locked: whoever writes a finding of it takes this first, then the finding, so that
    writers wait for each other and never in a circle.
    """
    return _LOCKED.first(pk)


_ROW = Prepared(lambda pk: Workload.objects.select_related(*RELATED).filter(pk=pk), UUIDField())
_LOCKED = Prepared(
    lambda pk: Workload.objects.select_for_update(of=("self",)).select_related(*RELATED).filter(pk=pk),
    UUIDField(),
)
_OPEN = Prepared(
    lambda pk: Finding.objects.filter(workload__pk=pk, closed_at=None).values_list("pk", flat=True)[:1],
    UUIDField(),
)
_OPEN_LOCKED = Prepared(
    lambda pk: Finding.objects.select_for_update(of=("self",)).filter(workload__pk=pk, closed_at=None),
    UUIDField(),
)


@transaction.atomic
def record(pk: UUID, judged: Judged, policy: Policy, *, now: datetime) -> None:
    """Brings the findings of a workload to what a judgement says.

    RULE: one open finding per kind; what the detector no longer says is resolved; what it cannot know leaves
    every finding as it is and takes every countdown back. What was stopped meanwhile is not touched.
    """
    row = locked(pk)
    if row is None or row.suspended or row.phase != Phase.RUNNING:
        return
    known = {FindingKind(each.kind): each for each in _OPEN_LOCKED(pk)}
    for each in known.values():
        each.workload, each.tenant = row, row.tenant
    if judged.is_known:
        settle(known, kinds_of(judged), judged, policy, of=row, now=now)
    else:
        for each in known.values():
            countdown.take_back(each, words.NO_TELEMETRY, now=now)
            each.save(update_fields=["stops_at", "warned_by"])
    _keep_judgement(row, judged, known.values(), policy, now=now)
    hand_down(row, known.values(), policy, now=now, judged=judged)


def settle(
    known: dict[FindingKind, Finding],
    kinds: Sequence[FindingKind],
    judged: Judged,
    policy: Policy,
    *,
    of: Workload | Allocation,
    now: datetime,
) -> None:
    """Brings what is open to the kinds that a judgement finds: the rest is resolved."""
    left = Decimal(1)
    for kind in money.in_order(kinds):
        row = known.get(kind) or rename_idle_finding(known, kind) or opened(kind, of, now=now)
        known[kind], taken = _seen(row, judged, policy, left=left, now=now)
        left -= taken
    for kind in known.keys() - set(kinds):
        _resolve(known.pop(kind), judged, now=now)


def findings_at_end(pk: UUID) -> list[Finding]:
    """What the detector says of a workload that has ended, closed with its end and not kept yet; empty where
    there is nothing to say. Reads only.
    """
    row = Workload.objects.select_related(*RELATED).get(pk=pk)
    policy, at, left = selectors.policy_for(row), row.ended_at, Decimal(1)
    judged = verdicts.judge_ended(row, policy)
    if judged is None or not judged.is_known or at is None:
        return []
    found = []
    for kind in money.in_order(kinds_of(judged)):
        each = opened(kind, row, now=at)
        left -= measuring.measure(each, judged, policy, left=left, now=at)
        each.blocks = blocking.blocked_at(row, at).as_json()
        each.confirmed_at = each.closed_at = at
        each.phase = FindingPhase.RESOLVED
        found.append(each)
    return found


@transaction.atomic
def keep_ended(found: Mapping[UUID, Sequence[Finding]]) -> int:
    """Keeps what `findings_at_end` says of each of these workloads; nobody is told. Answers how many; none of
    one that was judged while it ran, so that again it changes nothing.

    RULE: the caller has the ledger made anew, and prices them by it.
    """
    rows = Workload.objects.select_for_update().filter(pk__in=[pk for pk, own in found.items() if own])
    over = [row.pk for row in rows.filter(ended_at__isnull=False).only("pk").order_by("pk")]
    judged = set(Finding.objects.filter(workload__in=over).values_list("workload", flat=True))
    kept = [each for pk in over if pk not in judged for each in found[pk]]
    Finding.objects.bulk_create(kept)
    return len(kept)


def close_ended(*, now: datetime) -> None:
    """Resolves what is open of workloads that no longer run."""
    _CLOSED(now)


def _closed(now: Any) -> tuple[QuerySet[Finding], dict[str, Any]]:
    ended = Finding.objects.filter(closed_at=None, workload__isnull=False).exclude(
        workload__phase__in=(Phase.RUNNING, Phase.STARTING), workload__suspended=False
    )
    return ended, {"phase": FindingPhase.RESOLVED, "closed_at": now, "stops_at": None}


_CLOSED = PreparedUpdate(_closed, DateTimeField())


def hand_down(
    row: Workload, findings: Iterable[Finding], policy: Policy, *, now: datetime, judged: Judged | None = None
) -> None:
    """Tells the workload: badges of what is open and not dismissed, and the earliest countdown."""
    shown = [each for each in findings if each.closed_at is None and each.phase in selectors.OPEN]
    facts = [fact for each in shown for fact in _badges(each)]
    if judged is not None:
        facts.append(_telemetry(judged))
    counting = min((f for f in shown if f.stops_at), key=lambda f: f.stops_at or now, default=None)
    is_known = judged is None or judged.is_known
    since = _idle_since(shown) if is_known else None
    found = Idleness(tuple({fact["type"]: fact for fact in facts}.values()), since=since)
    if counting is not None:
        until = selectors.extendable_until(counting, policy)
        told = {
            "url": selectors.url_of(counting),
            "message": words.reason(selectors.said_of(counting)),
            "extendable_until": until.isoformat() if until else None,
            "extensions_left": selectors.extensions_left(counting, policy),
            "extension": duration(policy.extension_seconds),
            "evidence": evidence.of_countdown(counting),
        }
        found = replace(found, stops_at=counting.stops_at, told=told)
    idling.record_finding(workload_id=row.pk, found=found, now=now)


def _idle_since(shown: Iterable[Finding]) -> datetime | None:
    """Since when nothing is done, by the findings that say so."""
    begun = [each.idle[-1][0] for each in shown if each.kind in idle_policy.STOPPED and each.idle]
    return datetime.fromtimestamp(min(begun), UTC) if begun else None


def kinds_of(judged: Judged) -> list[FindingKind]:
    """What a judgement finds; nothing where it is healthy."""
    return [FindingKind(str(label)) for label in judged.labels if label is not Label.HEALTHY]


def _keep_judgement(
    row: Workload, judged: Judged, findings: Iterable[Finding], policy: Policy, *, now: datetime
) -> None:
    rows = [each for each in findings if each.closed_at is None]
    usual = judgements.ATTENTIVE if rows else judgements.EVERY
    wait = judgements.wait(judgements.COUNTING if any(each.stops_at for each in rows) else usual, policy)
    labels = [str(label) for label in judged.labels]
    judgements.keep(row.pk, labels, judged.seen_until, wait=wait, now=now)


def rename_idle_finding(known: dict[FindingKind, Finding], kind: FindingKind) -> Finding | None:
    """RULE: idleness that is now called by another name is the same finding, with its countdown and its
    answer; only that no process is left any more is news to whoever dismissed it.
    """
    old = next((each for each in known if each in idle_policy.STOPPED), None)
    if kind not in idle_policy.STOPPED or old is None:
        return None
    row = known.pop(old)
    row.kind = kind
    mark(row, [(a, b) for a, b in row.idle])  # what its time was spent on has another name, too
    if kind is FindingKind.ZOMBIE and row.phase == FindingPhase.DISMISSED:
        row.phase, row.snoozed_until = FindingPhase.OPEN, None
    return row


def opened(kind: FindingKind, of: Workload | Allocation, *, now: datetime) -> Finding:
    """A new one, of a workload or of what was made with kubectl. RULE: what comes back within 30 days counts
    on; idleness by whatever name.
    """
    workload, made = (of, None) if isinstance(of, Workload) else (None, of)
    same = Q(made__claim_uid=made.claim_uid, made__cluster=made.cluster) if made else Q(workload=workload)
    alike = idle_policy.STOPPED if kind in idle_policy.STOPPED else {kind}
    before = Finding.objects.filter(same, kind__in=alike, closed_at__gte=now - REMEMBERED)
    last = before.order_by("-closed_at").first()
    return Finding(
        workload=workload, made=made, tenant=of.tenant, kind=kind, since=now, created_at=now, judged_at=now,
        repeat_count=last.repeat_count + 1 if last else 0,
    )  # fmt: skip


def _seen(
    row: Finding, judged: Judged, policy: Policy, *, left: Decimal, now: datetime
) -> tuple[Finding, Decimal]:
    """The same said once more: figures, money and countdown brought up to date; and the part of what it costs
    that it takes, of what other findings have left.
    """
    before, part_before, reached = list(row.idle), row.too_much, measuring.reached(row)
    row.judged_at = now
    taken = measuring.measure(row, judged, policy, left=left, now=now)
    if measuring.reached(row) != reached:
        measuring.price_one(row, now=now)
    row.blocks = _blocked(row, judged).as_json()
    _wake(row, now)
    is_news = row.confirmed_at is None and now - row.created_at >= CONFIRMED_AFTER
    if is_news:
        row.confirmed_at = now
    if row.made is None:
        countdown.settle(row, policy, fresh=judged.is_fresh, now=now)
    row.save()
    if is_news and row.phase == FindingPhase.OPEN and row.stops_at is None:
        asks = policy.mode is not IdleMode.TELL
        message = words.found(selectors.said_of(row), row.suggestion, asks=asks)
        countdown.tell(row, Kind.FINDING_FOUND, message, now=now)
    if row.kind in measuring.MARKED:
        mark(row, _changed(before if row.too_much == part_before else [], row.idle))
    return row, Decimal(0) if row.phase == FindingPhase.DISMISSED else taken


def _blocked(row: Finding, judged: Judged) -> Blocked:
    if row.made is None:
        return blocking.blocked_by(row.work)
    return blocking.blocked_by_all({each.held.offer_id: each.held for each in judged.devices}.values())


def _changed(before: Iterable[Iterable[float]], after: Iterable[Iterable[float]]) -> list[usage.Span]:
    """What is idle in one of the two only."""
    old, new = (usage.merged([(a, b) for a, b in spans]) for spans in (before, after))
    return usage.merged([*usage.without(new, old), *usage.without(old, new)])


def mark(row: Finding, spans: Iterable[usage.Span]) -> None:
    """The ledger of all that it was found of is made anew for these spans."""
    invalidation.mark_findings(selectors.held_by(row), spans)


def _wake(row: Finding, now: datetime) -> None:
    """An answer with an end is over."""
    answered = row.phase in (FindingPhase.SNOOZED, FindingPhase.DISMISSED)
    if answered and row.snoozed_until is not None and row.snoozed_until <= now:
        row.phase, row.snoozed_until = FindingPhase.OPEN, None
        if row.kind in measuring.MARKED:
            mark(row, [(a, b) for a, b in row.idle])


def _resolve(row: Finding, judged: Judged, *, now: datetime) -> None:
    """The detector no longer says so."""
    why = "it is used again" if Label.HEALTHY in judged.labels else "a newer verdict says otherwise"
    countdown.take_back(row, why, now=now)
    row.phase, row.closed_at = FindingPhase.RESOLVED, now
    row.save(update_fields=["phase", "closed_at", "stops_at", "warned_by"])


def _badges(row: Finding) -> list[dict[str, str]]:
    if row.kind not in idle_policy.STOPPED | {FindingKind.SCALE_TO_ZERO}:
        return []
    why = words.reason(selectors.said_of(row))
    reason = FindingKind(row.kind).label.replace("-", "").replace(" ", "")
    facts = [condition(str(Badge.IDLE), True, reason, why)]
    if row.kind in (FindingKind.HOARDER, FindingKind.EVASION):
        facts.append(condition(str(Badge.HOARDER), True, reason, why))
    if row.kind == FindingKind.ZOMBIE:
        facts.append(condition(str(Badge.ZOMBIE), True, reason, why))
    return facts


def _telemetry(judged: Judged) -> dict[str, str]:
    if judged.is_known:
        return condition("TelemetryAvailable", True, "Seen", "")
    since = f" since {judged.seen_until:%Y-%m-%d %H:%M} UTC" if judged.seen_until else ""
    return condition("TelemetryAvailable", False, "NoSamples", f"Utilization unknown{since}.")


def blocks_words(row: Finding) -> str:
    """`keeps 3 workloads waiting, for 8 devices`, of what is over `kept`; "" when nothing waits."""
    blocks: Mapping[str, int] = row.blocks
    count = blocks.get("count", 0)
    if not count:
        return ""
    devices = blocks.get("devices", 0)
    plural = "" if count == 1 else "s"
    verb = "kept" if row.closed_at else "keeps"
    return f"{verb} {count} workload{plural} waiting, for {devices} device{'' if devices == 1 else 's'}"
