"""New prices of the book: of a device, a core, or a GiB; for everybody or one tenant, for any capacity or one
kind of it.
"""

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from django.conf import settings
from django.db import transaction
from django.db.models import QuerySet

from apps.accounts.specs import Actor
from apps.audit import services as audit
from apps.errors import AlreadyExists, Conflict, FieldProblem, Invalid, NotAllowed
from apps.quotas import policies
from apps.quotas.catalogue.rules import prices
from apps.quotas.catalogue.rules.prices import Listed
from apps.quotas.models import Offer, Price
from apps.quotas.specs import CapacityType, Priced
from apps.ranges import CHARGED_SECONDS, MOST_MONEY
from apps.tenants.models import Tenant


@dataclass(frozen=True)
class PriceWish:
    """What to charge per hour: of `offer` per device, else per core or GiB of `resource`.

    `valid_from` None is now, `valid_until` None until the next one; `tenant` None is everybody, `capacity`
    None is any. What ended is charged in whole units of `least_seconds`.
    """

    hourly: Decimal
    offer: Offer | None = None
    resource: Priced = Priced.GPU
    tenant: Tenant | None = None
    capacity: CapacityType | None = None
    valid_from: datetime | None = None
    valid_until: datetime | None = None
    least_seconds: int = 1


@transaction.atomic
def book_price(*, actor: Actor, wish: PriceWish, now: datetime) -> Price:
    """Writes a price into the book, in the installation's currency.

    Rule: platform engineers only. The past never changes, so it begins now or later; its dates do not overlap
    with another price for the same thing (`prices.clash`).
    """
    if not policies.can_manage_catalogue(actor):
        raise NotAllowed("Only a platform engineer sets prices.")
    start = wish.valid_from or now
    _check(wish, start, now)
    lane = _lane(wish)
    _refuse_clash(list(lane), _listed(wish, start))
    price = Price.objects.create(
        resource=wish.resource,
        offer=wish.offer,
        tenant=wish.tenant,
        capacity=wish.capacity or "",
        hourly=wish.hourly,
        currency=settings.CONFIG.currency,
        valid_from=start,
        valid_until=wish.valid_until,
        least_seconds=wish.least_seconds,
        created_by=actor.username,
    )
    record(actor, "price.set", price, now=now, is_new=True)
    return price


def record(actor: Actor, action: str, price: Price, *, now: datetime, is_new: bool) -> None:
    """The audit event of a price that came or went."""
    facts = {
        "hourly": price.hourly,
        "valid_from": price.valid_from,
        "valid_until": price.valid_until,
        "tenant": price.tenant.slug if price.tenant else None,
        "capacity": price.capacity or None,
        "least_seconds": price.least_seconds if price.least_seconds > 1 else None,
    }
    changes = {k: [None, v] if is_new else [v, None] for k, v in facts.items() if v is not None}
    audit.record(actor, action, price, now=now, changes=changes)


def _check(wish: PriceWish, start: datetime, now: datetime) -> None:
    until = wish.valid_until
    wrong = {
        "hourly": (not 0 <= wish.hourly <= MOST_MONEY, f"A price must be from 0 to {MOST_MONEY}."),
        "valid_from": (start < now, "A price must start now or later."),
        "valid_until": (until is not None and until <= start, "A price must end after it starts."),
        "least_seconds": (
            not CHARGED_SECONDS.holds(wish.least_seconds),
            "The least that is charged must be from 1 second to a day.",
        ),
        "offer": (
            (wish.offer is None) == (wish.resource is Priced.GPU),
            "A GPU price names an offer; a price of CPU, memory or storage names none.",
        ),
    }
    problems = [FieldProblem(f"/spec/{k}", "out_of_range", words) for k, (bad, words) in wrong.items() if bad]
    if problems:
        raise Invalid(problems)


def _lane(wish: PriceWish) -> QuerySet[Price]:
    """The prices for the same thing, locked against another writer: by the offer's row, or the lane's own."""
    rows = Price.objects.filter(resource=wish.resource, offer=wish.offer)
    if wish.offer is not None:
        Offer.objects.select_for_update().get(pk=wish.offer.pk)
    else:
        list(rows.select_for_update().values_list("pk"))
    return rows.filter(tenant=wish.tenant, capacity=wish.capacity or "")


def _listed(wish: PriceWish, start: datetime) -> Listed:
    return Listed(wish.hourly, start, wish.valid_until)


def _refuse_clash(lane: list[Price], new: Listed) -> None:
    known = {Listed(row.hourly, row.valid_from, row.valid_until): row for row in lane}
    found = prices.clash(list(known), new)
    if found is None:
        return
    price = known[found]
    what = price.offer.slug if price.offer else Priced(price.resource).label
    whose = f" for {price.tenant.slug}" if price.tenant else ""
    if found.valid_from == new.valid_from:
        words = f"{what} already has a price{whose} from that moment on."
        raise AlreadyExists(words, hint="Choose another moment.")
    until = f"{found.valid_until:%Y-%m-%d %H:%M} UTC" if found.valid_until else "the next one"
    words = (
        f"The dates overlap with another price of {what}{whose}: {found.hourly.normalize():f} "
        f"from {found.valid_from:%Y-%m-%d %H:%M} UTC until {until}."
    )
    raise Conflict(words, hint="Start it after that one ends, or end it before that one starts.")


def set_price(
    *, actor: Actor, offer: Offer, hourly: Decimal, valid_from: datetime | None = None, now: datetime
) -> Price:
    """A new price of one device per hour for everybody, from a moment on (None: now); see `book_price`."""
    wish = PriceWish(hourly, offer, valid_from=valid_from)
    return book_price(actor=actor, wish=wish, now=now)
