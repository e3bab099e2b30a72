"""The pages that change quota, and hand a node over, in Chromium: accessible in both themes, narrow enough.

With SCREENSHOTS=<folder> every page is also kept as a picture.
"""

import os

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, ViewportSize
from pytest_django.live_server_helper import LiveServer

from apps.quotas.models import QuotaRequest
from apps.tenants.models import Tenant
from apps.tenants.specs import Isolation
from tests.pages.conftest import Scene
from tests.pages.screens import RULES, in_each_look, page_of

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True), pytest.mark.timeout(300)]


def pages(scene: Scene) -> dict[str, str]:
    offer = scene.cast.offer.slug
    asked = QuotaRequest.objects.create(
        tenant=scene.cast.vision, offer=scene.cast.offer, kind="guaranteed", count=2, reason="a paper",
        asked_by=scene.cast.leon, created_at=scene.now,
    )  # fmt: skip
    acts = {act: f"/t/vision/quota/change/{act}/" for act in ("grant", "budget", "hold", "release")}
    return acts | {
        "quota": "/t/vision/quota/",
        "lent": "/t/vision/quota/?lent=7d",
        "move": "/t/vision/quota/move/",
        "no-neighbour": "/t/genomics/quota/move/",
        "asked": f"/t/vision/quota/requests/{asked.pk}/",
        "decide": f"/console/requests/{asked.pk}/",
        "quotas": "/console/quotas/",
        "cell": f"/console/quotas/vision/{offer}/",
        "offers": "/console/offers/",
        "offer": f"/console/offers/{offer}/",
        "prices": f"/console/offers/{offer}/prices/",
        "resources": "/console/prices/",
        "weight": "/console/sharing/tenants/vision/",
        "share": "/console/sharing/departments/research/",
        "budget-of-department": "/console/departments/research/budget/",
        "handover": "/console/nodes/gpu-01/handover/",
    }


@in_each_look
def test_every_page_is_accessible_and_narrow(
    chromium: Browser, live_server: LiveServer, scene: Scene, size: ViewportSize, theme: str
) -> None:
    found: list[str] = []
    look = f"{theme}-{size['width']}"
    with page_of(chromium, live_server, scene.cast.petra, size, theme) as page:
        page.route("**/live/**", lambda route: route.abort())
        for name, path in pages(scene).items():
            page.goto(path)
            found += wrong(page, f"{name}-{look}")
        page.goto("/t/vision/quota/move/")
        page.get_by_role("button", name="Preview").click()
        page.get_by_role("heading", name="What it does").wait_for()
        found += wrong(page, f"move-previewed-{look}")
        page.goto(f"/console/quotas/vision/{scene.cast.offer.slug}/")
        page.get_by_label("Guaranteed").fill("40")
        page.get_by_role("button", name="Preview").click()
        page.get_by_role("heading", name="What it does").wait_for()
        found += wrong(page, f"cell-previewed-{look}")
        Tenant.objects.filter(slug="vision").update(isolation=Isolation.DEDICATED_NODES)
        page.goto("/console/nodes/gpu-01/handover/?tenant=vision&notice=900&reason=moved")
        found += wrong(page, f"handover-chosen-{look}")
    assert found == []


def wrong(page: Page, name: str) -> list[str]:
    """What axe finds, and whether the page scrolls sideways."""
    page.evaluate("document.querySelectorAll('details:not(.menu)').forEach((d) => { d.open = true; })")
    page.wait_for_timeout(250)
    if folder := os.environ.get("SCREENSHOTS"):
        page.screenshot(path=f"{folder}/{name}.png", full_page=True)
    violations = Axe().run(page, options=RULES).response["violations"]
    found = [f"{name}: {broken['id']} {broken['nodes'][0]['html']}" for broken in violations]
    wide = page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth")
    return [*found, f"{name}: scrolls sideways"] if wide else found
