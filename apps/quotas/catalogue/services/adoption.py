"""Makes flavors, offers and first prices of the hardware that a cluster publishes."""

from dataclasses import asdict
from datetime import datetime
from uuid import uuid4

from django.db import transaction

from apps.accounts.specs import Actor
from apps.audit import services as audit
from apps.cluster.mirror.selectors import inventory
from apps.cluster.models import Cluster
from apps.cluster.objects import names
from apps.cluster.reconciling.services import wake
from apps.errors import AlreadyExists, NotAllowed
from apps.quotas import policies
from apps.quotas.catalogue.rules import inventory_plan
from apps.quotas.catalogue.rules.drafts import FlavorDraft, OfferDraft
from apps.quotas.catalogue.services import core_offers
from apps.quotas.catalogue.services.booking import set_price
from apps.quotas.models import Flavor, Offer
from apps.quotas.wake.services import queue_hints
from apps.tenants.models import Tenant


@transaction.atomic
def adopt_inventory(*, actor: Actor, cluster: Cluster, now: datetime, with_cores: bool = True) -> list[Offer]:
    """Makes flavors, offers and first prices of what the cluster's ResourceSlices publish, and of the cores
    of its nodes without a GPU; answers the new offers.

    Rule: platform engineers only. What is known already is left as it is, so that running it again adds only
    what is new; nothing is ever removed. A slug that another cluster has gets this cluster's slug behind it.
    What could not be kept apart, work without a GPU from GPUs, is left out; the page of offers says why.
    Cores only where a person asked for them.
    """
    if not policies.can_manage_catalogue(actor):
        raise NotAllowed("Only a platform engineer adopts inventory.")
    Cluster.objects.select_for_update().get(pk=cluster.pk)
    made = []
    tenants = {tenant.slug: tenant for tenant in Tenant.objects.filter(cluster=cluster, deleted_at=None)}
    for draft in inventory_plan.plan(inventory.devices(cluster), inventory.nodes(cluster)):
        if draft.tenant and draft.tenant not in tenants:
            # A node marked for an unknown tenant is not offered to anybody.
            continue
        if not draft.model and (not with_cores or core_offers.is_sold_by_hand(cluster, draft)):
            continue
        flavor = _adopt_flavor(actor, cluster, draft, tenant=tenants.get(draft.tenant), now=now)
        if flavor is None:
            continue
        known = set(flavor.offers.values_list("profile", flat=True))
        made += [_adopt_offer(actor, flavor, each, now) for each in draft.offers if each.profile not in known]
    if made:
        queue_hints.queues_follow(cluster)
    return made


def _adopt_flavor(
    actor: Actor, cluster: Cluster, draft: FlavorDraft, *, tenant: Tenant | None, now: datetime
) -> Flavor | None:
    for known in Flavor.objects.filter(cluster=cluster, model=draft.model, deleted_at=None):
        if known.node_labels == draft.node_labels:
            return known
    if core_offers.refusal_of(cluster, draft):
        return None
    row_id, slug = uuid4(), _free_slug(Flavor, draft.slug, cluster)
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
    row_id, slug = uuid4(), _free_slug(Offer, draft.slug, flavor.cluster)
    apart = ("slug", "hourly", "resource_name")
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


def _free_slug(model: type[Flavor] | type[Offer], slug: str, cluster: Cluster) -> str:
    if not model._default_manager.filter(slug=slug).exists():
        return slug
    longer = names.slugify(f"{slug[:24]}-{cluster.slug[:15]}")
    if not model._default_manager.filter(slug=longer).exists():
        return longer
    raise AlreadyExists(
        f"Neither {slug} nor {longer} is free for a {model._meta.model_name} of {cluster.slug}."
    )
