"""The catalogue of images kept by hand, and the rule on all others. Platform engineers only.

A change touches no running work: an image is judged where it is chosen.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import IntegrityError, transaction

from apps.accounts.specs import Actor
from apps.audit import services as audit
from apps.errors import AlreadyExists, Conflict, FieldProblem, Invalid, NotAllowed
from apps.tenants.isolation import slugs
from apps.tenants.models import Tenant
from apps.workloads import policies
from apps.workloads.images.rules import cuda, references
from apps.workloads.models import PLATFORM_RULE, Image, ImageRule
from apps.workloads.spec import parsing
from apps.workloads.specs import ImageLimits, ImagesAllowed, Kind


@dataclass(frozen=True)
class ImageWish:
    """An entry as it shall be. `tenants` None: for every tenant; `slug` counts when it is made."""

    name: str
    reference: str
    slug: str = ""
    description: str = ""
    size_bytes: int | None = None
    cuda_version: str = ""
    kinds: tuple[Kind, ...] = tuple(Kind)
    tenants: tuple[Tenant, ...] | None = None


@transaction.atomic
def add_image(*, actor: Actor, wish: ImageWish, now: datetime) -> Image:
    """A new entry. Rule: platform engineers only; an image stands in the catalogue once."""
    require_keeper(actor)
    columns = _columns(wish)
    slug = wish.slug or slugs.slug_for(wish.name, lambda s: Image.objects.filter(slug=s).exists())
    problem = slugs.problem_of(slug)
    if problem:
        raise Invalid([problem])
    if Image.objects.filter(slug=slug).exists():
        raise AlreadyExists(f"The slug {slug} is taken.")
    _refuse_twice(columns["full_reference"], None)
    try:
        with transaction.atomic():
            row = Image.objects.create(slug=slug, created_by=actor.username, **columns)
    except IntegrityError:
        # Two at once may both have seen that it was free: the database decides.
        _refuse_twice(columns["full_reference"], None)
        raise AlreadyExists(f"The slug {slug} is taken.") from None
    row.tenants.set(wish.tenants or ())
    audit.record(actor, "image.create", row, now=now, changes={k: [None, v] for k, v in _told(row).items()})
    return row


@transaction.atomic
def update_image(*, actor: Actor, image: Image, wish: ImageWish, now: datetime) -> Image:
    """The entry as the wish says; the same again changes nothing. Rule: as adding it.

    Another reference counts for what is asked for from now on; what runs keeps its own.
    """
    require_keeper(actor)
    row = Image.objects.select_for_update().get(pk=image.pk)
    before, columns = _told(row), _columns(wish)
    if row.retired_at is None:
        _refuse_twice(columns["full_reference"], row)
    for name, value in columns.items():
        setattr(row, name, value)
    row.tenants.set(wish.tenants or ())
    changes = {name: [before[name], value] for name, value in _told(row).items() if before[name] != value}
    if changes:
        _save(row, *columns)
        audit.record(actor, "image.update", row, now=now, changes=changes)
    return row


@transaction.atomic
def retire_image(*, actor: Actor, image: Image, reason: str, now: datetime) -> Image:
    """Nobody chooses it any more, not by its reference either; what has it runs on and may start again.

    Rule: as adding it; retiring it again changes nothing.
    """
    require_keeper(actor)
    row = Image.objects.select_for_update().get(pk=image.pk)
    if row.retired_at is not None:
        return row
    row.retired_at, row.retired_reason = now, reason
    _save(row, "retired_at", "retired_reason")
    audit.record(actor, "image.retire", row, now=now, changes={"retired_at": [None, now]}, reason=reason)
    return row


@transaction.atomic
def restore_image(*, actor: Actor, image: Image, now: datetime) -> Image:
    """It can be chosen again. Rule: as adding it; refused while another entry is the same image."""
    require_keeper(actor)
    row = Image.objects.select_for_update().get(pk=image.pk)
    if row.retired_at is None:
        return row
    _refuse_twice(row.full_reference, row)
    before, row.retired_at, row.retired_reason = row.retired_at, None, ""
    _save(row, "retired_at", "retired_reason")
    audit.record(actor, "image.restore", row, now=now, changes={"retired_at": [before, None]})
    return row


@transaction.atomic
def set_limits(
    *, actor: Actor, tenant: Tenant | None, limits: ImageLimits | None, now: datetime
) -> ImageLimits | None:
    """Which images may be used besides the catalogue: by one tenant, or by all that have no rule of their
    own. None: the tenant's own rule goes. The same again changes nothing.

    Rule: platform engineers only.
    """
    require_keeper(actor)
    which: Mapping[str, Any] = {"tenant": tenant} if tenant else {"pk": PLATFORM_RULE}
    row = ImageRule.objects.select_for_update(of=("self",)).select_related("tenant").filter(**which).first()
    unset = None if tenant else ImageLimits()
    before, wanted = row.limits if row else unset, _checked(limits) if limits else None
    if before == wanted:
        return wanted
    on = row or ImageRule(**which)
    target = on.audit_target
    if wanted is None:
        on.delete()
    else:
        on.allowed, on.prefixes = str(wanted.allowed), list(wanted.prefixes)
        on.save()
    changes = {"limits": [_said(before), _said(wanted)]}
    audit.record(actor, "image-rule.update", target, now=now, changes=changes)
    return wanted


def require_keeper(actor: Actor) -> None:
    """Rule: platform engineers keep the catalogue and its rules; raises NotAllowed."""
    if not policies.can_manage_images(actor):
        raise NotAllowed("Only a platform engineer changes the catalogue of images.")


def _checked(limits: ImageLimits) -> ImageLimits:
    is_listed = limits.allowed is ImagesAllowed.LISTED
    prefixes = tuple(dict.fromkeys(map(references.written, limits.prefixes))) if is_listed else ()
    problems = references.problems_of(prefixes, "/spec/prefixes")
    if is_listed and not prefixes:
        problems = [FieldProblem("/spec/prefixes", "required", "Name one registry at least.")]
    if len(prefixes) > references.MOST_PREFIXES:
        words = f"At most {references.MOST_PREFIXES} registries."
        problems = [FieldProblem("/spec/prefixes", "out_of_range", words)]
    if problems:
        raise Invalid(problems)
    return ImageLimits(limits.allowed, prefixes)


def _said(limits: ImageLimits | None) -> str | None:
    return None if limits is None else ", ".join([str(limits.allowed), *limits.prefixes])


def _columns(wish: ImageWish) -> dict[str, Any]:
    problems = []
    if not parsing.IMAGE.fullmatch(wish.reference):
        words = "An image reference, such as registry.example/team/image:1."
        problems.append(FieldProblem("/spec/reference", "invalid_value", words))
    if wish.cuda_version and cuda.version(wish.cuda_version) is None:
        problems.append(FieldProblem("/spec/cuda_version", "invalid_value", "A version, such as 12.4."))
    if not wish.kinds:
        problems.append(FieldProblem("/spec/kinds", "required", "Name a kind of work at least."))
    if wish.tenants == ():
        problems.append(FieldProblem("/spec/tenants", "required", "Name a tenant, or null for every one."))
    if problems:
        raise Invalid(problems)
    return {
        "name": wish.name,
        "description": wish.description,
        "reference": wish.reference,
        "full_reference": references.full(wish.reference),
        "size_bytes": wish.size_bytes,
        "cuda_version": wish.cuda_version,
        "kinds": [str(kind) for kind in Kind if kind in wish.kinds],
        "is_for_all": wish.tenants is None,
    }


def _told(row: Image) -> dict[str, Any]:
    """What the record says of an entry."""
    named = sorted(row.tenants.values_list("slug", flat=True))
    kept = ("name", "description", "reference", "size_bytes", "cuda_version", "kinds")
    return {name: getattr(row, name) for name in kept} | {"tenants": None if row.is_for_all else named}


def _refuse_twice(reference: str, own: Image | None) -> None:
    others = Image.objects.filter(full_reference=reference, retired_at=None)
    twin = (others.exclude(pk=own.pk) if own else others).first()
    if twin is not None:
        words = f"The catalogue has this image already: {twin.slug}."
        raise Conflict(words, code="already_exists", hint="Change that entry.")


def _save(row: Image, *columns: str) -> None:
    row.generation += 1
    row.save(update_fields=[*columns, "generation", "updated_at"])
