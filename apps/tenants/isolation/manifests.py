"""What a tenant and a department are in Kubernetes: spec in, whole manifests out.

Pure. Knows nothing of quota (`apps.quotas.kueue.manifests`), of what is in the cluster, or of who may ask.
"""

from collections.abc import Iterable, Mapping

from apps.cluster.objects import names
from apps.cluster.specs import Manifest
from apps.ranges import DEVICES
from apps.tenants.specs import (
    ACCESS_NAMESPACE,
    DOOR_LABELS,
    DOOR_NAMESPACE,
    NOTEBOOKS,
    OBJECT_LIMITS,
    OBJECT_QUOTA,
    PRIVATE_NETWORKS,
    PRIVATE_NETWORKS_6,
    Bound,
    DepartmentSpec,
    Egress,
    EgressMode,
    EgressRule,
    MemberSpec,
    Role,
    TenantSpec,
)

POD_SECURITY_VERSION = "v1.36"
RBAC_GROUP = "rbac.authorization.k8s.io"
INSIDE_ROLE = "allotment-member"
"""What every member has in the whole of the tenant's virtual cluster: looking at what lies in no namespace,
and making namespaces. Leads are its administrators.
"""
_LOOKS = {
    "": ["namespaces", "nodes", "persistentvolumes"],
    "apiextensions.k8s.io": ["customresourcedefinitions"],
    "scheduling.k8s.io": ["priorityclasses"],
    "storage.k8s.io": ["storageclasses"],
}
SHELL_ROLE = "allotment-tenant-shell"
"""What a member has beside a virtual cluster: commands and ports, in the pods of workloads alone."""
_CLUSTER_ROLES = {Role.MEMBER: "allotment-tenant-member", Role.LEAD: "allotment-tenant-lead"}


def render_department(spec: DepartmentSpec) -> list[Manifest]:
    """A department is a Kueue Cohort without quota of its own: its tenants lend to and borrow from each
    other, and with those of the parent department within the bounds.

    Source: Kueue v0.19 v1beta2; the Cohort object is optional there, we write it so that it can be seen and
    owned. Limits are allowed only below a parent; each flavor of a group lists all its resources.
    """
    metadata = {
        "name": spec.object_name,
        "labels": names.owner_labels(owner="department", uid=spec.id),
        "annotations": {names.ANNOTATION_GENERATION: str(spec.generation)},
    }
    body: Manifest = {}
    if spec.parent:
        body = {"parentName": spec.parent} | _bounds(spec)
    if spec.fair_weight != 1:
        body["fairSharing"] = {"weight": f"{spec.fair_weight.normalize():f}"}
    return [{"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Cohort", "metadata": metadata, "spec": body}]


def _bounds(spec: DepartmentSpec) -> Manifest:
    """No quota of the department's own, only its limits towards the parent."""
    known = {(bound.flavor, bound.resource): bound for bound in spec.bounds}
    resources = sorted({resource for _, resource in known})
    if not resources:
        return {}
    flavors = [
        {"name": flavor, "resources": [_limits(name, known.get((flavor, name))) for name in resources]}
        for flavor in sorted({flavor for flavor, _ in known})
    ]
    return {"resourceGroups": [{"coveredResources": resources, "flavors": flavors}]}


def _limits(resource: str, bound: Bound | None) -> Manifest:
    limits = {"name": resource, "nominalQuota": "0"}
    if bound is not None and bound.borrowing is not None:
        limits["borrowingLimit"] = str(DEVICES.within(bound.borrowing))
    if bound is not None and bound.lending is not None:
        limits["lendingLimit"] = str(DEVICES.within(bound.lending))
    return limits


def render_tenant(spec: TenantSpec) -> list[Manifest]:
    """A tenant is one namespace with what hardens it and what all its notebooks share, for each member one
    account and one RoleBinding, and a probe by which its isolation is attested.

    Rules: pod security `restricted` at a fixed version, so that a cluster upgrade changes nothing by itself;
    traffic is denied except inside the namespace, to DNS, and from the door to what is opened; object counts
    are limited here, devices by the queue. Accounts lie in `allotment-access`, because a Job may
    name any account of its own namespace.
    """
    return [
        _namespace(spec),
        _object(spec, "v1", "ResourceQuota", OBJECT_QUOTA) | {"spec": {"hard": dict(OBJECT_LIMITS)}},
        _limit_range(spec),
        _default_deny(spec),
        _base_allow(spec),
        _inside(spec),
        _opened(spec),
        _notebooks(spec),
        *(_account(spec, member) for member in (*spec.members, *spec.shells)),
        *(_binding(spec, member) for member in spec.members),
        *(
            _bound(spec, shell_binding_name(member.account), SHELL_ROLE, member.account)
            for member in spec.shells
        ),
        *_probe(spec),
    ]


