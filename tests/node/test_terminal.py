"""The terminal of a workload's page in a container that runs: Chromium, the door, the real kubelet's exec."""

import re
import time
from collections.abc import Callable

import pytest
from playwright.sync_api import Browser, expect

from tests.factories import notebook_body
from tests.node.asking import NOTEBOOK
from tests.patience import patient
from tests.story.by_browser import complaints_of, sign_in
from tests.story.by_rest import SLICE, act, ask, reach
from tests.story.by_ssh import allow
from tests.story.conftest import Installation

pytestmark = [pytest.mark.node, pytest.mark.browser, pytest.mark.exhaustive, pytest.mark.timeout(600)]
A_FLOOD = "seq 1 400000 && echo after-the-flood\n"
"""2.7 MB."""


def test_a_person_types_in_a_container_from_its_page(
    chromium: Browser, on_nodes: Installation, record_property: Callable[[str, object], None]
) -> None:
    with on_nodes.client("platform") as petra:
        allow(petra, "vision", is_on=True)
    body = notebook_body(SLICE, image=NOTEBOOK)
    # CPU and memory as they come with the slice: this node is a small machine.
    body = {key: value for key, value in body.items() if key not in ("cpu", "memory")}
    with on_nodes.client("researcher") as rosa, chromium.new_context(base_url=on_nodes.url) as context:
        notebook = reach(rosa, ask(rosa, "nb-terminal", body), "Running", 120)
        page = context.new_page()
        reports = complaints_of(page)
        sign_in(page, "Rosa")
        page.goto(f"/t/vision/workloads/{notebook['id']}/")
        clicked = time.monotonic()
        page.get_by_role("link", name="Terminal", exact=True).click()
        state, screen = page.locator("#terminal-state"), page.locator(".xterm-rows")
        expect(state).to_have_text("Connected.", timeout=patient(20_000))
        record_property("click to a shell, seconds", round(time.monotonic() - clicked, 2))
        page.keyboard.type("printenv NVIDIA_VISIBLE_DEVICES; stty size\n")
        expect(screen).to_contain_text(notebook["status"]["placement"][0]["devices"][0]["id"])
        page.keyboard.type("sleep 600\n")
        page.keyboard.press("Control+c")
        flooded = time.monotonic()
        page.keyboard.type(A_FLOOD)
        expect(screen).to_contain_text("400000after-the-flood", timeout=patient(60_000))
        record_property("2.7 MB through the terminal, seconds", round(time.monotonic() - flooded, 1))
        page.set_viewport_size({"width": 600, "height": 700})
        page.keyboard.type("clear; stty size\n")
        expect(screen).to_contain_text(re.compile(r"\d+ \d\d\D"))
        act(rosa, notebook, "stop")
        expect(state).to_have_text(re.compile("has ended"))
        assert reports == []
        rosa.delete(f"/workloads/{notebook['id']}", headers={"If-Match": "*"})
