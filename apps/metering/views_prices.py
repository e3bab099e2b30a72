"""An offer's prices with what a new one would have made of last month."""

from decimal import Decimal
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.utils import timezone

from apps.metering import repricing
from apps.quotas import views
from apps.quotas.booking import PriceWish
from apps.quotas.models import Offer
from apps.quotas.prices import Listed


@views.require_form
def price_page(request: HttpRequest, offer: str) -> HttpResponse:
    """The page of `apps.quotas`; a preview tells the effect on last month."""
    return views.price_page(request, offer, effect=_effect)


def _effect(offer: Offer, wish: PriceWish) -> dict[str, Any]:
    now = timezone.now()
    month, whose = repricing.month_before(now), wish.tenant.pk if wish.tenant else None
    new = Listed(wish.hourly, now, None, whose, str(wish.capacity or ""), wish.least_seconds)
    rows = repricing.by_price(offer, new, month, now=now)
    before, after = (sum((getattr(each, name) for each in rows), Decimal(0)) for name in ("before", "after"))
    return {"effect": rows, "month": month, "before": before, "after": after, "difference": after - before}
