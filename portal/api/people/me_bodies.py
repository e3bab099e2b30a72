"""How tokens and oneself look in REST."""

from collections.abc import Iterable
from datetime import datetime
from typing import Annotated, Any, Literal, TypedDict

from django.db.models import UUIDField
from rest_framework import serializers

from apps.accounts.models import ApiToken, User
from apps.accounts.specs import Actor
from apps.prepared import Prepared
from apps.web.shapes.bodies import Id
from portal.api.base.serializers import BoundedList, StrictSerializer


class TokenWishSerializer(StrictSerializer):
    """What POST takes; the rules on its values are the service's."""

    name = serializers.CharField(max_length=120)
    scopes = BoundedList(child=serializers.CharField(max_length=64), default=list, max_length=64)
    tenants = BoundedList(child=serializers.CharField(max_length=40), default=list, max_length=100)
    expires_at = serializers.DateTimeField(
        required=False, allow_null=True, help_text="90 days when omitted, never beyond the token that asks"
    )


class TokenBody(TypedDict):
    """A token without its text."""

    object: Literal["token"]
    id: Id
    name: str
    prefix: Annotated[str, "How the text begins, to tell tokens apart."]
    scopes: Annotated[list[str], "Empty: not cut."]
    tenants: Annotated[list[str], "Slugs; empty: not cut."]
    created_at: datetime
    expires_at: datetime
    last_used_at: datetime | None


class MadeTokenBody(TokenBody):
    """A new token; its text is in this answer only."""

    token: Annotated[str | None, "The text; null where the same Idempotency-Key came again."]


class MeBody(TypedDict):
    """Who asks, and how far the credential reaches."""

    object: Literal["me"]
    username: str
    name: str
    roles: Annotated[list[str], "Over the whole installation."]
    tenants: Annotated[dict[str, str], "Tenant's slug: role in it."]
    departments: Annotated[list[str], "Slugs of those that the person manages."]
    scopes: Annotated[list[str] | None, "Null: not cut."]
    tenants_cut: Annotated[list[str] | None, "The only tenants that the token reaches; null: not cut."]
    token: Annotated[str | None, "The token's prefix; null for a session."]


def token_body(token: ApiToken) -> TokenBody:
    """A token as REST shows it."""
    return {
        "object": "token",
        "id": str(token.pk),
        "name": token.name,
        "prefix": token.prefix,
        "scopes": token.scopes,
        "tenants": token.tenants,
        "created_at": token.created_at,
        "expires_at": token.expires_at,
        "last_used_at": token.last_used_at,
    }


def _managed(user: User, actor: Actor) -> Iterable[str]:
    """The departments that the person manages; a token limited to some tenants manages none."""
    if actor.tenants is not None:
        return ()
    return _MANAGED(user.pk)


def _related(name: str) -> Any:
    """Rows that point at a user, from apps above: found through the reverse relation."""
    return User._meta.get_field(name).related_model.objects  # type: ignore[union-attr]


_MANAGED: Prepared[str] = Prepared(
    lambda user: (
        _related("managed_departments")
        .filter(user=user, department__deleted_at=None)
        .values_list("department__slug", flat=True)
    ),
    UUIDField(),
)
_MEMBERSHIPS: Prepared[tuple[str, str]] = Prepared(
    lambda user: (
        _related("memberships")
        .filter(user=user, tenant__deleted_at=None)
        .order_by("tenant__slug")
        .values_list("tenant__slug", "role")
    ),
    UUIDField(),
)


def me_body(user: User, actor: Actor) -> MeBody:
    """The caller: platform role, roles per tenant (limited by the token), scopes, token."""
    return {
        "object": "me",
        "username": user.username,
        "name": user.shown_name,
        "roles": [user.platform_role] if user.platform_role else [],
        "tenants": {slug: role for slug, role in _MEMBERSHIPS(user.pk) if actor.reaches(slug)},
        "departments": sorted(_managed(user, actor)),
        "scopes": None if actor.scopes is None else sorted(actor.scopes),
        "tenants_cut": None if actor.tenants is None else sorted(actor.tenants),
        "token": actor.token_prefix or None,
    }
