"""The pages of findings in Chromium: accessible in both themes, narrow enough, and worked by keys alone.

With SCREENSHOTS=<folder> every page is also kept as a picture.
"""

import os
import re
from datetime import timedelta
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from django.utils import timezone
from playwright.sync_api import Browser, Page, ViewportSize
from pytest_django.live_server_helper import LiveServer

from apps.metering.findings.services import lifecycle
from apps.metering.models import Finding
from apps.quotas.models import Price
from apps.workloads.models import Workload
from apps.workloads.specs import Kind, Phase
from tests import factories
from tests.metering.traced import HOUR, running, seen
from tests.pages.conftest import Scene
from tests.pages.screens import DESK, RULES, SMALL, in_each_look, page_of

OF_HEADERS = re.compile("Content Security|Permissions-Policy")
pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def found(scene: Scene) -> Finding:
    """Rosa's job on two whole GPUs, idle for five hours, counting down; one waits for it."""
    cast, now = scene.cast, timezone.now()
    offer = factories.make_offer(cast.offer.flavor, "h100-whole", profile="", hourly="2.94")
    Price.objects.update(valid_from=now - timedelta(days=10))
    factories.make_quota(cast.vision, offer, nominal=4)
    job = factories.make_workload(cast.vision, cast.rosa, offer, slug="asr-tune", spec=scene.running.spec)
    waits = factories.make_workload(cast.speech, cast.leon, offer, slug="sweep-8", spec=scene.running.spec)
    Workload.objects.filter(pk=waits.pk).update(phase=Phase.PENDING)
    Workload.objects.filter(pk=job.pk).update(kind=Kind.JOB, placement=[{"node": "gpu-01"}])
    job.refresh_from_db()
    for held in running(job, since=now - 5 * HOUR, devices=2):
        seen(held.device_uuid, now - 5 * HOUR, now)
    for minutes in (7, 0):
        lifecycle.judge_one(job.pk, now=now - timedelta(minutes=minutes))
    row = Finding.objects.get(workload=job)
    assert row.stops_at is not None
    return row


def urls(row: Finding) -> dict[str, str]:
    here = f"/t/vision/findings/{row.pk}/"
    return {
        "findings": "/t/vision/findings/",
        "finding": here,
        "dismiss": f"{here}dismiss/",
        "stop": f"{here}stop/",
        "policy": "/t/vision/idle-policy/",
        "console": "/console/findings/?show=all",
        "workload": f"/t/vision/workloads/{row.workload_id}/",
    }


@in_each_look
def test_axe_finds_nothing(
    chromium: Browser, live_server: LiveServer, scene: Scene, found: Finding, size: ViewportSize, theme: str
) -> None:
    bad: list[str] = []
    with page_of(chromium, live_server, scene.cast.petra, size, theme) as page:
        page.on("console", lambda said: bad.append(said.text) if OF_HEADERS.search(said.text) else None)
        for name, url in urls(found).items():
            answer = page.goto(url)
            assert answer is not None
            assert answer.ok, url
            _keep(page, f"{name}-{theme}-{size['width']}")
            result = Axe().run(page, options=RULES)
            bad += [
                f"{url}: {each['id']} {each['nodes'][0]['html']}" for each in result.response["violations"]
            ]
    assert bad == []


def test_no_page_is_wider_than_a_small_phone(
    chromium: Browser, live_server: LiveServer, scene: Scene, found: Finding
) -> None:
    wide = []
    with page_of(chromium, live_server, scene.cast.petra, SMALL, "light") as page:
        for url in urls(found).values():
            page.goto(url)
            width = page.evaluate("document.documentElement.scrollWidth")
            if width > SMALL["width"]:
                wide.append((url, width))
    assert wide == []


def test_the_hoarder_is_stopped_from_the_console_by_keys_alone(
    chromium: Browser, live_server: LiveServer, scene: Scene, found: Finding
) -> None:
    with page_of(chromium, live_server, scene.cast.petra, DESK, "light") as page:
        page.goto("/console/findings/")
        page.locator("#rows tbody th a").first.press("Enter")
        page.wait_for_url("**/findings/*/")
        page.locator("#stop").press("Enter")
        page.wait_for_url("**/stop/")
        page.get_by_label("Why").fill("one waits")
        page.get_by_label("Why").press("Enter")
        page.wait_for_url("**/findings/*/")
        assert "Stopped by" in page.locator("#head").inner_text()
    assert Workload.objects.get(pk=found.work.pk).suspended


def _keep(page: Page, name: str) -> None:
    folder = os.environ.get("SCREENSHOTS")
    if folder:
        Path(folder).mkdir(parents=True, exist_ok=True)
        page.wait_for_timeout(300)
        page.screenshot(path=f"{folder}/{name}.png", full_page=True)
