"""A new workload like one that is there: what its form starts with, and what does not come along."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any
from urllib.parse import urlencode

from django.urls import reverse

from apps.accounts.specs import Actor
from apps.errors import NotFound
from apps.quotas.catalogue.selectors.offers import offers_of
from apps.workloads.models import Workload
from apps.workloads.secret_specs import Into
from apps.workloads.selectors import reading
from apps.workloads.specs import OpenTo
from apps.workloads.templates.selectors.catalogue import names_of, usable_by
from portal.pages.team.workloads import as_typed
from portal.pages.team.workloads.workload_detail import url
from portal.pages.team.workloads.workload_forms import typed


@dataclass(frozen=True)
class Original:
    """The workload that the new one is like, as the one who asks sees it."""

    row: Workload
    is_own: bool

    @property
    def url(self) -> str:
        """Its page."""
        return url(self.row)

    @property
    def secrets(self) -> list[str]:
        """The names of its secrets, with where they go."""
        return [f"{name} ({Into(into).label.lower()})" for name, into in self.row.secret_names]

    @property
    def taken(self) -> list[str]:
        """The secrets that come along: only of one's own work, as a copy over REST."""
        return self.secrets if self.is_own else []

    @property
    def to_give(self) -> list[str]:
        """The secrets that have to be given again."""
        return [] if self.is_own else self.secrets

    @property
    def has_disks(self) -> bool:
        """Whether there are files that stay with it."""
        return bool(self.row.spec.get("volumes"))

    @property
    def is_shared(self) -> bool:
        """Whether the team opens it, which is not copied."""
        return self.row.open_to == OpenTo.TEAM

    @cached_property
    def template(self) -> dict[str, Any]:
        """What it was made from, and where that is filled in again, if the team still may."""
        row = self.row
        if not row.template:
            return {}
        may = usable_by(row.tenant).filter(slug=row.template).exists()
        where = reverse("new-from-template", args=[row.tenant.slug, row.template]) if may else ""
        name = names_of([row.template]).get(row.template, row.template)
        return {"name": name, "version": row.template_version, "url": where}

    @property
    def values(self) -> dict[str, str]:
        """What is typed into the form. CPU and memory that came with the offer are left to it."""
        row = self.row
        spec = reading.spec_on(row, row.next_offer or row.offer)
        return typed(f"{row.name} (copy)"[: as_typed.LONGEST_NAME], spec, row.labels)


def original(actor: Actor, key: str, address: tuple[str, str]) -> Original | None:
    """The one with that id, if the actor sees it in that tenant and it is of that kind; None: of no one."""
    if not key:
        return None
    row = reading.workload_for(actor, key, address[0])
    if row.kind != address[1]:
        raise NotFound
    return Original(row, is_own=row.owner_id == actor.user_id)


def start(row: Workload) -> str:
    """Its form; where its offer is sold no more, the choice of another."""
    offer = row.next_offer or row.offer
    place = [row.tenant.slug, row.kind]
    is_sold = offers_of(row.tenant).filter(pk=offer.pk).exists()
    step = reverse("new-fields", args=[*place, offer.slug]) if is_sold else reverse("new-offer", args=place)
    return f"{step}?{urlencode({'like': row.pk})}"
