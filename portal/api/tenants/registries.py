"""REST for the registries of a tenant: how its private images are pulled. What is in them is never told."""

from datetime import datetime
from typing import Literal, TypedDict

from django.utils import timezone
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.specs import ScopeGroup
from apps.tenants import selectors
from apps.tenants.lifecycle.selectors import logins
from apps.tenants.models import RegistryCredential
from apps.tenants.people.services import registries
from apps.tenants.specs import RegistryLogin
from portal.api.base.serializers import StrictSerializer
from portal.api.base.views import ApiView
from portal.api.base.writing import written
from portal.api.declared.declaring import answers, named, pages, refuses, takes


class RegistryLoginSerializer(StrictSerializer):
    """What PUT takes; it is sealed at once and never answered."""

    username = serializers.CharField(max_length=registries.LONGEST_USERNAME, write_only=True)
    password = serializers.CharField(
        max_length=registries.LONGEST_PASSWORD, trim_whitespace=False, write_only=True
    )


class RegistryBody(TypedDict):
    """A registry of a tenant, without user and password."""

    object: Literal["registry"]
    registry: str
    tenant: str
    set_by: str
    set_at: datetime


class RegistriesView(ApiView):
    """The registries of a tenant."""

    scope_group = ScopeGroup.TENANTS

    @named("registries_list")
    @pages(RegistryBody)
    def get(self, request: Request, key: str) -> Response:  # noqa: ARG002 - Django's signature
        """By name, all on one page."""
        tenant = selectors.tenant_for(self.actor, key)
        rows = logins.registries_of(tenant).select_related("tenant")
        return Response({"items": [_body(row) for row in rows], "next": None})


class RegistryView(ApiView):
    """One registry of a tenant."""

    scope_group = ScopeGroup.TENANTS

    @named("registries_retrieve")
    @answers(200, RegistryBody)
    def get(self, request: Request, key: str, registry: str) -> Response:  # noqa: ARG002 - Django's signature
        """By its host."""
        return Response(_body(logins.registry_of(selectors.tenant_for(self.actor, key), registry)))

    @named("registries_update")
    @takes(RegistryLoginSerializer)
    @answers(200, RegistryBody)
    @refuses("wrong_phase")
    def put(self, request: Request, key: str, registry: str) -> Response:
        """Set how its images are pulled, in the place of what was set before.

        User and password are sealed and never answered. Running work is left alone. No If-Match.
        """

        def write() -> RegistryCredential:
            tenant = selectors.tenant_for(self.actor, key)
            registries.require_keeper(self.actor, tenant)
            asked = RegistryLoginSerializer.checked(request.data)
            login = RegistryLogin(registry, asked["username"], asked["password"])
            return registries.set_registry(actor=self.actor, tenant=tenant, login=login, now=timezone.now())

        return written(request, write, lambda row: Response(_body(row)))

    @named("registries_destroy")
    @answers(204)
    def delete(self, request: Request, key: str, registry: str) -> Response:
        """Forget it: its private images cannot be pulled any more."""

        def remove() -> None:
            tenant = selectors.tenant_for(self.actor, key)
            registries.remove_registry(actor=self.actor, tenant=tenant, registry=registry, now=timezone.now())

        return written(request, remove, lambda _: Response(status=204))


def _body(row: RegistryCredential) -> RegistryBody:
    return {
        "object": "registry",
        "registry": row.registry,
        "tenant": row.tenant.slug,
        "set_by": row.set_by,
        "set_at": row.set_at,
    }
