"""What people of the story do in a browser."""

import re
from pathlib import Path

from playwright.sync_api import Page, expect

SIZES = {"desktop": {"width": 1440, "height": 900}, "phone": {"width": 390, "height": 844}}
LANDS = {"Rosa": "Hello Rosa", "Leon": "Vision", "Petra": "Fleet"}
"""The heading that each of the three sees first."""

CUT_OFF = re.compile(r"htmx:(afterRequest|sendError|sendAbort)\b")
"""What htmx says of a request that ended as its page was left; what a server refuses is a `responseError`."""


def complaints_of(page: Page) -> list[str]:
    """What the page says in the browser's console from now on, such as a report of its CSP or an error."""
    found: list[str] = []

    def told(message: str) -> None:
        if not CUT_OFF.match(message):
            found.append(message)

    page.on("console", lambda said: told(said.text))
    page.on("pageerror", lambda error: told(str(error)))
    return found


def sign_in(page: Page, name: str) -> None:
    page.goto("/")
    page.get_by_role("button", name=re.compile(name)).click()
    expect(page.get_by_role("heading", level=1)).to_contain_text(LANDS[name])


def photograph(page: Page, folder: Path, name: str) -> None:
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        for size, viewport in SIZES.items():
            page.set_viewport_size(viewport)  # type: ignore[arg-type]
            page.screenshot(path=folder / f"{name}-{size}-{scheme}.png", caret="initial")
    page.emulate_media(color_scheme="light")
    page.set_viewport_size(SIZES["desktop"])  # type: ignore[arg-type]
