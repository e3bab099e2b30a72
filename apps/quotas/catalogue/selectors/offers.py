"""Flavors and offers as an actor or a tenant sees them, and the specs of their manifests. Reads only."""

from collections.abc import Iterable, Sequence
from uuid import UUID

from django.db.models import Q, QuerySet, UUIDField

from apps.accounts.specs import Actor
from apps.cluster.models import OF_THE_RECONCILE, Cluster
from apps.cluster.request_cache import memo
from apps.prepared import Prepared
from apps.quotas.catalogue.rules import trust
from apps.quotas.models import Flavor, Offer
from apps.quotas.specs import FlavorSpec, OfferSpec, SharingMode
from apps.tenants import selectors as tenancy
from apps.tenants.models import Tenant
from apps.tenants.specs import TrustLevel
from apps.web.requests.lookups import one, slug_or_id


def flavors_for(actor: Actor) -> QuerySet[Flavor]:
    """The flavors of the clusters in which the actor has a tenant; all for platform and auditors."""
    found = Flavor.objects.filter(deleted_at=None).select_related("cluster")
    if actor.sees_everything:
        return found
    return found.filter(_not_another_s("tenant", actor), cluster__in=_clusters_of(actor))


def offers_for(actor: Actor) -> QuerySet[Offer]:
    """The offers of the actor's clusters, the enabled ones; all of them for platform and auditors.

    What lies on one tenant's nodes is seen by that tenant alone.
    """
    found = Offer.objects.filter(deleted_at=None).select_related("flavor", "cluster")
    if actor.sees_everything:
        return found
    return found.filter(
        _not_another_s("flavor__tenant", actor), cluster__in=_clusters_of(actor), enabled=True
    )


def complete(rows: Sequence[Offer]) -> None:
    """Give offers that were read alone what `offers_for` reads with each: every flavor and cluster is read
    once, however many offers share it.
    """
    clusters = {each.pk: each for each in _CLUSTERS(sorted({row.cluster_id for row in rows}))}
    flavors = {each.flavor_id: each.flavor for cluster in clusters for each in offers_in(cluster)}
    Offer.join(rows, cluster=clusters, flavor=flavors)


_CLUSTERS = Prepared(lambda ids: Cluster.objects.filter(pk__in=ids), UUIDField())


def _not_another_s(path: str, actor: Actor) -> Q:
    return Q(**{path: None}) | Q(**{f"{path}__in": tenancy.seen_by(actor)})


def _clusters_of(actor: Actor) -> QuerySet[Tenant, UUID]:
    return Tenant.objects.filter(Q(pk__in=tenancy.seen_by(actor))).values_list("cluster", flat=True)


def flavor_for(actor: Actor, key: str | UUID, *, lock: bool = False) -> Flavor:
    """The flavor with that slug or id, if the actor sees it; raises NotFound."""
    return one(flavors_for(actor).filter(slug_or_id(key)), lock=lock)


def offer_for(actor: Actor, key: str | UUID, *, lock: bool = False) -> Offer:
    """The offer with that slug or id, if the actor sees it; raises NotFound."""
    return one(offers_for(actor).filter(slug_or_id(key)), lock=lock)


def named(offers: Iterable[Offer], key: str) -> Offer | None:
    """The offer of that slug or id among these."""
    try:
        wanted = UUID(key)
    except ValueError:
        return next((offer for offer in offers if offer.slug == key), None)
    return next((offer for offer in offers if offer.pk == wanted), None)


def offers_of(tenant: Tenant) -> QuerySet[Offer]:
    """The enabled offers of the tenant's cluster, allowed or not, cheapest share first; not those on nodes
    that serve another tenant.
    """
    mine = Q(flavor__tenant=None) | Q(flavor__tenant=tenant)
    found = Offer.objects.filter(mine, cluster=tenant.cluster_id, enabled=True, deleted_at=None)
    return found.select_related("flavor").order_by("flavor__slug", "gpu_memory_bytes", "slug")


def offers_known(tenant: Tenant) -> list[Offer]:
    """`offers_of`; inside a request read once for all who ask about the cluster."""
    mine = (None, tenant.pk)
    return [o for o in offers_in(tenant.cluster_id) if o.enabled and o.flavor.tenant_id in mine]


def offers_in(cluster: UUID) -> list[Offer]:
    """Every offer of a cluster, for whomever, in the order of `offers_of`."""
    return memo(("offers in", cluster), lambda: _IN_CLUSTER(cluster))


_UNLISTED = (*OF_THE_RECONCILE, "conditions")
_IN_CLUSTER = Prepared(
    lambda cluster: (
        Offer.objects.filter(cluster=cluster, deleted_at=None)
        .select_related("flavor")
        .defer(*_UNLISTED, *(f"flavor__{name}" for name in _UNLISTED))
        .order_by("flavor__slug", "gpu_memory_bytes", "slug")
    ),
    UUIDField(),
)


def refusal_of(offer: Offer, tenant: Tenant) -> str:
    """Empty when the tenant's trust level allows the offer; else why not, in words."""
    return trust.refusal(
        offer=offer.name,
        mode=SharingMode(offer.sharing_mode),
        minimum=TrustLevel(offer.min_trust_level),
        tenant=tenant.slug,
        trust=TrustLevel(tenant.trust_level),
        on_own_nodes=offer.flavor.tenant_id is not None,
    )


def flavor_spec(flavor: Flavor) -> FlavorSpec:
    """All that the flavor's manifest depends on."""
    tolerations = tuple(dict(toleration) for toleration in flavor.tolerations)
    return FlavorSpec(str(flavor.pk), flavor.object_name, flavor.generation, flavor.node_labels, tolerations)


def offer_spec(offer: Offer) -> OfferSpec:
    """All that the offer's manifest depends on."""
    return OfferSpec(
        id=str(offer.pk),
        object_name=offer.object_name,
        resource_name=offer.resource_name,
        generation=offer.generation,
        model=offer.flavor.model,
        profile=offer.profile,
    )
