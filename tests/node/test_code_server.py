"""VS Code in the browser on a real node: code-server behind the door, its terminal, files and webviews."""

import re
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.factories import notebook_body
from tests.node.images import recipes
from tests.patience import patient, until
from tests.story.by_browser import sign_in
from tests.story.by_rest import SLICE, ask, reach
from tests.story.conftest import Installation

pytestmark = [pytest.mark.node, pytest.mark.browser, pytest.mark.exhaustive, pytest.mark.timeout(1200)]
A_START = patient(60_000)
COMMAND = [
    "code-server", "--bind-addr=0.0.0.0:8888", "--auth=none", "--disable-telemetry",
    "--disable-update-check", "--disable-workspace-trust", "/home/jovyan",
]  # fmt: skip
"""As docs/workload-images.md names it. Nobody but the door reaches the port."""
NO_TAB_YET, A_TAB = "No tab of VS Code has been open yet.", "A tab of VS Code is open."
NO_TAB_NOW = re.compile(r"No tab of VS Code has been open since \d\d:\d\d UTC\.")


@pytest.fixture(scope="module", autouse=True)
def image() -> None:
    store = recipes.store_of_this_machine()
    if problem := recipes.why_no_code_server(store):
        pytest.skip(problem)
    recipes.ensure_code_server(store)


@pytest.fixture
def browser(chromium: Browser, on_nodes: Installation) -> Iterator[BrowserContext]:
    with chromium.new_context(base_url=on_nodes.url) as context:
        yield context


@pytest.fixture
def rosa(on_nodes: Installation) -> Iterator[httpx.Client]:
    with on_nodes.client("researcher") as client:
        yield client


class Uses:
    """What a notebook's IDE says of its use, as REST has it."""

    def __init__(self, on_nodes: Installation, rosa: httpx.Client, notebook: str) -> None:
        self._home, self._rosa, self._notebook = on_nodes.home, rosa, notebook

    def said(self) -> dict[str, Any]:
        """What it said last."""
        found: dict[str, Any] = self._rosa.get(f"/workloads/{self._notebook}").json()["status"]["ide"]
        return found

    def become(self, wanted: Callable[[str], object], seconds: float) -> None:
        """Wait until an answer that it has not given yet says so. Workers ask it at each of their looks, a
        minute apart, and not after five.
        """
        before = self.said()["answered_at"]

        def is_said() -> bool:
            with closing(sqlite3.connect(self._home / "allotment.sqlite3", timeout=20)) as database, database:
                database.execute("UPDATE workloads_workload SET ide_asked_at = NULL")
            time.sleep(2)
            said = self.said()
            return said["answered_at"] != before and bool(wanted(said["message"]))

        until(is_said, "its IDE to say so", seconds, told=self.said)


class Workbench:
    """VS Code in a tab, used by its keyboard."""

    def __init__(self, tab: Page) -> None:
        self.tab = tab
        expect(tab.locator(".monaco-workbench")).to_be_visible(timeout=A_START)
        # The files come over the WebSocket to the server: without it the page is there and empty.
        expect(tab.locator(".explorer-folders-view .monaco-list-row").first).to_be_visible(timeout=A_START)
        self.at = time.monotonic()

    def command(self, title: str) -> None:
        """By the command palette."""
        self.tab.keyboard.press("F1")
        asked = self.tab.locator(".quick-input-widget input[type=text]")
        expect(asked).to_be_visible(timeout=A_START)
        asked.fill(f">{title}")
        entry = self.tab.locator(".quick-input-list .monaco-list-row").filter(has_text=title).first
        expect(entry).to_be_visible(timeout=A_START)
        entry.click()

    def read(self, name: str) -> str:
        """What the editor shows of a file, opened in the explorer once it is there."""
        entry = self.tab.get_by_role("treeitem", name=name)
        expect(entry).to_be_visible(timeout=A_START)
        entry.dblclick()
        expect(self.tab.get_by_role("tab", name=re.compile(name))).to_be_visible(timeout=A_START)
        lines = self.tab.locator(".editor-instance .view-lines")
        expect(lines).not_to_be_empty(timeout=A_START)
        return lines.inner_text().strip()

    def terminal(self, line: str) -> None:
        """Types a line in a new terminal."""
        self.command("Terminal: Create New Terminal")
        typed_into = self.tab.locator(".terminal-wrapper.active .xterm-helper-textarea")
        expect(typed_into).to_be_focused(timeout=A_START)
        self.tab.keyboard.type(line)
        self.tab.keyboard.press("Enter")


def test_a_person_works_in_vs_code_through_the_door(
    browser: BrowserContext,
    on_nodes: Installation,
    rosa: httpx.Client,
    record_property: Callable[[str, object], None],
) -> None:
    asked = time.monotonic()
    notebook = code_server(rosa)
    record_property("asked to running, seconds", round(time.monotonic() - asked, 1))
    uses = Uses(on_nodes, rosa, notebook["id"])
    # Neither the kubelet's look at its port nor our own question is a tab.
    for _ in range(2):
        uses.become(NO_TAB_YET.__eq__, 130)
    page = browser.new_page()
    sign_in(page, "Rosa")
    page.goto(f"/t/vision/workloads/{notebook['id']}/")
    clicked = time.monotonic()
    with browser.expect_page() as opened:
        page.get_by_role("button", name="Open", exact=True).click()
    bench = Workbench(opened.value)
    record_property("click on Open to VS Code, seconds", round(bench.at - clicked, 1))
    assert re.match(rf"http://{notebook['id']}\.localhost:\d+/\?folder=/home/jovyan$", bench.tab.url)
    bench.terminal("printenv NVIDIA_VISIBLE_DEVICES >device.txt; echo '# Seen' >seen.md")
    assert bench.read("device.txt") == notebook["status"]["placement"][0]["devices"][0]["id"]
    # What extensions draw is a page in a page, with a service worker of the same host.
    bench.read("seen.md")
    bench.command("Markdown: Open Preview")
    preview = bench.tab.frame_locator("iframe.webview").frame_locator("#active-frame")
    expect(preview.get_by_role("heading", name="Seen")).to_be_visible(timeout=A_START)
    # A minute after the page was fetched its WebSocket alone keeps the heart beating.
    time.sleep(90)
    uses.become(A_TAB.__eq__, 130)
    bench.tab.close()
    closed = time.monotonic()
    uses.become(NO_TAB_NOW.fullmatch, 240)
    record_property("tab closed to said, seconds", round(time.monotonic() - closed, 1))


def code_server(rosa: httpx.Client) -> dict[str, Any]:
    """Rosa's notebook that serves VS Code; it runs."""
    body = notebook_body(SLICE, image=recipes.reference(recipes.CODE_SERVER), command=COMMAND)
    # CPU and memory as they come with the slice: this node is a small machine.
    made = ask(rosa, "nb-code", {key: value for key, value in body.items() if key not in ("cpu", "memory")})
    return reach(rosa, made, "Running", 240)