def probe_account(tenant_object_name: str) -> str:
    """The account in `allotment-access` that asks, for the attestation, what the tenant's people could do."""
    return f"probe-{tenant_object_name}"


def _object(
    spec: TenantSpec, api_version: str, kind: str, name: str, *, namespace: str | None = None
) -> Manifest:
    metadata = {
        "name": name,
        "namespace": spec.object_name if namespace is None else namespace,
        "labels": names.owner_labels(owner="tenant", uid=spec.id, tenant=spec.slug),
        "annotations": {names.ANNOTATION_GENERATION: str(spec.generation)},
    }
    return {"apiVersion": api_version, "kind": kind, "metadata": {k: v for k, v in metadata.items() if v}}


def _namespace(spec: TenantSpec) -> Manifest:
    manifest = _object(spec, "v1", "Namespace", spec.object_name, namespace="")
    manifest["metadata"]["labels"][names.LABEL_MANAGED] = "true"
    if spec.syncer:
        # The policies let exactly this account make pods that its virtual cluster owns.
        manifest["metadata"]["annotations"][names.ANNOTATION_SYNCER] = spec.syncer
    for mode in ("enforce", "audit", "warn"):
        manifest["metadata"]["labels"][f"pod-security.kubernetes.io/{mode}"] = "restricted"
        manifest["metadata"]["labels"][f"pod-security.kubernetes.io/{mode}-version"] = POD_SECURITY_VERSION
    return manifest


def _limit_range(spec: TenantSpec) -> Manifest:
    # Requests only: a default limit would refuse every container that asks for more than it without a limit.
    requests = {"cpu": "100m", "memory": "256Mi"}
    limits = {"limits": [{"type": "Container", "defaultRequest": requests}]}
    return _object(spec, "v1", "LimitRange", "defaults") | {"spec": limits}


def _default_deny(spec: TenantSpec) -> Manifest:
    policy = _object(spec, "networking.k8s.io/v1", "NetworkPolicy", "default-deny")
    return policy | {"spec": {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}}


def _base_allow(spec: TenantSpec) -> Manifest:
    dns = {
        "to": [
            {
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}},
                "podSelector": {"matchLabels": {"k8s-app": "kube-dns"}},
            }
        ],
        "ports": [{"protocol": protocol, "port": 53} for protocol in ("UDP", "TCP")],
    }
    rules = {
        "podSelector": {},
        "policyTypes": ["Egress"],
        "egress": [{"to": [{"podSelector": {}}]}, dns, *_egress(spec.egress)],
    }
    return _object(spec, "networking.k8s.io/v1", "NetworkPolicy", "base-allow") | {"spec": rules}


def _inside(spec: TenantSpec) -> Manifest:
    """Pods of the namespace reach each other, but for those that say by whom they are reached."""
    others = {"matchExpressions": [{"key": names.LABEL_INGRESS, "operator": "DoesNotExist"}]}
    rules = {
        "podSelector": others,
        "policyTypes": ["Ingress"],
        "ingress": [{"from": [{"podSelector": {}}]}],
    }
    return _object(spec, "networking.k8s.io/v1", "NetworkPolicy", "inside") | {"spec": rules}


def _opened(spec: TenantSpec) -> Manifest:
    """The door reaches what is opened. One policy for all of it: each notebook would cost a write more."""
    rules = {
        "podSelector": {"matchExpressions": [{"key": names.LABEL_INGRESS, "operator": "Exists"}]},
        "policyTypes": ["Ingress"],
        "ingress": [
            {
                "from": [peer(DOOR_NAMESPACE, DOOR_LABELS)],
                "ports": [{"port": port, "protocol": "TCP"} for port in names.INGRESS_PORTS],
            }
        ],
    }
    return _object(spec, "networking.k8s.io/v1", "NetworkPolicy", "opened") | {"spec": rules}


def peer(namespace: str, labels: Mapping[str, str]) -> Manifest:
    """Pods with these labels in one namespace, as a network policy names them."""
    return {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        "podSelector": {"matchLabels": dict(labels)},
    }


def _notebooks(spec: TenantSpec) -> Manifest:
    """Headless and without ports: it gives each pod of a StatefulSet that names it an address in DNS,
    `<pod>.allotment-notebooks.<namespace>.svc`, and takes none itself.

    Source: Kubernetes, "DNS for Services and Pods", on `hostname` and `subdomain`.
    """
    rules = {"clusterIP": "None", "selector": {names.LABEL_INGRESS: "proxy"}}
    return _object(spec, "v1", "Service", NOTEBOOKS) | {"spec": rules}


