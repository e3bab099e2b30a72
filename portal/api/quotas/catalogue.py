"""REST for flavors and offers."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.specs import ScopeGroup
from apps.cluster import request_cache
from apps.cluster.mirror.selectors import inventory as fleet
from apps.cluster.objects.conditions import is_true
from apps.quotas.allowances.selectors import standing
from apps.quotas.catalogue.selectors import offers as catalogue_offers
from apps.quotas.catalogue.selectors import price_book, stock
from apps.quotas.catalogue.services import offering
from apps.quotas.kueue.manifests import render_flavor, render_offer
from apps.quotas.models import Flavor, Offer
from apps.tenants.models import Tenant
from portal.api.base import references
from portal.api.base.documents import DocumentView, documents
from portal.api.base.references import TENANT
from portal.api.base.views import ApiView, etag, idempotent, paginate, paginate_whole
from portal.api.base.writing import made, settled, written
from portal.api.declared.declaring import answers, pages, refuses, takes
from portal.api.quotas.catalogue_bodies import (
    FlavorDocumentSerializer,
    NewFlavorSerializer,
    NewOfferSerializer,
    OfferDocumentSerializer,
)
from portal.api.quotas.quotas_bodies import Body, ChoiceBody, FlavorBody, OfferBody, flavor_body, offer_body


def _offer(row: Offer) -> OfferBody:
    return _offers([row])[0]


def _is_done(row: Flavor | Offer) -> bool:
    return row.observed_generation == row.generation and is_true(row.conditions, "Ready")


def _flavor_manifests(flavor: Flavor) -> list[dict[str, Any]]:
    return render_flavor(catalogue_offers.flavor_spec(flavor))


def _offer_manifests(offer: Offer) -> list[dict[str, Any]]:
    return render_offer(catalogue_offers.offer_spec(offer))


class FlavorsView(ApiView):
    """The kinds of nodes of the caller's clusters."""

    scope_group = ScopeGroup.CATALOG
    lists = True

    @pages(FlavorBody)
    def get(self, request: Request) -> Response:
        """With the devices of each."""
        return paginate(request, catalogue_offers.flavors_for(self.actor), _flavors())

    @takes(NewFlavorSerializer)
    @answers(201, FlavorBody, etag=True, location=True)
    @refuses("already_exists", "wrong_phase")
    def post(self, request: Request) -> Response:
        """A kind of node to sell GPUs of; the cluster gets its ResourceFlavor."""

        def make() -> Flavor:
            offering.require_keeper(self.actor)
            asked = NewFlavorSerializer.checked(request.data)
            found = references.found(
                "/spec/cluster", lambda: fleet.cluster_for(self.actor, asked["spec"]["cluster"])
            )
            wish = NewFlavorSerializer.wish(asked)
            return offering.create_flavor(actor=self.actor, cluster=found, wish=wish, now=timezone.now())

        def answer(row: Flavor) -> Response:
            return made(_flavors()(row), f"/api/v1/flavors/{row.slug}", row)

        response = idempotent(request, lambda: written(request, make, answer, manifests=_flavor_manifests))
        find = partial(catalogue_offers.flavor_for, self.actor)
        return settled(request, response, reload=find, is_done=_is_done, body=_flavors())


@documents(
    FlavorDocumentSerializer,
    FlavorBody,
    get="By slug or id.",
    put="Replace name, node labels and tolerations.",
    patch="Merge (RFC 7396).",
    refusals=("wrong_phase",),
)
class FlavorView(DocumentView[Flavor]):
    """One flavor."""

    scope_group = ScopeGroup.CATALOG
    find = staticmethod(catalogue_offers.flavor_for)
    manifests = staticmethod(_flavor_manifests)
    is_done = staticmethod(_is_done)

    @answers(202, FlavorBody, etag=True)
    @refuses("has_dependents")
    def delete(self, request: Request, key: str) -> Response:
        """409 has_dependents while an offer is left on it."""

        def take(row: Flavor) -> Flavor:
            return offering.delete_flavor(actor=self.actor, flavor=row, now=timezone.now())

        return self.remove(request, key, take)

    def require(self, row: Flavor) -> None:  # noqa: ARG002 - the same for every flavor
        """As the service."""
        offering.require_keeper(self.actor)

    def shown(self, row: Flavor) -> FlavorBody:
        """With its devices."""
        return _flavors()(row)

    def change(self, row: Flavor, asked: Body) -> Flavor:
        """Another name, or other marks."""
        changes = {"name": asked["name"], **asked["spec"]}
        return offering.update_flavor(actor=self.actor, flavor=row, changes=changes, now=timezone.now())


