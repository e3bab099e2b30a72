"""`make demo` without a cluster: the sandbox's fleet, the seeded story, and a notebook on top of it."""

import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from tests.factories import notebook_body
from tests.patience import patient, until
from tests.ports import free_port
from tests.story.by_browser import complaints_of, photograph, sign_in
from tests.story.by_program import TYPED, example, lines_of, started, token_of
from tests.story.by_rest import act, ask, job, reach
from tests.story.by_ssh import set_up
from tests.story.conftest import Installation, running

pytestmark = pytest.mark.timeout(240)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("sandbox-home")


@pytest.fixture(scope="module")
def simulated(home: Path) -> Iterator[Installation]:
    """The demo on the lab fleet, started twice: the second start finds its data kept."""
    port = free_port(run=2)
    with running(home, port, "--fleet", "lab") as (_, first):
        pass
    with running(home, port, "--fleet", "lab") as (output, again):
        print(f"ready after {first:.1f} s, with its data kept after {again:.1f} s")  # noqa: T201 - for the figures
        assert first <= patient(60)
        yield Installation(f"http://127.0.0.1:{port}", home, None, output)


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


@pytest.mark.exhaustive
def test_the_seeded_story_runs_and_waits(simulated: Installation) -> None:
    with simulated.client("platform") as petra:
        until(lambda: phases(petra).get("asr-tune") == "Running", "asr-tune to run", 60)
        until(lambda: phases(petra).get("sweep-8") == "Pending", "sweep-8 to wait", 60)
        waiting = next(w for w in petra.get("/workloads").json()["items"] if w["slug"] == "sweep-8")
        holders = {holder["tenant"]: holder["count"] for holder in waiting["status"]["queue"]["holders"]}
        assert holders["speech"] == 6
        assert petra.get("/clusters").json()["items"][0]["status"]["simulated"] is True


@pytest.mark.exhaustive
def test_a_notebook_runs_stops_and_resumes_on_the_simulated_fleet(rosa: httpx.Client) -> None:
    notebook = reach(rosa, ask(rosa, "nb-sandbox", notebook_body("h100-1g-10gb")), "Running")
    assert "mig-1g10gb" in notebook["status"]["placement"][0]["devices"][0]["name"]
    act(rosa, notebook, "stop")
    reach(rosa, notebook, "Stopped")
    act(rosa, notebook, "resume")
    reach(rosa, notebook, "Running")
    rosa.delete(f"/workloads/{notebook['id']}", headers={"If-Match": "*"})
    until(lambda: "nb-sandbox" not in phases(rosa), "the notebook to be gone", 60)


@pytest.mark.exhaustive
def test_an_array_runs_four_at_once_and_what_failed_runs_again(rosa: httpx.Client) -> None:
    spec = {
        **job(1),
        "offer": "l4-whole",
        "command": ["sh", "-c", "python fold.py $JOB_COMPLETION_INDEX"],
        "job": {"completions": 20, "parallelism": 4},
    }
    labels = {
        "sandbox.allotment.dev/failing-indexes": "3,7-8",
        "pod-complete.stage.kwok.x-k8s.io/delay": "2s",
    }
    body = {"tenant": "vision", "slug": "fold", "labels": labels, "spec": spec}
    array = rosa.post("/workloads", json=body)
    assert array.status_code == 201, array.text
    at_once: set[int] = set()

    def over() -> dict[str, Any] | None:
        now: dict[str, Any] = rosa.get(f"/workloads/{array.json()['id']}").json()
        at_once.add(len(now["status"]["placement"]))
        return now if now["status"]["phase"] in ("Succeeded", "Failed") else None

    ended = until(over, "the array to end", 120)
    assert ended["status"]["phase"] == "Failed"
    assert 1 < max(at_once) <= 4
    assert ended["status"]["items"] == {
        "total": 20,
        "done": 17,
        "failed": 3,
        "left": 0,
        "done_items": "0-2,4-6,9-19",
        "failed_items": "3,7,8",
    }
    again = rosa.post(f"/workloads/{ended['id']}/rerun-failed", json={})
    assert again.status_code == 201, again.text
    assert again.json()["spec"]["job"]["items"] == "3,7,8"
    done = reach(rosa, again.json(), "Succeeded", 90)
    assert done["status"]["items"]["done_items"] == "3,7,8"
    for each in (ended, done):
        rosa.delete(f"/workloads/{each['id']}", headers={"If-Match": "*"})
    until(lambda: "fold" not in phases(rosa), "the array to be gone", 60)


