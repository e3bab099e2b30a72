"""The researcher's story in the portal: Chromium, the real control plane, no reload between the states.

Pictures of each state, light and dark, desktop and phone, go to ALLOTMENT_PICTURES.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from tests.patience import patient, until
from tests.story.by_browser import SIZES, complaints_of, photograph, sign_in
from tests.story.by_rest import ask, job, reach
from tests.story.conftest import Installation

pytestmark = [pytest.mark.plane, pytest.mark.browser, pytest.mark.timeout(300)]
SOON = patient(20_000)
A_START = patient(60_000)
"""A busy machine may take a minute from asking to running: how fast it is, is not what is tested here."""


@pytest.fixture
def page(chromium: Browser, installation: Installation) -> Iterator[Page]:
    """A fresh visitor; a message of the console (a CSP report among them) fails the test."""
    context = chromium.new_context(viewport=SIZES["desktop"], base_url=installation.url)  # type: ignore[arg-type]
    page = context.new_page()
    complaints = complaints_of(page)
    yield page
    context.close()
    assert complaints == []


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    folder = Path(os.environ.get("ALLOTMENT_PICTURES", tmp_path))
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.fixture
def rosa(installation: Installation) -> Iterator[httpx.Client]:
    with installation.client("researcher") as client:
        yield client


def ask_for_a_notebook(page: Page, pictures: Path) -> None:
    """New, notebook, the MIG slice, a name, review, create: four clicks and one word."""
    page.get_by_role("link", name="New workload").click()
    page.get_by_role("link", name=re.compile("^Notebook")).click()
    page.get_by_label(re.compile(r"H100 1g\.10gb")).check()
    photograph(page, pictures, "offers")
    page.get_by_role("button", name="Next: parameters").click()
    page.get_by_label("Name").fill("rag-dev")
    page.get_by_role("button", name="Review").click()
    expect(page.get_by_text("0.42 EUR/h").first).to_be_visible()
    photograph(page, pictures, "review")
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("rag-dev")


def stop(page: Page) -> None:
    page.get_by_role("link", name="Stop").click()
    page.get_by_role("button", name=re.compile("^Stop")).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("rag-dev")


def delete(page: Page) -> None:
    page.get_by_role("link", name="Delete").click(timeout=SOON)
    page.get_by_role("button", name=re.compile("^Delete")).click()


def test_a_researcher_waits_sees_why_and_works_without_a_reload(
    page: Page, rosa: httpx.Client, pictures: Path
) -> None:
    holder = reach(rosa, ask(rosa, "sweep-9", job(30)), "Running")
    sign_in(page, "Rosa")
    photograph(page, pictures, "home")
    ask_for_a_notebook(page, pictures)
    head, why = page.locator("#head"), page.locator("#why")
    expect(head).to_contain_text("Waiting")
    expect(why).to_contain_text("vision uses the 1 it may have", timeout=SOON)
    photograph(page, pictures, "waiting")
    page.evaluate("window.untouched = true")

    expect(head).to_contain_text("Running", timeout=A_START)
    expect(head).to_contain_text("gpu-01")
    assert page.evaluate("window.untouched"), "the page must not have been loaded again"
    assert rosa.get(f"/workloads/{holder['id']}").json()["status"]["phase"] == "Succeeded"
    photograph(page, pictures, "running")

    stop(page)
    expect(page.locator("#head")).to_contain_text("Stopped", timeout=SOON)
    page.get_by_role("button", name="Start again").click()
    expect(page.locator("#head")).to_contain_text("Running", timeout=A_START)
    page.get_by_role("link", name="Logs").click()
    expect(page.locator("main")).to_contain_text("rag-dev")
    photograph(page, pictures, "logs")
    page.get_by_role("link", name="YAML").click()
    expect(page.locator("main")).to_contain_text("kind: Pod")
    page.goto(page.url.replace("yaml/", ""))
    stop(page)
    delete(page)
    until(
        lambda: "rag-dev" not in [w["slug"] for w in rosa.get("/workloads").json()["items"]],
        "the notebook to be gone",
        40,
    )
    assert rosa.delete(f"/workloads/{holder['id']}", headers={"If-Match": "*"}).status_code in (202, 204)


def test_the_platform_engineer_sees_the_queue_and_the_devices(
    page: Page, rosa: httpx.Client, pictures: Path
) -> None:
    reach(rosa, ask(rosa, "first", job(60)), "Running")
    waiting = reach(rosa, ask(rosa, "second", job(60)), "Pending")
    sign_in(page, "Petra")
    page.goto("/console/queue/")
    expect(page.locator("main")).to_contain_text("second", timeout=SOON)
    photograph(page, pictures, "queue")
    page.goto("/console/nodes/")
    expect(page.locator("main")).to_contain_text("gpu-02")
    photograph(page, pictures, "nodes")
    page.goto("/console/nodes/gpu-01/")
    expect(page.locator("main")).to_contain_text("1g.10gb")
    photograph(page, pictures, "node")
    page.goto("/t/vision/")
    photograph(page, pictures, "tenant")
    for workload in rosa.get("/workloads").json()["items"]:
        rosa.delete(f"/workloads/{workload['id']}", headers={"If-Match": "*"})
    until(lambda: rosa.get("/workloads").json()["items"] == [], "both jobs to be gone", 60)
    assert rosa.get(f"/workloads/{waiting['id']}").status_code == 404


def test_the_whole_request_works_without_javascript(
    chromium: Browser, installation: Installation, rosa: httpx.Client, pictures: Path
) -> None:
    context = chromium.new_context(java_script_enabled=False, base_url=installation.url)
    page = context.new_page()
    sign_in(page, "Rosa")
    ask_for_a_notebook(page, pictures)
    expect(page.locator("#head")).to_contain_text(re.compile("Waiting|Starting|Running"))
    stop(page)
    at_rest = page.url

    def stopped() -> bool:
        page.goto(at_rest)
        return "Stopped" in page.locator("#head").inner_text()

    until(stopped, "the notebook to be stopped", 40)
    (row,) = rosa.get("/workloads").json()["items"]
    assert row["status"]["phase"] == "Stopped", "REST says what the page says"
    delete(page)
    until(lambda: rosa.get("/workloads").json()["items"] == [], "the notebook to be gone", 40)
    assert rosa.get(f"/workloads/{row['id']}").status_code == 404
    context.close()
