"""How people and service accounts look in REST, and what a write takes. No rules on who or when."""

from datetime import datetime
from typing import Annotated, Literal, TypedDict

from rest_framework import serializers

from apps.accounts.models import User
from apps.accounts.second_factor import factors
from apps.accounts.specs import PlatformRole
from apps.tenants.models import ServiceAccount
from apps.tenants.people.services.service_accounts import current_role, role_of
from apps.tenants.specs import Role
from apps.web.shapes.bodies import Condition, Id
from apps.web.shapes.typed import keywords
from portal.api.base.serializers import StrictSerializer


class PersonWishSerializer(StrictSerializer):
    """Who is invited; the rules on its values are the service's."""

    username = serializers.CharField(max_length=150, help_text="as they sign in; it never changes")
    display_name = serializers.CharField(
        max_length=120, required=False, allow_blank=True, default="", help_text="as pages show them"
    )
    email = serializers.CharField(
        max_length=254, required=False, allow_blank=True, default="", help_text="empty: none"
    )
    platform_role = serializers.ChoiceField(
        choices=PlatformRole.choices(),
        required=False,
        allow_blank=True,
        default="",
        help_text="over the installation; empty: none",
    )


class AccountSpecSerializer(StrictSerializer):
    """What is asked of a service account."""

    role = serializers.CharField(
        max_length=16, help_text="member or lead; without a tenant platform or auditor"
    )


class AccountDocumentSerializer(StrictSerializer):
    """The writable part of a service account."""

    name = serializers.CharField(
        max_length=120, required=False, allow_blank=True, default="", help_text="the slug, if omitted"
    )
    spec = AccountSpecSerializer()


class NewAccountSerializer(AccountDocumentSerializer):
    """What POST takes."""

    tenant = serializers.CharField(
        max_length=40,
        required=False,
        allow_null=True,
        default=None,
        help_text="slug or id; null: a role over the installation",
    )
    slug = serializers.CharField(
        max_length=40, required=False, allow_blank=True, default="", help_text="made of the name, if omitted"
    )


class PersonBody(TypedDict):
    """A person."""

    object: Literal["user"]
    id: Id
    username: str
    name: str
    email: Annotated[str, "Empty where it is not known."]
    platform_role: Annotated[PlatformRole | None, "Over the installation."]
    active: bool
    second_factor: Annotated[bool, "Whether a code is asked for after the password."]
    tenants: Annotated[dict[str, Role], "Tenant's slug: role in it."]
    last_sign_in_at: datetime | None
    created_at: datetime


class InvitedBody(PersonBody):
    """A person with the one-time link to choose a password; the link is in this answer only."""

    link: Annotated[str | None, keywords(format="uri"), "Null where the same Idempotency-Key came again."]


class ServiceAccountSpecBody(TypedDict):
    """What is asked of a service account."""

    role: Annotated[Role | PlatformRole, "In its tenant; without one over the installation."]


class ServiceAccountStatusBody(TypedDict):
    """How a service account stands."""

    username: Annotated[str, "As whom it acts."]
    observed_generation: int
    conditions: list[Condition]


class ServiceAccountBody(TypedDict):
    """A service account; it acts as `status.username`."""

    object: Literal["service_account"]
    id: Id
    slug: str
    name: str
    tenant: Annotated[str | None, "The tenant's slug; null: a role over the installation."]
    labels: dict[str, str]
    generation: Annotated[int, "Counts changes of writable fields; the ETag."]
    created_at: datetime
    updated_at: datetime
    created_by: str
    spec: ServiceAccountSpecBody
    status: ServiceAccountStatusBody


def person_body(person: User) -> PersonBody:
    """A person as REST shows one."""
    roles = person.memberships.filter(tenant__deleted_at=None).order_by("tenant__slug")
    return {
        "object": "user",
        "id": str(person.pk),
        "username": person.username,
        "name": person.shown_name,
        "email": person.email,
        "platform_role": PlatformRole(person.platform_role) if person.platform_role else None,
        "active": person.is_active,
        "second_factor": factors.is_set(person),
        "tenants": {slug: Role(role) for slug, role in roles.values_list("tenant__slug", "role")},
        "last_sign_in_at": person.last_login,
        "created_at": person.created_at,
    }


def account_body(row: ServiceAccount) -> ServiceAccountBody:
    """A service account as REST shows it."""
    return {
        "object": "service_account", "id": str(row.pk), "slug": row.slug, "name": row.name,
        "tenant": row.tenant.slug if row.tenant else None, "labels": {}, "generation": row.generation,
        "created_at": row.created_at, "updated_at": row.updated_at, "created_by": row.created_by,
        "spec": {"role": role_of(current_role(row), row.tenant)},
        "status": {"username": row.user.username, "observed_generation": row.generation, "conditions": []},
    }  # fmt: skip
