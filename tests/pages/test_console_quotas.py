"""The console's pages of offers and quotas: what they show, keep and refuse, and how they read."""

from decimal import Decimal

import pytest
from axe_playwright_python.sync_playwright import Axe
from django.test import Client
from playwright.sync_api import Browser, ViewportSize
from pytest_django.live_server_helper import LiveServer

from apps.quotas.catalogue.selectors import stock
from apps.quotas.models import Offer, Price, Quota, TenantQueue
from apps.tenants.models import Department
from tests.conftest import SignedIn
from tests.pages import fleet
from tests.pages.conftest import Scene
from tests.pages.screens import RULES, in_each_look, page_of

QUOTA = "/console/quotas/vision/h100-1g-10gb/"
SHARE = "/console/sharing/departments/research/"
PAGES = (
    "/console/offers/",
    "/console/offers/h100-1g-10gb/",
    "/console/offers/h100-1g-10gb/prices/",
    "/console/prices/",
    "/console/quotas/",
    "/console/quotas/vision/h100-1g-10gb/",
    "/console/sharing/tenants/vision/",
    SHARE,
)


@pytest.fixture
def petra(scene: Scene, signed_in: SignedIn) -> Client:
    return signed_in(scene.cast.petra)


def test_the_matrix_shows_what_is_promised_of_what_there_is(petra: Client) -> None:
    page = petra.get("/console/quotas/").content.decode()
    promised = sum(quota.nominal_quota for quota in Quota.objects.filter(tenant__cluster__slug="north"))
    owned = stock.capacity_of(Offer.objects.get(slug="h100-1g-10gb"))
    assert f"{promised} of {owned} promised" in page
    assert f'href="{QUOTA}"' in page
    assert "takes its lent devices back only from work of a lower priority class" in page
    assert all(word in page for word in ("Interactive", "Batch", "Preemptible", "Protected"))
    assert "Use is not remembered" in page


def test_a_change_is_shown_before_it_is_kept(petra: Client) -> None:
    before = Quota.objects.get(tenant__slug="vision")
    typed = {"nominal_quota": 20, "borrowing_limit": 0, "generation": before.generation}
    page = petra.post(QUOTA, typed).content.decode()
    assert "more than there are" in page
    assert "Nobody loses a device." in page
    before.refresh_from_db()
    assert before.nominal_quota != 20


def test_once_confirmed_it_is_kept(petra: Client) -> None:
    before = Quota.objects.get(tenant__slug="vision")
    typed = {"nominal_quota": 5, "borrowing_limit": "", "lending_limit": 2, "generation": before.generation}
    answer = petra.post(QUOTA, typed | {"confirm": "yes"})
    assert (answer.status_code, answer["Location"]) == (303, "/console/quotas/")
    before.refresh_from_db()
    assert (before.nominal_quota, before.borrowing_limit, before.lending_limit) == (5, None, 2)


def test_what_taking_it_away_does_is_shown_before_it_is_gone(petra: Client) -> None:
    quota = Quota.objects.get(tenant__slug="vision")
    page = petra.post(f"{QUOTA}remove/").content.decode()
    others = sum(each.nominal_quota for each in Quota.objects.exclude(pk=quota.pk))
    assert f"{others} of 9 devices are promised ({others + quota.nominal_quota} before)." in page
    assert f'<form method="post" action="{QUOTA}" class="column">' in page, (
        "amounts go where they are changed"
    )
    stale = petra.post(f"{QUOTA}remove/", {"confirm": quota.generation + 1})
    assert "What it does" in stale.content.decode(), "somebody changed it since: it is shown anew"
    assert Quota.objects.filter(pk=quota.pk).exists()
    assert petra.post(f"{QUOTA}remove/", {"confirm": quota.generation}).status_code == 303
    assert not Quota.objects.filter(pk=quota.pk).exists()


def test_who_decides_on_what_is_no_longer_so_looks_again(petra: Client) -> None:
    before = Quota.objects.get(tenant__slug="vision")
    typed = {"nominal_quota": 5, "borrowing_limit": 0, "generation": before.generation + 1, "confirm": "yes"}
    answer = petra.post(QUOTA, typed)
    assert answer.status_code == 412
    assert "Somebody has changed this quota since you opened it." in answer.content.decode()


def test_what_waits_and_would_start_is_named(scene: Scene, petra: Client) -> None:
    fleet.wait(scene.waiting, now=scene.now)
    before = Quota.objects.get(tenant__slug="vision")
    typed = {"nominal_quota": 7, "borrowing_limit": 0, "generation": before.generation}
    page = petra.post(QUOTA, typed).content.decode()
    assert "What it does" in page


