"""The pages of use in Chromium: accessible in both themes, narrow enough, labels apart, read out.

With SCREENSHOTS=<folder> every page is also kept as a picture.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from itertools import pairwise
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from django.utils import timezone
from playwright.sync_api import Browser, Page, ViewportSize
from pytest_django.live_server_helper import LiveServer

from apps.metering.models import Finding
from apps.metering.specs import FindingKind
from apps.quotas.models import Price
from tests import factories
from tests.metering import rolled
from tests.pages.conftest import Scene
from tests.pages.screens import DESK, RULES, SMALL, in_each_look, page_of

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
HOURS = timedelta(hours=1)
BOXES = "(all) => all.map((each) => each.getBoundingClientRect().toJSON())"


@pytest.fixture
def busy(scene: Scene) -> Scene:
    """A day of the scene's people: one trains, one hoards, a slice works, a node is silent a while."""
    cast, now = scene.cast, rolled.floor(timezone.now())
    cluster = cast.vision.cluster
    Price.objects.update(valid_from=now - timedelta(days=10))
    whole = factories.make_offer(cast.offer.flavor, "h100-whole", profile="", hourly="2.94")
    Price.objects.filter(offer=whole).update(valid_from=now - timedelta(days=10))
    trains = factories.make_workload(cast.vision, cast.leon, whole, slug="bert-ft", spec=scene.running.spec)
    day = now - 24 * HOURS
    for index in range(4):
        rolled.hold(trains, ("gpu-02", f"GPU-7f-0{index}aa"), day + 6 * HOURS, now - 5 * HOURS)
        rolled.hold(trains, ("gpu-02", f"GPU-7f-0{index}aa"), now - 5 * HOURS, now - 3 * HOURS, rolled.SILENT)
    for index in range(3):
        rolled.hold(scene.running, ("gpu-01", f"GPU-7f-1{index}bb"), day, now, rolled.HOARDS)
    rolled.hold(scene.other, ("gpu-03", "GPU-7f-20cc"), day, now)
    rolled.hold(scene.waiting, ("gpu-01", "GPU-7f-30dd"), now - 8 * HOURS, now, rolled.SLICED)
    rolled.rest(cluster, ("gpu-03", "GPU-7f-21cc"), day, now, "free")
    rolled.rest(cluster, ("gpu-04", "GPU-7f-22cc"), day, now, "cordoned")
    rolled.reach(cluster, now - timedelta(days=7), now)
    Finding.objects.create(
        workload=scene.running, tenant=cast.vision, kind=FindingKind.HOARDER, since=day, created_at=now,
        judged_at=now, wasted="68.44", weekly="479.08", blocks={"count": 3}, repeat_count=1,
    )  # fmt: skip
    return scene


@contextmanager
def quiet_page(
    chromium: Browser, server: LiveServer, scene: Scene, size: ViewportSize, theme: str
) -> Iterator[Page]:
    """Petra's page without the live stream: what it asks for again would still be under way at the end."""
    with page_of(chromium, server, scene.cast.petra, size, theme) as page:
        page.route("**/live/**", lambda route: route.abort())
        yield page
        page.wait_for_load_state("networkidle")


def urls(scene: Scene) -> dict[str, str]:
    return {
        "team": "/t/vision/usage/?series=tensor,dram",
        "week": "/t/vision/usage/?span=7d",
        "hoarder": scene.url(scene.running),
        "slice": scene.url(scene.waiting) + "?span=1h",
        "fleet": "/console/",
        "how": "/help/figures/",
    }


@in_each_look
def test_axe_finds_nothing(
    chromium: Browser, live_server: LiveServer, busy: Scene, size: ViewportSize, theme: str
) -> None:
    found: list[str] = []
    with quiet_page(chromium, live_server, busy, size, theme) as page:
        page.on("console", lambda said: found.append(said.text) if "Content Security" in said.text else None)
        for name, url in urls(busy).items():
            page.goto(url)
            _keep(page, f"{name}-{theme}-{size['width']}")
            page.evaluate(
                "document.querySelectorAll('details:not(.menu)').forEach((d) => { d.open = true; })"
            )
            page.wait_for_timeout(250)
            result = Axe().run(page, options=RULES)
            found += [
                f"{url}: {bad['id']} {bad['nodes'][0]['html']}" for bad in result.response["violations"]
            ]
    assert found == []


def test_no_page_is_wider_than_a_small_phone(chromium: Browser, live_server: LiveServer, busy: Scene) -> None:
    with quiet_page(chromium, live_server, busy, SMALL, "light") as page:
        wide = []
        for url in urls(busy).values():
            page.goto(url)
            width = page.evaluate("document.documentElement.scrollWidth")
            if width > SMALL["width"]:
                wide.append((url, width))
    assert wide == []


def test_end_labels_stand_apart_and_inside_their_column(
    chromium: Browser, live_server: LiveServer, busy: Scene
) -> None:
    with quiet_page(chromium, live_server, busy, DESK, "light") as page:
        page.goto("/t/vision/usage/?series=tensor,dram")
        boxes = page.eval_on_selector_all(".usage-ends text", BOXES)
        (column,) = page.eval_on_selector_all(".usage-ends", BOXES)
    tops = sorted(box["top"] for box in boxes)
    assert len(tops) == 5
    assert all(right - left >= 14 for left, right in pairwise(tops))
    assert all(box["right"] <= column["right"] + 1 for box in boxes)


def test_the_arrow_keys_and_the_pointer_read_a_picture_out(
    chromium: Browser, live_server: LiveServer, busy: Scene
) -> None:
    with quiet_page(chromium, live_server, busy, DESK, "light") as page:
        page.goto(busy.url(busy.running))
        said = page.locator("#use .readout")
        page.locator("#use .usage-plot").press("ArrowLeft")
        assert "allocated 100 %, nvidia-smi says 98 %, sm active 3 %" in said.inner_text()
        last = said.inner_text()
        page.locator("#use .usage-plot").press("ArrowLeft")
        assert said.inner_text() != last
        page.goto("/t/vision/usage/")
        page.locator("svg.heat").hover(position={"x": 400, "y": 8})
        assert page.locator("#heat .readout").inner_text().endswith(": hoarded")


def _keep(page: Page, name: str) -> None:
    folder = os.environ.get("SCREENSHOTS")
    if folder:
        Path(folder).mkdir(parents=True, exist_ok=True)
        page.wait_for_timeout(300)
        page.screenshot(path=f"{folder}/{name}.png", full_page=True)
