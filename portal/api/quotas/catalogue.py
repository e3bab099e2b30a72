"""REST for flavors, offers and prices."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from django.conf import settings
from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.specs import ScopeGroup
from apps.cluster import selectors as fleet
from apps.cluster.conditions import is_true
from apps.cluster.models import Cluster
from apps.errors import FieldProblem, Invalid, NotFound
from apps.quotas import booking, offering, selectors, services, standing
from apps.quotas.manifests import render_flavor, render_offer
from apps.quotas.models import Flavor, Offer, Price
from apps.tenants.models import Tenant
from apps.tenants.selectors import tenant_for
from apps.web.refusals import BadParameter
from portal.api.base import references
from portal.api.base.references import TENANT
from portal.api.base.views import ApiView, etag, idempotent, paginate, paginate_whole, require_match
from portal.api.base.writing import as_sent, document, merged, settled, written
from portal.api.declared.declaring import answers, pages, refuses, rehearses, takes
from portal.api.declared.queries import Text
from portal.api.quotas.catalogue_bodies import (
    FlavorDocumentSerializer,
    NewFlavorSerializer,
    NewOfferSerializer,
    NewPriceSerializer,
    OfferDocumentSerializer,
)
from portal.api.quotas.price_bodies import PriceBody, PriceRehearsalBody, price_body
from portal.api.quotas.quotas_bodies import Body, ChoiceBody, FlavorBody, OfferBody, flavor_body, offer_body

NOTHING = standing.Supply(0, 0, 0)


class FlavorsView(ApiView):
    """The kinds of nodes of the caller's clusters."""

    scope_group = ScopeGroup.CATALOG
    lists = True

    @pages(FlavorBody)
    def get(self, request: Request) -> Response:
        """With the devices of each."""
        return paginate(request, selectors.flavors_for(self.actor), _flavors())

    @takes(NewFlavorSerializer)
    @answers(201, FlavorBody, etag=True, location=True)
    @refuses("already_exists")
    def post(self, request: Request) -> Response:
        """A kind of node to sell GPUs of; the cluster gets its ResourceFlavor."""

        def make() -> Flavor:
            offering.require_keeper(self.actor)
            asked = NewFlavorSerializer.checked(request.data)
            found = references.found("/spec/cluster", lambda: _cluster(self, asked["spec"]["cluster"]))
            wish = NewFlavorSerializer.wish(asked)
            return offering.create_flavor(actor=self.actor, cluster=found, wish=wish, now=timezone.now())

        answer = _made("flavors", _flavors())
        made = idempotent(request, lambda: written(request, make, answer, manifests=_flavor_manifests))
        return _settled(request, made, lambda pk: selectors.flavor_for(self.actor, pk), _flavors())


class FlavorView(ApiView):
    """One flavor."""

    scope_group = ScopeGroup.CATALOG
    matched_methods = ("PUT", "PATCH", "DELETE")

    @answers(200, FlavorBody, etag=True)
    def get(self, request: Request, key: str) -> Response:  # noqa: ARG002 - Django's signature
        """By slug or id."""
        return _shown(_flavors())(selectors.flavor_for(self.actor, key))

    @takes(FlavorDocumentSerializer)
    @answers(200, FlavorBody, etag=True)
    def put(self, request: Request, key: str) -> Response:
        """Replace name, node labels and tolerations."""
        return self._change(request, key, lambda _: document(request))

    @takes(FlavorDocumentSerializer)
    @answers(200, FlavorBody, etag=True)
    def patch(self, request: Request, key: str) -> Response:
        """Merge (RFC 7396)."""
        return self._change(request, key, lambda now: merged(now, document(request)))

    @answers(202, FlavorBody, etag=True)
    @refuses("has_dependents")
    def delete(self, request: Request, key: str) -> Response:
        """409 has_dependents while an offer is left on it."""

        def take() -> Flavor:
            flavor = _matched(self, request, selectors.flavor_for(self.actor, key))
            return offering.delete_flavor(actor=self.actor, flavor=flavor, now=timezone.now())

        return written(request, take, _shown(_flavors(), status=202))

    def _change(self, request: Request, key: str, asked_of: Callable[[Body], Body]) -> Response:
        def change() -> Flavor:
            flavor = _matched(self, request, selectors.flavor_for(self.actor, key))
            asked = _asked(FlavorDocumentSerializer, _flavors()(flavor), asked_of)
            changes, now = {"name": asked["name"], **asked["spec"]}, timezone.now()
            return offering.update_flavor(actor=self.actor, flavor=flavor, changes=changes, now=now)

        made = written(request, change, _shown(_flavors()), manifests=_flavor_manifests)
        return _settled(request, made, lambda pk: selectors.flavor_for(self.actor, pk), _flavors())


