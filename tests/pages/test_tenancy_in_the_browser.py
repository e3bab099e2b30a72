"""The pages of tenancy in Chromium: accessible by axe's rules in both themes, and narrow enough."""

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, ViewportSize
from pytest_django.live_server_helper import LiveServer

from apps.accounts.services import TokenWish
from apps.tenants.lifecycle.services import deletion
from apps.tenants.models import ServiceAccount
from apps.tenants.people.services import service_accounts
from tests.conftest import as_actor
from tests.pages.conftest import Scene
from tests.pages.screens import RULES, in_each_look, page_of

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def robot(scene: Scene) -> ServiceAccount:
    wish = service_accounts.AccountWish(scene.cast.vision, "nightly-sweep", "", "member")
    made = service_accounts.create_account(actor=as_actor(scene.cast.leon), wish=wish, now=scene.now)
    token = TokenWish("cron", ["workloads:write"], [], scene.now.replace(year=scene.now.year + 1))
    service_accounts.create_token(actor=as_actor(scene.cast.leon), account=made, wish=token, now=scene.now)
    return made


def pages(robot: ServiceAccount) -> list[str]:
    console = ("tenants/", "tenants/vision/", "tenants/vision/delete/", "tenants/speech/", "departments/")
    return [
        *(f"/console/{tail}" for tail in (*console, "departments/research/", "users/")),
        "/t/vision/members/",
        f"/t/vision/members/{robot.pk}/",
    ]


@in_each_look
def test_every_page_is_accessible_and_narrow(
    chromium: Browser,
    live_server: LiveServer,
    scene: Scene,
    robot: ServiceAccount,
    size: ViewportSize,
    theme: str,
) -> None:
    deletion.ask_deletion(actor=as_actor(scene.cast.petra), tenant=scene.cast.speech, now=scene.now)
    with page_of(chromium, live_server, scene.cast.petra, size, theme) as page:
        for path in pages(robot):
            page.goto(path)
            _look(page, path)
        page.goto("/console/tenants/vision/")
        page.select_option("#id_trust_level", "untrusted")
        page.locator("form[action$='change/trust/'] button").click()
        page.wait_for_url("**/change/trust/")
        assert "before it is changed" in page.inner_text("h1")
        _look(page, "change")


def _look(page: Page, path: str) -> None:
    results = Axe().run(page, options=RULES)
    assert results.violations_count == 0, f"{path}: {results.generate_report()}"
    wide = page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth")
    assert not wide, f"{path} scrolls sideways"
