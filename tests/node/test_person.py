"""A person on a real node, by a browser alone: a notebook, a cell on its GPU, a file that outlives a stop."""

import re
import time
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.node.asking import NOTEBOOK
from tests.patience import patient, until
from tests.story.by_browser import sign_in
from tests.story.conftest import Installation

pytestmark = [pytest.mark.node, pytest.mark.browser, pytest.mark.exhaustive, pytest.mark.timeout(600)]
A_START = patient(60_000)
MOST_IN_VAIN = 50
"""Requests of a forgotten tab in ten seconds."""
GPU = "import os; print(os.environ['NVIDIA_VISIBLE_DEVICES'])"
KEEP, READ = "open('kept.txt', 'w').write('still here')", "print(open('kept.txt').read())"


@pytest.fixture
def browser(chromium: Browser, on_nodes: Installation) -> Iterator[BrowserContext]:
    with chromium.new_context(base_url=on_nodes.url) as context:
        yield context


class Lab:
    """JupyterLab in a tab, with a notebook whose kernel runs: a new one, or the one that it had open."""

    def __init__(self, tab: Page) -> None:
        self.tab = tab
        expect(tab).to_have_url(re.compile(r"^http://[0-9a-f-]{36}\.localhost:\d+/lab"), timeout=A_START)
        launcher = tab.locator(".jp-LauncherCard").filter(has_text="Python 3").first
        restored = tab.get_by_role("button", name="Select Kernel")
        expect(launcher.or_(restored)).to_be_visible(timeout=A_START)
        self.at = time.monotonic()
        (restored if restored.is_visible() else launcher).click()
        expect(tab.get_by_text("Python 3 (ipykernel) | Idle")).to_be_visible(timeout=A_START)

    def run(self, code: str) -> str:
        """What the next cell prints."""
        outputs = self.tab.locator(".jp-OutputArea-output")
        before = outputs.count()
        self.tab.locator(".jp-CodeCell .cm-content").last.click()
        self.tab.keyboard.type(code)
        self.tab.keyboard.press("Shift+Enter")
        expect(outputs).to_have_count(before + 1, timeout=A_START)
        return outputs.last.inner_text().strip()


def ask_for_a_notebook(page: Page, slug: str) -> None:
    page.get_by_role("link", name="New workload").click()
    page.get_by_role("link", name=re.compile("^Notebook")).click()
    page.get_by_label(re.compile(r"1g\.10gb")).check()
    page.get_by_role("button", name="Next: parameters").click()
    page.get_by_label("Name", exact=True).fill(slug)
    page.get_by_label("Image", exact=True).fill(NOTEBOOK)
    page.get_by_role("button", name="Review").click()
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_role("heading", level=1)).to_have_text(slug)


def stop(page: Page) -> None:
    page.get_by_role("link", name="Stop").click()
    page.get_by_role("button", name=re.compile("^Stop")).click()
    expect(page.locator("#head")).to_contain_text("Stopped", timeout=A_START)


def delete(page: Page) -> None:
    page.get_by_role("link", name="Delete").click()
    page.get_by_label(re.compile("^Keep its disks")).uncheck()
    page.get_by_role("button", name=re.compile("^Delete")).click()


def test_a_person_opens_jupyterlab_and_runs_a_cell(
    browser: BrowserContext, on_nodes: Installation, record_property: Callable[[str, object], None]
) -> None:
    page = browser.new_page()
    sign_in(page, "Rosa")
    ask_for_a_notebook(page, "first")
    asked = time.monotonic()
    with browser.expect_page() as waiting:
        page.get_by_role("link", name="Open when it runs").click()
    # The tab waits with the notebook and goes in by itself.
    lab = Lab(waiting.value)
    record_property("asked to JupyterLab, seconds", round(lab.at - asked, 1))
    with on_nodes.client("researcher") as rosa:
        (notebook,) = rosa.get("/workloads?slug=first").json()["items"]
    assert lab.run(GPU) == notebook["status"]["placement"][0]["devices"][0]["id"]
    assert lab.run(KEEP) == "10"
    lab.tab.close()
    stop(page)
    page.get_by_role("button", name="Start again").click()
    expect(page.locator("#head")).to_contain_text("Running", timeout=A_START)
    clicked = time.monotonic()
    with browser.expect_page() as opened:
        page.get_by_role("button", name="Open", exact=True).click()
    again = Lab(opened.value)
    record_property("click on Open to JupyterLab, seconds", round(again.at - clicked, 1))
    assert again.run(READ) == "still here"
    stop(page)
    delete(page)
    until(lambda: not on_nodes.objects(notebook["id"]), "nothing of it to be left in the cluster", 90)
    # A tab that somebody leaves open asks now and then, not in a loop.
    asked_in_vain: list[str] = []
    again.tab.on("request", lambda request: asked_in_vain.append(request.url))
    page.wait_for_timeout(10_000)
    again.tab.close()
    assert len(asked_in_vain) < MOST_IN_VAIN
