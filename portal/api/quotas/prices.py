"""REST of prices, and of what a new one would have made of last month. Contract: docs/api.md."""

from collections.abc import Mapping
from typing import Any

from django.conf import settings
from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.specs import ScopeGroup
from apps.errors import FieldProblem, Invalid, NotFound
from apps.metering.billing.selectors import repricing
from apps.metering.billing.selectors.repricing import Effect, Repriced
from apps.quotas.catalogue.rules.prices import Listed
from apps.quotas.catalogue.selectors import offers, price_book
from apps.quotas.catalogue.services import booking, offering
from apps.quotas.models import Price
from apps.quotas.specs import Priced
from apps.tenants.selectors import tenant_for
from apps.web.problems.refusals import BadParameter
from apps.web.shapes.amounts import money
from portal.api.base import references
from portal.api.base.views import ApiView, idempotent, paginate
from portal.api.base.writing import made, written
from portal.api.declared.declaring import answers, pages, refuses, rehearses, takes
from portal.api.declared.queries import Text
from portal.api.quotas.catalogue_bodies import NewPriceSerializer
from portal.api.quotas.price_bodies import (
    PriceBody,
    PriceEffectBody,
    PriceRehearsalBody,
    RepricedBody,
    RepricedTenantBody,
    price_body,
)

OFFER = Text("offer", "Of this offer, by slug or id.")


class PricesView(ApiView):
    """The prices of the caller's offers, past, present and future.

    A rehearsal of a new one also tells its effect on last month.
    """

    scope_group = ScopeGroup.CATALOG
    lists = True
    sorts = ("-created_at",)
    parameters = (OFFER,)

    @pages(PriceBody)
    def get(self, request: Request) -> Response:
        """Newest first; `?offer=` for one offer."""
        prices = price_book.prices_for(self.actor)
        if (offer := OFFER.of(request)) is not None:
            try:
                prices = prices.filter(offer=offers.offer_for(self.actor, offer))
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
            return made(price_body(price), f"/api/v1/prices/{price.pk}")

        return idempotent(request, lambda: written(request, self._make, answer, told=self._told))

    def _told(self, price: Price) -> Mapping[str, Any]:
        """What it would have made of last month."""
        new = Listed(
            price.hourly, price.valid_from, None, price.tenant_id, price.capacity, price.least_seconds
        )  # fmt: skip
        of = price.offer or Priced(price.resource)
        return {"effect": _effect(repricing.foretold(self.actor, of, new, now=timezone.now()))}

    def _make(self) -> Price:
        offering.require_keeper(self.actor)
        asked = NewPriceSerializer.checked(self.request.data)
        spec, named = asked["spec"], asked["tenant"]
        offer, tenant = None, None
        if spec["offer"] is not None:
            offer = references.found("/spec/offer", lambda: offers.offer_for(self.actor, spec["offer"]))
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
        return Response(price_body(price_book.price_for(self.actor, key)))

    @answers(204)
    @refuses("wrong_phase")
    def delete(self, request: Request, key: str) -> Response:
        """Take back a price that is not in force yet."""

        def take() -> None:
            price = price_book.price_for(self.actor, key)
            offering.delete_price(actor=self.actor, price=price, now=timezone.now())

        return written(request, take, lambda _: Response(status=204))


def _effect(found: Effect) -> PriceEffectBody:
    tenants: list[RepricedTenantBody] = [
        {"tenant": each.tenant.slug, **_amounts(each)} for each in found.rows
    ]
    return {"month": f"{found.month:%Y-%m}", **_amounts(found), "tenants": tenants}


def _amounts(of: Effect | Repriced) -> RepricedBody:
    currency = settings.CONFIG.currency
    return {
        "before": money(of.before, currency),
        "after": money(of.after, currency),
        "difference": money(of.difference, currency),
    }
