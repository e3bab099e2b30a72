"""REST for a tenant's life cycle and for its members' way into the cluster."""

from collections.abc import Callable
from typing import ClassVar

from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.specs import ScopeGroup
from apps.errors import Invalid
from apps.tenants import adoption, lifecycle, live, selectors, services
from apps.tenants.bodies import (
    KubeconfigBody,
    NamespaceBody,
    RemovalBody,
    TenantBody,
    kubeconfig_body,
    namespace_body,
    removal_body,
    tenant_body,
)
from apps.tenants.kubeconfig import CREDENTIAL_SECONDS, ExecCredential, credential
from apps.tenants.models import Tenant
from apps.web.refusals import BadParameter
from portal.api.base.serializers import ReasonSerializer, StrictSerializer
from portal.api.base.views import ApiView, etag, idempotent, require_match
from portal.api.base.writing import written
from portal.api.declared.declaring import answers, refuses, takes
from portal.api.declared.queries import Text
from portal.api.tenants.departments import named_cluster
from portal.api.tenants.tenants_bodies import KubeconfigWishSerializer


class RemovalView(ApiView):
    """What a tenant's deletion would take."""

    scope_group = ScopeGroup.TENANTS

    @answers(200, RemovalBody)
    @refuses("not_allowed")
    def get(self, request: Request, key: str) -> Response:  # noqa: ARG002 - Django's signature
        """Every object by kind and name, volumes with their sizes; for those who may ask for it."""
        tenant = selectors.tenant_for(self.actor, key)
        services.require_reader_of_removal(self.actor, tenant)
        return Response(removal_body(live.removal_now(tenant)))


CLUSTER = Text("cluster", "Of this cluster, by slug or id; needed where there are several.")


class NamespaceView(ApiView):
    """A namespace that could become a tenant's: what lies in it, read from the cluster now."""

    scope_group = ScopeGroup.TENANTS
    parameters = (CLUSTER,)

    @answers(200, NamespaceBody)
    @refuses("not_allowed", "cluster_unavailable")
    def get(self, request: Request, name: str) -> Response:
        """Its objects and `seen`, which taking it over has to name; `?cluster=` where there are several."""
        adoption.require_taker(self.actor)
        key = CLUSTER.of(request) or ""
        try:
            cluster = named_cluster(self.actor, key)
        except Invalid as error:
            raise BadParameter("cluster", error.problems[0].detail) from None
        return Response(namespace_body(live.content_of(cluster, name)))


class _ActionView(ApiView):
    """One verb on a tenant; If-Match is optional, the body is a reason."""

    scope_group = ScopeGroup.TENANTS
    may_match = ("POST",)
    act: ClassVar[Callable[..., Tenant]]
    require: ClassVar[Callable[..., None]] = staticmethod(services.require_administrator)

    def acted(self, request: Request, key: str) -> Response:
        """Do it; doing it twice changes nothing."""

        def do() -> Tenant:
            tenant = selectors.tenant_for(self.actor, key, lock=True)
            type(self).require(self.actor, tenant)
            reason = ReasonSerializer.checked(request.data)["reason"]
            require_match(request, tenant.generation, required=False)
            return type(self).act(actor=self.actor, tenant=tenant, reason=reason, now=timezone.now())

        return idempotent(request, lambda: written(request, do, _shown))


class ArchiveView(_ActionView):
    """Put away: work drained, access ended, everything kept."""

    act = staticmethod(lifecycle.archive_tenant)

    @takes(ReasonSerializer)
    @answers(200, TenantBody, etag=True)
    @refuses("wrong_phase")
    def post(self, request: Request, key: str) -> Response:
        """Archive it: work is drained and access ends. Again changes nothing."""
        return self.acted(request, key)


class UnarchiveView(_ActionView):
    """Bring back."""

    act = staticmethod(lifecycle.unarchive_tenant)

    @takes(ReasonSerializer)
    @answers(200, TenantBody, etag=True)
    @refuses("wrong_phase")
    def post(self, request: Request, key: str) -> Response:
        """Bring it back as it was. Again changes nothing."""
        return self.acted(request, key)


class ApproveDeletionView(_ActionView):
    """The second platform engineer's yes."""

    act = staticmethod(lifecycle.approve_deletion)
    require = staticmethod(lifecycle.require_approver)

    @takes(ReasonSerializer)
    @answers(200, TenantBody, etag=True)
    @refuses("wrong_phase", "own_request")
    def post(self, request: Request, key: str) -> Response:
        """Approve the deletion that somebody else asked for. Again changes nothing."""
        return self.acted(request, key)


class WithdrawDeletionView(_ActionView):
    """Take a deletion back before it begins."""

    act = staticmethod(lifecycle.withdraw_deletion)

    @takes(ReasonSerializer)
    @answers(200, TenantBody, etag=True)
    @refuses("wrong_phase")
    def post(self, request: Request, key: str) -> Response:
        """Withdraw the deletion before it begins. Again changes nothing."""
        return self.acted(request, key)


class KubeconfigView(ApiView):
    """The caller's own way into the tenant's cluster."""

    scope_group = ScopeGroup.WORKLOADS
    write_parameters = ()
    keyed = False

    @answers(200, KubeconfigBody)
    @refuses("not_allowed", "wrong_phase", "cluster_unavailable")
    def get(self, request: Request, key: str) -> Response:  # noqa: ARG002 - Django's signature
        """A kubeconfig without a secret; kubectl fetches short credentials through the plugin."""
        tenant = selectors.tenant_for(self.actor, key)
        return Response(kubeconfig_body(live.plugin_kubeconfig(self.actor, tenant), None))

    @takes(KubeconfigWishSerializer)
    @answers(201, KubeconfigBody)
    @refuses("wrong_phase", "cluster_unavailable")
    def post(self, request: Request, key: str) -> Response:
        """A kubeconfig with a token in it, for tools that run no plugin. Kept nowhere."""
        tenant = selectors.tenant_for(self.actor, key)
        services.require_member(self.actor, tenant)
        seconds = KubeconfigWishSerializer.checked(request.data)["expires_in_seconds"]
        made, ends = live.token_kubeconfig(self.actor, tenant, seconds=seconds)
        services.record_kubeconfig(actor=self.actor, tenant=tenant, expires_at=ends, now=timezone.now())
        return Response(kubeconfig_body(made, ends), status=201)


class CredentialView(ApiView):
    """What kubectl's plugin asks for."""

    scope_group = ScopeGroup.WORKLOADS
    write_parameters = ()
    keyed = False

    @answers(200, ExecCredential)
    @refuses("wrong_phase", "cluster_unavailable")
    def post(self, request: Request, key: str) -> Response:
        """An ExecCredential for the caller's own account, alive for 15 minutes."""
        tenant = selectors.tenant_for(self.actor, key)
        services.require_member(self.actor, tenant)
        StrictSerializer.checked(request.data)
        return Response(credential(*live.credential(self.actor, tenant, seconds=CREDENTIAL_SECONDS)))


def _shown(tenant: Tenant) -> Response:
    return Response(tenant_body(tenant), headers={"ETag": etag(tenant)})
