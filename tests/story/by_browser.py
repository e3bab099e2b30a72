"""What people of the story do in a browser."""

import re
from pathlib import Path

from playwright.sync_api import Page, expect

SIZES = {"desktop": {"width": 1440, "height": 900}, "phone": {"width": 390, "height": 844}}


def sign_in(page: Page, name: str) -> None:
    page.goto("/")
    page.get_by_role("button", name=re.compile(name)).click()
    expect(page.get_by_role("heading", level=1)).to_contain_text(f"Hello {name}")


def photograph(page: Page, folder: Path, name: str) -> None:
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        for size, viewport in SIZES.items():
            page.set_viewport_size(viewport)  # type: ignore[arg-type]
            page.screenshot(path=folder / f"{name}-{size}-{scheme}.png", caret="initial")
    page.emulate_media(color_scheme="light")
    page.set_viewport_size(SIZES["desktop"])  # type: ignore[arg-type]
