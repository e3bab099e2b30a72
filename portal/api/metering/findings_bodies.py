"""How findings and idle policies look in REST, and what writes of them take. No rules on who or when."""

from collections.abc import Mapping
from datetime import datetime, time
from typing import Annotated, Any, Literal, TypedDict

from rest_framework import serializers

from apps.metering.findings.rules import messages as words
from apps.metering.findings.rules.idle_policy import BOUNDS, Policy
from apps.metering.findings.rules.money import RECOVERED
from apps.metering.findings.selectors import evidence, recommendations
from apps.metering.findings.selectors import finding_selectors as selectors
from apps.metering.findings.selectors.sentences import message_of
from apps.metering.findings.services.lifecycle import blocks_words
from apps.metering.models import Finding, IdlePolicy
from apps.metering.specs import FindingKind, FindingPhase, IdleMode, Origin
from apps.web.shapes.bodies import Id, Money
from apps.web.shapes.typed import keywords
from portal.api.base.serializers import ReasonSerializer, StrictSerializer
from portal.api.metering.balance_bodies import Span, money

CLOCK = ["%H:%M"]
DURATIONS = ("idle_seconds", "countdown_seconds", "extension_seconds", "most_extensions")


class DismissSerializer(StrictSerializer):
    """Why the finding is wrong, and until when at most."""

    reason = serializers.CharField(max_length=500)
    until = serializers.DateTimeField(allow_null=True, default=None)


class SnoozeSerializer(ReasonSerializer):
    """Until when it is put off."""

    until = serializers.DateTimeField()


class ActSerializer(ReasonSerializer):
    """What to do about it."""

    action = serializers.ChoiceField(choices=["warn", "stop", "resize"])


class EvidenceWindowBody(Span):
    """The time that was looked at."""


class EvidenceDeviceBody(evidence.Device):
    """The evidence of one device."""

    seen_until: datetime | None


class EvidenceIdeBody(evidence.IdeFigures):
    """What the notebook's IDE said when it was judged."""

    answered_at: datetime
    last_activity: Annotated[datetime | None, "Of its kernels; without one, of the IDE."]
    terminals: Annotated[int | None, "Null: they were not asked for."]
    terminal_activity: Annotated[datetime | None, "When something was last typed or printed in one."]


class EvidenceBody(evidence.Evidence):
    """What a finding rests on."""

    window: EvidenceWindowBody
    devices: list[EvidenceDeviceBody]
    allocated: Money
    effective: Annotated[Money | None, "What of `allocated` did work; null: closed before this was asked."]
    ide: Annotated[EvidenceIdeBody | None, "Null: unknown, or no notebook."]
    in_shell: Annotated[bool, "Whether somebody typed in a shell in it lately: by SSH, or in the page."]


class SuggestionBody(recommendations.Suggestion):
    """What would help."""

    saving_weekly: Annotated[Money | None, "Null where none is foreseen."]
    next_offer: Annotated[str | None, "The offer that was chosen for its next start."]


class BlocksBody(TypedDict):
    """What waits for what it holds."""

    count: Annotated[int, "Workloads that wait for the same offer."]
    devices: int
    message: str | None


class MadeBody(TypedDict):
    """What was made with kubectl."""

    namespace: str
    name: Annotated[str | None, "Such as job/train; null where it is not known."]
    uid: str


class FindingCountdownBody(TypedDict):
    """When it stops, and how often its owner may still extend it."""

    stops_at: datetime
    reason: Literal["Idle"]
    message: str
    extendable_until: datetime | None
    extensions_left: int


