"""What a write of departments, tenants and members takes in REST. No rules on who or when."""

from rest_framework import serializers

from apps.ranges import KUBECONFIG_SECONDS, MOST_NAMED
from apps.tenants.isolation.egress import MOST_RULES
from apps.tenants.specs import EgressMode, Isolation, Role, Suspend, TrustLevel
from portal.api.base.serializers import BoundedList, StrictSerializer


class EgressSerializer(StrictSerializer):
    """Where the tenant's pods may connect to; platform engineers set it."""

    mode = serializers.ChoiceField(
        choices=EgressMode.choices(), default=EgressMode.NONE, help_text="beyond their own namespace and DNS"
    )
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
    isolation = serializers.ChoiceField(
        choices=Isolation.choices(), default=Isolation.NAMESPACE, help_text="how it is fenced off"
    )
    trust_level = serializers.ChoiceField(
        choices=TrustLevel.choices(),
        default=TrustLevel.STANDARD,
        help_text="how far it is trusted with others on one device; platform engineers set it",
    )
    suspend = serializers.ChoiceField(
        choices=Suspend.choices(), default=Suspend.NONE, help_text="whether its queue admits work"
    )
    egress = EgressSerializer(required=False)
    shell = serializers.BooleanField(
        default=False,
        help_text="whether members may reach their own running workloads by SSH; platform engineers set it",
    )
    vcluster = serializers.JSONField(
        required=False,
        allow_null=True,
        help_text="chart_version, sync, quota{cpu, memory, storage, pods, services}, asleep, api_host",
    )


class NamespaceWishSerializer(StrictSerializer):
    """A namespace that was there before; only at making, only by platform engineers."""

    name = serializers.CharField(max_length=63, help_text="the namespace's, in the department's cluster")
    seen = serializers.CharField(
        max_length=64, help_text="of GET namespaces/{name}: its content was looked at"
    )


class TenantDocumentSerializer(StrictSerializer):
    """The writable part of a tenant: what PUT takes, and PATCH after merging."""

    name = serializers.CharField(
        max_length=120, required=False, allow_blank=True, default="", help_text="the slug, if omitted"
    )
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
    """What POST takes."""

    name = serializers.CharField(
        max_length=120, required=False, allow_blank=True, default="", help_text="the slug, if omitted"
    )
    slug = serializers.CharField(
        max_length=80, required=False, allow_blank=True, default="", help_text="made of the name, if omitted"
    )


class KubeconfigWishSerializer(StrictSerializer):
    """How long the token in the file shall live."""

    expires_in_seconds = serializers.IntegerField(
        default=3600, **KUBECONFIG_SECONDS.bounds, help_text="the cluster may give less"
    )


class MemberWishSerializer(StrictSerializer):
    """What PUT of a member takes."""

    role = serializers.ChoiceField(choices=Role.choices(), help_text="a lead decides on members")
