"""Every page in Chromium: accessible by axe's rules in both themes, narrow enough, no CSP report."""

import re

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Route, ViewportSize
from pytest_django.live_server_helper import LiveServer

from tests import factories
from tests.pages.conftest import Scene
from tests.pages.screens import DESK, RULES, SMALL, in_each_look, page_of
from tests.patience import patient

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

HELP = "advice/?kind=job&gpu_memory=8&at_once=2&hours=3"


def pages(scene: Scene) -> list[str]:
    asking = ("new/", "new/notebook/", "new/notebook/h100-1g-10gb/", "new/job/h100-1g-10gb/", HELP)
    team = ("", "workloads/", *asking, "isolation/", "quota/")
    own = ("", "logs/", "yaml/", "stop/", "delete/")
    works = "workloads/workload/"
    return [
        "/",
        "/notices/",
        "/console/requests/",
        *(f"/t/vision/{tail}" for tail in team),
        *(scene.url(scene.running, tail) for tail in own),
        scene.url(scene.waiting),
        f"/open/{scene.waiting.pk}/",
        "/console/",
        "/console/health/",
        "/console/queue/",
        f"/console/queue/{scene.waiting.pk}/hold/",
        "/console/nodes/",
        "/console/nodes/gpu-01/",
        *(f"/console/records/{tail}" for tail in ("", works, f"{works}{scene.running.pk}/")),
    ]


@in_each_look
def test_axe_finds_nothing(
    chromium: Browser, live_server: LiveServer, scene: Scene, size: ViewportSize, theme: str
) -> None:
    found: list[str] = []
    with page_of(chromium, live_server, scene.cast.petra, size, theme) as page:
        page.on("console", lambda said: found.append(said.text) if "Content Security" in said.text else None)
        for url in pages(scene):
            page.goto(url)
            page.evaluate(
                "document.querySelectorAll('details:not(.menu)').forEach((d) => { d.open = true; })"
            )
            page.wait_for_timeout(250)
            result = Axe().run(page, options=RULES)
            found += [
                f"{url}: {broken['id']} {broken['nodes'][0]['html']}"
                for broken in result.response["violations"]
            ]
    assert found == []


def test_no_page_is_wider_than_a_small_phone(
    chromium: Browser, live_server: LiveServer, scene: Scene
) -> None:
    with page_of(chromium, live_server, scene.cast.petra, SMALL, "light") as page:
        wide = []
        for url in pages(scene):
            page.goto(url)
            width = page.evaluate("document.documentElement.scrollWidth")
            if width > SMALL["width"]:
                wide.append((url, width))
    assert wide == []


def test_a_wrong_form_takes_the_focus_to_its_summary(
    chromium: Browser, live_server: LiveServer, scene: Scene
) -> None:
    with page_of(chromium, live_server, scene.cast.rosa, DESK, "light") as page:
        page.goto("/t/vision/new/notebook/h100-1g-10gb/")
        page.get_by_label("Memory").fill("lots")
        page.get_by_role("button", name="Review").click()
        assert page.title().startswith("Error: ")
        assert page.evaluate("document.activeElement.className") == "error-summary"
        assert Axe().run(page, options=RULES).violations_count == 0
        page.get_by_role("link", name="Memory").click()
        assert page.evaluate("document.activeElement.id") == "id_memory"


def test_a_notebook_is_asked_for_by_keyboard_alone(
    chromium: Browser, live_server: LiveServer, scene: Scene
) -> None:
    with page_of(chromium, live_server, scene.cast.rosa, DESK, "dark") as page:
        page.goto("/")
        page.keyboard.press("n")
        page.wait_for_url("**/t/vision/new/")
        page.get_by_role("link", name="Notebook").press("Enter")
        page.get_by_role("radio", name="H100 1g.10gb").press("Enter")
        page.wait_for_url("**/h100-1g-10gb/")
        page.get_by_label("Name").press("Enter")
        page.get_by_role("button", name="Create").press("Enter")
        page.wait_for_url("**/t/vision/workloads/*/")
        assert page.get_by_role("heading", level=1).inner_text() == "notebook"