class FindingBody(TypedDict):
    """What the detector says of a workload, or of what was made with kubectl: evidence, money, and what
    became of it.
    """

    object: Literal["finding"]
    id: Id
    tenant: str
    workload: Annotated[Id | None, "Null of what was made with kubectl."]
    origin: Origin
    made: MadeBody | None
    kind: FindingKind
    phase: FindingPhase
    message: str
    created_at: datetime
    since: Annotated[datetime, "Where the evidence begins."]
    confirmed_at: Annotated[datetime | None, "When it was seen a second time."]
    judged_at: datetime
    closed_at: datetime | None
    evidence: EvidenceBody
    waste: Annotated[Money, "So far: its part of the waste that `costs` tells."]
    weekly: Annotated[Money, "Of the coming week, if it goes on; it ends with its lease."]
    recoverable: Annotated[bool, "Whether that waste is recoverable; else it is inefficiency."]
    blocks: BlocksBody
    repeat_count: int
    suggestion: SuggestionBody
    reason: str | None
    decided_by: str | None
    until: Annotated[datetime | None, "The end of a dismissal or snooze."]
    countdown: FindingCountdownBody | None
    url: Annotated[str, "Its page.", keywords(format="uri-reference")]


def _whole(name: str, default: int) -> serializers.IntegerField:
    return serializers.IntegerField(default=default, **BOUNDS[name].bounds)


class IdlePolicySpecSerializer(StrictSerializer):
    """Durations in seconds; hours on the clock of `time_zone`; null: none (office: 09:00 to 18:00)."""

    mode = serializers.ChoiceField(choices=IdleMode.choices(), default=str(IdleMode.COUNTDOWN))
    idle_seconds = _whole("idle_seconds", 3600)
    countdown_seconds = _whole("countdown_seconds", 1800)
    extension_seconds = _whole("extension_seconds", 7200)
    most_extensions = _whole("most_extensions", 2)
    quiet_from = serializers.TimeField(input_formats=CLOCK, allow_null=True, default=None)
    quiet_to = serializers.TimeField(input_formats=CLOCK, allow_null=True, default=None)
    office_from = serializers.TimeField(input_formats=CLOCK, allow_null=True, default=None)
    office_to = serializers.TimeField(input_formats=CLOCK, allow_null=True, default=None)
    time_zone = serializers.CharField(max_length=64, default="UTC")

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """Hours have both ends or none."""
        for name in ("quiet", "office"):
            if (attrs[f"{name}_from"] is None) != (attrs[f"{name}_to"] is None):
                words = "Give both ends, or neither."
                raise serializers.ValidationError({f"{name}_to": [words]})
        return attrs


class IdlePolicyDocumentSerializer(StrictSerializer):
    """What PUT takes, and PATCH after merging."""

    spec = IdlePolicySpecSerializer()


Clock = Annotated[str | None, "On the clock of time_zone."]


class IdlePolicySpecBody(TypedDict):
    """Durations in seconds; hours have both ends or none."""

    mode: IdleMode
    idle_seconds: int
    countdown_seconds: int
    extension_seconds: int
    most_extensions: int
    quiet_from: Clock
    quiet_to: Clock
    office_from: Annotated[Clock, "Null: 09:00."]
    office_to: Annotated[Clock, "Null: 18:00."]
    time_zone: str


class IdlePolicyBody(TypedDict):
    """What a tenant does with idle work."""

    object: Literal["idle_policy"]
    tenant: str
    updated_at: Annotated[datetime | None, "Null: never set, the defaults hold."]
    updated_by: str | None
    spec: IdlePolicySpecBody


def policy_in(spec: Mapping[str, Any]) -> Policy:
    """The policy of a checked body."""
    durations: dict[str, int] = {name: spec[name] for name in DURATIONS}
    return Policy(
        mode=IdleMode(spec["mode"]),
        quiet=_hours(spec["quiet_from"], spec["quiet_to"]),
        office=_hours(spec["office_from"], spec["office_to"]),
        time_zone=spec["time_zone"],
        **durations,
    )


def _hours(begins: time | None, ends: time | None) -> tuple[time, time] | None:
    return None if begins is None or ends is None else (begins, ends)


