"""What the pages of findings show: a team's, one with its evidence, the console's. Reads only."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from django.conf import settings
from django.db.models import Count, Q, QuerySet, Sum
from django.http import HttpResponse, QueryDict
from django.template.defaultfilters import truncatechars
from django.urls import reverse

from apps.accounts.selectors import shown_names
from apps.accounts.specs import Actor
from apps.errors import NotFound
from apps.metering import policies
from apps.metering.findings.rules import messages as words
from apps.metering.findings.rules.idle_policy import STOPPED
from apps.metering.findings.rules.money import RECOVERED
from apps.metering.findings.selectors import finding_selectors as selectors
from apps.metering.findings.selectors import waste
from apps.metering.findings.selectors.sentences import message_of
from apps.metering.findings.services.lifecycle import REMEMBERED, blocks_words
from apps.metering.models import Finding, Judgement
from apps.metering.specs import FindingKind, FindingPhase, IdleMode
from apps.quotas.models import Offer
from apps.tenants.models import Tenant
from apps.web.requests.sheets import csv_file
from apps.workloads.policies import can_operate, can_stop
from apps.workloads.specs import Kind
from portal.pages.team.usage import use

PARTS = frozenset({"rows"})
DETAIL_PARTS = frozenset({"head", "use"})
MOST, MOST_IDLE = 100, 5
VERDICTS = {str(kind): kind.label for kind in FindingKind} | {"healthy": "Healthy", "unknown": "Unknown"}
COLUMNS = ("SM active", "nvidia-smi says", "Memory", "Power")
LOOKS = {
    FindingKind.HOARDER: ("flame", "bad"),
    FindingKind.EVASION: ("flame", "bad"),
    FindingKind.ZOMBIE: ("ghost", "bad"),
    FindingKind.FORGOTTEN: ("moon", "warn"),
    FindingKind.SCALE_TO_ZERO: ("moon", "warn"),
}
OF_MEMORY = frozenset(
    {FindingKind.ZOMBIE, FindingKind.MEMORY_LEAK, FindingKind.OVERSIZED, FindingKind.UNDERSIZED}
)
"""Kinds that rest on memory: their picture shows it."""
USUAL_LOOK = ("triangle-alert", "warn")
MODES = {
    IdleMode.TELL: "Owners and leads are told; nothing is stopped.",
    IdleMode.ASK: "Owners and leads are told and asked; nothing is stopped.",
    IdleMode.COUNTDOWN: "Idle work is warned, counted down and stopped; owners may extend.",
    IdleMode.STOP: "Idle work is stopped five minutes after the warning; only leads extend.",
}


HEAD = (
    "id", "tenant", "workload", "owner", "kind", "phase", "since", "created_at", "confirmed_at", "judged_at",
    "closed_at", "wasted", "weekly", "currency", "blocks", "repeats", "message", "action", "to_offer",
    "saving_weekly", "answered_by", "reason", "until", "stops_at",
)  # fmt: skip


@dataclass(frozen=True)
class Line:
    """A finding as a list shows it."""

    row: Finding
    word: str
    icon: str
    tone: str
    message: str
    blocks: str
    confidence: str
    url: str
    name: str
    owner: str
    of_url: str
    decided_by: str

    @property
    def may_warn(self) -> bool:
        """Whether a countdown could be begun by hand."""
        return self.row.made is None and self.row.stops_at is None and self.row.kind in STOPPED

    @property
    def is_recoverable(self) -> bool:
        """Whether what it wastes could be recovered; of the others it is inefficiency."""
        return self.row.kind in RECOVERED

    @property
    def denial(self) -> str:
        """What the button says that dismisses it."""
        return "Not a hoarder" if self.row.kind == FindingKind.HOARDER else "Not waste"

    @property
    def whose(self) -> str:
        """Tenant and owner, for the console."""
        return ", ".join(filter(None, (self.row.tenant.name, self.owner)))

    @property
    def decided(self) -> str:
        """Who answered, and why."""
        by, reason = self.decided_by, truncatechars(self.row.reason, 80)
        return f"{by}: {reason}" if by and reason else by

    @property
    def answers(self) -> list[tuple[str, str]]:
        """Where the console may answer, with the words."""
        asked = (
            ("warn/", "Warn owner", self.may_warn),
            ("stop/", "Stop and release", self.row.workload is not None),
            ("dismiss/", self.denial, True),
        )
        return [(self.url + to, words) for to, words, may in asked if may and not self.row.closed_at]

    @property
    def phase(self) -> str:
        """The word of its phase, with what was answered."""
        return FindingPhase(self.row.phase).label


def team(actor: Actor, tenant: Tenant, query: QueryDict, *, now: datetime) -> dict[str, Any]:
    """The findings of a team: open ones, dearest first; with `?show=all` closed and dismissed ones too."""
    found = selectors.findings_for(actor).filter(tenant=tenant)
    policy = selectors.policy_of(tenant)
    return _list(found, query, now) | {
        "tenant": tenant,
        "mode": MODES[policy.mode],
        "may_set": policies.can_set_policy(actor, tenant),
        "blind": _blind(tenant),
        "now": now,
        "live_topics": [f"tenant:{tenant.slug}"],
    }


def console(actor: Actor, query: QueryDict, *, now: datetime) -> dict[str, Any]:
    """The findings of all tenants; raises NotFound for anybody who does not see everything."""
    if not actor.sees_everything:
        raise NotFound
    return _list(selectors.findings_for(actor), query, now) | {"now": now, "live_topics": ["console"]}


def idle_on(actor: Actor, offer: Offer) -> list[Line]:
    """What holds devices of an offer and does nothing, as far as the actor sees it, dearest first."""
    found = selectors.open_findings(selectors.findings_for(actor)).filter(kind__in=STOPPED)
    held = Q(workload__offer=offer) | Q(made__offer=offer)
    return [line(row, {}) for row in found.filter(held)[:MOST_IDLE]]


def csv_of(actor: Actor, query: QueryDict, tenant: Tenant | None = None) -> HttpResponse:
    """Every finding that the page lists, as a file: of a team, or (None) of all; raises NotFound for who may
    not see all.
    """
    if tenant is None and not actor.sees_everything:
        raise NotFound
    found = selectors.findings_for(actor)
    rows, _ = _chosen(found.filter(tenant=tenant) if tenant else found, query)
    return csv_file(f"{tenant.slug if tenant else 'fleet'}-findings", HEAD, map(_cells, rows))


def _cells(row: Finding) -> list[object]:
    """One line of the file, in the order of HEAD."""
    saving, work = row.suggestion.get("saving_weekly"), row.workload
    whose = (work.slug, work.owner.username) if work else (selectors.name_of(row), None)
    return [
        str(row.pk), row.tenant.slug, *whose, row.kind, row.phase, row.since,
        row.created_at, row.confirmed_at, row.judged_at, row.closed_at, row.wasted, row.weekly,
        settings.CONFIG.currency, int(row.blocks.get("count", 0)), row.repeat_count, message_of(row),
        row.suggestion.get("action"), row.suggestion.get("offer"),
        None if saving is None else selectors.decimal(saving), row.decided_by or None, row.reason or None,
        row.snoozed_until, row.stops_at,
    ]  # fmt: skip


def _chosen(found: QuerySet[Finding], query: QueryDict) -> tuple[QuerySet[Finding], bool]:
    """What is open, dearest first; with `?show=all` every one, newest first."""
    every = query.get("show") == "all"
    return (found.order_by("-created_at", "pk") if every else selectors.open_findings(found)), every


def _list(found: QuerySet[Finding], query: QueryDict, now: datetime) -> dict[str, Any]:
    live = selectors.open_findings(found)
    shown, every = _chosen(found, query)
    closed = found.filter(closed_at__gte=now - REMEMBERED).order_by()
    rows = shown[:MOST]
    names = shown_names(row.decided_by for row in rows)
    return {
        "rows": [line(row, names) for row in rows],
        "found": selectors.found_in(found),
        "every": every,
        "most": MOST,
        "counting": live.exclude(stops_at=None).count(),
        "closed": closed.aggregate(count=Count("pk"), wasted=Sum("wasted")),
    }


def line(row: Finding, names: Mapping[str, str] | None = None) -> Line:
    """One row; `names` of those who answered, by username, where they were read for several."""
    kind = FindingKind(row.kind)
    icon, tone = LOOKS.get(kind, USUAL_LOOK)
    sure = words.confidence(row.evidence.get("figures", {}).get("coverage"), confirmed=bool(row.confirmed_at))
    work = row.workload
    return Line(
        row, kind.label, icon, tone, message_of(row), blocks_words(row), sure, selectors.url_of(row),
        selectors.name_of(row), work.owner.shown_name if work else "", of_url(row),
        (shown_names([row.decided_by]) if names is None else names).get(row.decided_by, row.decided_by),
    )  # fmt: skip


def of_url(row: Finding) -> str:
    """The page of the workload; of what was made with kubectl the list of all that is."""
    if row.workload is None:
        return f"{reverse('tenant-allocations', args=[row.tenant.slug])}?origin=kubectl"
    return reverse("workload", args=[row.tenant.slug, row.workload_id])


def detail(actor: Actor, row: Finding, query: QueryDict, *, now: datetime) -> dict[str, Any]:
    """One finding: evidence by device, money, what it blocks, what would help, what may be answered."""
    policy = selectors.policy_by(row)
    figures, limits = row.evidence.get("figures", {}), row.evidence.get("thresholds", {})
    return {
        "tenant": row.tenant,
        "row": row,
        "line": line(row),
        "meaning": words.MEANINGS[FindingKind(row.kind)],
        "facts": [*words.figures(figures), *_ide(row)],
        "limits": words.limits(FindingKind(row.kind), limits),
        "devices": [_device(each) for each in row.evidence.get("devices", ())],
        "window": row.evidence.get("window", {}),
        "allocated": selectors.said_of(row).allocated,
        "effective": selectors.decimal(known) if (known := row.evidence.get("effective")) else None,
        "saving": selectors.decimal(row.suggestion.get("saving_weekly")),
        "left": selectors.extensions_left(row, policy),
        "extension": policy.extension_seconds,
        "may": _may(actor, row, now),
        "earlier": _earlier(actor, row),
        "now": now,
        "live_topics": [f"workload:{row.workload_id}" if row.workload else f"tenant:{row.tenant.slug}"],
        **_picture(actor, row, query, now),
    }


def hourly(row: Finding, *, now: datetime) -> Decimal:
    """What it holds costs per hour."""
    return waste.hourly_of(
        selectors.held_by(row).filter(ended_at=None).select_related("offer", "tenant"), now
    )


def _ide(row: Finding) -> list[tuple[str, str]]:
    """What its IDE said, of a notebook."""
    if row.workload is None or row.workload.kind != Kind.NOTEBOOK:
        return []
    return words.ide_facts(row.evidence.get("ide"))


def _device(each: dict[str, Any]) -> dict[str, Any]:
    told = dict(words.figures(each))
    shown = [(name, told[name]) for name in COLUMNS]
    return {**each, "shown": shown, "word": VERDICTS.get(each["label"], each["label"])}


def policy(actor: Actor, tenant: Tenant) -> dict[str, Any]:
    """A team's idle policy, and what each mode means."""
    row = selectors.policy_row(tenant)
    return {
        "tenant": tenant,
        "mode": IdleMode(row.mode).label,
        "sentence": MODES[IdleMode(row.mode)],
        "modes": [(mode.label, sentence) for mode, sentence in MODES.items()],
        "may_set": policies.can_set_policy(actor, tenant),
        "row": row,
        "policy": selectors.as_policy(row),
    }


