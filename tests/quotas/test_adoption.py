"""One thing that cannot be made of an inventory never keeps the rest from being made."""

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from apps.accounts.specs import system_actor
from apps.cluster.models import Cluster
from apps.errors import Conflict
from apps.quotas.catalogue.rules import inventory_plan
from apps.quotas.catalogue.rules.drafts import FlavorDraft, Naming, OfferDraft
from apps.quotas.catalogue.services import adoption, booking
from apps.quotas.models import Flavor, Offer
from apps.quotas.specs import SharingMode
from tests.conftest import Cast, SignedIn
from tests.factories import NOW, make_cluster

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]
SEED = system_actor("seed")
RTX = "NVIDIA RTX PRO 6000 Blackwell Server Edition"
PROFILES = ("", "1g.24gb", "2g.48gb")


def draft() -> FlavorDraft:
    whole = OfferDraft(
        naming=Naming(RTX, ("whole",)), name=f"{RTX} whole", sharing_mode=SharingMode.EXCLUSIVE, profile="",
        gpu_memory_bytes=1, share_numerator=1, share_denominator=4, cpu_millis=1000, memory_bytes=1,
        hourly=Decimal(2),
    )  # fmt: skip
    cut = [replace(whole, naming=Naming(RTX, (p,)), name=f"{RTX} {p}", profile=p) for p in PROFILES[1:]]
    return FlavorDraft(Naming(RTX), RTX, RTX, {"a": "b"}, (), (whole, *cut))


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inventory_plan, "plan", lambda *_: (draft(),))


@pytest.mark.usefixtures("planned")
def test_three_clusters_with_the_same_long_model_get_every_offer_of_it(cluster: Cluster) -> None:
    for row in (cluster, make_cluster("south"), make_cluster("south-2"), make_cluster("south-3")):
        made = adoption.adopt(actor=SEED, cluster=row, now=NOW)
        assert ([offer.profile for offer in made.offers], made.refused) == ([*PROFILES], [])
        assert adoption.adopt(actor=SEED, cluster=row, now=NOW).offers == []
    slug = Offer.objects.get(cluster=cluster, profile="2g.48gb").slug
    assert slug == "nvidia-rtx-pro-6000-blackwell-se-2g-48gb"


@pytest.mark.usefixtures("planned")
def test_an_offer_that_cannot_be_made_is_named_and_the_others_are_made(
    cast: Cast, signed_in: SignedIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = booking.set_price

    def set_price(*, offer: Offer, **rest: Any) -> Any:
        if offer.profile == "1g.24gb":
            raise Conflict("No price may be set.")
        return plain(offer=offer, **rest)

    monkeypatch.setattr(adoption, "set_price", set_price)
    petra = signed_in(cast.petra)
    petra.post("/console/offers/adopt/")
    page = petra.get("/console/offers/").content.decode()
    assert f"{RTX} 1g.24gb was not made: No price may be set." in page
    flavor = Flavor.objects.get(model=RTX)
    assert {*flavor.offers.values_list("profile", flat=True)} == {"", "2g.48gb"}
