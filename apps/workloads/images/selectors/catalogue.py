"""The catalogue as an actor or a tenant sees it, and which images a tenant's work may have. Reads only."""

from collections.abc import Iterable, Sequence
from typing import Any
from uuid import UUID

from django.db.models import CharField, Count, Exists, OuterRef, Q, QuerySet, UUIDField
from django.db.models.fields.json import KT
from django.db.models.functions import Cast

from apps.accounts.specs import Actor
from apps.errors import FieldProblem, Invalid
from apps.prepared import Prepared
from apps.tenants.models import Tenant
from apps.tenants.selectors import seen_by
from apps.web.requests.lookups import one, slug_or_id
from apps.workloads.images.rules import references
from apps.workloads.models import PLATFORM_RULE, Image, ImageRule
from apps.workloads.selectors.reading import workloads_for
from apps.workloads.specs import ImageLimits, ImagesAllowed, Kind, WorkloadSpec

POINTER = "/spec/image"
MOST_NAMED = 5
"""How many images a refusal names."""


def images_for(actor: Actor) -> QuerySet[Image]:
    """The images that the actor's tenants may use; all, also retired ones, for platform and auditors. Who has
    no tenant sees none.
    """
    found = Image.objects.all()
    if actor.sees_everything:
        return found
    seen = Tenant.objects.filter(Q(pk__in=seen_by(actor)))
    named = Image.objects.filter(tenants__in=seen).values("pk")
    return found.filter(Q(Exists(seen), is_for_all=True) | Q(pk__in=named), retired_at=None)


def image_for(actor: Actor, key: str | UUID, *, lock: bool = False) -> Image:
    """The image with that slug or id, if the actor sees it; raises NotFound."""
    return one(images_for(actor).filter(slug_or_id(key)), lock=lock)


def usable_by(tenant: Tenant) -> QuerySet[Image]:
    """The images of the catalogue that the tenant's work may have."""
    named = Image.objects.filter(tenants=tenant).values("pk")
    return Image.objects.filter(Q(is_for_all=True) | Q(pk__in=named), retired_at=None)


def choices(tenant: Tenant, kind: Kind) -> list[Image]:
    """Those for a kind of work, by name."""
    return [each for each in usable_by(tenant).order_by("name", "slug") if kind in each.kinds]


def entry_of(tenant: Tenant, reference: str) -> Image | None:
    """The entry of the catalogue that is this image, where the tenant may use it."""
    return usable_by(tenant).filter(full_reference=references.full(reference)).first()


def rules(tenant: Tenant | None = None) -> list[ImageRule]:
    """The rule of the tenant, where it has one of its own, and after it that of the installation."""
    found = ImageRule.objects.filter(pk=PLATFORM_RULE) if tenant is None else _RULES(tenant.pk)
    return sorted(found, key=lambda rule: rule.tenant_id is None)


_RULES = Prepared(
    lambda tenant: ImageRule.objects.filter(Q(pk=PLATFORM_RULE) | Q(tenant=tenant)).select_related("tenant"),
    UUIDField(),
)


def limits_of(tenant: Tenant | None) -> ImageLimits:
    """What the tenant may use besides the catalogue: by its own rule, else by the installation's; any image
    where nobody has said anything.
    """
    return next((rule.limits for rule in rules(tenant)), ImageLimits())


def require_allowed(tenant: Tenant, spec: WorkloadSpec) -> None:
    """Raises Invalid unless the tenant's work may have this image.

    Rule: what the catalogue has for the tenant and this kind of work is allowed; what it has retired is not;
    any other is as the limits say. It is asked where an image is chosen: what was accepted may start again.
    """
    wanted = references.full(spec.image)
    rows = _KNOWN(wanted, tenant.pk)
    mine = [row for row in rows if row.retired_at is None and (row.is_for_all or row.is_named)]
    if any(spec.kind in row.kinds for row in mine):
        return
    limits = limits_of(tenant)
    retired = [row for row in rows if row.retired_at is not None]
    if retired and len(retired) == len(rows):
        _refuse(f"{_retired(retired[-1])} {_instead(tenant, spec.kind, limits)}")
    if not _is_allowed(wanted, limits):
        _refuse(f"{tenant.slug} may not use this image. {_instead(tenant, spec.kind, limits)}")


_KNOWN: Prepared[Any] = Prepared(
    lambda reference, tenant: (
        Image.objects.filter(full_reference=reference)
        .annotate(is_named=Exists(Image.tenants.through.objects.filter(image=OuterRef("pk"), tenant=tenant)))
        .order_by("retired_at")
    ),
    CharField(),
    UUIDField(),
)


def is_refused(tenant: Tenant, spec: WorkloadSpec) -> str:
    """Why the image may not be chosen (again); empty where it may."""
    try:
        require_allowed(tenant, spec)
    except Invalid as refusal:
        return refusal.problems[0].detail
    return ""


def users_of(actor: Actor, images: Iterable[Image]) -> dict[UUID, int]:
    """How many workloads that the actor sees have each of these images, stopped ones included."""
    wanted = {image.pk: image.full_reference for image in images}
    named = Cast(KT("spec__image"), CharField())
    rows = workloads_for(actor).order_by().values_list(named).annotate(count=Count("pk"))
    counts: dict[str, int] = {}
    for reference, count in rows:
        key = references.full(reference)
        counts[key] = counts.get(key, 0) + count
    return {pk: counts.get(full, 0) for pk, full in wanted.items()}


def _is_allowed(reference: str, limits: ImageLimits) -> bool:
    if limits.allowed is ImagesAllowed.LISTED:
        return any(references.is_below(reference, prefix) for prefix in limits.prefixes)
    return limits.allowed is ImagesAllowed.ANY


def _retired(image: Image) -> str:
    why = f": {image.retired_reason}" if image.retired_reason else ""
    return f"{image.name} was retired on {image.retired_at:%Y-%m-%d}{why.rstrip('.')}."


def _instead(tenant: Tenant, kind: Kind, limits: ImageLimits) -> str:
    """What may be chosen, and who adds more."""
    found = choices(tenant, kind)
    names = ", ".join(f"{each.name} ({each.reference})" for each in found[:MOST_NAMED])
    more = f" and {len(found) - MOST_NAMED} more" if len(found) > MOST_NAMED else ""
    catalogue = f"The catalogue has {names}{more}." if found else f"The catalogue has none for a {kind}."
    below = f" Allowed are those of {', '.join(limits.prefixes)} too." if _has_prefixes(limits) else ""
    return f"{catalogue}{below} A platform engineer adds more (Console, Images)."


def _has_prefixes(limits: ImageLimits) -> bool:
    return limits.allowed is ImagesAllowed.LISTED and bool(limits.prefixes)


def _refuse(words: str) -> None:
    raise Invalid([FieldProblem(POINTER, "invalid_value", words)])


def tenants_of(images: Sequence[Image]) -> dict[UUID, list[Tenant]]:
    """For whom each is, by slug; empty where it is for all."""
    rows = Image.tenants.through.objects.filter(image__in=images).select_related("tenant")
    found: dict[UUID, list[Tenant]] = {image.pk: [] for image in images}
    for row in rows.order_by("tenant__slug"):
        found[row.image_id].append(row.tenant)
    return found
