"""REST for a tenant's life cycle and for its members' way into the cluster."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.specs import ScopeGroup
from apps.errors import Invalid
from apps.tenants import selectors
from apps.tenants.isolation.kubeconfig import CREDENTIAL_SECONDS, ExecCredential, credential
from apps.tenants.lifecycle.services import adoption, deletion, tenancy
from apps.tenants.live.services import cluster_reads
from apps.tenants.models import Tenant
from apps.web.problems.refusals import BadParameter
from portal.api.base.documents import VerbView, acts
from portal.api.base.serializers import StrictSerializer
from portal.api.base.views import ApiView
from portal.api.declared.declaring import answers, refuses, takes
from portal.api.declared.queries import Text
from portal.api.tenants.departments import named_cluster
from portal.api.tenants.shapes import (
    KubeconfigBody,
    NamespaceBody,
    RemovalBody,
    TenantBody,
    kubeconfig_body,
    namespace_body,
    removal_body,
    tenant_body,
)
from portal.api.tenants.tenants_bodies import KubeconfigWishSerializer


class RemovalView(ApiView):
    """What a tenant's deletion would take."""

    scope_group = ScopeGroup.TENANTS

    @answers(200, RemovalBody)
    @refuses("not_allowed")
    def get(self, request: Request, key: str) -> Response:  # noqa: ARG002 - Django's signature
        """Every object by kind and name, volumes with their sizes; for those who may ask for it."""
        tenant = selectors.tenant_for(self.actor, key)
        tenancy.require_reader_of_removal(self.actor, tenant)
        return Response(removal_body(cluster_reads.removal_now(tenant)))


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
        return Response(namespace_body(cluster_reads.content_of(cluster, name)))


class TenantAct(VerbView[Tenant]):
    """One verb on a tenant; again changes nothing."""

    scope_group = ScopeGroup.TENANTS
    may_match = ("POST",)
    locks = True
    find = staticmethod(selectors.tenant_for)
    body = staticmethod(tenant_body)
    verb: ClassVar[Callable[..., Tenant]]

    def require(self, row: Tenant) -> None:
        """As most of them."""
        tenancy.require_administrator(self.actor, row)

    def act(self, row: Tenant, asked: Mapping[str, Any]) -> Tenant:
        """With the reason."""
        return type(self).verb(actor=self.actor, tenant=row, now=timezone.now(), **asked)


@acts(TenantBody, "wrong_phase", post="Archive it: work is drained and access ends. Again changes nothing.")
class ArchiveView(TenantAct):
    """Put away: work drained, access ended, everything kept."""

    verb = staticmethod(deletion.archive_tenant)


@acts(TenantBody, "wrong_phase", post="Bring it back as it was. Again changes nothing.")
class UnarchiveView(TenantAct):
    """Bring back."""

    verb = staticmethod(deletion.unarchive_tenant)


@acts(
    TenantBody,
    "wrong_phase",
    "own_request",
    post="Approve the deletion that somebody else asked for. Again changes nothing.",
)
class ApproveDeletionView(TenantAct):
    """The second platform engineer's yes."""

    verb = staticmethod(deletion.approve_deletion)

    def require(self, row: Tenant) -> None:
        """As the service."""
        deletion.require_approver(self.actor, row)


@acts(TenantBody, "wrong_phase", post="Withdraw the deletion before it begins. Again changes nothing.")
class WithdrawDeletionView(TenantAct):
    """Take a deletion back before it begins."""

    verb = staticmethod(deletion.withdraw_deletion)


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
        return Response(kubeconfig_body(cluster_reads.plugin_kubeconfig(self.actor, tenant), None))

    @takes(KubeconfigWishSerializer)
    @answers(201, KubeconfigBody)
    @refuses("wrong_phase", "cluster_unavailable")
    def post(self, request: Request, key: str) -> Response:
        """A kubeconfig with a token in it, for tools that run no plugin. Kept nowhere."""
        tenant = selectors.tenant_for(self.actor, key)
        tenancy.require_member(self.actor, tenant)
        seconds = KubeconfigWishSerializer.checked(request.data)["expires_in_seconds"]
        made, ends = cluster_reads.token_kubeconfig(self.actor, tenant, seconds=seconds)
        tenancy.record_kubeconfig(actor=self.actor, tenant=tenant, expires_at=ends, now=timezone.now())
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
        tenancy.require_member(self.actor, tenant)
        StrictSerializer.checked(request.data)
        return Response(credential(*cluster_reads.credential(self.actor, tenant, seconds=CREDENTIAL_SECONDS)))
