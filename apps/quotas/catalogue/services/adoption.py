"""Makes flavors, offers and first prices of the hardware that a cluster publishes."""

import logging
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from datetime import datetime
from functools import partial
from typing import TypeVar
from uuid import uuid4

from django.db import DataError, IntegrityError, transaction

from apps.accounts.specs import Actor
from apps.audit import services as audit
from apps.cluster.mirror.selectors import inventory
from apps.cluster.models import Cluster
from apps.cluster.objects import names
from apps.cluster.reconciling.services import wake
from apps.errors import DomainError, NotAllowed, clipped
from apps.quotas import policies
from apps.quotas.catalogue.rules import inventory_plan
from apps.quotas.catalogue.rules.drafts import FlavorDraft, Naming, OfferDraft
from apps.quotas.catalogue.services import core_offers
from apps.quotas.catalogue.services.booking import set_price
from apps.quotas.models import Flavor, Offer
from apps.quotas.wake.services import queue_hints
from apps.tenants.models import Tenant

log = logging.getLogger(__name__)
Made = TypeVar("Made", Flavor | None, Offer)


@dataclass
class Adoption:
    """The offers that came of it, and in words what could not be made, and why."""

    offers: list[Offer] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)


def adopt_inventory(*, actor: Actor, cluster: Cluster, now: datetime, with_cores: bool = True) -> list[Offer]:
    """The new offers of `adopt`."""
    return adopt(actor=actor, cluster=cluster, now=now, with_cores=with_cores).offers


@transaction.atomic
def adopt(*, actor: Actor, cluster: Cluster, now: datetime, with_cores: bool = True) -> Adoption:
    """Makes flavors, offers and first prices of what the cluster's ResourceSlices publish, and of the cores
    of its nodes without a GPU.

    Rule: platform engineers only. What is known already is left as it is, so that running it again adds only
    what is new; nothing is ever removed. A slug that another cluster has gets this cluster's slug behind it.
    What could not be kept apart, work without a GPU from GPUs, is left out; the page of offers says why.
    Cores only where a person asked for them. What cannot be made never keeps the rest from being made.
    """
    if not policies.can_manage_catalogue(actor):
        raise NotAllowed("Only a platform engineer adopts inventory.")
    Cluster.objects.select_for_update().get(pk=cluster.pk)
    adoption = Adoption()
    tenants = {tenant.slug: tenant for tenant in Tenant.objects.filter(cluster=cluster, deleted_at=None)}
    for draft in inventory_plan.plan(inventory.devices(cluster), inventory.nodes(cluster)):
        if draft.tenant and draft.tenant not in tenants:
            # A node marked for an unknown tenant is not offered to anybody.
            continue
        if not draft.model and (not with_cores or core_offers.is_sold_by_hand(cluster, draft)):
            continue
        make = partial(_adopt_flavor, actor, cluster, draft, tenant=tenants.get(draft.tenant), now=now)
        if flavor := _tried(adoption, draft.name, make):
            _adopt_offers(adoption, flavor, draft.offers, actor=actor, now=now)
    if adoption.offers:
        queue_hints.queues_follow(cluster)
    return adoption


def _adopt_offers(
    adoption: Adoption, flavor: Flavor, drafts: Iterable[OfferDraft], *, actor: Actor, now: datetime
) -> None:
    known = set(flavor.offers.values_list("profile", flat=True))
    for each in drafts:
        if each.profile not in known:
            offer = _tried(adoption, each.name, partial(_adopt_offer, actor, flavor, each, now))
            adoption.offers += [offer] if offer else []


def _tried(adoption: Adoption, name: str, make: Callable[[], Made]) -> Made | None:
    """What was made, or None with the reason noted: then nothing of it is kept."""
    try:
        with transaction.atomic():
            return make()
    except (DomainError, DataError, IntegrityError) as error:
        words = error.detail if isinstance(error, DomainError) else str(error).partition("\n")[0]
        adoption.refused.append(f"{name} was not made: {clipped(words, 200)}")
        log.warning("%s", adoption.refused[-1])
        return None


def _adopt_flavor(
    actor: Actor, cluster: Cluster, draft: FlavorDraft, *, tenant: Tenant | None, now: datetime
) -> Flavor | None:
    for known in Flavor.objects.filter(cluster=cluster, model=draft.model, deleted_at=None):
        if known.node_labels == draft.node_labels:
            return known
    if core_offers.refusal_of(cluster, draft):
        return None
    row_id, slug = uuid4(), _free_slug(Flavor, draft.naming, cluster)
    flavor = Flavor.objects.create(
        id=row_id,
        cluster=cluster,
        slug=slug,
        name=draft.name,
        object_name=names.object_name(slug, row_id),
        tenant=tenant,
        model=draft.model,
        node_labels=draft.node_labels,
        tolerations=list(draft.tolerations),
        created_by=actor.username,
    )
    audit.record(actor, "flavor.create", flavor, now=now, changes={"model": [None, draft.model]})
    wake.hint("flavor", str(row_id))
    return flavor


def _adopt_offer(actor: Actor, flavor: Flavor, draft: OfferDraft, now: datetime) -> Offer:
    row_id, slug = uuid4(), _free_slug(Offer, draft.naming, flavor.cluster)
    apart = ("naming", "hourly", "resource_name")
    facts = {field: value for field, value in asdict(draft).items() if field not in apart}
    offer = Offer.objects.create(
        id=row_id,
        cluster=flavor.cluster,
        flavor=flavor,
        slug=slug,
        object_name=names.object_name(slug, row_id),
        resource_name=draft.resource_name or core_offers.resource_name_of(flavor, slug),
        created_by=actor.username,
        **facts,
    )
    changes = {"flavor": [None, flavor.slug], "profile": [None, draft.profile]}
    audit.record(actor, "offer.create", offer, now=now, changes=changes)
    if draft.hourly is not None:
        set_price(actor=actor, offer=offer, hourly=draft.hourly, now=now)
    wake.hint("offer", str(row_id))
    return offer


def _free_slug(model: type[Flavor] | type[Offer], naming: Naming, cluster: Cluster) -> str:
    def is_taken(slug: str) -> bool:
        return model._default_manager.filter(slug=slug).exists()

    if not is_taken(naming.slug):
        return naming.slug
    return naming.marked(cluster.slug).free(is_taken).slug
