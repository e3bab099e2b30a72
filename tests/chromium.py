"""Pytest fixture: one Chromium for the whole run; Playwright allows one driver per thread."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    from playwright.sync_api import sync_playwright  # only the suites that ask for a browser pay for it

    path = shutil.which("chromium") or shutil.which("google-chrome")
    if path is None:
        pytest.fail("no Chromium; install the Debian package chromium")
    # Playwright has a loop in this thread, beside which Django would refuse synchronous database calls.
    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "1"
    with sync_playwright() as driver:
        # Root needs --no-sandbox; the portal is all that this browser ever opens.
        browser = driver.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()
    del os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"]
