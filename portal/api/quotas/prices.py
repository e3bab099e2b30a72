"""REST of prices with what a new one would have made of last month. Contract: docs/api.md."""

from collections.abc import Mapping
from typing import Any

from django.conf import settings
from django.utils import timezone

from apps.metering import repricing
from apps.metering.repricing import Effect, Repriced
from apps.quotas.models import Price
from apps.quotas.prices import Listed
from apps.quotas.specs import Priced
from apps.web.amounts import money
from portal.api.quotas import catalogue
from portal.api.quotas.price_bodies import PriceEffectBody, RepricedBody, RepricedTenantBody


class PricesView(catalogue.PricesView):
    """The prices; a rehearsal of a new one also tells its effect on last month."""

    def told(self, price: Price) -> Mapping[str, Any]:
        """The figures of the page."""
        new = Listed(
            price.hourly, price.valid_from, None, price.tenant_id, price.capacity, price.least_seconds
        )  # fmt: skip
        of = price.offer or Priced(price.resource)
        return {"effect": _effect(repricing.foretold(self.actor, of, new, now=timezone.now()))}


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
