"""The dated price book: whose price decides, what may not cross, and that the past never changes."""

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from itertools import pairwise
from random import Random
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.test import Client

from apps.audit.models import AuditEvent
from apps.errors import AlreadyExists, Conflict, Invalid, NotAllowed
from apps.quotas.catalogue.rules import prices
from apps.quotas.catalogue.rules.prices import Listed
from apps.quotas.catalogue.selectors import price_book
from apps.quotas.catalogue.services import offering
from apps.quotas.catalogue.services.booking import PriceWish, book_price
from apps.quotas.models import Price
from apps.quotas.specs import CapacityType, Priced
from tests.conftest import Cast, as_actor
from tests.factories import NOW
from tests.workloads.rest import Api

pytestmark = pytest.mark.both_databases

DAY = timedelta(days=1)


def book(cast: Cast, hourly: str, **wish: Any) -> Price:
    asked = PriceWish(Decimal(hourly), **{"offer": cast.offer} | wish)
    return book_price(actor=as_actor(cast.petra), wish=asked, now=NOW)


def test_the_narrowest_price_in_force_decides() -> None:
    whose = uuid4()
    found = [
        Listed(Decimal(4), NOW),
        Listed(Decimal(3), NOW, capacity="spot"),
        Listed(Decimal(2), NOW, NOW + DAY, tenant=whose),
        Listed(Decimal(1), NOW, tenant=whose, capacity="spot"),
    ]

    def at(tenant: UUID | None, capacity: str, later: timedelta = timedelta(0)) -> Decimal | None:
        price = prices.in_force(found, tenant=tenant, capacity=capacity, at=NOW + later)
        return price.hourly if price else None

    assert [at(None, ""), at(None, "on-demand"), at(None, "spot")] == [4, 4, 3]
    assert [at(whose, ""), at(whose, "on-demand"), at(whose, "spot")] == [2, 2, 1]
    assert at(whose, "", DAY) == 4
    assert at(uuid4(), "spot") == 3
    assert at(None, "", -DAY) is None


def test_a_timeline_says_at_every_moment_what_is_in_force() -> None:
    rng, whose = Random(3), uuid4()
    for _ in range(200):
        found = [
            Listed(
                Decimal(rng.randint(1, 9)),
                begins := NOW + rng.randint(0, 50) * DAY,
                rng.choice((None, begins + rng.randint(1, 9) * DAY)),
                rng.choice((None, whose, uuid4())),
                rng.choice(("", "spot", "on-demand")),
            )
            for _ in range(rng.randint(0, 8))
        ]
        steps = prices.timeline(found, tenant=whose, capacity="spot")
        assert all(a.at < b.at and hourly(a.price) != hourly(b.price) for a, b in pairwise(steps))
        paid = []
        for day in range(-1, 62):
            at = NOW + day * DAY
            last = [step.price for step in steps if step.at <= at]
            paid.append(hourly(prices.in_force(found, tenant=whose, capacity="spot", at=at)))
            assert (hourly(last[-1]) if last else None) == paid[-1]
        for day in range(-1, 50):
            stretch = (NOW + day * DAY, NOW + (day + 10) * DAY)
            changed = prices.moves(found, *stretch) or stretch[0]
            assert len({paid[n + 1] for n in range(day, day + 10) if NOW + n * DAY >= changed}) <= 1


def hourly(price: Listed | None) -> Decimal | None:
    return price.hourly if price else None


def test_a_price_that_goes_on_as_before_is_no_change() -> None:
    first, again = Listed(Decimal(2), NOW), Listed(Decimal(2), NOW + 5 * DAY)
    assert [step.at for step in prices.timeline([first, again], tenant=None, capacity="")] == [NOW]
    assert not prices.moves([first, again], NOW, NOW + 9 * DAY)
    for other in (
        replace(again, hourly=Decimal(3)),
        replace(again, least_seconds=60),
        replace(again, capacity="spot"),
    ):
        assert prices.moves([first, other], NOW, NOW + 9 * DAY)
    assert prices.moves([first], NOW - DAY, NOW + DAY)


@pytest.mark.django_db
def test_dates_that_cross_are_refused_with_the_price_they_cross(cast: Cast) -> None:
    book(cast, "0.30", valid_from=NOW + 10 * DAY, valid_until=NOW + 20 * DAY)
    for begins, ends in ((12, None), (12, 15), (5, 11), (19, 30)):
        until = NOW + ends * DAY if ends else None
        with pytest.raises(Conflict, match=r"overlap with another price of h100-1g-10gb: 0\.3 from 2026"):
            book(cast, "1", valid_from=NOW + begins * DAY, valid_until=until)
    with pytest.raises(AlreadyExists, match="from that moment on"):
        book(cast, "1", valid_from=NOW + 10 * DAY)
    book(cast, "1", valid_from=NOW + 5 * DAY, valid_until=NOW + 10 * DAY)
    book(cast, "1", valid_from=NOW + 20 * DAY)
    book(cast, "1", valid_from=NOW + 12 * DAY, tenant=cast.vision)
    book(cast, "1", valid_from=NOW + 12 * DAY, capacity=CapacityType.SPOT)
    assert price_book.price_at(cast.offer, NOW + 15 * DAY) == Decimal("0.30")
    assert price_book.price_at(cast.offer, NOW + 15 * DAY, cast.vision) == Decimal(1)