def _picture(actor: Actor, row: Finding, query: QueryDict, now: datetime) -> dict[str, Any]:
    """Picture (a), unless asked otherwise over a span that holds the evidence."""
    if "span" in query:
        return _use(actor, row, query, now)
    long = now - row.since
    span = next((key for key, (_, step, count) in use.SPANS.items() if long <= step * count), "30d")
    memory = "&series=memory" if row.kind in OF_MEMORY else ""
    return _use(actor, row, QueryDict(f"span={span}{memory}"), now)


def _use(actor: Actor, row: Finding, query: QueryDict, now: datetime) -> dict[str, Any]:
    if row.made is not None:
        file = reverse("finding-use-file", args=[row.tenant.slug, row.pk])
        return use.of_kubectl(actor, row.made, query, file, now=now)
    return use.of_workload(actor, row.work, query, now=now)


def use_file(actor: Actor, row: Finding, query: QueryDict, *, now: datetime) -> HttpResponse:
    """The figures of a finding's picture as CSV."""
    if row.made is not None:
        return use.file_of_kubectl(actor, row.made, query, now=now)
    return use.file_of_workload(actor, row.work, query, now=now)


def _may(actor: Actor, row: Finding, now: datetime) -> dict[str, bool]:
    """Which buttons to show; the services decide again."""
    there = row.closed_at is None
    answer = there and policies.can_answer(actor, row)
    freely = policies.answers_freely(actor, row)
    left = selectors.extensions_left(row, selectors.policy_by(row))
    work = row.workload
    counting = row.stops_at is not None and row.stops_at > now
    return {
        "extend": answer and counting and (freely or left > 0),
        "dismiss": answer and row.phase != FindingPhase.DISMISSED,
        "snooze": answer and row.phase == FindingPhase.OPEN,
        "warn": answer and freely and line(row).may_warn,
        "stop": there and work is not None and can_stop(actor, work),
        "resize": there
        and bool(row.suggestion.get("offer"))
        and work is not None
        and can_operate(actor, work),
    }


def _earlier(actor: Actor, row: Finding) -> list[Line]:
    seen = selectors.findings_for(actor).exclude(pk=row.pk)
    if row.made is not None:
        found = seen.filter(made__claim_uid=row.made.claim_uid, made__cluster=row.made.cluster)
    else:
        found = seen.filter(workload=row.workload)
    return [line(each) for each in found.order_by("-created_at")[:10]]


def _blind(tenant: Tenant) -> int:
    """How many of its workloads are not seen."""
    running = Judgement.objects.filter(workload__tenant=tenant, workload__phase="Running")
    return sum("unknown" in labels for labels in running.values_list("labels", flat=True))
