"""How rules on groups, their effect and sessions look in REST, and what a write takes."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Literal, TypedDict

from rest_framework import serializers

from apps.accounts.models import PersonSession
from apps.accounts.oidc.client import LONGEST_GROUP
from apps.tenants.models import GroupRule
from apps.tenants.people.rules.group_rights import Outcome
from apps.tenants.specs import RightKind
from apps.web.shapes.bodies import Id
from portal.api.base.serializers import BoundedList, StrictSerializer


class RuleSerializer(StrictSerializer):
    """What POST takes."""

    provider = serializers.CharField(max_length=32, help_text="its slug in the settings")
    group = serializers.CharField(
        max_length=LONGEST_GROUP, trim_whitespace=False, help_text="exactly as the provider writes it"
    )
    kind = serializers.ChoiceField(choices=RightKind.choices())
    target = serializers.CharField(
        max_length=40, required=False, allow_blank=True, default="", help_text="slug; empty: the installation"
    )
    role = serializers.CharField(
        max_length=16, help_text="member or lead; manager of a department; auditor or platform"
    )


class EffectSerializer(StrictSerializer):
    """Whose sign-in is tried."""

    provider = serializers.CharField(max_length=32)
    groups = BoundedList(
        child=serializers.CharField(max_length=LONGEST_GROUP, trim_whitespace=False),
        default=list,
        max_length=1000,
        help_text="empty: those of the person's last sign-in",
    )
    username = serializers.CharField(
        max_length=150, required=False, allow_blank=True, default="", help_text="empty: somebody new"
    )


class RuleBody(TypedDict):
    """Whoever is in the group has the role, from the next sign-in on."""

    object: Literal["group_rule"]
    id: Id
    provider: str
    group: str
    kind: RightKind
    target: Annotated[str | None, "Slug of the tenant or department; null: the installation."]
    role: str
    created_at: datetime
    created_by: str


class OutcomeBody(TypedDict):
    """What becomes of one right."""

    kind: RightKind
    target: Annotated[str | None, "Slug; null: the installation."]
    role_now: str | None
    role_after: str | None
    by_groups: Annotated[list[str], "Empty where no rule gives it."]
    why: str


class EffectBody(TypedDict):
    """What a sign-in would give and take."""

    object: Literal["group_effect"]
    groups: list[str]
    rights: list[OutcomeBody]


class SessionBody(TypedDict):
    """A browser in which somebody is signed in."""

    object: Literal["session"]
    id: Id
    way: Annotated[str, "password, passkey, demo, break-glass, oidc:<provider>; after + what else was shown."]
    address: str
    browser: str
    started_at: datetime
    seen_at: Annotated[datetime, "Within five minutes."]


def rule_body(row: GroupRule) -> RuleBody:
    """A rule as REST shows it."""
    return {
        "object": "group_rule",
        "id": str(row.pk),
        "provider": row.provider,
        "group": row.group,
        "kind": RightKind(row.kind),
        "target": row.target or None,
        "role": row.role,
        "created_at": row.created_at,
        "created_by": row.created_by,
    }


def effect_body(groups: Sequence[str], found: Sequence[Outcome]) -> EffectBody:
    """A dry run as REST shows it."""
    return {"object": "group_effect", "groups": list(groups), "rights": [_outcome(each) for each in found]}


def session_body(row: PersonSession) -> SessionBody:
    """A session as REST shows it; never its key."""
    return {
        "object": "session",
        "id": str(row.pk),
        "way": row.way,
        "address": row.address,
        "browser": row.browser,
        "started_at": row.started_at,
        "seen_at": row.seen_at,
    }


def _outcome(each: Outcome) -> OutcomeBody:
    return {
        "kind": each.kind,
        "target": each.target or None,
        "role_now": each.now or None,
        "role_after": each.after or None,
        "by_groups": list(each.groups),
        "why": each.why,
    }