class OffersView(ApiView):
    """What can be asked for on the caller's clusters."""

    scope_group = ScopeGroup.CATALOG
    lists = True
    parameters = (TENANT,)

    @pages(OfferBody)
    def get(self, request: Request) -> Response:
        """With `?tenant=`: only the offers of its cluster, with what it may use and could take now."""
        with fleet.one_look():
            offers, tenant = selectors.offers_for(self.actor), references.asked_tenant(self, request)
            if tenant is not None:
                offers = offers.filter(cluster=tenant.cluster_id, enabled=True)
            return paginate_whole(request, offers, lambda rows: _offers(rows, tenant))

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
            flavor = references.found("/spec/flavor", lambda: selectors.flavor_for(self.actor, find))
            wish = NewOfferSerializer.wish(asked, flavor)
            return offering.create_offer(actor=self.actor, wish=wish, now=timezone.now())

        answer = _made("offers", _offer())
        made = idempotent(request, lambda: written(request, make, answer, manifests=_offer_manifests))
        return _settled(request, made, lambda pk: selectors.offer_for(self.actor, pk), _offer())


class OfferView(ApiView):
    """One offer."""

    scope_group = ScopeGroup.CATALOG
    matched_methods = ("PUT", "PATCH", "DELETE")
    parameters = (TENANT,)

    @answers(200, OfferBody, etag=True)
    def get(self, request: Request, key: str) -> Response:
        """By slug or id."""
        with fleet.one_look():
            offer = selectors.offer_for(self.actor, key)
            return _shown(_offer(references.asked_tenant(self, request)))(offer)

    @takes(OfferDocumentSerializer)
    @answers(200, OfferBody, etag=True)
    @refuses("wrong_phase")
    def put(self, request: Request, key: str) -> Response:
        """Replace name, words, least trust, whether it is offered, and what comes with a device."""
        return self._change(request, key, lambda _: document(request))

    @takes(OfferDocumentSerializer)
    @answers(200, OfferBody, etag=True)
    @refuses("wrong_phase")
    def patch(self, request: Request, key: str) -> Response:
        """Merge (RFC 7396)."""
        return self._change(request, key, lambda now: merged(now, document(request)))

    @answers(202, OfferBody, etag=True)
    @refuses("has_dependents")
    def delete(self, request: Request, key: str) -> Response:
        """409 has_dependents while somebody has quota of it or holds it."""

        def take() -> Offer:
            offer = _matched(self, request, selectors.offer_for(self.actor, key))
            return offering.delete_offer(actor=self.actor, offer=offer, now=timezone.now())

        return written(request, take, _shown(_offer(), status=202))

    def _change(self, request: Request, key: str, asked_of: Callable[[Body], Body]) -> Response:
        def change() -> Offer:
            offer = _matched(self, request, selectors.offer_for(self.actor, key))
            asked = _asked(OfferDocumentSerializer, _offer()(offer), asked_of)
            wanted = OfferDocumentSerializer.change(asked)
            return services.update_offer(actor=self.actor, offer=offer, change=wanted, now=timezone.now())

        made = written(request, change, _shown(_offer()), manifests=_offer_manifests)
        return _settled(request, made, lambda pk: selectors.offer_for(self.actor, pk), _offer())


OFFER = Text("offer", "Of this offer, by slug or id.")


class PricesView(ApiView):
    """The prices of the caller's offers, past, present and future."""

    scope_group = ScopeGroup.CATALOG
    lists = True
    sorts = ("-created_at",)
    parameters = (OFFER,)

    @pages(PriceBody)
    def get(self, request: Request) -> Response:
        """Newest first; `?offer=` for one offer."""
        prices = selectors.prices_for(self.actor)
        if (offer := OFFER.of(request)) is not None:
            try:
                prices = prices.filter(offer=selectors.offer_for(self.actor, offer))
            except NotFound:
                raise BadParameter("offer", "There is no such offer.") from None
        return paginate(request, prices, price_body)

    @takes(NewPriceSerializer)
    @answers(201, PriceBody, location=True)
    @rehearses(PriceRehearsalBody)
    @refuses("already_exists", "wrong_phase")
    def post(self, request: Request) -> Response:
        """A new price from a moment on; one that is in force is never changed."""

        def answer(price: Price) -> Response:
            return Response(price_body(price), status=201, headers={"Location": f"/api/v1/prices/{price.pk}"})

        return idempotent(request, lambda: written(request, self._make, answer, told=self.told))

    def told(self, price: Price) -> Body:  # noqa: ARG002 - for an app above
        """What else a rehearsal tells; see `portal.api.quotas.prices`."""
        return {}

    def _make(self) -> Price:
        offering.require_keeper(self.actor)
        asked = NewPriceSerializer.checked(self.request.data)
        spec, named = asked["spec"], asked["tenant"]
        offer, tenant = None, None
        if spec["offer"] is not None:
            offer = references.found("/spec/offer", lambda: selectors.offer_for(self.actor, spec["offer"]))
        if named is not None:
            tenant = references.found("/tenant", lambda: tenant_for(self.actor, named))
        if spec["hourly"]["currency"] != settings.CONFIG.currency:
            words = f"Prices are in {settings.CONFIG.currency} here."
            raise Invalid([FieldProblem("/spec/hourly/currency", "invalid_value", words)])
        wish = NewPriceSerializer.wish(asked, offer, tenant)
        return booking.book_price(actor=self.actor, wish=wish, now=timezone.now())


