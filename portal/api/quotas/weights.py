"""REST for how tenants and departments share what nobody is guaranteed: weights, nesting, bounds."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Annotated, Any, Literal, TypedDict

from django.utils import timezone
from rest_framework import serializers

from apps.accounts.specs import ScopeGroup
from apps.cluster.models import Cluster
from apps.errors import FieldProblem, Invalid
from apps.quotas.allowances.selectors import effect, sharing
from apps.quotas.allowances.services import weighing
from apps.quotas.allowances.services.weighing import Bounds, DepartmentShare
from apps.quotas.catalogue.selectors import offers
from apps.quotas.models import Offer
from apps.ranges import DEVICES, MOST_NAMED
from apps.tenants import selectors as tenancy
from apps.tenants.models import Department, Tenant
from apps.web.shapes.bodies import Rehearsal
from apps.web.shapes.typed import keywords
from portal.api.base import references
from portal.api.base.documents import DocumentView, documents
from portal.api.base.serializers import StrictSerializer
from portal.api.quotas.quotas_bodies import MovesBody, moves_body

Body = Mapping[str, Any]


class TenantShareSerializer(StrictSerializer):
    """A tenant's share of what is lent, relative to others; 1 is the usual."""

    fair_weight = serializers.DecimalField(
        max_digits=7, decimal_places=3, min_value=0, help_text="from 0 to 1000; 2 gets twice what 1 gets"
    )


class TenantSharingDocumentSerializer(StrictSerializer):
    """What PUT takes."""

    spec = TenantShareSerializer()


class BoundSerializer(StrictSerializer):
    """What a department borrows of an offer from its parent and lends to it; null: no limit."""

    offer = serializers.CharField(max_length=40, help_text="slug or id")
    borrowing_limit = serializers.IntegerField(
        **DEVICES.bounds, allow_null=True, default=None, help_text="devices that it may borrow"
    )
    lending_limit = serializers.IntegerField(
        **DEVICES.bounds, allow_null=True, default=None, help_text="devices of its own that it lends"
    )


class DepartmentShareSerializer(StrictSerializer):
    """Where a department stands; bounds need a parent."""

    parent = serializers.CharField(  # type: ignore[assignment]
        max_length=40, allow_null=True, default=None, help_text="slug or id; null: the top"
    )
    fair_weight = serializers.DecimalField(
        max_digits=7,
        decimal_places=3,
        min_value=0,
        default=Decimal(1),
        help_text="from 0 to 1000, among the parent's departments",
    )
    bounds = BoundSerializer(many=True, default=list, max_length=MOST_NAMED)  # type: ignore[call-arg]


class DepartmentSharingDocumentSerializer(StrictSerializer):
    """What PUT takes."""

    spec = DepartmentShareSerializer()


class SharingStatusBody(TypedDict):
    """How the cluster uses weights."""

    fair_sharing: Annotated[bool, "Whether weights decide."]
    use_remembered: Annotated[bool, "Whether past use counts."]
    messages: Annotated[list[str], "The same in sentences."]


class TenantShareBody(TypedDict):
    """A tenant's share of what is lent, relative to others."""

    fair_weight: Annotated[str, keywords(format="decimal"), "1 is the usual."]


class TenantSharingBody(TypedDict):
    """How a tenant shares."""

    object: Literal["tenant-sharing"]
    slug: Annotated[str, "The tenant's."]
    spec: TenantShareBody
    status: SharingStatusBody


class BoundBody(TypedDict):
    """What a department borrows of an offer from its parent and lends to it."""

    offer: Annotated[str, "Its slug."]
    borrowing_limit: Annotated[int | None, "Null: no limit."]
    lending_limit: Annotated[int | None, "Null: no limit."]


class DepartmentShareBody(TypedDict):
    """Where a department stands."""

    parent: Annotated[str | None, "The parent's slug; null: the top."]
    fair_weight: Annotated[str, keywords(format="decimal"), "1 is the usual."]
    bounds: list[BoundBody]


class DepartmentSharingBody(TypedDict):
    """How a department shares."""

    object: Literal["department-sharing"]
    slug: Annotated[str, "The department's."]
    spec: DepartmentShareBody
    status: SharingStatusBody


