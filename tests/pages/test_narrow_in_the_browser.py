"""On a phone and a small desk: the bar at the bottom fits, and wide tables scroll in boxes of their own."""

from datetime import timedelta

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, ViewportSize
from pytest_django.live_server_helper import LiveServer

from apps.metering.models import Allocation
from tests.factories import make_offer, make_quota
from tests.pages.conftest import Scene
from tests.pages.screens import DESK, PHONE, RULES, SMALL, page_of
from tests.pages.telling import tell

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

LAPTOP: ViewportSize = {"width": 1280, "height": 800}
TABLET: ViewportSize = {"width": 800, "height": 1000}
ENTRIES = """() => [...document.querySelectorAll(".side a, .side summary")]
    .filter((each) => each.checkVisibility())
    .map((each) => {
        const box = each.getBoundingClientRect(), fits = each.scrollWidth <= each.clientWidth;
        const {left, right, top, bottom} = box;
        return {words: each.innerText.trim(), left, right, top, bottom, fits};
    })"""
BAR = """() => {
    const list = document.querySelector(".side > ul");
    return {wide: list.scrollWidth - list.clientWidth, page: document.documentElement.scrollWidth};
}"""
BOXES = """() => [...document.querySelectorAll(".scroll")]
    .filter((each) => each.checkVisibility())
    .map((each) => {
        return {beyond: each.scrollWidth - each.clientWidth, right: each.getBoundingClientRect().right};
    })"""


def broken(page: Page) -> list[str]:
    found = Axe().run(page, options=RULES).response["violations"]
    return [f"{each['id']} {each['nodes'][0]['html']}" for each in found]


def words(page: Page) -> list[str]:
    return [each["words"].split("\n")[0] for each in page.evaluate(ENTRIES)]


@pytest.mark.parametrize("size", [LAPTOP, PHONE], ids=["laptop", "phone"])
def test_a_table_wider_than_the_page_scrolls_alone(
    chromium: Browser, live_server: LiveServer, scene: Scene, size: ViewportSize
) -> None:
    for number in range(12):
        offer = make_offer(scene.cast.offer.flavor, f"h100-{number}g", profile=f"{number}g.10gb")
        make_quota(scene.cast.vision, offer)
    with page_of(chromium, live_server, scene.cast.petra, size, "light") as page:
        page.goto("/console/quotas/")
        (box,) = page.evaluate(BOXES)
        assert box["beyond"] > 0, "the table is wider than its box"
        assert page.evaluate(BAR)["page"] == size["width"]


@pytest.mark.parametrize("size", [SMALL, PHONE, TABLET], ids=["small", "phone", "tablet"])
def test_the_bar_at_the_bottom_fits_and_leads_everywhere(
    chromium: Browser, live_server: LiveServer, scene: Scene, size: ViewportSize
) -> None:
    with page_of(chromium, live_server, scene.cast.petra, DESK, "light") as page:
        for url in ("/t/vision/", "/t/vision/usage/", "/console/", "/console/users/"):
            page.set_viewport_size(DESK)
            page.goto(url)
            everything = words(page)
            assert "More" not in everything
            page.set_viewport_size(size)
            page.goto(url)
            leads_everywhere(page, size, everything)


def leads_everywhere(page: Page, size: ViewportSize, everything: list[str]) -> None:
    url, bar, shown = page.url, page.evaluate(BAR), page.evaluate(ENTRIES)
    assert bar == {"wide": 0, "page": size["width"]}
    for each in shown:
        assert each["left"] >= 0, each
        assert each["right"] <= size["width"], each
        assert each["fits"], each
    if size is TABLET:
        assert words(page) == everything
        return
    first = words(page)
    assert [*first[:-1], first[-1]] == [*everything[: len(first) - 1], "More"]
    page.locator(".side summary").click()
    behind = [each for each in words(page) if each not in first]
    assert [*first[:-1], *behind] == everything
    for each in page.evaluate(ENTRIES):
        assert each["left"] >= 0, each
        assert each["right"] <= size["width"], each
        assert 0 <= each["top"] < each["bottom"] <= size["height"], each
    assert broken(page) == []
    page.keyboard.press("Escape")
    assert words(page) == first
    page.locator(".side summary").click()
    page.locator(".side .panel a").last.click()
    page.wait_for_url(lambda address: address != url or url.endswith("/console/users/"))
    assert page.locator(".side summary.here").count() == 1


@pytest.mark.parametrize(("size", "theme"), [(LAPTOP, "light"), (PHONE, "dark")], ids=["laptop", "phone"])
def test_last_samples_can_be_read_without_scrolling_the_page(
    chromium: Browser, live_server: LiveServer, scene: Scene, size: ViewportSize, theme: str
) -> None:
    tell(scene)
    with page_of(chromium, live_server, scene.cast.petra, size, theme) as page:
        page.goto("/console/nodes/gpu-01/")
        assert page.evaluate(BAR)["page"] == size["width"]
        (main,) = page.evaluate(BOXES)
        assert main["beyond"] == 0, "the main fields need no scrolling at all"
        page.get_by_text("Show the other fields").click()
        main, others = page.evaluate(BOXES)
        assert main["beyond"] == 0
        assert others["beyond"] > 0
        assert others["right"] <= size["width"]
        assert page.evaluate(BAR)["page"] == size["width"]
        assert broken(page) == []


def test_a_tenants_allocations_fit_a_small_phone(
    chromium: Browser, live_server: LiveServer, scene: Scene
) -> None:
    row, uuid = scene.running, "GPU-0e711ee2-1182-5ac8-8fc6-9afaaef527e1"
    shared = {
        "cluster": row.cluster,
        "tenant": row.tenant,
        "node": "gpu-01",
        "gpu": uuid,
        "share_numerator": 1,
        "share_denominator": 1,
    }
    began = {"started_at": scene.now - timedelta(hours=2), "offer": row.offer}
    long = "gpu-01/gpu-0-mig-1g10gb-19-0"
    Allocation.objects.create(workload=row, claim_uid="a", device=long, device_uuid=uuid, **shared, **began)
    Allocation.objects.create(
        origin="kubectl", claim_uid="b", device="gpu-01/nvidia.com/gpu.shared#3", **shared, **began
    )
    for size, theme in ((SMALL, "light"), (PHONE, "dark"), (LAPTOP, "light")):
        with page_of(chromium, live_server, scene.cast.petra, size, theme) as page:
            page.goto("/t/vision/allocations/")
            assert page.locator("tbody tr").count() >= 3
            assert page.evaluate(BAR)["page"] == size["width"]
            assert broken(page) == []
