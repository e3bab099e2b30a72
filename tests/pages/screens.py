"""Screens, the rules of accessibility, and a page that nobody else uses."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import pytest
from django.conf import settings
from django.test import Client
from playwright.sync_api import Browser, Page, ViewportSize
from pytest_django.live_server_helper import LiveServer

from apps.accounts.models import User
from tests.sample import EXHAUSTIVE, every

Test = TypeVar("Test", bound=Callable[..., None])

DESK: ViewportSize = {"width": 1440, "height": 900}


PHONE: ViewportSize = {"width": 390, "height": 844}


SMALL: ViewportSize = {"width": 320, "height": 640}

_ALL = [(size, theme) for size in (DESK, PHONE, SMALL) for theme in ("light", "dark")]
_USUAL = [(DESK, "light"), (SMALL, "dark")]
LOOKS = _ALL if EXHAUSTIVE else _USUAL


def in_each_look(test: Test) -> Test:
    """Run the test in every size and theme if exhaustive, else on a wide light or a narrow dark page."""
    looks = _ALL if EXHAUSTIVE else every(2, _USUAL, sum(map(ord, test.__name__)))
    names = [f"{size['width']}-{theme}" for size, theme in looks]
    marked: Test = pytest.mark.parametrize(("size", "theme"), looks, ids=names)(test)
    return marked


RULES = {
    # What passed is not asked for: axe then describes no node but those that break a rule.
    "resultTypes": ["violations"],
    "runOnly": {
        "type": "tag",
        "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"],
    },
}


@contextmanager
def page_of(
    chromium: Browser, server: LiveServer, user: User, size: ViewportSize, theme: str
) -> Iterator[Page]:
    client = Client()
    client.force_login(user)
    name = settings.SESSION_COOKIE_NAME
    cookies = {name: client.cookies[name].value, "theme": theme}
    with chromium.new_context(viewport=size, base_url=server.url) as context:
        context.add_cookies(
            [{"name": key, "value": value, "url": server.url} for key, value in cookies.items()]
        )
        page = context.new_page()
        try:
            yield page
        finally:
            # A context may wait for ever to be closed while a request of its is held back.
            page.unroute_all(behavior="ignoreErrors")
