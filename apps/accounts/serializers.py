"""How tokens and oneself look in REST."""

from collections.abc import Iterable, Mapping
from typing import Any

from rest_framework import serializers

from apps.accounts.models import ApiToken, User
from apps.accounts.specs import Actor
from apps.web.serializers import BoundedList, StrictSerializer


class TokenWishSerializer(StrictSerializer):
    """What POST takes; the rules on its values are the service's."""

    name = serializers.CharField(max_length=120)
    scopes = BoundedList(child=serializers.CharField(max_length=64), default=list, max_length=64)
    tenants = BoundedList(child=serializers.CharField(max_length=40), default=list, max_length=100)
    expires_at = serializers.DateTimeField(required=False, allow_null=True, help_text="90 days when omitted")


class TokenSerializer(serializers.Serializer[Any]):
    """A token without its text."""

    object = serializers.CharField(default="token")
    id = serializers.UUIDField()
    name = serializers.CharField()
    prefix = serializers.CharField()
    scopes = serializers.ListField(child=serializers.CharField())
    tenants = serializers.ListField(child=serializers.CharField())
    created_at = serializers.DateTimeField()
    expires_at = serializers.DateTimeField()
    last_used_at = serializers.DateTimeField(allow_null=True)


class MadeTokenSerializer(TokenSerializer):
    """The answer to POST; a repeat with the same Idempotency-Key has null in `token`."""

    token = serializers.CharField(allow_null=True)


class TokenListSerializer(serializers.Serializer[Any]):
    """A page of tokens."""

    items = TokenSerializer(many=True)
    next = serializers.URLField(allow_null=True)
    total = serializers.IntegerField(required=False)


class MeSerializer(serializers.Serializer[Any]):
    """Who asks, and how far the credential reaches; `scopes` null: not cut."""

    object = serializers.CharField(default="me")
    username = serializers.CharField()
    name = serializers.CharField()
    roles = serializers.ListField(child=serializers.CharField())
    tenants = serializers.DictField(child=serializers.CharField(), help_text="tenant slug: role")
    departments = serializers.ListField(child=serializers.CharField(), help_text="those it manages")
    scopes = serializers.ListField(child=serializers.CharField(), allow_null=True)
    token = serializers.CharField(allow_null=True, help_text="the token's prefix; null for a session")


def token_body(token: ApiToken) -> Mapping[str, Any]:
    """A token as REST shows it."""
    return {
        "object": "token",
        **TokenSerializer(token).data,
    }


def _managed(user: User, actor: Actor) -> Iterable[str]:
    """The departments that the person manages; a token that is cut to some tenants manages none."""
    if actor.tenants is not None:
        return ()
    managed: Iterable[str] = user.managed_departments.values_list("department__slug", flat=True)
    return managed


def me_body(user: User, actor: Actor) -> Mapping[str, Any]:
    """Oneself: roles over the installation, roles per tenant (cut by the token), scopes, token."""
    # Through the reverse relation: tenants sit above accounts.
    memberships = user.memberships.order_by("tenant__slug").values_list("tenant__slug", "role")
    return {
        "object": "me",
        "username": user.username,
        "name": user.shown_name,
        "roles": [user.platform_role] if user.platform_role else [],
        "tenants": {
            slug: role for slug, role in memberships if actor.tenants is None or slug in actor.tenants
        },
        "departments": sorted(_managed(user, actor)),
        "scopes": None if actor.scopes is None else sorted(actor.scopes),
        "token": actor.token_prefix or None,
    }