@pytest.mark.django_db
def test_a_price_that_ends_gives_way_to_the_one_before_it(cast: Cast) -> None:
    book(cast, "0.10", valid_from=NOW + DAY, valid_until=NOW + 2 * DAY)
    found = [price_book.price_at(cast.offer, NOW + hours * DAY / 24) for hours in (23, 24, 47, 48)]
    assert found == [Decimal("0.42"), Decimal("0.10"), Decimal("0.10"), Decimal("0.42")]


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("wish", "words"),
    [
        ({"valid_from": NOW - timedelta(seconds=1)}, "now or later"),
        ({"valid_until": NOW}, "must end after it starts"),
        ({"least_seconds": 0}, "1 second to a day"),
        ({"offer": None}, "names an offer"),
        ({"resource": Priced.CPU}, "names none"),
    ],
)
def test_a_wrong_price_is_refused_in_words(cast: Cast, wish: dict[str, Any], words: str) -> None:
    with pytest.raises(Invalid, match=words):
        book(cast, "1", **wish)


@pytest.mark.django_db
def test_only_platform_engineers_write_the_book(cast: Cast) -> None:
    with pytest.raises(NotAllowed):
        book_price(actor=as_actor(cast.leon), wish=PriceWish(Decimal(1), cast.offer), now=NOW)


@pytest.mark.django_db
def test_a_core_has_a_price_and_taking_one_back_is_audited(cast: Cast) -> None:
    kept = book(cast, "0.04", offer=None, resource=Priced.CPU)
    later = book(cast, "0.05", offer=None, resource=Priced.CPU, valid_from=NOW + DAY)
    assert {p.hourly for p in price_book.book_of_resources()[Priced.CPU]} == {kept.hourly, later.hourly}
    offering.delete_price(actor=as_actor(cast.petra), price=later, now=NOW)
    assert AuditEvent.objects.get(action="price.delete").target_name == "cpu"
    with pytest.raises(Conflict, match="in force since"):
        offering.delete_price(actor=as_actor(cast.petra), price=kept, now=NOW)


@pytest.mark.django_db
def test_another_tenants_price_is_nobodys_business(cast: Cast) -> None:
    book(cast, "0.11", tenant=cast.speech, valid_from=NOW + DAY)
    book(cast, "0.12", tenant=cast.vision, valid_from=NOW + DAY)
    seen = {p.hourly for p in price_book.prices_for(as_actor(cast.rosa))}
    assert seen == {Decimal("0.42"), Decimal("0.12")}
    assert len(price_book.prices_for(as_actor(cast.petra))) == 3


@pytest.mark.django_db
def test_rest_takes_and_shows_every_field_of_a_price(cast: Cast) -> None:
    client: Client = Api(cast.petra).client
    spec = {
        "offer": cast.offer.slug, "capacity": "spot", "hourly": {"amount": "0.20", "currency": "EUR"},
        "valid_from": "2999-01-01T00:00:00Z", "valid_until": "2999-02-01T00:00:00Z", "least_seconds": 60,
    }  # fmt: skip
    made = client.post("/api/v1/prices", {"tenant": "vision", "spec": spec}, content_type="application/json")
    assert made.status_code == 201, made.content
    assert (made.json()["tenant"], made.json()["spec"]) == ("vision", {"resource": "gpu", **spec})
    body = {"spec": {"resource": "memory", "hourly": {"amount": "0.005", "currency": "EUR"}}}
    made = client.post("/api/v1/prices", body, content_type="application/json")
    assert (made.status_code, made.json()["spec"]["offer"]) == (201, None)
    body = {"tenant": "nobody", "spec": spec}  # type: ignore[dict-item]
    refused = client.post("/api/v1/prices", body, content_type="application/json")
    assert (refused.status_code, refused.json()["errors"][0]["pointer"]) == (422, "#/tenant")


@pytest.mark.django_db
def test_the_console_shows_the_book_and_takes_a_tenants_price(cast: Cast) -> None:
    client = Client()
    client.force_login(cast.petra)
    typed = {"hourly": "0.20", "tenant": "vision", "capacity": "spot", "valid_from": "2999-01-01T00:00"}
    address = f"/console/offers/{cast.offer.slug}/prices/"
    assert client.post(address, typed).status_code == 303
    page = client.get(address).content.decode()
    assert all(word in page for word in ("Vision", "Spot", "to come", "in force"))
    again = client.post(address, typed)
    assert again.status_code == 409
    assert "has a price for vision from that moment on" in again.content.decode()
    assert client.post("/console/prices/", {"resource": "cpu", "hourly": "0.04"}).status_code == 303
    assert "CPU, per core" in client.get("/console/prices/").content.decode()
