"""The pages of images and registries in Chromium: accessible by axe's rules, and narrow enough."""

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, ViewportSize
from pytest_django.live_server_helper import LiveServer

from apps.tenants.people.services import registries
from apps.tenants.specs import RegistryLogin
from tests.conftest import as_actor
from tests.factories import NOW, make_image
from tests.pages.conftest import Scene
from tests.pages.screens import RULES, in_each_look, page_of

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
PAGES = (
    "/console/images/", "/console/images/lab/", "/console/images/lab/retire/", "/console/image-rules/",
    "/console/image-rules/vision/", "/t/vision/members/", "/t/vision/members/registries/quay.io/remove/",
    "/t/vision/new/notebook/h100-1g-10gb/",
)  # fmt: skip


@pytest.fixture
def listed(scene: Scene) -> Scene:
    """An image of the catalogue, and a registry."""
    make_image("lab", f"quay.io/jupyter/pytorch-notebook@sha256:{'a' * 64}", cuda="12.4", for_all=True)
    login = RegistryLogin("quay.io", "puller", "word")
    registries.set_registry(actor=as_actor(scene.cast.leon), tenant=scene.cast.vision, login=login, now=NOW)
    return scene


@in_each_look
def test_axe_finds_nothing_and_no_page_is_wider_than_a_small_phone(
    chromium: Browser, live_server: LiveServer, listed: Scene, size: ViewportSize, theme: str
) -> None:
    found: list[str] = []
    with page_of(chromium, live_server, listed.cast.petra, size, theme) as page:
        for url in PAGES:
            answer = page.goto(url)
            assert answer is not None
            assert answer.status == 200, url
            result = Axe().run(page, options=RULES)
            found += [
                f"{url}: {broken['id']} {broken['nodes'][0]['html']}"
                for broken in result.response["violations"]
            ]
            width = page.evaluate("document.documentElement.scrollWidth")
            found += [f"{url}: {width} wide"] if width > size["width"] else []
    assert found == []
