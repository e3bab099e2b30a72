"""Prices with what a new one would have made of a month."""

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.utils import timezone

from apps.accounts.actors import actor_of
from apps.accounts.specs import Actor
from apps.metering.billing.selectors import repricing
from apps.quotas.catalogue.rules.prices import Listed
from apps.quotas.catalogue.services.booking import PriceWish
from portal.pages.console.quotas import catalogue_views
from portal.pages.parts.answers import require_form


@require_form
def price_page(request: HttpRequest, offer: str) -> HttpResponse:
    """The page of an offer's prices; a preview tells its effect."""
    return catalogue_views.price_page(request, offer, effect=lambda wish: _effect(actor_of(request), wish))


@require_form
def resource_prices_page(request: HttpRequest) -> HttpResponse:
    """The same of cores, memory and storage."""
    return catalogue_views.resource_prices_page(request, effect=lambda wish: _effect(actor_of(request), wish))


def _effect(actor: Actor, wish: PriceWish) -> dict[str, Any]:
    now, whose = timezone.now(), wish.tenant.pk if wish.tenant else None
    new = Listed(wish.hourly, now, None, whose, str(wish.capacity or ""), wish.least_seconds)
    return {"effect": repricing.foretold(actor, wish.offer or wish.resource, new, now=now)}
