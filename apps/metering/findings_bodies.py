"""How findings and idle policies look in REST, and what writes of them take. No rules on who or when."""

from collections.abc import Mapping
from datetime import time
from typing import Any

from django.conf import settings
from rest_framework import serializers

from apps.metering import finding_selectors as selectors
from apps.metering import finding_words as words
from apps.metering.countdown import STOPPED
from apps.metering.findings import blocks_words
from apps.metering.idleness import BOUNDS, Policy
from apps.metering.models import Finding, IdlePolicy
from apps.metering.specs import FindingKind, FindingPhase, IdleMode, Origin
from apps.web import amounts
from apps.web.serializers import ReasonSerializer, StrictSerializer

Body = Mapping[str, Any]
CLOCK = ["%H:%M"]
DURATIONS = ("idle_seconds", "countdown_seconds", "extension_seconds", "most_extensions")


class DismissSerializer(StrictSerializer):
    """Why it is not so, and until when at most."""

    reason = serializers.CharField(max_length=500)
    until = serializers.DateTimeField(allow_null=True, default=None)


class SnoozeSerializer(ReasonSerializer):
    """Until when it is put off."""

    until = serializers.DateTimeField()


class ActSerializer(ReasonSerializer):
    """What to do about it."""

    action = serializers.ChoiceField(choices=["warn", "stop", "resize"])


class FindingSerializer(serializers.Serializer[Any]):
    """What the detector says of a workload, or of what was made with kubectl: evidence, money, and what
    became of it.
    """

    object = serializers.CharField(default="finding")
    id = serializers.UUIDField()
    tenant = serializers.CharField()
    workload = serializers.UUIDField(allow_null=True, help_text="null of what was made with kubectl")
    origin = serializers.ChoiceField(choices=Origin.choices())
    made = serializers.JSONField(help_text="namespace, name (job/train), uid of what was made with kubectl")
    kind = serializers.ChoiceField(choices=FindingKind.choices())
    phase = serializers.ChoiceField(choices=FindingPhase.choices())
    message = serializers.CharField()
    created_at = serializers.DateTimeField()
    since = serializers.DateTimeField(help_text="where the evidence begins")
    confirmed_at = serializers.DateTimeField(allow_null=True, help_text="when it was seen a second time")
    judged_at = serializers.DateTimeField()
    closed_at = serializers.DateTimeField(allow_null=True)
    evidence = serializers.JSONField(help_text="window, thresholds, figures, devices, chart")
    waste = serializers.JSONField(help_text="money so far")
    weekly = serializers.JSONField(help_text="money per week if it goes on")
    blocks = serializers.JSONField(help_text="count and devices that wait for the same offer")
    repeat_count = serializers.IntegerField()
    suggestion = serializers.JSONField(help_text="action, offer, saving_weekly, risk, next_offer")
    reason = serializers.CharField(allow_null=True)
    decided_by = serializers.CharField(allow_null=True)
    until = serializers.DateTimeField(allow_null=True, help_text="end of a dismissal or snooze")
    countdown = serializers.JSONField(help_text="stops_at, message, extendable_until, extensions_left")
    url = serializers.CharField()


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


class IdlePolicySerializer(serializers.Serializer[Any]):
    """What a tenant does with idle work."""

    object = serializers.CharField(default="idle_policy")
    tenant = serializers.CharField()
    updated_at = serializers.DateTimeField(allow_null=True)
    updated_by = serializers.CharField(allow_null=True)
    spec = IdlePolicySpecSerializer()


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


def policy_body(row: IdlePolicy) -> Body:
    """A policy as REST shows it; one that was never set has no date."""
    hours = ("quiet_from", "quiet_to", "office_from", "office_to")
    return {
        "object": "idle_policy",
        "tenant": row.tenant.slug,
        "updated_at": row.updated_at,
        "updated_by": row.updated_by or None,
        "spec": {
            "mode": row.mode,
            **{name: getattr(row, name) for name in DURATIONS},
            **{name: f"{at:%H:%M}" if (at := getattr(row, name)) else None for name in hours},
            "time_zone": row.time_zone,
        },
    }


def finding_body(row: Finding) -> Body:
    """A finding as REST shows it."""
    currency = settings.CONFIG.currency
    saving = row.suggestion.get("saving_weekly")
    return {
        "object": "finding",
        "id": str(row.pk),
        "tenant": row.tenant.slug,
        "workload": str(row.workload_id) if row.workload_id else None,
        "origin": Origin.KUBECTL if row.made else Origin.ALLOTMENT,
        "made": _made(row),
        "kind": row.kind,
        "phase": row.phase,
        "message": message_of(row),
        "created_at": row.created_at,
        "since": row.since,
        "confirmed_at": row.confirmed_at,
        "judged_at": row.judged_at,
        "closed_at": row.closed_at,
        "evidence": {**row.evidence, "allocated": amounts.money(selectors.said_of(row).allocated, currency)},
        "waste": amounts.money(row.wasted, currency),
        "weekly": amounts.money(row.weekly, currency),
        "blocks": {**row.blocks, "message": blocks_words(row) or None},
        "repeat_count": row.repeat_count,
        "suggestion": {
            **row.suggestion,
            "saving_weekly": _saving(saving, currency),
            "next_offer": row.workload.next_offer.slug if row.workload and row.workload.next_offer else None,
        },
        "reason": row.reason or None,
        "decided_by": row.decided_by or None,
        "until": row.snoozed_until,
        "countdown": _countdown(row),
        "url": selectors.url_of(row),
    }


def message_of(row: Finding) -> str:
    """What, why in figures, what it costs."""
    said = selectors.said_of(row)
    if row.kind in STOPPED:
        return words.headline(said)
    return f"{said.name}: {words.MEANINGS[said.kind]}"


def _made(row: Finding) -> Body | None:
    """What was made with kubectl, as far as it is known."""
    if row.made is None:
        return None
    made = row.made
    return {"namespace": row.tenant.object_name, "name": made.root or None, "uid": made.claim_uid}


def _saving(text: str | None, currency: str) -> dict[str, str] | None:
    return None if text is None else amounts.money(selectors.decimal(text), currency)


def _countdown(row: Finding) -> Body | None:
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
