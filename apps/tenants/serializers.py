"""How departments, tenants and members look in REST, and what a write takes. No rules on who or when."""

from collections.abc import Mapping
from typing import Any

from rest_framework import serializers

from apps.ranges import KUBECONFIG_SECONDS, MOST_NAMED
from apps.tenants import vcluster
from apps.tenants.content import Content, problem_of
from apps.tenants.egress import MOST_RULES
from apps.tenants.models import Department, Membership, Tenant
from apps.tenants.removal import Removal
from apps.tenants.selectors import managers_of, vcluster_of, vcluster_standing
from apps.tenants.specs import EgressMode, Isolation, Role, Suspend, TenantPhase, TrustLevel
from apps.web.bodies import head
from apps.web.serializers import BoundedList, StrictSerializer


class EgressSerializer(StrictSerializer):
    """Where the tenant's pods may connect to; platform engineers set it."""

    mode = serializers.ChoiceField(choices=EgressMode.choices(), default=EgressMode.NONE)
    allow = BoundedList(
        child=serializers.JSONField(),
        default=list,
        max_length=MOST_RULES,
        help_text="for allow-list: {cidr, ports: [{protocol, port}]}; no ports: all, port null: every one",
    )


class TenantSpecSerializer(StrictSerializer):
    """What is asked of a tenant. Department, clusters and isolation are fixed once it is made."""

    department = serializers.CharField(max_length=40, help_text="slug or id")
    clusters = BoundedList(
        child=serializers.CharField(max_length=40),
        required=False,
        max_length=MOST_NAMED,
        help_text="the department's, when omitted",
    )
    isolation = serializers.ChoiceField(choices=Isolation.choices(), default=Isolation.NAMESPACE)
    trust_level = serializers.ChoiceField(choices=TrustLevel.choices(), default=TrustLevel.STANDARD)
    suspend = serializers.ChoiceField(choices=Suspend.choices(), default=Suspend.NONE)
    egress = EgressSerializer(required=False)
    vcluster = serializers.JSONField(
        required=False,
        allow_null=True,
        help_text="chart_version, sync, quota{cpu, memory, storage, pods, services}, asleep, api_host",
    )


class NamespaceWishSerializer(StrictSerializer):
    """A namespace that was there before; only at making, only by platform engineers."""

    name = serializers.CharField(max_length=63)
    seen = serializers.CharField(
        max_length=64, help_text="of GET namespaces/{name}: its content was looked at"
    )


class TenantDocumentSerializer(StrictSerializer):
    """The writable part of a tenant: what PUT takes, and PATCH after merging."""

    name = serializers.CharField(max_length=120, required=False, allow_blank=True, default="")
    spec = TenantSpecSerializer()


class NewTenantSerializer(TenantDocumentSerializer):
    """What POST takes."""

    slug = serializers.CharField(
        max_length=80, required=False, allow_blank=True, default="", help_text="made of the name, if omitted"
    )
    namespace = NamespaceWishSerializer(required=False, allow_null=True, default=None)


class DepartmentSpecSerializer(StrictSerializer):
    """What is asked of a department. Its cluster is fixed once it is made."""

    cluster = serializers.CharField(max_length=40, required=False, help_text="slug or id; the only one")
    managers = BoundedList(
        child=serializers.CharField(max_length=150), default=list, max_length=100, help_text="usernames"
    )


class DepartmentDocumentSerializer(StrictSerializer):
    """The writable part of a department."""

    name = serializers.CharField(max_length=120)
    spec = DepartmentSpecSerializer(required=False)


class NewDepartmentSerializer(DepartmentDocumentSerializer):
    """What POST takes; the slug is the name without one."""

    name = serializers.CharField(max_length=120, required=False, allow_blank=True, default="")
    slug = serializers.CharField(max_length=80, required=False, allow_blank=True, default="")


class KubeconfigWishSerializer(StrictSerializer):
    """How long the token in the file shall live."""

    expires_in_seconds = serializers.IntegerField(default=3600, **KUBECONFIG_SECONDS.bounds)


class KubeconfigSerializer(serializers.Serializer[Any]):
    """A kubeconfig as YAML, and when it ends; null: it fetches its credentials anew."""

    kubeconfig = serializers.CharField()
    expires_at = serializers.DateTimeField(allow_null=True)


class RemovalSerializer(serializers.Serializer[Any]):
    """What a deletion would take, and what stays."""

    objects = serializers.JSONField()
    volumes = serializers.JSONField()
    dependents = serializers.JSONField()
    stays = serializers.ListField(child=serializers.CharField())
    unseen = serializers.ListField(child=serializers.CharField())


class NamespaceSerializer(serializers.Serializer[Any]):
    """What lies in a namespace."""

    name = serializers.CharField()
    objects = serializers.JSONField()
    seen = serializers.CharField()
    problem = serializers.CharField(allow_null=True, help_text="why it cannot become a tenant's")


class MemberWishSerializer(StrictSerializer):
    """What PUT of a member takes."""

    role = serializers.ChoiceField(choices=Role.choices())


class ConditionSerializer(serializers.Serializer[Any]):
    """One fact about a row, as in Kubernetes."""

    type = serializers.CharField()
    status = serializers.ChoiceField(choices=["True", "False", "Unknown"])
    reason = serializers.CharField()
    message = serializers.CharField()
    observed_generation = serializers.IntegerField()
    since = serializers.DateTimeField()


