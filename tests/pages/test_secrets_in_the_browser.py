"""The pages of secrets in Chromium: accessible by axe's rules, narrow enough, and set by typing."""

import os

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, ViewportSize, expect
from pytest_django.live_server_helper import LiveServer

from apps.workloads.models import WorkloadSecret
from tests.pages.conftest import Scene
from tests.pages.screens import RULES, in_each_look, page_of

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
SCREENS = os.environ.get("SCREENS", "")
"""A folder for pictures of the pages."""


@in_each_look
def test_a_secret_is_typed_listed_and_removed_on_pages_that_axe_finds_nothing_on(
    chromium: Browser, live_server: LiveServer, scene: Scene, size: ViewportSize, theme: str
) -> None:
    here = f"/t/vision/workloads/{scene.running.pk}/secrets/"
    review = "/t/vision/new/notebook/h100-1g-10gb/review/?name=lab&count=1&disk=10Gi&run_hours=8"
    found: list[str] = []
    with page_of(chromium, live_server, scene.cast.petra, size, theme) as page:
        page.goto(here)
        page.get_by_label("Name").fill("HF_TOKEN")
        page.get_by_label("Value").fill("typed")
        page.get_by_role("button", name="Save secret").click()
        expect(page.get_by_role("link", name="Remove HF_TOKEN")).to_be_visible()
        for number, url in enumerate((here, f"{here}HF_TOKEN/remove/", review)):
            answer = page.goto(url)
            assert answer is not None
            assert answer.status == 200, url
            if url == review:
                page.get_by_text("Secrets", exact=True).click()
            violations = Axe().run(page, options=RULES).response["violations"]
            found += [f"{url}: {each['id']} {each['nodes'][0]['html']}" for each in violations]
            width = page.evaluate("document.documentElement.scrollWidth")
            found += [f"{url}: {width} wide"] if width > size["width"] else []
            if SCREENS:
                page.screenshot(path=f"{SCREENS}/{theme}-{size['width']}-{number}.png", full_page=True)
        page.goto(f"{here}HF_TOKEN/remove/")
        page.get_by_role("button", name="Remove").click()
        expect(page.get_by_role("link", name="Remove HF_TOKEN")).to_have_count(0)
        assert not WorkloadSecret.objects.exists()
    assert found == []
