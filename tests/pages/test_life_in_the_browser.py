"""New like this and Change size in Chromium: by clicks, accessible by axe's rules, narrow enough."""

import os
import re

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, Route, ViewportSize, expect
from pytest_django.live_server_helper import LiveServer

from apps.quotas.models import Offer, Price
from apps.workloads.models import Workload
from apps.workloads.secret_specs import Into, SecretWish
from apps.workloads.secrets.services import keeping
from apps.workloads.spec import parsing
from apps.workloads.specs import Phase
from tests import factories
from tests.conftest import as_actor
from tests.pages.conftest import Scene
from tests.pages.screens import DESK, RULES, in_each_look, page_of

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
SCREENS = os.environ.get("SCREENS", "")
"""A folder for pictures of the pages."""


@pytest.fixture
def wide(scene: Scene) -> Offer:
    offer = factories.make_offer(scene.cast.offer.flavor, "h100-whole", profile="", hourly="2.94")
    factories.make_quota(scene.cast.vision, offer)
    Price.objects.update(valid_from=scene.now.replace(year=scene.now.year - 1))
    return offer


@pytest.fixture
def full(scene: Scene) -> Workload:
    """A notebook with something in every field of the form, and a secret."""
    body = {**scene.running.spec, "env": {"A": "1", "B": "two\nlines"}, "args": ["--name", "two words"]}
    disks = [*body["volumes"], {"name": "data", "size": "100Gi", "mount_path": "/data"}]
    spec = parsing.kept(parsing.parse({**body, "volumes": disks, "max_run_seconds": 5400}))
    Workload.objects.filter(pk=scene.running.pk).update(spec=spec, labels={"project": "search"})
    wish = SecretWish("HF_TOKEN", Into.ENV, "typed")
    keeping.set_secret(actor=as_actor(scene.cast.rosa), workload=scene.running, wish=wish, now=scene.now)
    scene.running.refresh_from_db()
    return scene.running


def told(page: Page, size: ViewportSize, name: str) -> list[str]:
    """What is wrong with the page as it stands."""
    page.evaluate("document.querySelectorAll('details:not(.menu)').forEach((d) => { d.open = true; })")
    page.wait_for_load_state("networkidle")
    if SCREENS:
        page.screenshot(path=f"{SCREENS}/{name}-{size['width']}.png", full_page=True)
    violations = Axe().run(page, options=RULES).response["violations"]
    width = page.evaluate("document.documentElement.scrollWidth")
    found = [f"{name}: {each['id']} {each['nodes'][0]['html']}" for each in violations]
    return found + ([f"{name}: {width} wide"] if width > size["width"] else [])


@in_each_look
def test_another_like_it_is_made_by_three_clicks(
    chromium: Browser, live_server: LiveServer, scene: Scene, full: Workload, size: ViewportSize, theme: str
) -> None:
    with page_of(chromium, live_server, scene.cast.rosa, size, theme) as page:
        page.goto(scene.url(full))
        found = told(page, size, "page")
        page.get_by_role("link", name="New like this").click()
        expect(page.get_by_role("heading", name="Like rag-dev")).to_be_visible()
        expect(page.locator("#quote")).to_contain_text("EUR/h")
        found += told(page, size, "like")
        assert page.get_by_label("Variables", exact=True).input_value() == 'A=1\nB="two\\nlines"'
        page.get_by_role("button", name="Review").click()
        expect(page.get_by_role("heading", name="Review")).to_be_visible()
        found += told(page, size, "like-review")
        page.get_by_role("button", name="Create").click()
        expect(page.get_by_role("heading", name="rag-dev (copy)", level=1)).to_be_visible()
    made = Workload.objects.get(name="rag-dev (copy)")
    assert (made.spec, made.labels) == ({**full.spec, "suspend": False}, full.labels)
    assert made.secret_names == [["HF_TOKEN", "env"]]
    assert found == []


@in_each_look
def test_what_runs_gets_another_size_once_its_restart_was_confirmed(
    chromium: Browser, live_server: LiveServer, scene: Scene, wide: Offer, size: ViewportSize, theme: str
) -> None:
    with page_of(chromium, live_server, scene.cast.rosa, size, theme) as page:
        page.goto(scene.url(scene.running))
        page.get_by_role("link", name="Change size").click()
        expect(page.locator("#quote")).to_contain_text("none: this is what it has")
        page.get_by_label("Offer").select_option(wide.slug)
        expect(page.locator("#quote")).to_contain_text("2.94 EUR/h")
        expect(page.locator("#quote")).to_contain_text("It restarts")
        found = told(page, size, "size")
        page.get_by_label("Devices").fill("9")
        expect(page.locator("#quote")).to_contain_text("can never start")
        page.get_by_role("button", name="Review").click()
        expect(page.locator(".error-summary")).to_contain_text("Ask for 2 or fewer")
        found += told(page, size, "size-refused")
        page.get_by_label("Devices").fill("1")
        page.get_by_role("button", name="Review").click()
        expect(page.get_by_role("heading", name="Change rag-dev and restart it?")).to_be_visible()
        found += told(page, size, "size-review")
        page.get_by_role("button", name="Change and restart").click()
        expect(page.get_by_text("to change rag-dev.")).to_be_visible()
    scene.running.refresh_from_db()
    assert (scene.running.phase, scene.running.offer) == (Phase.PENDING, wide)
    assert found == []


def test_what_is_chosen_while_the_price_is_on_its_way_is_priced(
    chromium: Browser, live_server: LiveServer, scene: Scene, wide: Offer
) -> None:
    with page_of(chromium, live_server, scene.cast.rosa, DESK, "light") as page:
        held: list[Route] = []

        def hold(route: Route) -> None:
            if held:
                route.continue_()
            held.append(route)

        page.route(re.compile(r"part=quote"), hold)
        with page.expect_request(re.compile(r"part=quote")):
            page.goto(scene.url(scene.running, "size/"))
        page.get_by_label("Offer").select_option(wide.slug)
        held[0].continue_()
        expect(page.locator("#quote")).to_contain_text("2.94 EUR/h")


@in_each_look
def test_working_hours_are_set_corrected_and_removed(
    chromium: Browser, live_server: LiveServer, scene: Scene, size: ViewportSize, theme: str
) -> None:
    with page_of(chromium, live_server, scene.cast.rosa, size, theme) as page:
        page.goto(scene.url(scene.running))
        page.get_by_role("link", name="Set its working hours").click()
        found = told(page, size, "hours")
        page.get_by_label("Time zone").fill("europe/berlin")
        page.get_by_role("button", name="Save hours").click()
        expect(page.get_by_text("Did you mean Europe/Berlin?").first).to_be_visible()
        found += told(page, size, "hours-wrong")
        page.get_by_label("Time zone").fill("Europe/Berlin")
        page.get_by_role("button", name="Save hours").click()
        expect(page.locator("#hours-next")).to_contain_text("at 18:00 Europe/Berlin.")
        found += told(page, size, "hours-page")
        page.get_by_role("link", name="Change its working hours").click()
        expect(page.get_by_text("50 of 168 hours")).to_be_visible()
        found += told(page, size, "hours-set")
        page.get_by_role("button", name="Remove hours").click()
        expect(page.get_by_role("link", name="Set its working hours")).to_be_visible()
    assert found == []
    assert Workload.objects.get(pk=scene.running.pk).hours is None