class OffersView(ApiView):
    """What can be asked for on the caller's clusters."""

    scope_group = ScopeGroup.CATALOG
    lists = True
    parameters = (TENANT,)

    @pages(OfferBody)
    def get(self, request: Request) -> Response:
        """With `?tenant=`: only the offers of its cluster, with what it may use and could take now."""
        with request_cache.scope():
            offers, tenant = catalogue_offers.offers_for(self.actor), references.asked_tenant(self, request)
            if tenant is not None:
                offers = offers.filter(cluster=tenant.cluster_id, enabled=True)

            def bodies(rows: list[Offer]) -> list[OfferBody]:
                catalogue_offers.complete(rows)
                return _offers(rows, tenant)

            return paginate_whole(request, offers.select_related(None), bodies)

    @takes(NewOfferSerializer)
    @answers(201, OfferBody, etag=True, location=True)
    @refuses("already_exists", "wrong_phase")
    def post(self, request: Request) -> Response:
        """A MIG profile or the whole GPUs of a flavor; the cluster gets its DeviceClass, Kueue needs no
        restart.
        """

        def make() -> Offer:
            offering.require_keeper(self.actor)
            asked = NewOfferSerializer.checked(request.data)
            find = asked["spec"]["flavor"]
            flavor = references.found("/spec/flavor", lambda: catalogue_offers.flavor_for(self.actor, find))
            wish = NewOfferSerializer.wish(asked, flavor)
            return offering.create_offer(actor=self.actor, wish=wish, now=timezone.now())

        def answer(row: Offer) -> Response:
            return made(_offer(row), f"/api/v1/offers/{row.slug}", row)

        response = idempotent(request, lambda: written(request, make, answer, manifests=_offer_manifests))
        find = partial(catalogue_offers.offer_for, self.actor)
        return settled(request, response, reload=find, is_done=_is_done, body=_offer)


@documents(
    OfferDocumentSerializer,
    OfferBody,
    put="Replace name, words, least trust, whether it is offered, and what comes with a device.",
    patch="Merge (RFC 7396).",
    refusals=("wrong_phase",),
)
class OfferView(DocumentView[Offer]):
    """One offer."""

    scope_group = ScopeGroup.CATALOG
    parameters = (TENANT,)
    find = staticmethod(catalogue_offers.offer_for)
    body = staticmethod(_offer)
    manifests = staticmethod(_offer_manifests)
    is_done = staticmethod(_is_done)

    @answers(200, OfferBody, etag=True)
    def get(self, request: Request, key: str) -> Response:
        """By slug or id."""
        with request_cache.scope():
            offer = self.found(key)
            body = _offers([offer], references.asked_tenant(self, request))[0]
            return Response(body, headers={"ETag": etag(offer)})

    @answers(202, OfferBody, etag=True)
    @refuses("has_dependents")
    def delete(self, request: Request, key: str) -> Response:
        """409 has_dependents while somebody has quota, a grant or an open request of it, or holds it."""

        def take(row: Offer) -> Offer:
            return offering.delete_offer(actor=self.actor, offer=row, now=timezone.now())

        return self.remove(request, key, take)

    def require(self, row: Offer) -> None:  # noqa: ARG002 - the same for every offer
        """As the service."""
        offering.require_keeper(self.actor)

    def change(self, row: Offer, asked: Body) -> Offer:
        """Other terms."""
        change = OfferDocumentSerializer.change(asked)
        return offering.update_offer(actor=self.actor, offer=row, change=change, now=timezone.now())


def _offers(rows: Sequence[Offer], tenant: Tenant | None = None) -> list[OfferBody]:
    """Bodies of offers; what they share is read once."""
    now = timezone.now()
    priced = price_book.prices_at(rows, now)
    chosen = {choice.offer.pk: choice for choice in standing.offer_choices(tenant, now=now)} if tenant else {}
    supplied = {cluster: stock.supply(cluster) for cluster in {offer.cluster for offer in rows}}
    return [
        offer_body(
            offer,
            supplied[offer.cluster].get(offer.pk, stock.NOTHING),
            priced.get(offer.pk),
            _told(chosen[offer.pk]) if offer.pk in chosen else None,
        )
        for offer in rows
    ]


def _told(choice: standing.OfferChoice) -> ChoiceBody:
    return {
        "free": choice.free_now,
        "free_on_one_node": choice.free_on_one_node,
        "allowed": choice.allowed,
        "blocked_reason": choice.reason or None,
    }


def _flavors() -> Callable[[Flavor], FlavorBody]:
    supplied: dict[Any, Mapping[Any, stock.Supply]] = {}

    def shown(flavor: Flavor) -> FlavorBody:
        if flavor.cluster_id not in supplied:
            supplied[flavor.cluster_id] = stock.supply(flavor.cluster)
        offers = list(flavor.offers.filter(deleted_at=None))
        devices = sum(supplied[flavor.cluster_id].get(offer.pk, stock.NOTHING).capacity for offer in offers)
        return flavor_body(flavor, devices, max((offer.gpu_memory_bytes for offer in offers), default=None))

    return shown
