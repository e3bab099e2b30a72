"""REST for a tenant's virtual cluster: sleep and wake. Everything else of it is the tenant's spec."""

from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.specs import ScopeGroup
from apps.tenants import fencing, selectors, services
from apps.tenants.bodies import TenantBody, tenant_body
from apps.tenants.models import Tenant
from portal.api.base.serializers import StrictSerializer
from portal.api.base.views import ApiView, etag, idempotent, require_match
from portal.api.base.writing import written
from portal.api.declared.declaring import answers, refuses


class RestView(ApiView):
    """Sends a tenant's virtual cluster to sleep, or wakes it; a lead may."""

    scope_group = ScopeGroup.TENANTS
    may_match = ("POST",)

    def rest(self, request: Request, key: str, *, asleep: bool) -> Response:
        """Again changes nothing."""

        def act() -> Tenant:
            tenant = selectors.tenant_for(self.actor, key, lock=True)
            services.require_lead(self.actor, tenant)
            StrictSerializer.checked(request.data)
            require_match(request, tenant.generation, required=False)
            return fencing.rest(actor=self.actor, tenant=tenant, asleep=asleep, now=timezone.now())

        return idempotent(request, lambda: written(request, act, _shown))


class SleepView(RestView):
    """Sleep."""

    @answers(202, TenantBody, etag=True)
    @refuses("wrong_phase")
    def post(self, request: Request, key: str) -> Response:
        """Send it to sleep: its control plane goes off, its queue is drained; what it has stored stays."""
        return self.rest(request, key, asleep=True)


class WakeView(RestView):
    """Wake."""

    @answers(202, TenantBody, etag=True)
    @refuses("wrong_phase")
    def post(self, request: Request, key: str) -> Response:
        """Wake it, with all that it has stored."""
        return self.rest(request, key, asleep=False)


def _shown(tenant: Tenant) -> Response:
    return Response(tenant_body(tenant), status=202, headers={"ETag": etag(tenant)})
