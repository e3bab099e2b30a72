"""REST for how tenants and departments share what nobody is guaranteed: weights, nesting, bounds."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.specs import ScopeGroup
from apps.errors import FieldProblem, Invalid
from apps.quotas import effect, references, selectors, sharing, weighing
from apps.quotas.models import Offer
from apps.quotas.serializers import moves_body
from apps.quotas.weighing import Bounds, DepartmentShare
from apps.ranges import DEVICES, MOST_NAMED
from apps.tenants import selectors as tenancy
from apps.tenants.models import Department, Tenant
from apps.web.api import ApiView
from apps.web.serializers import StrictSerializer
from apps.web.writing import written

Body = Mapping[str, Any]


class TenantShareSerializer(StrictSerializer):
    """What of what is lent a tenant gets beside others; 1 is the usual."""

    fair_weight = serializers.DecimalField(max_digits=7, decimal_places=3, min_value=0)


class TenantSharingDocumentSerializer(StrictSerializer):
    """What PUT takes."""

    spec = TenantShareSerializer()


class BoundSerializer(StrictSerializer):
    """What a department borrows of an offer from its parent and lends to it; null: no limit."""

    offer = serializers.CharField(max_length=40)
    borrowing_limit = serializers.IntegerField(**DEVICES.bounds, allow_null=True, default=None)
    lending_limit = serializers.IntegerField(**DEVICES.bounds, allow_null=True, default=None)


class DepartmentShareSerializer(StrictSerializer):
    """Where a department stands; bounds need a parent."""

    parent = serializers.CharField(max_length=40, allow_null=True, default=None)  # type: ignore[assignment]
    fair_weight = serializers.DecimalField(max_digits=7, decimal_places=3, min_value=0, default=Decimal(1))
    bounds = BoundSerializer(many=True, default=list, max_length=MOST_NAMED)  # type: ignore[call-arg]


class DepartmentSharingDocumentSerializer(StrictSerializer):
    """What PUT takes."""

    spec = DepartmentShareSerializer()


class SharingSerializer(serializers.Serializer[Any]):
    """How one of them shares; status says in words what the cluster makes of it."""

    object = serializers.CharField()
    spec = serializers.JSONField()
    status = serializers.JSONField()


class TenantSharingView(ApiView):
    """A tenant's weight."""

    scope_group = ScopeGroup.QUOTAS

    @extend_schema(operation_id="tenants_sharing_retrieve", responses=SharingSerializer)
    def get(self, request: Request, key: str) -> Response:  # noqa: ARG002 - Django's signature
        """With what the cluster does with weights."""
        return self._shown(tenancy.tenant_for(self.actor, key))

    @extend_schema(
        operation_id="tenants_sharing_update",
        request=TenantSharingDocumentSerializer,
        responses=SharingSerializer,
    )
    def put(self, request: Request, key: str) -> Response:
        """Set the weight."""

        def change() -> Tenant:
            tenant = tenancy.tenant_for(self.actor, key)
            weighing.require_keeper(self.actor)
            spec = TenantSharingDocumentSerializer.checked(request.data)["spec"]
            now, weight = timezone.now(), spec["fair_weight"]
            weighing.set_weight(actor=self.actor, tenant=tenant, fair_weight=weight, now=now)
            return tenant

        return written(request, change, self._shown)

    def _shown(self, tenant: Tenant) -> Response:
        spec = {"fair_weight": f"{sharing.weight_of(tenant).normalize():f}"}
        return Response(_body("tenant-sharing", tenant.slug, spec, sharing.of_cluster(tenant.cluster)))


class DepartmentSharingView(ApiView):
    """A department's place, weight and bounds."""

    scope_group = ScopeGroup.QUOTAS

    @extend_schema(operation_id="departments_sharing_retrieve", responses=SharingSerializer)
    def get(self, request: Request, key: str) -> Response:  # noqa: ARG002 - Django's signature
        """With what the cluster does with weights."""
        return self._shown(tenancy.department_for(self.actor, key))

    @extend_schema(
        operation_id="departments_sharing_update",
        request=DepartmentSharingDocumentSerializer,
        responses=SharingSerializer,
    )
    def put(self, request: Request, key: str) -> Response:
        """Set parent, weight and bounds; null as parent is the top."""

        def change() -> Department:
            department = tenancy.department_for(self.actor, key)
            weighing.require_keeper(self.actor)
            share = self._share(DepartmentSharingDocumentSerializer.checked(request.data)["spec"])
            now = timezone.now()
            return weighing.set_share(actor=self.actor, department=department, share=share, now=now)

        def told(department: Department) -> Body:
            return {"effect": moves_body(effect.of_share(department, now=timezone.now()))}

        return written(request, change, self._shown, told=told)

    def _share(self, spec: Mapping[str, Any]) -> DepartmentShare:
        parent, above = spec["parent"], None
        if parent is not None:
            above = references.found("/spec/parent", lambda: tenancy.department_for(self.actor, parent))
        return DepartmentShare(above, spec["fair_weight"], self._bounds(spec["bounds"]))

    def _bounds(self, asked: list[Mapping[str, Any]]) -> Bounds:
        found: dict[Offer, tuple[int | None, int | None]] = {}
        for place, each in enumerate(asked):
            pointer, key = f"/spec/bounds/{place}/offer", each["offer"]
            offer = references.found(pointer, lambda key=key: selectors.offer_for(self.actor, key))  # type: ignore[misc]
            if offer in found:
                raise Invalid([FieldProblem(pointer, "invalid_value", "Each offer once.")])
            found[offer] = (each["borrowing_limit"], each["lending_limit"])
        return found

    def _shown(self, department: Department) -> Response:
        spec = {
            "parent": department.parent.slug if department.parent else None,
            "fair_weight": f"{department.fair_weight.normalize():f}",
            "bounds": [
                {
                    "offer": bound.offer.slug,
                    "borrowing_limit": bound.borrowing,
                    "lending_limit": bound.lending,
                }
                for bound in sharing.bounds_of(department)
            ],
        }
        told = sharing.of_cluster(department.cluster)
        return Response(_body("department-sharing", department.slug, spec, told))


def _body(kind: str, slug: str, spec: Body, told: sharing.Sharing) -> Body:
    status = {
        "fair_sharing": told.is_fair,
        "use_remembered": told.remembers,
        "messages": list(told.sentences),
    }
    return {"object": kind, "slug": slug, "spec": spec, "status": status}
