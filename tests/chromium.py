"""Pytest fixture: one Chromium for the whole run; Playwright allows one driver per thread."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.patience import patient

if TYPE_CHECKING:
    from playwright.sync_api import Browser


def found() -> str:
    """Where Chromium is."""
    path = shutil.which("chromium") or shutil.which("google-chrome")
    if path is None:
        pytest.fail("no Chromium; install the Debian package chromium")
    return path


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    from playwright.sync_api import (  # only the suites that ask for a browser pay for it
        expect,
        sync_playwright,
    )

    path = found()
    expect.set_options(timeout=patient(15_000))
    # Playwright has a loop in this thread, beside which Django would refuse synchronous database calls.
    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "1"
    with sync_playwright() as driver:
        # Root needs --no-sandbox; the portal is all that this browser ever opens.
        browser = driver.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()
    del os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"]
