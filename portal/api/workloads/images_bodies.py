"""How images of the catalogue and the rules on others look in REST, and what their writes take."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, Literal, TypedDict

from rest_framework import serializers

from apps.cluster.objects import quantities
from apps.errors import FieldProblem, Invalid
from apps.ranges import MOST_NAMED
from apps.tenants.models import Tenant
from apps.web.shapes.bodies import ObjectHead, common
from apps.workloads.images.rules.references import MOST_PREFIXES
from apps.workloads.images.services.keeping import ImageWish
from apps.workloads.models import Image
from apps.workloads.specs import ImageLimits, ImagesAllowed, Kind
from portal.api.base.serializers import BoundedList, StrictSerializer

SLUG = r"^[a-z][a-z0-9-]{0,39}$"
MOST_BYTES = 1024**4


class ImageSpecSerializer(StrictSerializer):
    """What an image is, and for whom. tenants null: for every one."""

    reference = serializers.CharField(max_length=255, help_text="by tag or by digest")
    description = serializers.CharField(max_length=500, allow_blank=True, default="")
    size = serializers.CharField(
        max_length=40, allow_null=True, default=None, help_text="a Kubernetes quantity, as it is pulled"
    )
    cuda_version = serializers.CharField(
        max_length=8, allow_null=True, default=None, help_text="such as 12.4; null: it has none"
    )
    kinds = BoundedList(
        child=serializers.ChoiceField(choices=Kind.choices()),
        default=lambda: list(Kind),
        max_length=len(Kind),
    )
    tenants = BoundedList(
        child=serializers.CharField(max_length=40), allow_null=True, default=None, max_length=MOST_NAMED
    )


class ImageDocumentSerializer(StrictSerializer):
    """The writable part of an image: what PUT takes, and PATCH after merging."""

    name = serializers.CharField(max_length=120)
    spec = ImageSpecSerializer()


class NewImageSerializer(ImageDocumentSerializer):
    """What POST takes."""

    slug = serializers.RegexField(SLUG)


class ImageLimitsSerializer(StrictSerializer):
    """Which images may be used besides the catalogue; `prefixes` with `listed` alone."""

    allowed = serializers.ChoiceField(choices=ImagesAllowed.choices())
    prefixes = BoundedList(
        child=serializers.CharField(max_length=255),
        default=list,
        max_length=MOST_PREFIXES,
        help_text="registries, or repositories in them, such as quay.io/jupyter",
    )


class ImageRuleSerializer(StrictSerializer):
    """What PUT takes."""

    spec = ImageLimitsSerializer()


class TenantImageRuleSerializer(StrictSerializer):
    """What PUT takes; null: as the installation says."""

    spec = ImageLimitsSerializer(allow_null=True)


class ImageSpecBody(TypedDict):
    """What an image is, and for whom."""

    reference: str
    description: str
    size: Annotated[str | None, "As it is pulled; null: unknown."]
    cuda_version: Annotated[str | None, "Null: it has none."]
    kinds: list[Kind]
    tenants: Annotated[list[str] | None, "Those that you see; null: every tenant."]


class ImageStatusBody(TypedDict):
    """Whether it is in use, and can be chosen."""

    retired_at: Annotated[datetime | None, "Null: it can be chosen."]
    reason: Annotated[str | None, "Why it was retired."]
    workloads: Annotated[int, "That have it and that you see, stopped ones included."]


class ImageBody(ObjectHead):
    """An image of the catalogue."""

    object: Literal["image"]
    spec: ImageSpecBody
    status: ImageStatusBody


class ImageLimitsBody(TypedDict):
    """Which images may be used besides the catalogue."""

    allowed: ImagesAllowed
    prefixes: Annotated[list[str], "Of listed alone."]


class ImageRuleBody(TypedDict):
    """The rule on images that are not in the catalogue."""

    object: Literal["image-rule"]
    tenant: Annotated[str | None, "Null: of every tenant without a rule of its own."]
    spec: Annotated[ImageLimitsBody | None, "Null: none of its own."]
    status: Annotated[ImageLimitsBody, "What counts."]


def image_body(row: Image, tenants: Sequence[str], workloads: int) -> ImageBody:
    """An image; `tenants` are those that it is for and that the caller sees."""
    return {
        "object": "image",
        **common(row, slug=row.slug, name=row.name, created_by=row.created_by),
        "spec": {
            "reference": row.reference,
            "description": row.description,
            "size": None if row.size_bytes is None else quantities.format_bytes(row.size_bytes),
            "cuda_version": row.cuda_version or None,
            "kinds": [Kind(kind) for kind in row.kinds],
            "tenants": None if row.is_for_all else list(tenants),
        },
        "status": {
            "retired_at": row.retired_at,
            "reason": row.retired_reason or None,
            "workloads": workloads,
        },
    }


def wish_of(asked: Mapping[str, Any], find: Callable[[int, str], Tenant]) -> ImageWish:
    """The checked body as the service takes it; `find` finds a tenant by its place in the list."""
    spec = asked["spec"]
    named = spec["tenants"]
    return ImageWish(
        slug=asked.get("slug", ""),
        name=asked["name"],
        reference=spec["reference"],
        description=spec["description"],
        size_bytes=_size(spec["size"]),
        cuda_version=spec["cuda_version"] or "",
        kinds=tuple(Kind(kind) for kind in spec["kinds"]),
        tenants=None if named is None else tuple(find(place, key) for place, key in enumerate(named)),
    )


def limits_in(spec: Mapping[str, Any] | None) -> ImageLimits | None:
    """The checked limits as the service takes them."""
    return None if spec is None else ImageLimits(ImagesAllowed(spec["allowed"]), tuple(spec["prefixes"]))


def limits_body(limits: ImageLimits) -> ImageLimitsBody:
    """As REST shows them."""
    return {"allowed": limits.allowed, "prefixes": list(limits.prefixes)}


def _size(text: str | None) -> int | None:
    if text is None:
        return None
    try:
        size = quantities.memory_bytes(text)
    except ValueError as error:
        raise Invalid([FieldProblem("/spec/size", "invalid_value", str(error))]) from None
    if not 0 < size <= MOST_BYTES:
        raise Invalid([FieldProblem("/spec/size", "out_of_range", "More than 0, and at most 1Ti.")])
    return size
