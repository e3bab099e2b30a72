"""Screens, the rules of accessibility, and a page that nobody else uses."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from django.conf import settings
from django.test import Client
from playwright.sync_api import Browser, Page, ViewportSize
from pytest_django.live_server_helper import LiveServer

from apps.accounts.models import User
from tests.sample import EXHAUSTIVE

DESK: ViewportSize = {"width": 1440, "height": 900}


PHONE: ViewportSize = {"width": 390, "height": 844}


SMALL: ViewportSize = {"width": 320, "height": 640}

_USUAL = [(DESK, "light"), (SMALL, "dark")]
_ALL = [(size, theme) for size in (DESK, PHONE, SMALL) for theme in ("light", "dark")]
LOOKS = _ALL if EXHAUSTIVE else _USUAL
in_each_look = pytest.mark.parametrize(
    ("size", "theme"), LOOKS, ids=[f"{size['width']}-{theme}" for size, theme in LOOKS]
)
"""The widest and the narrowest, each theme once; `make verify SUITE=looks` takes every pair."""

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
        yield context.new_page()
