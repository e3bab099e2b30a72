"""The price book: what offers and resources cost, when, and for whom. Reads only."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

from django.db.models import DateTimeField, Q, QuerySet, UUIDField

from apps.accounts.specs import Actor
from apps.cluster.request_cache import memo
from apps.prepared import Prepared
from apps.quotas.catalogue.rules import prices
from apps.quotas.catalogue.rules.drafts import CAPACITY_LABEL
from apps.quotas.catalogue.rules.prices import Listed
from apps.quotas.catalogue.selectors.offers import offers_for
from apps.quotas.models import Offer, Price
from apps.quotas.specs import Priced
from apps.tenants import selectors as tenancy
from apps.tenants.models import Tenant
from apps.web.requests.lookups import by_id


def prices_for(actor: Actor) -> QuerySet[Price]:
    """The prices, past and future, of the offers the actor sees, and of CPU, memory and storage: those for
    everybody and those for the tenants that the actor sees.
    """
    mine = Q(tenant=None) | Q(tenant__in=tenancy.tenants_for(actor))
    seen = Q(offer=None) | Q(offer__in=offers_for(actor))
    return Price.objects.filter(seen, mine).select_related("offer__flavor", "tenant")


def price_for(actor: Actor, pk: str | UUID) -> Price:
    """One price by id, if the actor sees its offer; raises NotFound."""
    return by_id(prices_for(actor), pk)


def price_at(offer: Offer, at: datetime, tenant: Tenant | None = None) -> Decimal | None:
    """What one device of the offer costs per hour at a moment, for everybody or for a tenant; None while no
    price is in force.
    """
    return prices_at([offer], at, tenant).get(offer.pk)


def prices_at(offers: Iterable[Offer], at: datetime, tenant: Tenant | None = None) -> Mapping[UUID, Decimal]:
    """`price_at` for many offers in one query; offers without a price in force are absent.

    The capacity type is that of the flavor's nodes; where they are of several kinds, the price for any.
    """
    labels = {offer.pk: offer.flavor.node_labels for offer in offers}
    marks = {pk: str(found.get(CAPACITY_LABEL, "")) for pk, found in labels.items()}
    whose = tenant.pk if tenant else None
    found = {
        pk: prices.in_force(listed, tenant=whose, capacity=marks.get(pk, ""), at=at)
        for pk, listed in book_of(labels).items()
    }
    return {pk: price.hourly for pk, price in found.items() if price is not None}


def book_of(offers: Iterable[UUID]) -> dict[UUID, list[Listed]]:
    """Every price of these offers, of whatever lane."""
    chosen = frozenset(offers)
    return memo(("prices", chosen), lambda: _book_of(chosen))


_PRICES = Prepared(lambda offers: Price.objects.filter(offer__pk__in=offers), UUIDField())


def _book_of(offers: Iterable[UUID]) -> dict[UUID, list[Listed]]:
    book: dict[UUID, list[Listed]] = {}
    for row in _PRICES(list(offers)):
        if row.offer_id:
            book.setdefault(row.offer_id, []).append(_listed(row))
    return book


def moving_offers(begins: datetime, ends: datetime) -> dict[datetime, list[UUID]]:
    """The offers of which somebody's price changes in (begins, ends), by when it does last; those that count
    in units longer than a second by `ends`.
    """
    found = defaultdict[datetime, list[UUID]](list)
    for offer, listed in book_of(_DATED(begins, ends)).items():
        if last := prices.moves(listed, begins, ends):
            found[last].append(offer)
    return found


def _dated(begins: Any, ends: Any) -> QuerySet[Price, UUID]:
    moves = (
        Q(least_seconds__gt=1)
        | Q(valid_from__gt=begins, valid_from__lt=ends)
        | Q(valid_until__gt=begins, valid_until__lt=ends)
    )
    rows = Price.objects.filter(moves, offer__isnull=False)
    return rows.values_list("offer", flat=True).distinct()


_DATED = Prepared(_dated, DateTimeField(), DateTimeField())


def book_of_resources() -> dict[Priced, list[Listed]]:
    """Every price of a core, and of a GiB of memory or storage."""
    return memo("prices of resources", _book_of_resources)


def _book_of_resources() -> dict[Priced, list[Listed]]:
    book: dict[Priced, list[Listed]] = {}
    for row in Price.objects.filter(offer=None):
        book.setdefault(Priced(row.resource), []).append(_listed(row))
    return book


def _listed(row: Price) -> Listed:
    return Listed(row.hourly, row.valid_from, row.valid_until, row.tenant_id, row.capacity, row.least_seconds)
