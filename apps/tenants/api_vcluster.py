"""REST for a tenant's virtual cluster: sleep and wake. Everything else of it is the tenant's spec."""

from typing import ClassVar

from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.specs import ScopeGroup
from apps.tenants import fencing, selectors, services
from apps.tenants.models import Tenant
from apps.tenants.serializers import TenantSerializer, tenant_body
from apps.web.api import ApiView, etag, idempotent, require_match
from apps.web.serializers import StrictSerializer
from apps.web.writing import written


class RestView(ApiView):
    """Sends a tenant's virtual cluster to sleep, or wakes it; a lead may."""

    scope_group = ScopeGroup.TENANTS
    asleep: ClassVar[bool]

    @extend_schema(request=None, responses={202: TenantSerializer})
    def post(self, request: Request, key: str) -> Response:  # noqa: ARG002 - Django's signature
        """Asleep, its control plane is off and its queue drained; what it has stored stays."""
        return idempotent(request, lambda: written(request, self._act, _shown))

    def _act(self) -> Tenant:
        tenant = selectors.tenant_for(self.actor, self.kwargs["key"], lock=True)
        services.require_lead(self.actor, tenant)
        StrictSerializer.checked(self.request.data)
        require_match(self.request, tenant.generation, required=False)
        return fencing.rest(actor=self.actor, tenant=tenant, asleep=self.asleep, now=timezone.now())


class SleepView(RestView):
    """Sleep."""

    asleep = True


class WakeView(RestView):
    """Wake."""

    asleep = False


def _shown(tenant: Tenant) -> Response:
    return Response(tenant_body(tenant), status=202, headers={"ETag": etag(tenant)})
