"""How people and service accounts look in REST, and what a write takes. No rules on who or when."""

from collections.abc import Mapping
from typing import Any

from rest_framework import serializers

from apps.accounts.models import User
from apps.accounts.specs import PlatformRole
from apps.tenants.models import ServiceAccount
from apps.tenants.service_accounts import current_role
from apps.web.bodies import head
from apps.web.serializers import StrictSerializer


class PersonWishSerializer(StrictSerializer):
    """Who is invited; the rules on its values are the service's."""

    username = serializers.CharField(max_length=150)
    display_name = serializers.CharField(max_length=120, required=False, allow_blank=True, default="")
    email = serializers.CharField(max_length=254, required=False, allow_blank=True, default="")
    platform_role = serializers.ChoiceField(
        choices=PlatformRole.choices(), required=False, allow_blank=True, default=""
    )


class PersonSerializer(serializers.Serializer[Any]):
    """A person."""

    object = serializers.CharField(default="user")
    id = serializers.UUIDField()
    username = serializers.CharField()
    name = serializers.CharField()
    email = serializers.CharField()
    platform_role = serializers.CharField(allow_null=True)
    active = serializers.BooleanField()
    tenants = serializers.DictField(child=serializers.CharField())
    last_sign_in_at = serializers.DateTimeField(allow_null=True)
    created_at = serializers.DateTimeField()


class InvitedSerializer(PersonSerializer):
    """The answer that carries the one-time link; a repeat with the same Idempotency-Key has null."""

    link = serializers.CharField(allow_null=True)


class AccountSpecSerializer(StrictSerializer):
    """What is asked of a service account."""

    role = serializers.CharField(
        max_length=16, help_text="member or lead; without a tenant platform or auditor"
    )


class AccountDocumentSerializer(StrictSerializer):
    """The writable part of a service account."""

    name = serializers.CharField(max_length=120, required=False, allow_blank=True, default="")
    spec = AccountSpecSerializer()


class NewAccountSerializer(AccountDocumentSerializer):
    """What POST takes."""

    tenant = serializers.CharField(max_length=40, required=False, allow_null=True, default=None)
    slug = serializers.CharField(max_length=40, required=False, allow_blank=True, default="")


class AccountSerializer(serializers.Serializer[Any]):
    """A service account; it acts as `status.username`."""

    object = serializers.CharField(default="service_account")
    id = serializers.UUIDField()
    slug = serializers.CharField()
    name = serializers.CharField()
    tenant = serializers.CharField(allow_null=True)
    labels = serializers.DictField(child=serializers.CharField())
    generation = serializers.IntegerField()
    created_at = serializers.DateTimeField()
    updated_at = serializers.DateTimeField()
    created_by = serializers.CharField()
    spec = AccountSpecSerializer()
    status = serializers.JSONField()


def person_body(person: User) -> Mapping[str, Any]:
    """A person as REST shows one."""
    roles = person.memberships.filter(tenant__deleted_at=None).order_by("tenant__slug")
    return {
        "object": "user",
        "id": str(person.pk),
        "username": person.username,
        "name": person.shown_name,
        "email": person.email,
        "platform_role": person.platform_role or None,
        "active": person.is_active,
        "tenants": dict(roles.values_list("tenant__slug", "role")),
        "last_sign_in_at": person.last_login,
        "created_at": person.created_at,
    }


def account_body(row: ServiceAccount) -> Mapping[str, Any]:
    """A service account as REST shows it."""
    return {
        **head("service_account", row, slug=row.slug, name=row.name, created_by=row.created_by),
        "tenant": row.tenant.slug if row.tenant else None,
        "spec": {"role": current_role(row)},
        "status": {"username": row.user.username, "observed_generation": row.generation, "conditions": []},
    }
