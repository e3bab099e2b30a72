"""The second factor in Chromium: set up on a phone, and a passkey of a device made and used."""

import base64
import os
from dataclasses import dataclass, field

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, Page, ViewportSize, expect
from pytest_django import Settings
from pytest_django.live_server_helper import LiveServer

from tests.accounts.second_factors import code_for
from tests.factories import make_user
from tests.pages.screens import LOOKS, RULES
from tests.sample import EXHAUSTIVE
from tests.web.broker import no_broker

__all__ = ["no_broker"]
pytestmark = [
    pytest.mark.browser,
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("no_broker"),
]
PASSWORD = "a long enough password"
SCREENS = os.environ.get("SCREENS", "")
"""A folder for pictures of the pages."""


def give_device(context: BrowserContext, page: Page) -> None:
    """A device that verifies its owner, whenever it is asked."""
    tools = context.new_cdp_session(page)
    tools.send("WebAuthn.enable")
    options = {
        "protocol": "ctap2",
        "transport": "internal",
        "hasResidentKey": True,
        "hasUserVerification": True,
        "isUserVerified": True,
        "automaticPresenceSimulation": True,
    }
    tools.send("WebAuthn.addVirtualAuthenticator", {"options": options})


@dataclass
class Look:
    """A page in one look, and what is wrong with those that it has shown."""

    page: Page
    size: ViewportSize
    theme: str
    found: list[str] = field(default_factory=list)

    def at(self, name: str) -> None:
        """What axe finds, and whether the page is too wide."""
        found = Axe().run(self.page, options=RULES).response["violations"]
        self.found += [f"{name}: {each['id']} {each['nodes'][0]['html']}" for each in found]
        width = self.page.evaluate("document.documentElement.scrollWidth")
        self.found += [f"{name}: {width} wide"] if width > self.size["width"] else []
        if SCREENS:
            path = f"{SCREENS}/{self.theme}-{self.size['width']}-{name}.png"
            self.page.screenshot(path=path, full_page=True)

    def press(self, name: str) -> None:
        self.page.get_by_role("button", name=name, exact=True).click()

    def fill(self, name: str, text: str) -> None:
        self.page.get_by_role("textbox", name=name, exact=True).fill(text)

    def enter(self) -> None:
        self.page.goto("/sign-in/?next=/me/sign-in/")
        self.fill("Username", "ada")
        self.fill("Password", PASSWORD)
        self.press("Sign in")


def set_up_an_app(look: Look) -> None:
    look.press("Set up an authenticator app")
    look.at("app")
    secret = look.page.get_by_label("Secret", exact=True).input_value()
    look.fill("Code from your app", code_for(base64.b32decode(secret.replace(" ", ""))))
    look.fill("Your password", PASSWORD)
    look.press("Turn it on")
    look.page.get_by_role("link", name="I have kept them").click()


def make_a_passkey(look: Look) -> None:
    look.page.get_by_role("link", name="New passkey").click()
    look.fill("Name", "laptop")
    look.fill("Your password", PASSWORD)
    look.press("Make the passkey")
    expect(look.page.get_by_text("The passkey laptop is kept.")).to_be_visible()
    look.at("ways")


@pytest.mark.parametrize(("size", "theme"), LOOKS if EXHAUSTIVE else LOOKS[-1:])
def test_an_app_and_a_passkey_are_set_up_and_asked_for(
    chromium: Browser, live_server: LiveServer, settings: Settings, monkeypatch: pytest.MonkeyPatch,
    size: ViewportSize, theme: str,
) -> None:  # fmt: skip
    monkeypatch.setattr(settings.CONFIG, "public_url", live_server.url)
    make_user("ada", password=PASSWORD)
    with chromium.new_context(viewport=size, base_url=live_server.url) as context:
        context.add_cookies([{"name": "theme", "value": theme, "url": live_server.url}])
        look = Look(context.new_page(), size, theme)
        give_device(context, look.page)
        look.enter()
        set_up_an_app(look)
        make_a_passkey(look)
        here = look.page.get_by_text("this one")
        context.clear_cookies(name=settings.SESSION_COOKIE_NAME)
        look.enter()
        look.at("second-step")
        look.press("Use a passkey")
        expect(here).to_be_visible()
        context.clear_cookies(name=settings.SESSION_COOKIE_NAME)
        look.page.goto("/sign-in/passkey/?next=/me/sign-in/")
        look.press("Use a passkey")
        expect(here).to_be_visible()
    assert look.found == []
