"""What a write of a flavor, an offer or a price takes in REST. Shapes alone; no rules on who or when."""

from collections.abc import Callable, Mapping
from typing import Any

from rest_framework import serializers

from apps.cluster.objects import quantities
from apps.errors import FieldProblem, Invalid
from apps.quotas.catalogue.services.booking import PriceWish
from apps.quotas.catalogue.services.offering import FlavorWish, OfferChange, OfferWish
from apps.quotas.models import Flavor, Offer
from apps.quotas.specs import CapacityType, Priced
from apps.ranges import CHARGED_SECONDS, MOST_LABELS, MOST_MONEY
from apps.tenants.models import Tenant
from apps.tenants.specs import TrustLevel
from portal.api.base.serializers import BoundedDict, BoundedList, StrictSerializer

SLUG = r"^[a-z][a-z0-9-]{0,39}$"


class FlavorMarksSerializer(StrictSerializer):
    """What marks a flavor's nodes."""

    node_labels = BoundedDict(
        child=serializers.CharField(max_length=63), default=dict, max_length=MOST_LABELS
    )
    tolerations = BoundedList(
        child=BoundedDict(
            child=serializers.CharField(max_length=253, allow_blank=True), max_length=MOST_LABELS
        ),
        default=list,
        max_length=MOST_LABELS,
    )


class FlavorDocumentSerializer(StrictSerializer):
    """The writable part of a flavor: what PUT takes, and PATCH after merging."""

    name = serializers.CharField(max_length=120)
    spec = FlavorMarksSerializer()


class NewFlavorSpecSerializer(FlavorMarksSerializer):
    """Cluster and model are fixed once the flavor is made."""

    cluster = serializers.CharField(max_length=40, help_text="slug or id")
    model = serializers.CharField(
        max_length=120,
        allow_blank=True,
        help_text="the GPU's product name as its driver says it; empty: its nodes have no GPU",
    )


class NewFlavorSerializer(StrictSerializer):
    """What POST takes."""

    slug = serializers.RegexField(SLUG)
    name = serializers.CharField(max_length=120, default="", allow_blank=True)
    spec = NewFlavorSpecSerializer()

    @staticmethod
    def wish(asked: Mapping[str, Any]) -> FlavorWish:
        """The checked body as the service takes it."""
        spec = asked["spec"]
        tolerations = tuple(spec["tolerations"])
        return FlavorWish(asked["slug"], asked["name"], spec["model"], spec["node_labels"], tolerations)


class OfferTermsSerializer(StrictSerializer):
    """What may always change; cpu and memory come with each device, null: as it is."""

    min_trust_level = serializers.ChoiceField(choices=TrustLevel.choices(), default=TrustLevel.UNTRUSTED)
    enabled = serializers.BooleanField(default=True)
    description = serializers.CharField(max_length=500, allow_blank=True, default="")
    cpu = serializers.CharField(max_length=40, allow_null=True, default=None)
    memory = serializers.CharField(max_length=40, allow_null=True, default=None)


class OfferDocumentSerializer(StrictSerializer):
    """The writable part of an offer: what PUT takes, and PATCH after merging."""

    name = serializers.CharField(max_length=120)
    spec = OfferTermsSerializer()

    @staticmethod
    def change(asked: Mapping[str, Any]) -> OfferChange:
        """The checked body as the service takes it."""
        spec = asked["spec"]
        return OfferChange(
            name=asked["name"],
            min_trust_level=TrustLevel(spec["min_trust_level"]),
            enabled=spec["enabled"],
            description=spec["description"],
            cpu_millis=_quantity(spec, "cpu", quantities.cpu_millis),
            memory_bytes=_quantity(spec, "memory", quantities.memory_bytes),
        )


class NewOfferSpecSerializer(OfferTermsSerializer):
    """Flavor and profile are fixed once the offer is made; what the devices tell may be left out."""

    flavor = serializers.CharField(max_length=40, help_text="slug or id")
    profile = serializers.RegexField(
        r"^([0-9]c\.)?[0-9]g\.[0-9]{1,3}gb(\+[a-z.]+)?$",
        allow_null=True,
        default=None,
        help_text="null: whole GPU",
    )
    gpu_memory = serializers.CharField(max_length=40, allow_null=True, default=None)


class NewOfferSerializer(StrictSerializer):
    """What POST takes."""

    slug = serializers.RegexField(SLUG)
    name = serializers.CharField(max_length=120, default="", allow_blank=True)
    spec = NewOfferSpecSerializer()

    @staticmethod
    def wish(asked: Mapping[str, Any], flavor: Flavor) -> OfferWish:
        """The checked body as the service takes it."""
        spec = asked["spec"]
        return OfferWish(
            flavor=flavor,
            slug=asked["slug"],
            name=asked["name"],
            profile=spec["profile"] or "",
            description=spec["description"],
            gpu_memory_bytes=_quantity(spec, "gpu_memory", quantities.memory_bytes),
            cpu_millis=_quantity(spec, "cpu", quantities.cpu_millis),
            memory_bytes=_quantity(spec, "memory", quantities.memory_bytes),
            min_trust_level=TrustLevel(spec["min_trust_level"]),
            enabled=spec["enabled"],
        )


class HourlySerializer(StrictSerializer):
    """Money per device and hour."""

    amount = serializers.DecimalField(max_digits=20, decimal_places=8, min_value=0, max_value=MOST_MONEY)
    currency = serializers.RegexField(r"^[A-Z]{3}$")


class NewPriceSpecSerializer(StrictSerializer):
    """valid_from null: from now on; valid_until null: until the next one; capacity null: any."""

    resource = serializers.ChoiceField(choices=Priced.choices(), default=Priced.GPU)
    offer = serializers.CharField(
        max_length=40, help_text="slug or id; null for CPU, memory and storage", allow_null=True, default=None
    )
    capacity = serializers.ChoiceField(choices=CapacityType.choices(), allow_null=True, default=None)
    hourly = HourlySerializer()
    valid_from = serializers.DateTimeField(allow_null=True, default=None)
    valid_until = serializers.DateTimeField(allow_null=True, default=None)
    least_seconds = serializers.IntegerField(**CHARGED_SECONDS.bounds, default=1)


class NewPriceSerializer(StrictSerializer):
    """What POST takes; tenant null: for everybody."""

    tenant = serializers.CharField(max_length=40, allow_null=True, default=None)
    spec = NewPriceSpecSerializer()

    @staticmethod
    def wish(asked: Mapping[str, Any], offer: Offer | None, tenant: Tenant | None) -> PriceWish:
        """The checked body as the service takes it."""
        spec = asked["spec"]
        return PriceWish(
            hourly=spec["hourly"]["amount"],
            offer=offer,
            resource=Priced(spec["resource"]),
            tenant=tenant,
            capacity=CapacityType(spec["capacity"]) if spec["capacity"] else None,
            valid_from=spec["valid_from"],
            valid_until=spec["valid_until"],
            least_seconds=spec["least_seconds"],
        )


def _quantity(spec: Mapping[str, Any], name: str, parse: Callable[[str], int]) -> int | None:
    if spec[name] is None:
        return None
    try:
        return parse(spec[name])
    except ValueError as error:
        raise Invalid([FieldProblem(f"/spec/{name}", "invalid_value", str(error))]) from None
