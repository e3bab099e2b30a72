"""REST for the attestation of a tenant's isolation."""

from collections.abc import Mapping
from typing import Any

from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.specs import ScopeGroup
from apps.tenants import attesting, selectors
from apps.tenants.models import Tenant
from apps.tenants.specs import Verdict
from apps.web.api import ApiView, idempotent
from apps.web.writing import written


class CheckSerializer(serializers.Serializer[Any]):
    """One of the checks."""

    key = serializers.CharField()
    title = serializers.CharField()
    verdict = serializers.ChoiceField(choices=Verdict.choices())
    words = serializers.CharField()


class AttestationSerializer(serializers.Serializer[Any]):
    """How a tenant's isolation stands; `at` is null before the first check."""

    object = serializers.CharField(default="attestation")
    tenant = serializers.CharField()
    at = serializers.DateTimeField(allow_null=True)
    due_at = serializers.DateTimeField(allow_null=True, help_text="since when a new check is due")
    generation = serializers.IntegerField(allow_null=True, help_text="of the tenant, when it was checked")
    passed = serializers.IntegerField()
    failed = serializers.IntegerField()
    not_checked = serializers.IntegerField()
    checks = CheckSerializer(many=True)


class AttestationView(ApiView):
    """The newest attestation."""

    scope_group = ScopeGroup.TENANTS

    @extend_schema(operation_id="attestation_retrieve", responses=AttestationSerializer)
    def get(self, request: Request, key: str) -> Response:  # noqa: ARG002 - Django's signature
        """Each check with its outcome in a sentence."""
        return Response(_body(selectors.tenant_for(self.actor, key)))


class AttestView(ApiView):
    """A new attestation."""

    scope_group = ScopeGroup.TENANTS

    @extend_schema(request=None, responses={202: AttestationSerializer})
    def post(self, request: Request, key: str) -> Response:
        """Ask for one; 202 with the present one, the new one follows within seconds."""

        def ask() -> Tenant:
            tenant = selectors.tenant_for(self.actor, key, lock=True)
            return attesting.ask(actor=self.actor, tenant=tenant, now=timezone.now())

        return idempotent(request, lambda: written(request, ask, _accepted))


def _accepted(tenant: Tenant) -> Response:
    return Response(_body(tenant), status=202)


def _body(tenant: Tenant) -> Mapping[str, Any]:
    found = attesting.latest(tenant)
    return {
        "object": "attestation",
        "tenant": tenant.slug,
        "at": found.at if found else None,
        "due_at": tenant.attestation_due_at,
        "generation": found.generation if found else None,
        "passed": found.passed if found else 0,
        "failed": found.failed if found else 0,
        "not_checked": found.not_checked if found else 0,
        "checks": found.results if found else [],
    }
