"""What the console's pages of images show. Reads only."""

from dataclasses import dataclass
from typing import Any

from apps.accounts.specs import Actor
from apps.errors import NotFound
from apps.tenants import selectors as tenancy
from apps.tenants.models import Tenant
from apps.workloads import policies
from apps.workloads.images.selectors import catalogue
from apps.workloads.models import Image
from apps.workloads.spec import parsing
from apps.workloads.specs import ImageLimits, ImagesAllowed, Kind
from portal.pages.parts.confirm import Question


@dataclass(frozen=True)
class ImageRow:
    """An image as the table shows it; `tenants` is empty where it is for all."""

    image: Image
    tenants: tuple[Tenant, ...]
    workloads: int

    @property
    def kinds(self) -> str:
        """For what it is."""
        return ", ".join(f"{Kind(kind).label.lower()}s" for kind in self.image.kinds)

    @property
    def who(self) -> str:
        """Who may choose it."""
        if self.image.is_for_all:
            return "Every tenant"
        return ", ".join(tenant.name for tenant in self.tenants) or "Nobody"

    @property
    def pulled(self) -> str:
        """When its registry is asked."""
        if self.is_fixed:
            return "Once by each node whose kubelet checks who may use it (1.35), else at each start."
        return "At each start: what a tag means may change."

    @property
    def is_fixed(self) -> bool:
        """Whether it is named by digest."""
        return parsing.has_digest(self.image.reference)


def images(actor: Actor) -> dict[str, Any]:
    """Every image, those that can be chosen first, and the rule on others."""
    require_console(actor)
    rows = _rows(actor, list(catalogue.images_for(actor).order_by("name", "slug")))
    live = [row for row in rows if row.image.retired_at is None]
    return {
        "rows": [*live, *(row for row in rows if row.image.retired_at is not None)],
        "live": len(live),
        "limits": catalogue.limits_of(None),
        "is_any": catalogue.limits_of(None).allowed is ImagesAllowed.ANY,
        "can_change": policies.can_manage_images(actor),
    }


def image(actor: Actor, found: Image) -> dict[str, Any]:
    """One image, to be changed."""
    require_console(actor)
    (row,) = _rows(actor, [found])
    return {"image": found, "row": row, "can_change": policies.can_manage_images(actor)}


def retiring(actor: Actor, found: Image, back: str) -> Question:
    """What it means to retire an image."""
    count = catalogue.users_of(actor, [found])[found.pk]
    have = "workloads have" if count > 1 else "workload has"
    has = f"{count} {have} it: what runs goes on, what is stopped may start again."
    return Question(
        title=f"Retire {found.name}?",
        sentences=(
            "Nobody can choose it any more, and nobody can type its reference.",
            has if count else "No workload has it.",
            "It can be restored.",
        ),
        button="Retire it",
        back=back,
        reason="Why (people who ask for it are told)",
    )


def rule(actor: Actor, tenant: Tenant | None) -> dict[str, Any]:
    """The rule of the installation or of one tenant, with the tenants that have their own."""
    require_console(actor)
    every = tenancy.tenants_for(actor).order_by("name")
    return {
        "tenant": tenant,
        "own": every.filter(image_rule__isnull=False).select_related("image_rule"),
        "others": every.filter(image_rule=None),
        "can_change": policies.can_manage_images(actor),
    }


def limits(tenant: Tenant | None) -> ImageLimits | None:
    """The rule that the installation or this tenant has itself; None: none was set."""
    of = tenant.pk if tenant else None
    own = next((each.limits for each in catalogue.rules(tenant) if each.tenant_id == of), None)
    return own or (None if tenant else ImageLimits())


def require_console(actor: Actor) -> None:
    """These pages are for platform engineers and auditors; for everybody else they do not exist."""
    if not actor.sees_everything:
        raise NotFound


def _rows(actor: Actor, found: list[Image]) -> list[ImageRow]:
    """Read together: as many statements for one image as for all."""
    named, counts = catalogue.tenants_of(found), catalogue.users_of(actor, found)
    return [ImageRow(each, tuple(named[each.pk]), counts[each.pk]) for each in found]
