"""REST for a tenant's virtual cluster: sleep and wake. Everything else of it is the tenant's spec."""

from collections.abc import Mapping
from typing import Any, ClassVar

from django.utils import timezone

from apps.accounts.specs import ScopeGroup
from apps.tenants import selectors
from apps.tenants.lifecycle.services import isolation_choice, tenancy
from apps.tenants.models import Tenant
from portal.api.base.documents import VerbView, acts
from portal.api.base.serializers import StrictSerializer
from portal.api.tenants.shapes import TenantBody, tenant_body


class RestView(VerbView[Tenant]):
    """Sends a tenant's virtual cluster to sleep, or wakes it; a lead may. Again changes nothing."""

    scope_group = ScopeGroup.TENANTS
    may_match = ("POST",)
    takes = StrictSerializer
    status = 202
    locks = True
    find = staticmethod(selectors.tenant_for)
    body = staticmethod(tenant_body)
    asleep: ClassVar[bool]

    def require(self, row: Tenant) -> None:
        """As the service."""
        tenancy.require_lead(self.actor, row)

    def act(self, row: Tenant, asked: Mapping[str, Any]) -> Tenant:  # noqa: ARG002 - nothing is asked
        """Sleep or wake."""
        return isolation_choice.rest(actor=self.actor, tenant=row, asleep=self.asleep, now=timezone.now())


@acts(
    TenantBody,
    "wrong_phase",
    post="Send it to sleep: its control plane goes off, its queue is drained; what it has stored stays.",
)
class SleepView(RestView):
    """Sleep."""

    asleep = True


@acts(TenantBody, "wrong_phase", post="Wake it, with all that it has stored.")
class WakeView(RestView):
    """Wake."""

    asleep = False