def test_an_offer_chosen_while_the_offers_are_on_their_way_stays_chosen(
    chromium: Browser, live_server: LiveServer, scene: Scene
) -> None:
    for slug in ("second", "third"):
        offer = factories.make_offer(scene.cast.offer.flavor, slug=slug)
        factories.make_quota(scene.cast.vision, offer)
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    with page_of(chromium, live_server, scene.cast.rosa, DESK, "light") as page:
        page.goto("/t/vision/new/notebook/")
        page.get_by_role("radio").nth(0).check()
        page.route(re.compile(r"part=offers"), hold)
        with page.expect_request(re.compile(r"part=offers")):
            page.evaluate("htmx.trigger(document.getElementById('offers'), 'live')")
        page.locator("#offer-third").check()
        with page.expect_response(re.compile(r"part=offers")):
            held[0].continue_()
        page.wait_for_timeout(300)
        assert page.locator("#offer-third").is_checked()


STREAM = """
window.EventSource = class extends EventTarget {
  constructor() { super(); window.stream = this; this.readyState = 1; }
  close() {}
};
"""


def test_what_is_told_while_a_part_is_on_its_way_is_fetched_again(
    chromium: Browser, live_server: LiveServer, scene: Scene
) -> None:
    asked: list[Route] = []

    def hold(route: Route) -> None:
        asked.append(route)
        if len(asked) > 1:
            route.continue_()

    tell = "window.stream.dispatchEvent(new MessageEvent('part', {data: 'offers'}))"
    with page_of(chromium, live_server, scene.cast.rosa, DESK, "light") as page:
        page.add_init_script(STREAM)
        page.goto("/t/vision/new/notebook/")
        page.route(re.compile(r"part=offers"), hold)
        with page.expect_request(re.compile(r"part=offers")):
            page.evaluate(tell)
        page.evaluate(tell)
        page.evaluate(tell)
        with page.expect_request(re.compile(r"part=offers")):
            asked[0].continue_()
        page.wait_for_timeout(500)
        assert len(asked) == 2


def test_what_is_told_between_an_answer_and_its_settling_is_fetched_again(
    chromium: Browser, live_server: LiveServer, scene: Scene
) -> None:
    """While htmx settles a part it wears the classes of the one before it, as if it were still on its way."""
    tell = "window.stream.dispatchEvent(new MessageEvent('part', {data: 'offers'}))"
    with page_of(chromium, live_server, scene.cast.rosa, DESK, "light") as page:
        page.add_init_script(STREAM)
        page.goto("/t/vision/new/notebook/")
        page.evaluate(f"document.addEventListener('htmx:afterRequest', () => {tell}, {{once: true}})")
        with page.expect_response(re.compile(r"part=offers")):
            page.evaluate(tell)
        with page.expect_response(re.compile(r"part=offers"), timeout=patient(5000)):
            pass


def test_a_click_while_its_part_is_on_its_way_is_not_lost(
    chromium: Browser, live_server: LiveServer, scene: Scene
) -> None:
    held: list[Route] = []
    with page_of(chromium, live_server, scene.cast.rosa, DESK, "light") as page:
        page.add_init_script(STREAM)
        page.goto(scene.url(scene.running))
        page.route(re.compile(r"part=head"), lambda route: held.append(route))  # noqa: PLW0108 - Playwright marks it
        with page.expect_request(re.compile(r"part=head")):
            page.evaluate("htmx.trigger(document.getElementById('head'), 'live')")
        with page.expect_response(re.compile(r"/extend/$")) as answer:
            page.locator("#extend").click()
        assert (len(held), answer.value.status < 400) == (1, True)
        held[0].abort()


def test_a_part_is_not_replaced_under_a_pressed_pointer(
    chromium: Browser, live_server: LiveServer, scene: Scene
) -> None:
    tell = "htmx.trigger(document.getElementById('head'), 'live')"
    with page_of(chromium, live_server, scene.cast.rosa, DESK, "light") as page:
        page.add_init_script(STREAM)
        page.goto(scene.url(scene.running))
        page.locator("#extend").hover()
        page.mouse.down()
        with page.expect_response(re.compile(r"part=head")):
            page.evaluate(tell)
        page.wait_for_timeout(300)
        page.mouse.move(0, 0)
        with page.expect_response(re.compile(r"part=head")):
            page.mouse.up()
        page.locator("#extend").hover()
        page.mouse.down()
        with page.expect_response(re.compile(r"part=head")):
            page.evaluate(tell)
        page.wait_for_timeout(300)
        with page.expect_response(re.compile(r"/extend/$")) as answer:
            page.mouse.up()
        assert answer.value.status < 400
