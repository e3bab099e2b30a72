"""How grants and quota requests look in REST, and what writes of them take. No rules on who or when."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Literal, TypedDict

from rest_framework import serializers

from apps.quotas.models import Grant, QuotaRequest
from apps.quotas.requests.services.forecast import Forecast
from apps.quotas.specs import RequestKind, RequestStatus
from apps.ranges import GRANT_SECONDS, MORE_DEVICES
from apps.web.shapes.bodies import Id, ObjectHead, common
from apps.words import Word
from portal.api.base.serializers import StrictSerializer
from portal.api.quotas.quotas_bodies import ObservedBody

Body = Mapping[str, Any]


class GrantPhase(Word):
    """Where a grant stands."""

    PLANNED = "Planned", "Planned"
    ACTIVE = "Active", "Active"
    ENDED = "Ended", "Ended"


class RequestPhase(Word):
    """Where a quota request stands, as REST has it: the label of `RequestStatus`."""

    OPEN = RequestStatus.OPEN.label
    APPROVED = RequestStatus.APPROVED.label
    DECLINED = RequestStatus.DECLINED.label
    WITHDRAWN = RequestStatus.WITHDRAWN.label


class GrantSpecSerializer(StrictSerializer):
    """Devices of one offer in [starts_at, ends_at); null starts now."""

    offer = serializers.CharField(max_length=40, help_text="slug or id")
    count = serializers.IntegerField(**MORE_DEVICES.bounds)
    starts_at = serializers.DateTimeField(allow_null=True, default=None)
    ends_at = serializers.DateTimeField()
    reason = serializers.CharField(max_length=500, allow_blank=True, default="")


class NewGrantSerializer(StrictSerializer):
    """What POST of a grant takes."""

    tenant = serializers.CharField(max_length=40, help_text="slug or id")
    spec = GrantSpecSerializer()


class RequestSpecSerializer(StrictSerializer):
    """`count` devices more; with a duration a grant, without one for good."""

    offer = serializers.CharField(max_length=40, help_text="slug or id")
    kind = serializers.ChoiceField(choices=RequestKind.choices(), default=RequestKind.GUARANTEED)
    count = serializers.IntegerField(**MORE_DEVICES.bounds)
    duration_seconds = serializers.IntegerField(**GRANT_SECONDS.bounds, allow_null=True, default=None)
    reason = serializers.CharField(max_length=500)


class NewRequestSerializer(StrictSerializer):
    """What POST of a quota request takes."""

    tenant = serializers.CharField(max_length=40, help_text="slug or id")
    spec = RequestSpecSerializer()


class DecisionSerializer(StrictSerializer):
    """What approving takes: how many of those asked for (null: all), and why."""

    count = serializers.IntegerField(**MORE_DEVICES.bounds, allow_null=True, default=None)
    reason = serializers.CharField(max_length=1000, allow_blank=True, default="")


class CommentSerializer(StrictSerializer):
    """A line for the history."""

    text = serializers.CharField(max_length=1000)


class GrantSpecBody(TypedDict):
    """Devices of one offer in [starts_at, ends_at)."""

    offer: str
    count: int
    starts_at: datetime
    ends_at: datetime
    reason: str


class GrantStatusBody(ObservedBody):
    """Where it stands."""

    phase: GrantPhase


class GrantBody(ObjectHead):
    """More guarantee for a while."""

    object: Literal["grant"]
    spec: GrantSpecBody
    status: GrantStatusBody


class QuotaRequestSpecBody(TypedDict):
    """`count` devices more; with a duration a grant, without one for good."""

    offer: str
    kind: RequestKind
    count: int
    duration_seconds: int | None
    reason: str


class ForecastBody(TypedDict):
    """What giving it would change."""

    promised_before: int
    promised_after: int
    owned: int
    message: str


class NoteBody(TypedDict):
    """A line of its history."""

    at: datetime
    author: str
    what: str
    text: str


class QuotaRequestStatusBody(ObservedBody):
    """Who decided what, and what it would change now."""

    phase: RequestPhase
    given: int | None
    decided_by: str | None
    decided_at: datetime | None
    age_seconds: Annotated[int, "How long it waited for a decision, or has so far."]
    grant: Id | None
    effect: Annotated[ForecastBody | None, "Null in lists, and once it is decided."]
    history: list[NoteBody]


class QuotaRequestBody(ObjectHead):
    """A wish for more quota."""

    object: Literal["quota_request"]
    spec: QuotaRequestSpecBody
    status: QuotaRequestStatusBody


def phase_of(grant: Grant, now: datetime) -> GrantPhase:
    """Where a grant stands at a moment."""
    if grant.ends_at <= now:
        return GrantPhase.ENDED
    return GrantPhase.ACTIVE if grant.starts_at <= now else GrantPhase.PLANNED


def grant_body(grant: Grant, now: datetime) -> GrantBody:
    """A grant as REST shows it."""
    return {
        "object": "grant",
        **common(grant, tenant=grant.tenant.slug, created_by=grant.created_by),
        "spec": {
            "offer": grant.offer.slug,
            "count": grant.count,
            "starts_at": grant.starts_at,
            "ends_at": grant.ends_at,
            "reason": grant.reason,
        },
        "status": {"phase": phase_of(grant, now), **_observed(grant)},
    }


def request_body(row: QuotaRequest, effect: Forecast | None, now: datetime) -> QuotaRequestBody:
    """A quota request as REST shows it."""
    shown: ForecastBody | None = (
        None
        if effect is None
        else ForecastBody(
            promised_before=effect.promised_before,
            promised_after=effect.promised_after,
            owned=effect.owned,
            message=effect.message,
        )
    )
    return {
        "object": "quota_request",
        **common(row, tenant=row.tenant.slug, created_by=row.asked_by.username),
        "spec": {
            "offer": row.offer.slug,
            "kind": RequestKind(row.kind),
            "count": row.count,
            "duration_seconds": row.duration_seconds,
            "reason": row.reason,
        },
        "status": {
            "phase": RequestPhase(RequestStatus(row.status).label),
            "given": row.given,
            "decided_by": row.decided_by or None,
            "decided_at": row.decided_at,
            "age_seconds": int(((row.decided_at or now) - row.created_at).total_seconds()),
            "grant": str(row.grant_id) if row.grant_id else None,
            "effect": shown,
            "history": [
                {"at": note.at, "author": note.author, "what": note.what, "text": note.text}
                for note in row.notes.all()
            ],
            **_observed(row),
        },
    }


def _observed(row: Grant | QuotaRequest) -> ObservedBody:
    return {"observed_generation": row.generation, "conditions": []}