class TenantStatusSerializer(serializers.Serializer[Any]):
    """What was observed of a tenant."""

    phase = serializers.ChoiceField(choices=TenantPhase.choices())
    namespaces = serializers.ListField(child=serializers.CharField())
    vcluster = serializers.JSONField(allow_null=True)
    attested_at = serializers.DateTimeField(allow_null=True)
    archived_at = serializers.DateTimeField(allow_null=True)
    deletion = serializers.JSONField(allow_null=True, help_text="asked_at, asked_by, approved_by, due_at")
    observed_generation = serializers.IntegerField()
    conditions = ConditionSerializer(many=True)


class TenantSerializer(serializers.Serializer[Any]):
    """A tenant."""

    object = serializers.CharField(default="tenant")
    id = serializers.UUIDField()
    slug = serializers.CharField()
    name = serializers.CharField()
    tenant = serializers.CharField(allow_null=True)
    labels = serializers.DictField(child=serializers.CharField())
    generation = serializers.IntegerField()
    created_at = serializers.DateTimeField()
    updated_at = serializers.DateTimeField()
    created_by = serializers.CharField(allow_null=True)
    spec = TenantSpecSerializer()
    status = TenantStatusSerializer()


class DepartmentSerializer(serializers.Serializer[Any]):
    """A department; `status.tenants` are those the caller sees."""

    object = serializers.CharField(default="department")
    id = serializers.UUIDField()
    slug = serializers.CharField()
    name = serializers.CharField()
    generation = serializers.IntegerField()
    created_at = serializers.DateTimeField()
    updated_at = serializers.DateTimeField()
    spec = serializers.JSONField()
    status = serializers.JSONField()


class MemberSerializer(serializers.Serializer[Any]):
    """A member of a tenant."""

    object = serializers.CharField(default="member")
    tenant = serializers.CharField()
    username = serializers.CharField()
    name = serializers.CharField()
    role = serializers.ChoiceField(choices=Role.choices())
    created_at = serializers.DateTimeField()


def _virtual(tenant: Tenant) -> Mapping[str, Any] | None:
    """Where the tenant's virtual cluster stands; null for every other isolation."""
    standing = vcluster_standing(tenant)
    if standing is None:
        return None
    return {
        "phase": standing.phase.value,
        "message": standing.message,
        "version": tenant.vcluster.get("chart_version"),
        "api_url": vcluster.address(tenant.object_name, vcluster_of(tenant) or vcluster.VClusterSpec()),
    }


def tenant_body(tenant: Tenant) -> Mapping[str, Any]:
    """A tenant as REST shows it."""
    return {
        **head("tenant", tenant, slug=tenant.slug, name=tenant.name, created_by=tenant.created_by),
        "spec": {
            "department": tenant.department.slug,
            "clusters": [tenant.cluster.slug],
            "isolation": tenant.isolation,
            "vcluster": tenant.vcluster or None,
            "trust_level": tenant.trust_level,
            "suspend": tenant.suspend,
            "egress": {"mode": tenant.egress, "allow": tenant.egress_allow},
        },
        "status": {
            "phase": tenant.phase,
            "namespaces": [tenant.object_name],
            "vcluster": _virtual(tenant),
            "attested_at": tenant.attested_at,
            "archived_at": tenant.archived_at,
            "deletion": _deletion(tenant),
            "observed_generation": tenant.observed_generation,
            "conditions": tenant.conditions,
        },
    }


def _deletion(tenant: Tenant) -> Mapping[str, Any] | None:
    if tenant.deletion_asked_at is None:
        return None
    return {
        "asked_at": tenant.deletion_asked_at,
        "asked_by": tenant.deletion_asked_by,
        "approved_by": tenant.deletion_approved_by or None,
        "due_at": tenant.deletion_due_at,
    }


def removal_body(removal: Removal) -> Mapping[str, Any]:
    """A removal as REST shows it."""
    return {
        "objects": [{"kind": each.kind, "names": each.names} for each in removal.objects],
        "volumes": [{"name": each.name, "size_bytes": each.size_bytes} for each in removal.volumes],
        "dependents": removal.rows,
        "stays": removal.stays,
        "unseen": removal.unseen,
    }


def namespace_body(content: Content) -> Mapping[str, Any]:
    """A namespace's content as REST shows it."""
    problem = problem_of(content)
    return {
        "name": content.name,
        "objects": [{"kind": kind, "names": names} for kind, names in content.objects.items()],
        "seen": content.seen,
        "problem": problem.detail if problem else None,
    }


def department_body(department: Department, tenants: list[str]) -> Mapping[str, Any]:
    """A department as REST shows it, with the slugs of its tenants that the caller sees."""
    return {
        **head("department", department, slug=department.slug, name=department.name),
        "spec": {"cluster": department.cluster.slug, "managers": managers_of(department)},
        "status": {
            "tenants": tenants,
            "observed_generation": department.observed_generation,
            "conditions": department.conditions,
        },
    }


def member_body(member: Membership) -> Mapping[str, Any]:
    """A member as REST shows one."""
    return {
        "object": "member",
        "tenant": member.tenant.slug,
        "username": member.user.username,
        "name": member.user.shown_name,
        "role": member.role,
        "created_at": member.created_at,
    }