@pytest.mark.browser
def test_a_notebook_opens_in_the_browser_and_shows_its_gpu(
    chromium: Browser, simulated: Installation, rosa: httpx.Client, tmp_path: Path
) -> None:
    pictures = Path(os.environ.get("ALLOTMENT_PICTURES", tmp_path))
    notebook = reach(rosa, ask(rosa, "nb-open", notebook_body("h100-1g-10gb")), "Running")
    device = notebook["status"]["placement"][0]["devices"][0]["id"]
    context = chromium.new_context(base_url=simulated.url)
    page = context.new_page()
    reports = complaints_of(page)
    sign_in(page, "Rosa")
    page.goto(f"/t/vision/workloads/{notebook['id']}/")
    with context.expect_page() as opened:
        page.get_by_role("button", name="Open", exact=True).press("Enter")
    inside = opened.value
    expect(inside.get_by_role("heading", level=1)).to_have_text("A simulated notebook")
    expect(inside.get_by_text(device)).to_be_visible()
    assert inside.url == f"http://{notebook['id']}.localhost:{int(simulated.url.rpartition(':')[2]) + 1}/"
    expect(inside.get_by_label("Environment")).to_contain_text("JUPYTER_TOKEN")
    inside.get_by_role("button", name="Send").click()
    expect(inside.get_by_role("log")).to_contain_text(re.compile(r"hello \(\d+ ms\)"))
    photograph(inside, pictures, "opened")
    # What its scripts have: no cookie at all, no way back to the page that opened it, nothing of the portal.
    assert inside.evaluate("[document.cookie, String(window.opener)]") == ["", "null"]
    asked = "u => fetch(u, {credentials: 'include'}).then(a => a.text()).catch(() => 'refused')"
    assert inside.evaluate(asked, f"{simulated.url}/api/v1/me") == "refused"
    page.goto("/t/vision/workloads/")
    expect(page.get_by_role("button", name="Open nb-open")).to_be_visible()
    act(rosa, notebook, "stop")
    expect(inside.get_by_text("no longer answers")).to_be_visible(timeout=patient(20_000))
    assert reports == []
    context.close()
    rosa.delete(f"/workloads/{notebook['id']}", headers={"If-Match": "*"})


@pytest.mark.browser
def test_a_terminal_in_the_page_runs_a_shell_until_the_right_to_it_ends(
    chromium: Browser, simulated: Installation, rosa: httpx.Client, tmp_path: Path
) -> None:
    pictures = Path(os.environ.get("ALLOTMENT_PICTURES", tmp_path))
    notebook = reach(rosa, ask(rosa, "nb-shell", notebook_body("h100-1g-10gb")), "Running")
    context = chromium.new_context(base_url=simulated.url)
    page = context.new_page()
    reports = complaints_of(page)
    sign_in(page, "Rosa")
    page.goto(f"/t/vision/workloads/{notebook['id']}/")
    page.get_by_role("link", name="Terminal", exact=True).click()
    state, screen = page.locator("#terminal-state"), page.locator(".xterm-rows")
    expect(state).to_have_text("Connected.")
    page.keyboard.type("nvidia-smi -L\n")
    expect(screen).to_contain_text("MIG 1g.10gb")
    photograph(page, pictures, "terminal")
    # Nobody is held by it who has no mouse.
    page.keyboard.press("Control+Shift+Enter")
    expect(page.get_by_role("link", name="Terminal", exact=True)).to_be_focused()
    screen.click()
    page.keyboard.type("exit 3\n")
    expect(state).to_have_text("The shell has ended with exit code 3.")
    page.get_by_role("button", name="Connect again").click()
    expect(state).to_have_text("Connected.")
    _ends_with_its_right(page, rosa, notebook)
    photograph(page, pictures, "terminal-stopped")
    assert [report for report in reports if not _is_refusal(report)] == []
    context.close()
    rosa.delete(f"/workloads/{notebook['id']}", headers={"If-Match": "*"})


def _ends_with_its_right(page: Page, rosa: httpx.Client, notebook: dict[str, Any]) -> None:
    act(rosa, notebook, "stop")
    expect(page.locator("#terminal-state")).to_have_text("Your access to it has ended.")
    reach(rosa, notebook, "Stopped")
    page.get_by_role("button", name="Connect again").click()
    expect(page.locator("#problem")).to_contain_text("It is not ready: stopped.")
    page.reload()
    expect(page.get_by_text("It is not ready: stopped.")).to_be_visible()


def _is_refusal(report: str) -> bool:
    """A stopped workload's own host refuses its page and its WebSocket; which comes first is not said."""
    return "the server responded with" in report or "Unexpected response code: 403" in report


