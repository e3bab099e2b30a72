"""How invitations to tenants look in REST, and what writes of them take. No rules on who or when."""

from datetime import datetime
from typing import Annotated, Literal, TypedDict

from django.conf import settings
from rest_framework import serializers

from apps.tenants.models import MemberInvitation
from apps.tenants.people.services.inviting import Invited
from apps.tenants.specs import InvitationStatus, Role
from apps.web.shapes.bodies import Condition, ObjectHead, common
from apps.web.shapes.typed import keywords
from apps.words import Word
from portal.api.base.serializers import StrictSerializer


class InvitationPhase(Word):
    """Where an invitation stands, as REST has it: the label of `InvitationStatus`."""

    OPEN = InvitationStatus.OPEN.label
    APPROVED = InvitationStatus.APPROVED.label
    JOINED = InvitationStatus.JOINED.label
    DECLINED = InvitationStatus.DECLINED.label
    WITHDRAWN = InvitationStatus.WITHDRAWN.label


class InvitationSpecSerializer(StrictSerializer):
    """Who is wanted, as what; the rules on the address are the service's."""

    email = serializers.CharField(max_length=254, help_text="the person's e-mail")
    role = serializers.ChoiceField(
        choices=Role.choices(), default=Role.MEMBER, help_text="a lead decides on members"
    )


class NewInvitationSerializer(StrictSerializer):
    """What POST takes."""

    spec = InvitationSpecSerializer()


class InvitationSpecBody(TypedDict):
    """Who is wanted, as what."""

    email: str
    role: Role


class InvitationStatusBody(TypedDict):
    """What became of it."""

    phase: Annotated[InvitationPhase, "Approved: the person joins at the first sign-in."]
    username: Annotated[str | None, "Who joined by it."]
    decided_by: Annotated[str | None, "Null where nobody had to decide."]
    decided_at: datetime | None
    reason: str
    observed_generation: int
    conditions: list[Condition]


class InvitationBody(ObjectHead):
    """A mail address that a lead wants in the tenant."""

    object: Literal["invitation"]
    spec: InvitationSpecBody
    status: InvitationStatusBody


class InvitedMemberBody(InvitationBody):
    """An invitation with the one-time link to choose a password; the link is in this answer only."""

    link: Annotated[
        str | None,
        keywords(format="uri"),
        "Null where no account was made, and where the same Idempotency-Key came again.",
    ]


def invitation_body(row: MemberInvitation) -> InvitationBody:
    """An invitation as REST shows it."""
    return {
        "object": "invitation",
        **common(row, tenant=row.tenant.slug, created_by=row.asked_by.username),
        "spec": {"email": row.email, "role": Role(row.role)},
        "status": {
            "phase": InvitationPhase(InvitationStatus(row.status).label),
            "username": row.user.username if row.user else None,
            "decided_by": row.decided_by or None,
            "decided_at": row.decided_at,
            "reason": row.reason,
            "observed_generation": row.generation,
            "conditions": [],
        },
    }


def invited_body(invited: Invited) -> InvitedMemberBody:
    """An invitation with the link, if an account was made."""
    link = f"{settings.CONFIG.url}/invite/{invited.link}/" if invited.link else None
    return {**invitation_body(invited.row), "link": link}
