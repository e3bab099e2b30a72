"""REST for the attestation of a tenant's isolation."""

from datetime import datetime
from typing import Annotated, Literal, TypedDict

from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.specs import ScopeGroup
from apps.tenants import selectors
from apps.tenants.attestation.services import attestation_requests
from apps.tenants.models import Tenant
from apps.tenants.specs import Verdict
from portal.api.base.views import ApiView, idempotent
from portal.api.base.writing import written
from portal.api.declared.declaring import answers, named


class IsolationCheckBody(TypedDict):
    """One of the checks."""

    key: str
    title: str
    verdict: Verdict
    words: str


class AttestationBody(TypedDict):
    """How a tenant's isolation stands."""

    object: Literal["attestation"]
    tenant: Annotated[str, "The tenant's slug."]
    at: Annotated[datetime | None, "Null before the first check."]
    due_at: Annotated[datetime | None, "Since when a new check is due; null where none is."]
    generation: Annotated[int | None, "Of the tenant, when it was checked."]
    passed: int
    failed: int
    not_checked: int
    checks: list[IsolationCheckBody]


class AttestationView(ApiView):
    """The newest attestation."""

    scope_group = ScopeGroup.TENANTS

    @named("attestation_retrieve")
    @answers(200, AttestationBody)
    def get(self, request: Request, key: str) -> Response:  # noqa: ARG002 - Django's signature
        """Each check with its outcome in a sentence."""
        return Response(_body(selectors.tenant_for(self.actor, key)))


class AttestView(ApiView):
    """A new attestation."""

    scope_group = ScopeGroup.TENANTS

    @answers(202, AttestationBody)
    def post(self, request: Request, key: str) -> Response:
        """Ask for one; 202 with the present one, the new one follows within seconds."""

        def ask() -> Tenant:
            tenant = selectors.tenant_for(self.actor, key, lock=True)
            return attestation_requests.ask(actor=self.actor, tenant=tenant, now=timezone.now())

        return idempotent(request, lambda: written(request, ask, _accepted))


def _accepted(tenant: Tenant) -> Response:
    return Response(_body(tenant), status=202)


def _body(tenant: Tenant) -> AttestationBody:
    found = attestation_requests.latest(tenant)
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
