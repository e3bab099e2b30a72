"""`make demo` without a cluster: the sandbox's fleet, the seeded story, and a notebook on top of it."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, expect

from tests.factories import notebook_body
from tests.story.by_browser import photograph, sign_in
from tests.story.by_rest import act, ask, reach
from tests.story.conftest import Installation, free_port, start, stop, until, wait_ready

pytestmark = pytest.mark.timeout(240)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("sandbox-home")


@pytest.fixture(scope="module")
def simulated(home: Path) -> Iterator[Installation]:
    """The demo on the lab fleet, started twice: the second start finds its data kept."""
    port = free_port()
    process, output = start(home, port, "--fleet", "lab")
    first = wait_ready(process, output)
    stop(process)
    process, output = start(home, port, "--fleet", "lab")
    again = wait_ready(process, output)
    print(f"ready after {first:.1f} s, with its data kept after {again:.1f} s")  # noqa: T201 - for the figures
    assert first <= 60
    yield Installation(f"http://127.0.0.1:{port}", home, None, output)
    stop(process)


@pytest.fixture
def rosa(simulated: Installation) -> Iterator[httpx.Client]:
    with simulated.client("researcher") as client:
        yield client


def phases(client: httpx.Client) -> dict[str, str]:
    return {item["slug"]: item["status"]["phase"] for item in client.get("/workloads").json()["items"]}


def is_explained(client: httpx.Client, slug: str) -> bool:
    """Whether it waits and somebody is named who holds what it waits for."""
    found = client.get(f"/workloads?slug={slug}").json()["items"]
    return bool(found and (found[0]["status"]["queue"] or {}).get("holders"))


def test_the_seeded_story_runs_and_waits(simulated: Installation) -> None:
    with simulated.client("platform") as petra:
        until(lambda: phases(petra).get("asr-tune") == "Running", "asr-tune to run", 60)
        until(lambda: phases(petra).get("sweep-8") == "Pending", "sweep-8 to wait", 60)
        waiting = next(w for w in petra.get("/workloads").json()["items"] if w["slug"] == "sweep-8")
        holders = {holder["tenant"]: holder["count"] for holder in waiting["status"]["queue"]["holders"]}
        assert holders["speech"] == 6
        assert petra.get("/clusters").json()["items"][0]["status"]["simulated"] is True


def test_a_notebook_runs_stops_and_resumes_on_the_simulated_fleet(rosa: httpx.Client) -> None:
    notebook = reach(rosa, ask(rosa, "nb-sandbox", notebook_body("h100-1g-10gb")), "Running")
    assert "mig-1g10gb" in notebook["status"]["placement"][0]["devices"][0]["name"]
    act(rosa, notebook, "stop")
    reach(rosa, notebook, "Stopped")
    act(rosa, notebook, "resume")
    reach(rosa, notebook, "Running")
    rosa.delete(f"/workloads/{notebook['id']}", headers={"If-Match": "*"})
    until(lambda: "nb-sandbox" not in phases(rosa), "the notebook to be gone", 60)


@pytest.mark.browser
def test_the_first_minutes_of_a_newcomer(chromium: Browser, simulated: Installation, tmp_path: Path) -> None:
    pictures = Path(os.environ.get("ALLOTMENT_PICTURES", tmp_path))
    pictures.mkdir(parents=True, exist_ok=True)
    with simulated.client("researcher") as rosa:
        until(lambda: is_explained(rosa, "sweep-8"), "the queue to judge sweep-8", 90)
    context = chromium.new_context(base_url=simulated.url)
    page = context.new_page()
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text))
    sign_in(page, "Rosa")
    expect(page.locator("main")).to_contain_text("Simulated fleet")
    photograph(page, pictures, "sandbox-home")
    page.get_by_role("link", name="sweep-8").first.click()
    expect(page.locator("#why")).to_contain_text(re.compile("Held by speech 6"))
    photograph(page, pictures, "sandbox-waiting")
    page.goto("/t/vision/")
    expect(page.locator("main")).to_contain_text("Research")
    photograph(page, pictures, "sandbox-tenant")
    context.close()
    assert complaints == []
