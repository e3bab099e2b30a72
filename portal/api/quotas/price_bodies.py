"""How prices look in REST, and what a change of one would have cost."""

from datetime import datetime
from typing import Annotated, Literal, TypedDict

from apps.quotas.models import Price
from apps.quotas.specs import CapacityType, Priced
from apps.web.shapes.amounts import money
from apps.web.shapes.bodies import Money, ObjectHead, Rehearsal
from portal.api.quotas.quotas_bodies import ObservedBody


class PriceSpecBody(TypedDict):
    """What one device of an offer, one core or one GiB costs per hour from a moment on."""

    resource: Priced
    offer: Annotated[str | None, "Null for CPU, memory and storage."]
    capacity: Annotated[CapacityType | None, "Null: any."]
    hourly: Money | None
    valid_from: datetime
    valid_until: Annotated[datetime | None, "Null: until the next one."]
    least_seconds: int


class PriceBody(ObjectHead):
    """A price; the tenant is null where it is for everybody."""

    object: Literal["price"]
    spec: PriceSpecBody
    status: ObservedBody


class RepricedBody(TypedDict):
    """What a month cost, and would have cost by the new price."""

    before: Money | None
    after: Money | None
    difference: Money | None


class RepricedTenantBody(RepricedBody):
    """That of one tenant."""

    tenant: str


class PriceEffectBody(RepricedBody):
    """That of all tenants, and of each."""

    month: Annotated[str, "Such as 2026-10."]
    tenants: list[RepricedTenantBody]


class PriceRehearsalBody(Rehearsal):
    """What a new price would have made of last month; `result` is the price."""

    effect: PriceEffectBody


def price_body(price: Price) -> PriceBody:
    """A price as REST shows it."""
    return {
        "object": "price",
        "id": str(price.pk),
        "slug": None,
        "name": None,
        "tenant": price.tenant.slug if price.tenant else None,
        "labels": {},
        "generation": 1,
        "created_at": price.created_at,
        "updated_at": price.created_at,
        "created_by": price.created_by or None,
        "spec": {
            "resource": Priced(price.resource),
            "offer": price.offer.slug if price.offer else None,
            "capacity": CapacityType(price.capacity) if price.capacity else None,
            "hourly": money(price.hourly, price.currency),
            "valid_from": price.valid_from,
            "valid_until": price.valid_until,
            "least_seconds": price.least_seconds,
        },
        "status": {"observed_generation": 1, "conditions": []},
    }