def test_an_offer_is_completed_and_priced(petra: Client) -> None:
    typed = {
        "name": "Small slice",
        "description": "Notebooks.",
        "min_trust_level": "standard",
        "cpu": "4",
        "memory": "16Gi",
    }
    assert petra.post("/console/offers/h100-1g-10gb/", typed).status_code == 303
    offer = Offer.objects.get(slug="h100-1g-10gb")
    assert (offer.name, offer.enabled, offer.cpu_millis, offer.min_trust_level) == (
        "Small slice",
        False,
        4000,
        "standard",
    )
    assert petra.post("/console/offers/h100-1g-10gb/prices/", {"hourly": "0.55"}).status_code == 303
    newest = Price.objects.filter(offer=offer).order_by("-valid_from").first()
    assert newest is not None
    assert (newest.hourly, newest.created_by) == (Decimal("0.55"), "platform")


def test_a_price_in_the_past_is_refused_beside_the_form(petra: Client) -> None:
    page = petra.post(
        "/console/offers/h100-1g-10gb/prices/", {"hourly": "1", "valid_from": "2020-01-01T00:00"}
    )
    assert page.status_code == 422
    assert "A price must start now or later." in page.content.decode()


def test_what_the_inventory_found_is_offered_by_one_press(petra: Client) -> None:
    known = Offer.objects.count()
    page = petra.get("/console/offers/").content.decode()
    assert "Found, not offered yet" in page
    assert petra.post("/console/offers/adopt/").status_code == 303
    assert Offer.objects.count() > known
    assert "Found, not offered yet" not in petra.get("/console/offers/").content.decode()


def test_weights_and_places_are_set(petra: Client) -> None:
    assert petra.post("/console/sharing/tenants/vision/", {"fair_weight": "2"}).status_code == 303
    assert TenantQueue.objects.get(tenant__slug="vision").fair_weight == 2
    research = Department.objects.get(slug="research")
    typed = {"fair_weight": "3", "generation": research.generation}
    assert "What it does" in petra.post(SHARE, typed).content.decode()
    assert Department.objects.get(slug="research").fair_weight == 1, "shown, not kept"
    assert petra.post(SHARE, typed | {"confirm": "yes"}).status_code == 303
    assert Department.objects.get(slug="research").fair_weight == 3


def test_what_a_department_borrows_and_lends_is_typed_beside_its_place(petra: Client) -> None:
    research = Department.objects.get(slug="research")
    typed = {
        "parent": "bio", "fair_weight": "1", "generation": research.generation, "confirm": "yes",
        "borrowing-h100-1g-10gb": "2", "lending-h100-1g-10gb": "",
    }  # fmt: skip
    refused = petra.post(SHARE, typed | {"parent": ""})
    assert refused.status_code == 422
    assert "Only a department that has a parent can borrow and lend" in refused.content.decode()
    assert petra.post(SHARE, typed).status_code == 303
    (bound,) = petra.get("/api/v1/departments/research/sharing").json()["spec"]["bounds"]
    assert bound == {"offer": "h100-1g-10gb", "borrowing_limit": 2, "lending_limit": None}
    page = petra.get(SHARE).content.decode()
    assert 'name="borrowing-h100-1g-10gb" value="2"' in page
    assert petra.post(SHARE, typed).status_code == 412, "it was changed since that page"
    again = typed | {"generation": research.generation + 1, "fair_weight": "2"}
    assert petra.post(SHARE, again).status_code == 303
    (kept,) = petra.get("/api/v1/departments/research/sharing").json()["spec"]["bounds"]
    assert kept == bound


@pytest.mark.parametrize("path", PAGES)
def test_for_researchers_the_pages_do_not_exist(scene: Scene, signed_in: SignedIn, path: str) -> None:
    assert signed_in(scene.cast.rosa).get(path).status_code == 404


def test_auditors_see_no_button(scene: Scene, signed_in: SignedIn) -> None:
    assert "New offer" not in signed_in(scene.cast.ann).get("/console/offers/").content.decode()


@pytest.mark.browser
@pytest.mark.django_db(transaction=True)
@in_each_look
def test_the_pages_read_well(
    scene: Scene, chromium: Browser, live_server: LiveServer, size: ViewportSize, theme: str
) -> None:
    wrong = []
    with page_of(chromium, live_server, scene.cast.petra, size, theme) as page:
        for path in PAGES:
            page.goto(path)
            if path == QUOTA:
                page.get_by_label("Guaranteed").fill("20")
                page.get_by_role("button", name="Preview").click()
                page.get_by_role("heading", name="What it does").wait_for()
            found = Axe().run(page, options=RULES).response["violations"]
            wrong += [(path, each["id"], [n["target"] for n in each["nodes"]]) for each in found]
            wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
            wrong += [(path, "wide", wide)] if wide > 0 else []
    assert not wrong