@pytest.mark.browser
def test_the_page_that_waits_opens_a_notebook_that_was_stopped(
    chromium: Browser, simulated: Installation, rosa: httpx.Client, tmp_path: Path
) -> None:
    pictures = Path(os.environ.get("ALLOTMENT_PICTURES", tmp_path))
    notebook = reach(rosa, ask(rosa, "nb-again", notebook_body("h100-1g-10gb")), "Running")
    context = chromium.new_context(base_url=simulated.url)
    page = context.new_page()
    reports = complaints_of(page)
    sign_in(page, "Rosa")
    page.goto(f"/open/{notebook['id']}/")
    expect(page.get_by_role("heading", level=1)).to_have_text("A simulated notebook")
    act(rosa, notebook, "stop")
    reach(rosa, notebook, "Stopped")
    head = page.get_by_role("heading", level=1)
    # The door may let one in for a moment still.
    until(lambda: page.reload() is not None and "not ready" in head.inner_text(), "the door to close", 10)
    page.get_by_role("link", name="See how it stands").click()
    photograph(page, pictures, "stopped-to-open")
    page.get_by_role("button", name="Start again").click()
    photograph(page, pictures, "waits-to-open")
    expect(page.get_by_role("heading", level=1)).to_have_text("A simulated notebook", timeout=patient(60_000))
    # Back is back: the page is there, and does not open it a second time.
    page.go_back()
    expect(page.get_by_role("button", name="Open", exact=True)).to_be_visible()
    # Its own host refuses while it is stopped.
    assert [report for report in reports if not _is_refusal(report)] == []
    context.close()
    rosa.delete(f"/workloads/{notebook['id']}", headers={"If-Match": "*"})


@pytest.mark.browser
def test_the_first_minutes_of_a_newcomer(chromium: Browser, simulated: Installation, tmp_path: Path) -> None:
    pictures = Path(os.environ.get("ALLOTMENT_PICTURES", tmp_path))
    pictures.mkdir(parents=True, exist_ok=True)
    with simulated.client("researcher") as rosa:
        until(lambda: is_explained(rosa, "sweep-8"), "the queue to judge sweep-8", 90)
    context = chromium.new_context(base_url=simulated.url)
    page = context.new_page()
    complaints = complaints_of(page)
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


@pytest.mark.exhaustive
def test_a_notebook_is_entered_by_ssh(simulated: Installation, rosa: httpx.Client, tmp_path: Path) -> None:
    notebook = reach(rosa, ask(rosa, "nb-ssh", notebook_body("h100-1g-10gb")), "Running")
    machine = set_up(rosa, tmp_path / "ssh")
    smi = machine.run("nb-ssh.vision.allotment", "nvidia-smi")
    assert (smi.returncode, b"MIG 1g.10gb" in smi.stdout) == (0, True), smi
    typed = machine.run("-tt", "nb-ssh.vision.allotment", sent=b"whoami\rexit 3\r")
    assert (typed.returncode, b"A simulated shell" in typed.stdout) == (3, True), typed
    act(rosa, notebook, "stop")
    reach(rosa, notebook, "Stopped")
    refused = machine.run("nb-ssh.vision.allotment", "true")
    assert (refused.returncode, refused.stderr.decode()) == (
        254,
        "allotment: It is not ready: stopped. Start it again first.\r\n",
    )
    rosa.delete(f"/workloads/{notebook['id']}", headers={"If-Match": "*"})


@pytest.mark.programs
def test_the_documented_program_has_a_shell_which_ends_with_its_token(
    simulated: Installation, rosa: httpx.Client
) -> None:
    notebook = reach(rosa, ask(rosa, "nb-program", notebook_body("h100-1g-10gb")), "Running")
    token = token_of(rosa)
    program = started(example(), simulated, token["token"], notebook["id"])
    written, errors = program.communicate(timeout=patient(60))
    assert (program.returncode, b"MIG 1g.10gb" in written) == (3, True), errors
    # The same, which waits in its shell until the token is revoked.
    waits = example().replace(TYPED, 'b"echo I am in\\n"')
    program = started(waits, simulated, token["token"], notebook["id"])
    heard = lines_of(program)
    assert any(line == b"I am in\r\n" for line in heard), program.communicate()
    assert rosa.delete(f"/tokens/{token['id']}").status_code == 204
    revoked = time.monotonic()
    _, errors = program.communicate(timeout=patient(30))
    assert errors.decode().strip() == "Your access to it has ended."
    assert time.monotonic() - revoked < patient(3)
    with simulated.client("platform") as petra:
        events = petra.get("/audit-events?action=workload.shell").json()["items"]
    assert token["prefix"] in {each["token"] for each in events}
    rosa.delete(f"/workloads/{notebook['id']}", headers={"If-Match": "*"})