class DepartmentSharingRehearsal(Rehearsal):
    """What another place, weight or bounds would do."""

    result: DepartmentSharingBody  # closer than any rehearsal's
    effect: MovesBody


@documents(
    TenantSharingDocumentSerializer,
    TenantSharingBody,
    get="The weight, with what the cluster does with weights.",
    put="Set the weight.",
)
class TenantSharingView(DocumentView[Tenant]):
    """A tenant's weight."""

    scope_group = ScopeGroup.QUOTAS
    matched_methods = ()
    find = staticmethod(tenancy.tenant_for)

    def require(self, row: Tenant) -> None:  # noqa: ARG002 - the same for every tenant
        """As the service."""
        weighing.require_keeper(self.actor)

    def shown(self, row: Tenant) -> TenantSharingBody:
        """The same for everybody."""
        return {
            "object": "tenant-sharing",
            "slug": row.slug,
            "spec": {"fair_weight": _weight(sharing.weight_of(row))},
            "status": _status(row.cluster),
        }

    def change(self, row: Tenant, asked: Body) -> Tenant:
        """Another weight."""
        weight, now = asked["spec"]["fair_weight"], timezone.now()
        weighing.set_weight(actor=self.actor, tenant=row, fair_weight=weight, now=now)
        return row


@documents(
    DepartmentSharingDocumentSerializer,
    DepartmentSharingBody,
    get="Place, weight and bounds, with what the cluster does with weights.",
    put="Set parent, weight and bounds; null as parent is the top.",
    rehearsal=DepartmentSharingRehearsal,
)
class DepartmentSharingView(DocumentView[Department]):
    """A department's place, weight and bounds."""

    scope_group = ScopeGroup.QUOTAS
    matched_methods = ()
    find = staticmethod(tenancy.department_for)

    def require(self, row: Department) -> None:  # noqa: ARG002 - the same for every department
        """As the service."""
        weighing.require_keeper(self.actor)

    def change(self, row: Department, asked: Body) -> Department:
        """Another place, weight or bounds."""
        share, now = self._share(asked["spec"]), timezone.now()
        return weighing.set_share(actor=self.actor, department=row, share=share, now=now)

    def told(self, before: Department, after: Department) -> Body:  # noqa: ARG002 - the effect is that of now
        """Who gets and who loses devices."""
        return {"effect": moves_body(effect.of_share(after, now=timezone.now()))}

    def _share(self, spec: Mapping[str, Any]) -> DepartmentShare:
        parent, above = spec["parent"], None
        if parent is not None:
            above = references.found("/spec/parent", lambda: tenancy.department_for(self.actor, parent))
        return DepartmentShare(above, spec["fair_weight"], self._bounds(spec["bounds"]))

    def _bounds(self, asked: list[Mapping[str, Any]]) -> Bounds:
        found: dict[Offer, tuple[int | None, int | None]] = {}
        for place, each in enumerate(asked):
            pointer, key = f"/spec/bounds/{place}/offer", each["offer"]
            offer = references.found(pointer, lambda key=key: offers.offer_for(self.actor, key))  # type: ignore[misc]
            if offer in found:
                raise Invalid([FieldProblem(pointer, "invalid_value", "Each offer once.")])
            found[offer] = (each["borrowing_limit"], each["lending_limit"])
        return found

    def shown(self, row: Department) -> DepartmentSharingBody:
        """The same for everybody."""
        bounds: list[BoundBody] = [
            {"offer": bound.offer.slug, "borrowing_limit": bound.borrowing, "lending_limit": bound.lending}
            for bound in sharing.bounds_of(row)
        ]
        return {
            "object": "department-sharing",
            "slug": row.slug,
            "spec": {
                "parent": row.parent.slug if row.parent else None,
                "fair_weight": _weight(row.fair_weight),
                "bounds": bounds,
            },
            "status": _status(row.cluster),
        }


def _weight(weight: Decimal) -> str:
    return f"{weight.normalize():f}"


def _status(cluster: Cluster) -> SharingStatusBody:
    told = sharing.of_cluster(cluster)
    return {
        "fair_sharing": told.is_fair,
        "use_remembered": told.remembers,
        "messages": list(told.sentences),
    }
