"""While somebody looks, the demo catches two who hold GPUs and do nothing, with a Stop button beside."""

import re
import time
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.patience import patient
from tests.ports import free_port
from tests.story.by_browser import SIZES, sign_in
from tests.story.conftest import running

pytestmark = [pytest.mark.exhaustive, pytest.mark.browser, pytest.mark.timeout(1800)]
BOUND = 300.0
"""Seconds from the start until both are found: the demo's own word."""
CAUGHT = {"clip-eval": "Hoarder", "vit-old": "Keep-alive"}


def test_a_hoarder_and_a_keep_alive_of_today_are_found_live(chromium: Browser, tmp_path: Path) -> None:
    port, began = free_port(run=2), time.monotonic()
    with running(tmp_path, port, "--fleet", "lab") as (_, ready):
        leon, petra = (opened(chromium, f"http://127.0.0.1:{port}", name) for name in ("Leon", "Petra"))
        # Nothing is seeded as found: both first pages are open before the detector has said anything.
        expect(leon.locator("#worst")).to_contain_text("None, checked")
        for slug, kind in CAUGHT.items():
            for page in (leon, petra):
                is_caught(page, slug, kind, left=patient(BOUND) - (time.monotonic() - began))
        took = time.monotonic() - began
        print(f"ready after {ready:.1f} s, both found after {took:.1f} s")  # noqa: T201 - for the figures
        assert took <= patient(BOUND)
        leon.get_by_role("link", name="Stop and release clip-eval").click()
        expect(leon.get_by_role("heading", level=1)).to_have_text("Stop and release")
        expect(leon.locator("main")).to_contain_text("clip-eval")


def opened(chromium: Browser, url: str, name: str) -> Page:
    """The first page of one of the three."""
    page = chromium.new_context(viewport=SIZES["desktop"], base_url=url).new_page()  # type: ignore[arg-type]
    sign_in(page, name)
    return page


def is_caught(page: Page, slug: str, kind: str, *, left: float) -> None:
    """Its row comes by itself: the finding, its short window, money, and the way to end it."""
    row = page.locator("#worst tbody tr", has_text=slug)
    expect(row).to_be_visible(timeout=1000 * left)
    expect(row.get_by_role("rowheader")).to_contain_text(kind)
    expect(row.get_by_role("rowheader")).to_contain_text(re.compile(r"after\s+2 min: its own policy"))
    weekly = row.locator('[data-label="A week"]').inner_text()
    assert float(weekly.replace(",", "")) > 0
    expect(row.get_by_role("link", name=f"Stop and release {slug}")).to_be_visible()
    expect(page.locator("#worst")).to_contain_text("Windows of minutes are this demo's")
