"""How tenants, departments and members look in REST."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, Literal, TypedDict

import yaml

from apps.tenants.isolation import vcluster
from apps.tenants.isolation.content import Content, problem_of
from apps.tenants.isolation.vcluster import Synced, VClusterPhase
from apps.tenants.lifecycle.selectors.removal import Removal
from apps.tenants.models import Department, Membership, Tenant
from apps.tenants.selectors import managers_of, vcluster_of, vcluster_standing
from apps.tenants.specs import EgressMode, Isolation, Role, Suspend, TenantPhase, TrustLevel
from apps.web.shapes.bodies import Condition, Id


class EgressPortBody(TypedDict):
    """A port that is open there."""

    protocol: Literal["TCP", "UDP", "SCTP"]
    port: Annotated[int | None, "Null: every port of the protocol."]


class EgressRuleBody(TypedDict):
    """A network that pods may connect to."""

    cidr: str
    ports: Annotated[list[EgressPortBody], "Empty: every port."]


class EgressBody(TypedDict):
    """Where a tenant's pods may connect to."""

    mode: EgressMode
    allow: Annotated[list[EgressRuleBody], "In the mode allow-list."]


class HostQuotaBody(TypedDict):
    """What a virtual cluster may take of its namespace, its control plane included."""

    cpu: str
    memory: str
    storage: str
    pods: int
    services: int


class VirtualClusterSpecBody(TypedDict):
    """What is asked of a virtual cluster."""

    chart_version: str
    sync: Annotated[list[Synced], "What is copied to the cluster besides pods and what these need."]
    quota: HostQuotaBody
    asleep: Annotated[bool, "Its control plane is off and its queue is drained."]
    api_host: Annotated[str, "Where its API is reached from outside; empty: in the cluster only."]


class VirtualClusterBody(TypedDict):
    """Where a virtual cluster stands."""

    phase: VClusterPhase
    message: str
    version: Annotated[str, "Of its chart."]
    api_url: str


class TenantSpecBody(TypedDict):
    """What is asked of a tenant."""

    department: Annotated[str, "Its slug."]
    clusters: Annotated[list[str], "Slugs; the department's one."]
    isolation: Isolation
    vcluster: Annotated[VirtualClusterSpecBody | None, "Null for every other isolation."]
    trust_level: TrustLevel
    suspend: Suspend
    egress: EgressBody
    shell: Annotated[bool, "Whether its members may reach their own running workloads by SSH."]


class DeletionBody(TypedDict):
    """A deletion that was asked for."""

    asked_at: datetime
    asked_by: str
    approved_by: Annotated[str | None, "Null until a second platform engineer has approved it."]
    due_at: Annotated[datetime | None, "When it begins; null until it is approved."]


class TenantStatusBody(TypedDict):
    """What was observed of a tenant."""

    phase: TenantPhase
    namespaces: list[str]
    vcluster: Annotated[VirtualClusterBody | None, "Null for every other isolation."]
    attested_at: Annotated[datetime | None, "The last check of its isolation, if everything passed."]
    archived_at: datetime | None
    deletion: Annotated[DeletionBody | None, "Null where nobody asked for it."]
    observed_generation: int
    conditions: list[Condition]


class TenantBody(TypedDict):
    """A tenant."""

    object: Literal["tenant"]
    id: Id
    slug: str
    name: str
    tenant: None
    labels: dict[str, str]
    generation: Annotated[int, "Counts changes of writable fields; the ETag."]
    created_at: datetime
    updated_at: datetime
    created_by: Annotated[str | None, "Null where the system made it."]
    spec: TenantSpecBody
    status: TenantStatusBody


class DepartmentSpecBody(TypedDict):
    """What is asked of a department."""

    cluster: Annotated[str, "Its slug."]
    managers: Annotated[list[str], "Usernames."]


class DepartmentStatusBody(TypedDict):
    """What was observed of a department."""

    tenants: Annotated[list[str], "Slugs of those that the caller sees."]
    observed_generation: int
    conditions: list[Condition]


class DepartmentBody(TypedDict):
    """A department."""

    object: Literal["department"]
    id: Id
    slug: str
    name: str
    tenant: None
    labels: dict[str, str]
    generation: Annotated[int, "Counts changes of writable fields; the ETag."]
    created_at: datetime
    updated_at: datetime
    created_by: None
    spec: DepartmentSpecBody
    status: DepartmentStatusBody


class MemberBody(TypedDict):
    """A member of a tenant."""

    object: Literal["member"]
    tenant: Annotated[str, "The tenant's slug."]
    username: str
    name: str
    role: Role
    created_at: datetime


class KubeconfigBody(TypedDict):
    """A way into the tenant's cluster."""

    kubeconfig: Annotated[str, "A file in YAML."]
    expires_at: Annotated[datetime | None, "When it ends; null: it fetches its credentials anew."]


class NamedObjectsBody(TypedDict):
    """The objects of one kind."""

    kind: str
    names: Sequence[str]


class RemovedVolumeBody(TypedDict):
    """A volume claim that goes, with its data."""

    name: str
    size_bytes: int