def policy_body(row: IdlePolicy) -> IdlePolicyBody:
    """A policy as REST shows it; one that was never set has no date."""
    return {
        "object": "idle_policy",
        "tenant": row.tenant.slug,
        "updated_at": row.updated_at,
        "updated_by": row.updated_by or None,
        "spec": {
            "mode": IdleMode(row.mode),
            "idle_seconds": row.idle_seconds,
            "countdown_seconds": row.countdown_seconds,
            "extension_seconds": row.extension_seconds,
            "most_extensions": row.most_extensions,
            "quiet_from": _clock(row.quiet_from),
            "quiet_to": _clock(row.quiet_to),
            "office_from": _clock(row.office_from),
            "office_to": _clock(row.office_to),
            "time_zone": row.time_zone,
        },
    }


def _clock(at: time | None) -> str | None:
    return f"{at:%H:%M}" if at else None


def finding_body(row: Finding) -> FindingBody:
    """A finding as REST shows it."""
    return {
        "object": "finding",
        "id": str(row.pk),
        "tenant": row.tenant.slug,
        "workload": str(row.workload_id) if row.workload_id else None,
        "origin": Origin.KUBECTL if row.made else Origin.ALLOTMENT,
        "made": _made(row),
        "kind": FindingKind(row.kind),
        "phase": FindingPhase(row.phase),
        "message": message_of(row),
        "created_at": row.created_at,
        "since": row.since,
        "confirmed_at": row.confirmed_at,
        "judged_at": row.judged_at,
        "closed_at": row.closed_at,
        "evidence": _evidence(row),
        "waste": money(row.wasted),
        "weekly": money(row.weekly),
        "recoverable": row.kind in RECOVERED,
        "blocks": {
            "count": row.blocks["count"],
            "devices": row.blocks["devices"],
            "message": blocks_words(row) or None,
        },
        "repeat_count": row.repeat_count,
        "suggestion": _suggestion(row),
        "reason": row.reason or None,
        "decided_by": row.decided_by or None,
        "until": row.snoozed_until,
        "countdown": _countdown(row),
        "url": selectors.url_of(row),
    }


def _evidence(row: Finding) -> EvidenceBody:
    kept: evidence.KeptEvidence = row.evidence
    window = kept["window"]
    return {
        **kept,
        "window": {"from": _moment(window["from"]), "to": _moment(window["to"])},
        "devices": [_device(each) for each in kept["devices"]],
        "allocated": money(selectors.said_of(row).allocated),
        "effective": money(selectors.decimal(kept["effective"])) if "effective" in kept else None,
        "ide": _ide(kept.get("ide")),
        "in_shell": kept.get("in_shell", False),
    }


def _ide(kept: evidence.KeptIde | None) -> EvidenceIdeBody | None:
    if kept is None:
        return None
    last, typed = kept["last_activity"], kept.get("terminal_activity")
    return {
        **kept,
        "answered_at": _moment(kept["answered_at"]),
        "last_activity": _moment(last) if last else None,
        "terminals": kept.get("terminals"),
        "terminal_activity": _moment(typed) if typed else None,
    }


def _device(kept: evidence.KeptDevice) -> EvidenceDeviceBody:
    seen = kept["seen_until"]
    return {**kept, "seen_until": _moment(seen) if seen else None}


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _suggestion(row: Finding) -> SuggestionBody:
    kept: recommendations.Kept = row.suggestion
    saving = kept["saving_weekly"]
    return {
        **kept,
        "saving_weekly": None if saving is None else money(selectors.decimal(saving)),
        "next_offer": row.workload.next_offer.slug if row.workload and row.workload.next_offer else None,
    }


def _made(row: Finding) -> MadeBody | None:
    """What was made with kubectl, as far as it is known."""
    if row.made is None:
        return None
    made = row.made
    return {"namespace": row.tenant.object_name, "name": made.root or None, "uid": made.claim_uid}


def _countdown(row: Finding) -> FindingCountdownBody | None:
    if row.stops_at is None:
        return None
    policy = selectors.policy_by(row)
    return {
        "stops_at": row.stops_at,
        "reason": "Idle",
        "message": words.reason(selectors.said_of(row)),
        "extendable_until": selectors.extendable_until(row, policy),
        "extensions_left": selectors.extensions_left(row, policy),
    }
