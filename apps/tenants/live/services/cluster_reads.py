"""Calls to a cluster while somebody waits: a member's own credential, the content of a namespace. Stores
nothing.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.conf import settings
from django.utils import timezone

from apps.accounts.specs import Actor
from apps.cluster.errors import Rejected, Unreachable
from apps.cluster.gateway.port import Gateway, open_gateway, open_keyed
from apps.cluster.models import Cluster, MirrorObject
from apps.cluster.objects.kinds import KINDS
from apps.cluster.specs import Body, ObjectRef
from apps.errors import Conflict, NotAllowed, NotFound
from apps.ranges import KUBECONFIG_SECONDS
from apps.tenants import selectors, virtual_members
from apps.tenants.isolation import kubeconfig
from apps.tenants.isolation.content import Content
from apps.tenants.isolation.manifests import binding_name, shell_binding_name
from apps.tenants.lifecycle.selectors.removal import NEVER_SEEN, Removal, removal_of, with_found
from apps.tenants.models import Tenant
from apps.tenants.specs import ACCESS_NAMESPACE, ASK_A_LEAD, Isolation, MemberSpec, Role

LOOKED_AT = (
    "Pod", "Deployment", "StatefulSet", "Job", "Service", "PersistentVolumeClaim", "ConfigMap", "RoleBinding",
    "NetworkPolicy", "ResourceQuota", "LimitRange", "LocalQueue",
)  # fmt: skip
"""The kinds whose objects are shown before a namespace is taken over."""
WATCHED_BY_LABEL = tuple(kind for kind, info in KINDS.items() if info.namespaced and info.selector)
"""The kinds of which the mirror has only what carries our label."""

_SOON = "Try again once the tenant is ready and not archived."
_WAKE = "A lead can wake it on the page Isolation or over REST."


@dataclass(frozen=True)
class _Way:
    """Where a member's own account is, and where kubectl begins there."""

    gateway: Gateway
    account: str
    namespace: str


def plugin_kubeconfig(actor: Actor, tenant: Tenant) -> dict[str, Any]:
    """A kubeconfig with the credential plugin: no secret in it. Refuses as `credential` does."""
    way = _way(actor, tenant)
    return kubeconfig.with_plugin(
        endpoint=way.gateway.endpoint(),
        tenant=tenant.slug,
        namespace=way.namespace,
        portal=settings.CONFIG.url,
    )


def token_kubeconfig(actor: Actor, tenant: Tenant, *, seconds: int) -> tuple[dict[str, Any], datetime]:
    """A kubeconfig that works by itself, and when it ends. Refuses as `credential` does."""
    way = _way(actor, tenant)
    token, ends = _token(actor, way, seconds)
    made = kubeconfig.with_token(
        endpoint=way.gateway.endpoint(),
        tenant=tenant.slug,
        namespace=way.namespace,
        token=token,
    )
    return made, ends


def credential(actor: Actor, tenant: Tenant, *, seconds: int) -> tuple[str, datetime]:
    """A token of the actor's own account in the cluster, or inside the tenant's virtual one, and its end.

    Rule: members only, platform engineers included, because the cluster knows nobody else: NotAllowed.
    Conflict while the account is not bound yet, or the virtual cluster sleeps or is not ready;
    ClusterUnavailable where the cluster does not answer.
    """
    return _token(actor, _way(actor, tenant), seconds)


def shell_credential(actor: Actor, tenant: Tenant, *, seconds: int) -> tuple[str, datetime]:
    """A token of the actor's account where the tenant's workloads run, for the door, and its end. Refuses as
    `credential` does.

    RULE: handed to nobody. Beside a virtual cluster it may no more than run commands and reach ports in
    workloads' pods; what people take away is for the inside (`credential`).
    """
    if tenant.isolation != Isolation.VCLUSTER:
        return credential(actor, tenant, seconds=seconds)
    account, _ = _account_of(actor, tenant)
    return _token(actor, _way_to(tenant, account, shell_binding_name(account)), seconds)


def _token(actor: Actor, way: _Way, seconds: int) -> tuple[str, datetime]:
    """RULE: it ends with the API token that asked for it, or after the ten minutes that are the shortest that
    Kubernetes gives.
    """
    if actor.ends_at is not None:
        left = int((actor.ends_at - timezone.now()).total_seconds())
        seconds = min(seconds, max(left, KUBECONFIG_SECONDS.least))
    try:
        return way.gateway.create_token(ACCESS_NAMESPACE, way.account, seconds=seconds)
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


def removal_now(tenant: Tenant) -> Removal:
    """What the deletion of a tenant takes, with what people made in its namespace outside the portal, as the
    cluster has it now.

    RULE: of a namespace that was there before only what is ours goes, so the cluster is not asked. Where it
    does not answer, or refuses a kind, that is said and the rest is shown.
    """
    known = removal_of(tenant)
    if tenant.is_namespace_adopted:
        return known
    found: dict[str, list[Body]] = {}
    unseen = [NEVER_SEEN]
    try:
        gateway = open_gateway(tenant.cluster)
        for kind in WATCHED_BY_LABEL:
            try:
                found[kind] = gateway.list(kind, namespace=tenant.object_name)[0]
            except Rejected as error:
                # A kind that the cluster does not serve has no objects.
                if not error.is_absent:
                    unseen.append(f"{kind}s without our label are not listed: {error.message}")
    except Unreachable:
        words = "does not answer: what carries no label of ours is not listed now."
        unseen.append(f"{tenant.cluster.name} {words}")
    return with_found(known, tenant.object_name, found, unseen)


def _way(actor: Actor, tenant: Tenant) -> _Way:
    account, role = _account_of(actor, tenant)
    if tenant.isolation == Isolation.VCLUSTER:
        return _way_inside(tenant, account)
    return _way_to(tenant, account, binding_name(MemberSpec(account, role)))


def _account_of(actor: Actor, tenant: Tenant) -> tuple[str, Role]:
    role = selectors.role_of(actor, tenant)
    if role is None or actor.user_id is None:
        words = f"Only members of {tenant.slug} have an account in its cluster."
        raise NotAllowed(words, hint=ASK_A_LEAD)
    return selectors.account_name(tenant, actor.user_id), role


def _way_to(tenant: Tenant, account: str, binding: str) -> _Way:
    if not _is_bound(tenant, binding):
        words = f"Your account in {tenant.slug} is not set up in the cluster."
        raise Conflict(words, hint=_SOON)
    return _Way(open_gateway(tenant.cluster), account, tenant.object_name)


def _way_inside(tenant: Tenant, account: str) -> _Way:
    if tenant.deleting_at is not None:
        raise Conflict(f"{tenant.slug} is being deleted.", hint="Nobody gets in any more.")
    if words := virtual_members.refusal(tenant):
        raise Conflict(words, hint=_WAKE if "asleep" in words else _SOON)
    return _Way(open_keyed(virtual_members.key_of(tenant, open_gateway(tenant.cluster))), account, "default")


def _is_bound(tenant: Tenant, binding: str) -> bool:
    bound = MirrorObject.objects.filter(
        cluster=tenant.cluster_id,
        kind="RoleBinding",
        namespace=tenant.object_name,
        name=binding,
        gone_at=None,
        deleting=False,
    )
    return bound.exists()