class PriceView(ApiView):
    """One price."""

    scope_group = ScopeGroup.CATALOG

    @answers(200, PriceBody)
    def get(self, request: Request, key: str) -> Response:  # noqa: ARG002 - Django's signature
        """By id."""
        return Response(price_body(selectors.price_for(self.actor, key)))

    @answers(204)
    @refuses("wrong_phase")
    def delete(self, request: Request, key: str) -> Response:
        """Take back a price that is not in force yet."""

        def take() -> None:
            price = selectors.price_for(self.actor, key)
            offering.delete_price(actor=self.actor, price=price, now=timezone.now())

        return written(request, take, lambda _: Response(status=204))


def _offer(tenant: Tenant | None = None) -> Callable[[Offer], OfferBody]:
    return lambda offer: _offers([offer], tenant)[0]


def _offers(rows: Sequence[Offer], tenant: Tenant | None = None) -> list[OfferBody]:
    """Bodies of offers; what they share is read once."""
    now = timezone.now()
    priced = selectors.prices_at(rows, now)
    chosen = {choice.offer.pk: choice for choice in standing.offer_choices(tenant, now=now)} if tenant else {}
    supplied = {cluster: standing.supply(cluster) for cluster in {offer.cluster for offer in rows}}
    return [
        offer_body(
            offer,
            supplied[offer.cluster].get(offer.pk, NOTHING),
            priced.get(offer.pk),
            _told(chosen[offer.pk]) if offer.pk in chosen else None,
        )
        for offer in rows
    ]


def _told(choice: standing.OfferChoice) -> ChoiceBody:
    return {"free": choice.free_now, "allowed": choice.allowed, "blocked_reason": choice.reason or None}


def _flavors() -> Callable[[Flavor], FlavorBody]:
    supplied: dict[Any, Mapping[Any, standing.Supply]] = {}

    def shown(flavor: Flavor) -> FlavorBody:
        if flavor.cluster_id not in supplied:
            supplied[flavor.cluster_id] = standing.supply(flavor.cluster)
        offers = list(flavor.offers.filter(deleted_at=None))
        devices = sum(supplied[flavor.cluster_id].get(offer.pk, NOTHING).capacity for offer in offers)
        return flavor_body(flavor, devices, max((offer.gpu_memory_bytes for offer in offers), default=None))

    return shown


Shown = Callable[[Any], Body]


def _made(path: str, body: Shown) -> Callable[[Any], Response]:
    def answer(row: Flavor | Offer) -> Response:
        headers = {"ETag": etag(row), "Location": f"/api/v1/{path}/{row.slug}"}
        return Response(body(row), status=201, headers=headers)

    return answer


def _shown(body: Shown, *, status: int = 200) -> Callable[[Any], Response]:
    return lambda row: Response(body(row), status=status, headers={"ETag": etag(row)})


def _matched(view: ApiView, request: Request, row: Any) -> Any:
    locked = type(row).objects.select_for_update(of=("self",)).select_related("cluster").get(pk=row.pk)
    offering.require_keeper(view.actor)
    require_match(request, locked.generation)
    return locked


def _asked(
    shape: type[FlavorDocumentSerializer] | type[OfferDocumentSerializer],
    shown: Body,
    asked_of: Callable[[Body], Body],
) -> dict[str, Any]:
    """The checked document; what is fixed may be sent back as it is."""
    current = as_sent(shown)
    spec: Any = shape().fields["spec"]
    now = {"name": current["name"], "spec": {name: current["spec"][name] for name in spec.fields}}
    return shape.checked(asked_of(now), context={"current": {**current, **current["spec"]}})


def _cluster(view: ApiView, key: str) -> Cluster:
    found = fleet.clusters_for(view.actor).filter(selectors.slug_or_id(key)).first()
    if found is None:
        raise NotFound
    return found


def _flavor_manifests(flavor: Flavor) -> list[dict[str, Any]]:
    return render_flavor(selectors.flavor_spec(flavor))


def _offer_manifests(offer: Offer) -> list[dict[str, Any]]:
    return render_offer(selectors.offer_spec(offer))


def _settled(request: Request, response: Response, reload: Callable[[str], Any], body: Shown) -> Response:
    def is_done(row: Flavor | Offer) -> bool:
        return row.observed_generation == row.generation and is_true(row.conditions, "Ready")

    return settled(request, response, reload=reload, is_done=is_done, body=body)