class RemovalBody(TypedDict):
    """What a deletion would take, and what stays."""

    objects: Annotated[list[NamedObjectsBody], "By namespace/name."]
    volumes: list[RemovedVolumeBody]
    dependents: Annotated[dict[str, int], "How many of ours still live in it, by kind."]
    stays: Sequence[str]
    unseen: Annotated[Sequence[str], "In sentences, what may go besides."]


class NamespaceBody(TypedDict):
    """What lies in a namespace."""

    name: str
    objects: list[NamedObjectsBody]
    seen: Annotated[str, "The content's fingerprint, which taking it over names."]
    problem: Annotated[str | None, "Why it cannot become a tenant's; null where it can."]


def _virtual_spec(tenant: Tenant) -> VirtualClusterSpecBody | None:
    """Whole, whatever was left out when the row was stored."""
    if not tenant.vcluster:
        return None
    spec, _ = vcluster.parse(tenant.vcluster)
    quota: HostQuotaBody = {
        "cpu": spec.quota.cpu, "memory": spec.quota.memory, "storage": spec.quota.storage,
        "pods": spec.quota.pods, "services": spec.quota.services,
    }  # fmt: skip
    return {
        "chart_version": spec.chart_version, "sync": list(spec.sync), "quota": quota,
        "asleep": spec.asleep, "api_host": spec.api_host,
    }  # fmt: skip


def _virtual(tenant: Tenant) -> VirtualClusterBody | None:
    spec, standing = vcluster_of(tenant), vcluster_standing(tenant)
    if spec is None or standing is None:
        return None
    return {
        "phase": standing.phase,
        "message": standing.message,
        "version": spec.chart_version,
        "api_url": vcluster.address(tenant.object_name, spec),
    }


def tenant_body(tenant: Tenant) -> TenantBody:
    """A tenant as REST shows it."""
    return {
        "object": "tenant", "id": str(tenant.pk), "slug": tenant.slug, "name": tenant.name, "tenant": None,
        "labels": {}, "generation": tenant.generation, "created_at": tenant.created_at,
        "updated_at": tenant.updated_at, "created_by": tenant.created_by or None,
        "spec": {
            "department": tenant.department.slug,
            "clusters": [tenant.cluster.slug],
            "isolation": Isolation(tenant.isolation),
            "vcluster": _virtual_spec(tenant),
            "trust_level": TrustLevel(tenant.trust_level),
            "suspend": Suspend(tenant.suspend),
            "egress": {"mode": EgressMode(tenant.egress), "allow": tenant.egress_allow},
            "shell": tenant.has_shell,
        },
        "status": {
            "phase": TenantPhase(tenant.phase),
            "namespaces": [tenant.object_name],
            "vcluster": _virtual(tenant),
            "attested_at": tenant.attested_at,
            "archived_at": tenant.archived_at,
            "deletion": _deletion(tenant),
            "observed_generation": tenant.observed_generation,
            "conditions": tenant.conditions,
        },
    }  # fmt: skip


def _deletion(tenant: Tenant) -> DeletionBody | None:
    if tenant.deletion_asked_at is None:
        return None
    return {
        "asked_at": tenant.deletion_asked_at,
        "asked_by": tenant.deletion_asked_by,
        "approved_by": tenant.deletion_approved_by or None,
        "due_at": tenant.deletion_due_at,
    }


def kubeconfig_body(document: dict[str, Any], ends: datetime | None) -> KubeconfigBody:
    """A kubeconfig as REST gives it."""
    return {"kubeconfig": yaml.safe_dump(document, sort_keys=False), "expires_at": ends}


def removal_body(removal: Removal) -> RemovalBody:
    """A removal as REST shows it."""
    return {
        "objects": [{"kind": each.kind, "names": each.names} for each in removal.objects],
        "volumes": [{"name": each.name, "size_bytes": each.size_bytes} for each in removal.volumes],
        "dependents": removal.rows,
        "stays": removal.stays,
        "unseen": removal.unseen,
    }


def namespace_body(content: Content) -> NamespaceBody:
    """A namespace's content as REST shows it."""
    problem = problem_of(content)
    return {
        "name": content.name,
        "objects": [{"kind": kind, "names": names} for kind, names in content.objects.items()],
        "seen": content.seen,
        "problem": problem.detail if problem else None,
    }


def department_body(department: Department, tenants: list[str]) -> DepartmentBody:
    """A department as REST shows it, with the slugs of its tenants that the caller sees."""
    return {
        "object": "department", "id": str(department.pk), "slug": department.slug, "name": department.name,
        "tenant": None, "labels": {}, "generation": department.generation,
        "created_at": department.created_at, "updated_at": department.updated_at, "created_by": None,
        "spec": {"cluster": department.cluster.slug, "managers": managers_of(department)},
        "status": {
            "tenants": tenants,
            "observed_generation": department.observed_generation,
            "conditions": department.conditions,
        },
    }  # fmt: skip


def member_body(member: Membership) -> MemberBody:
    """A member as REST shows one."""
    return {
        "object": "member",
        "tenant": member.tenant.slug,
        "username": member.user.username,
        "name": member.user.shown_name,
        "role": Role(member.role),
        "created_at": member.created_at,
    }
