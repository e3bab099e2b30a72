"""What is asked of a cluster while somebody waits: a member's own credential. Stores nothing."""

from datetime import datetime
from typing import Any

from django.conf import settings

from apps.accounts.specs import Actor
from apps.cluster.errors import Rejected
from apps.cluster.gateway import open_gateway
from apps.cluster.models import Cluster, MirrorObject
from apps.cluster.specs import ObjectRef
from apps.errors import Conflict, NotAllowed, NotFound
from apps.tenants import kubeconfig, selectors
from apps.tenants.content import Content
from apps.tenants.models import Tenant
from apps.tenants.specs import ACCESS_NAMESPACE, ASK_A_LEAD, Role

LOOKED_AT = (
    "Pod", "Deployment", "StatefulSet", "Job", "Service", "PersistentVolumeClaim", "ConfigMap", "RoleBinding",
    "NetworkPolicy", "ResourceQuota", "LimitRange", "LocalQueue",
)  # fmt: skip
"""The kinds whose objects are shown before a namespace is taken over."""


def plugin_kubeconfig(actor: Actor, tenant: Tenant) -> dict[str, Any]:
    """A kubeconfig with the credential plugin: no secret in it. Refuses as `credential` does."""
    _account(actor, tenant)
    return kubeconfig.with_plugin(
        endpoint=open_gateway(tenant.cluster).endpoint(),
        tenant=tenant.slug,
        namespace=tenant.object_name,
        portal=settings.CONFIG.url,
    )


def token_kubeconfig(actor: Actor, tenant: Tenant, *, seconds: int) -> tuple[dict[str, Any], datetime]:
    """A kubeconfig that works by itself, and when it ends. Refuses as `credential` does."""
    token, ends = credential(actor, tenant, seconds=seconds)
    made = kubeconfig.with_token(
        endpoint=open_gateway(tenant.cluster).endpoint(),
        tenant=tenant.slug,
        namespace=tenant.object_name,
        token=token,
    )
    return made, ends


def credential(actor: Actor, tenant: Tenant, *, seconds: int) -> tuple[str, datetime]:
    """A token of the actor's own account in the cluster, and when it ends.

    Rule: members only, platform engineers included, because the cluster knows nobody else: NotAllowed.
    Conflict while the account is not bound yet; ClusterUnavailable where the cluster does not answer.
    """
    account = _account(actor, tenant)
    try:
        return open_gateway(tenant.cluster).create_token(ACCESS_NAMESPACE, account, seconds=seconds)
    except Rejected as error:
        raise Conflict(
            f"The cluster gives no token: {error.message}", hint="Try again in a minute."
        ) from None


def content_of(cluster: Cluster, name: str) -> Content:
    """What lies in a namespace that was there before; raises NotFound where there is none.

    Secrets are not counted: the product has no right to read them.
    """
    gateway = open_gateway(cluster)
    space = gateway.get(ObjectRef("Namespace", "", name))
    if space is None or space["metadata"].get("deletionTimestamp"):
        raise NotFound
    found = {kind: gateway.list(kind, namespace=name)[0] for kind in LOOKED_AT}
    objects = {
        kind: tuple(sorted(body["metadata"]["name"] for body in bodies))
        for kind, bodies in found.items()
        if bodies
    }
    return Content(name, objects, space["metadata"].get("labels") or {})


def _account(actor: Actor, tenant: Tenant) -> str:
    role = selectors.role_of(actor, tenant)
    if role is None or actor.user_id is None:
        words = f"Only members of {tenant.slug} have an account in its cluster."
        raise NotAllowed(words, hint=ASK_A_LEAD)
    if selectors.vcluster_of(tenant) is not None:
        words = f"{tenant.slug} has a virtual cluster; accounts inside it are not made yet."
        raise Conflict(words, code="capability_missing", hint="Ask a platform engineer for access to it.")
    account = selectors.account_name(tenant, actor.user_id)
    if not _is_bound(tenant, account, role):
        words = f"Your account in {tenant.slug} is not set up in the cluster."
        raise Conflict(words, hint="It is, as soon as the tenant is ready and not archived.")
    return account


def _is_bound(tenant: Tenant, account: str, role: Role) -> bool:
    bound = MirrorObject.objects.filter(
        cluster=tenant.cluster_id,
        kind="RoleBinding",
        namespace=tenant.object_name,
        name=f"{account}-{role.value}",
        gone_at=None,
        deleting=False,
    )
    return bound.exists()
