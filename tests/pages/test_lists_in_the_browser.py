"""Lists and the workload page in Chromium: found while typing, chosen and stopped, in text twice as large."""

from collections.abc import Iterator
from datetime import timedelta

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, ViewportSize, expect
from pytest_django.live_server_helper import LiveServer

from apps.workloads.lifecycle.services import live
from apps.workloads.models import Workload
from apps.workloads.specs import Phase
from tests.chromium import found
from tests.metering import rolled
from tests.pages.conftest import Scene
from tests.pages.screens import DESK, PHONE, RULES, page_of
from tests.patience import patient
from tests.workloads.pod_log import Said, with_pod

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

LAPTOP: ViewportSize = {"width": 1280, "height": 800}
SEEN = "main :is(a, button, input:not([type=hidden]), select, h1, td, dd)"
COVERED = f"""() => [...document.querySelectorAll("{SEEN}")]
    .filter((each) => each.checkVisibility() && !each.closest(".scroll, .log, .visually-hidden"))
    .map((each) => [each, each.getBoundingClientRect()])
    .filter(([, box]) => box.width && (box.left < -1 || box.right > innerWidth + 1))
    .map(([each]) => each.outerHTML.slice(0, 120))"""


@pytest.fixture
def used(scene: Scene) -> Scene:
    now = rolled.floor(scene.now)
    rolled.hold(scene.running, ("gpu-01", "GPU-0000-aaaa"), now - timedelta(hours=8), now)
    rolled.reach(scene.cast.vision.cluster, now - timedelta(days=7), now)
    return scene


@pytest.fixture
def twice(chromium: Browser) -> Iterator[Browser]:
    """A browser whose user reads at twice the usual size of text."""
    browser = chromium.browser_type.launch(
        executable_path=found(),
        args=["--no-sandbox", "--blink-settings=defaultFontSize=32,defaultFixedFontSize=26"],
    )
    yield browser
    browser.close()


def test_typing_narrows_the_list_and_what_was_chosen_is_stopped(
    chromium: Browser, live_server: LiveServer, used: Scene
) -> None:
    with page_of(chromium, live_server, used.cast.rosa, LAPTOP, "light") as page:
        page.goto("/t/vision/workloads/")
        expect(page.locator("tbody tr")).to_have_count(2)
        page.get_by_label("Search").press_sequentially("rag")
        expect(page.locator("tbody tr")).to_have_count(1)
        page.wait_for_url("**/workloads/?q=rag")
        assert page.evaluate("document.activeElement.id") == "id_q", "one may go on typing"
        page.get_by_role("link", name="Clear filters").click()
        expect(page.locator("tbody tr")).to_have_count(2)
        page.get_by_label("All shown").check()
        assert page.locator("[name=workload]:checked").count() == 2
        page.get_by_label("Choose next-one").uncheck()
        with page.expect_response(lambda answer: "part=rows" in answer.url):
            page.evaluate("htmx.trigger('#rows', 'live')")
        expect(page.get_by_label("Choose rag-dev")).to_be_checked()
        page.get_by_role("button", name="Stop chosen").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Stop 1 workload?")
        assert Axe().run(page, options=RULES).violations_count == 0
        page.get_by_role("button", name="Stop 1").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("1 of 1 stops")
    assert Workload.objects.get(pk=used.running.pk).phase == Phase.STOPPING


def test_another_span_leaves_the_page_where_it_is(
    chromium: Browser, live_server: LiveServer, used: Scene
) -> None:
    with page_of(chromium, live_server, used.cast.rosa, {"width": 1280, "height": 500}, "light") as page:
        page.goto(used.url(used.running))
        page.locator("#span-24h").evaluate("(link) => link.scrollIntoView({block: 'center'})")
        before = page.evaluate("scrollY")
        assert before > 200
        page.locator("#span-24h").click()
        page.wait_for_url("**/?span=24h")
        expect(page.locator("#span-24h")).to_have_attribute("aria-current", "true")
        assert page.evaluate("scrollY") == before
        assert page.evaluate("document.activeElement.id") == "span-24h"
        expect(page.locator(".use-more a[download]")).to_have_attribute(
            "href", used.url(used.running, "use.csv?span=24h")
        )


@pytest.mark.parametrize("size", [LAPTOP, PHONE], ids=["laptop", "phone"])
def test_text_twice_as_large_fits(
    twice: Browser, live_server: LiveServer, used: Scene, size: ViewportSize
) -> None:
    with page_of(twice, live_server, used.cast.rosa, size, "light") as page:
        pages = (
            "/",
            "/t/vision/workloads/",
            *(used.url(used.running, tail) for tail in ("", "logs/", "yaml/", "stop/")),
        )
        for url in pages:
            page.goto(url)
            assert page.evaluate("getComputedStyle(document.documentElement).fontSize") == "32px"
            assert page.evaluate("document.documentElement.scrollWidth") == size["width"], url
            assert page.evaluate(COVERED) == [], url


def test_logs_begin_at_their_end_and_stay_there(
    chromium: Browser, live_server: LiveServer, used: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = Said()
    said.lines = [f"line {number} {'long ' * 60}" for number in range(300)]
    with_pod(used.running, "")
    monkeypatch.setattr(live, "open_gateway", lambda _cluster: said)
    bottom = "getBoundingClientRect().bottom"
    below = f"(log) => log.{bottom} - log.querySelector('pre').{bottom}"
    with page_of(chromium, live_server, used.cast.rosa, DESK, "light") as page:
        page.goto(used.url(used.running, "logs/"))
        log = page.locator(".log")
        assert 0 <= log.evaluate(below) < 40, "the last line is seen"
        said.lines += ["the newest one"] * 3
        expect(log).to_contain_text("the newest one", timeout=patient(8000))
        assert 0 <= log.evaluate(below) < 40, "and is followed"
        assert log.evaluate("(log) => log.scrollWidth <= log.clientWidth")
        page.get_by_label("Wrap lines").uncheck()
        assert log.evaluate("(log) => log.scrollWidth > log.clientWidth")
        assert Axe().run(page, options=RULES).violations_count == 0


def test_yaml_is_copied(chromium: Browser, live_server: LiveServer, used: Scene) -> None:
    with page_of(chromium, live_server, used.cast.rosa, DESK, "light") as page:
        page.goto(used.url(used.running, "yaml/"))
        page.get_by_role("button", name="Copy the manifests").click()
        expect(page.locator("[data-word]")).to_have_text("Copied")
        expect(page.locator("#announce")).to_have_text("Copied")
        source = page.locator("#source").text_content() or ""
        page.goto("/t/vision/workloads/")
        page.get_by_label("Search").focus()
        page.keyboard.press("Control+V")
        pasted = page.get_by_label("Search").input_value()
        assert source.split()[:2] == pasted.split()[:2] == ["apiVersion:", "v1"]