def _egress(egress: Egress) -> list[Manifest]:
    """What the tenant may reach besides its own namespace and DNS.

    The internet leaves out every private range, so that neither the cluster's own networks nor a cloud's
    metadata address (169.254.169.254, fd00:ec2::254) is part of it.
    """
    if egress.mode is EgressMode.ALLOW_LIST:
        return [_reach(rule) for rule in egress.allow]
    if egress.mode is EgressMode.INTERNET:
        blocks = (("0.0.0.0/0", PRIVATE_NETWORKS), ("::/0", PRIVATE_NETWORKS_6))
        return [{"to": [{"ipBlock": {"cidr": cidr, "except": list(but)}} for cidr, but in blocks]}]
    return []


def _reach(rule: EgressRule) -> Manifest:
    ports = [
        {"protocol": port.protocol} | ({} if port.port is None else {"port": port.port})
        for port in rule.ports
    ]
    return {"to": [{"ipBlock": {"cidr": rule.cidr}}]} | ({"ports": ports} if ports else {})


def _account(spec: TenantSpec, member: MemberSpec) -> Manifest:
    account = _object(spec, "v1", "ServiceAccount", member.account, namespace=ACCESS_NAMESPACE)
    return account | {"automountServiceAccountToken": False}


def _binding(spec: TenantSpec, member: MemberSpec) -> Manifest:
    return _bound(spec, binding_name(member), _CLUSTER_ROLES[member.role], member.account)


def binding_name(member: MemberSpec) -> str:
    """The role is part of the name: roleRef cannot change, so another role is another binding."""
    return f"{member.account}-{member.role.value}"


def shell_binding_name(account: str) -> str:
    """Of what lets a member's account in beside the tenant's virtual cluster."""
    return f"{account}-shell"


def _probe(spec: TenantSpec) -> list[Manifest]:
    """A lead's rights, the widest in the tenant, and those to send what must be refused, as a dry run."""
    account = probe_account(spec.object_name)
    made = _object(spec, "v1", "ServiceAccount", account, namespace=ACCESS_NAMESPACE)
    return [
        made | {"automountServiceAccountToken": False},
        _bound(spec, f"{account}-lead", _CLUSTER_ROLES[Role.LEAD], account),
        _bound(spec, account, "allotment-tenant-probe", account),
    ]


def _bound(spec: TenantSpec, name: str, role: str, account: str, *, namespace: str | None = None) -> Manifest:
    """No namespace given: the tenant's; an empty one: bound in all of the cluster."""
    kind = "ClusterRoleBinding" if namespace == "" else "RoleBinding"
    return _object(spec, f"{RBAC_GROUP}/v1", kind, name, namespace=namespace) | {
        "roleRef": {"apiGroup": RBAC_GROUP, "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": ACCESS_NAMESPACE}],
    }


def render_inside(
    spec: TenantSpec, members: Iterable[MemberSpec], namespaces: Iterable[str]
) -> list[Manifest]:
    """The accounts of members inside the tenant's virtual cluster, and what each may do there.

    Rules: a lead administers all of it; a member looks at what lies in no namespace, makes namespaces, and
    has Kubernetes' own role `edit` in each of `namespaces`. `edit` takes tokens of the accounts beside it, so
    `allotment-access` must not be among them. The host's fence holds whatever is done inside
    (docs/decisions/0013).
    """
    listed = sorted(members, key=lambda member: member.account)
    plain = [member for member in listed if member.role is Role.MEMBER]
    return [
        _object(spec, "v1", "Namespace", ACCESS_NAMESPACE, namespace=""),
        _object(spec, f"{RBAC_GROUP}/v1", "ClusterRole", INSIDE_ROLE, namespace="") | {"rules": _looks()},
        *(_account(spec, member) for member in listed),
        *(_everywhere(spec, member) for member in listed),
        *(
            _bound(spec, binding_name(member), "edit", member.account, namespace=namespace)
            for member in plain
            for namespace in sorted(namespaces)
        ),
    ]


def _looks() -> list[Manifest]:
    looks = [
        {"apiGroups": [group], "resources": resources, "verbs": ["get", "list", "watch"]}
        for group, resources in _LOOKS.items()
    ]
    return [*looks, {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["create"]}]


def _everywhere(spec: TenantSpec, member: MemberSpec) -> Manifest:
    role = "cluster-admin" if member.role is Role.LEAD else INSIDE_ROLE
    return _bound(spec, binding_name(member), role, member.account, namespace="")
