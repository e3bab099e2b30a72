"""A view in the browser: the banner stays in sight, parts come as the person's, and its end leads back."""

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, ViewportSize, expect
from pytest_django.live_server_helper import LiveServer

from tests.accounts.views import REASON
from tests.pages.conftest import Scene
from tests.pages.screens import RULES, in_each_look, page_of

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def broken(page: Page) -> list[str]:
    found = Axe().run(page, options=RULES).response["violations"]
    return [f"{each['id']} {each['nodes'][0]['html']}" for each in found]


@in_each_look
def test_a_view_from_its_button_to_its_end(
    chromium: Browser, live_server: LiveServer, scene: Scene, size: ViewportSize, theme: str
) -> None:
    rosa = scene.cast.rosa
    with page_of(chromium, live_server, scene.cast.petra, size, theme) as page:
        page.goto("/t/vision/members/")
        before = page.context.new_page()
        before.goto("/t/vision/")
        page.get_by_role("link", name=f"View as {rosa.username}").click()
        assert broken(page) == []
        page.get_by_label("Why").fill(REASON)
        page.get_by_role("button", name=f"View as {rosa.username}").click()
        banner = page.get_by_role("region", name="as somebody else")
        expect(banner).to_contain_text(f"as {rosa.username}, read-only")
        assert broken(page) == []
        page.evaluate("window.scrollTo(0, document.body.scrollHeight)")
        expect(banner).to_be_in_viewport(ratio=1)
        assert page.evaluate("document.documentElement.scrollWidth") == size["width"]
        for tab, status in ((page, 200), (before, 403)):
            with tab.expect_response(lambda answer: "part=" in answer.url) as told:
                tab.evaluate("htmx.trigger(document.querySelector('[hx-get*=part]'), 'live')")
            assert told.value.status == status
        expect(before.locator("#problem")).to_contain_text("Reload the page")
        banner.get_by_role("button", name="End").click()
        expect(page.get_by_role("heading", level=1)).to_have_text(f"Sessions of {rosa.username}")
        expect(page.get_by_text(REASON)).to_be_visible()
        expect(banner).to_have_count(0)
