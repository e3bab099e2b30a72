"""Every page for those who see it, and nothing at all for the others."""

import re

import pytest
from django.test import Client

from tests.conftest import SignedIn
from tests.pages.conftest import Scene

OWN = ("", "logs/", "yaml/", "stop/", "delete/")
TEAM = (
    "",
    "workloads/",
    "new/",
    "new/notebook/",
    "new/job/",
    "new/notebook/h100-1g-10gb/",
    "new/job/h100-1g-10gb/",
)
CONSOLE = ("/console/", "/console/queue/", "/console/nodes/", "/console/nodes/gpu-01/")


def pages_of(scene: Scene) -> list[str]:
    own = [scene.url(row, tail) for row in (scene.running, scene.waiting) for tail in OWN]
    return ["/", *(f"/t/vision/{tail}" for tail in TEAM), *own]


def test_a_member_sees_every_page_of_the_tenant(scene: Scene, signed_in: SignedIn) -> None:
    client = signed_in(scene.cast.rosa)
    answers = {url: client.get(url).status_code for url in pages_of(scene)}
    assert set(answers.values()) == {200}, answers


def test_another_tenants_pages_do_not_exist(scene: Scene, signed_in: SignedIn) -> None:
    client = signed_in(scene.cast.otto)
    hidden = [url for url in pages_of(scene) if url != "/"]
    answers = {url: client.get(url).status_code for url in hidden}
    assert set(answers.values()) == {404}, answers


def test_a_workload_is_found_only_under_its_own_tenant(scene: Scene, signed_in: SignedIn) -> None:
    wrong = scene.url(scene.other).replace("/t/genomics/", "/t/vision/")
    assert signed_in(scene.cast.petra).get(wrong).status_code == 404


def test_who_is_signed_out_is_led_to_sign_in_and_back(scene: Scene) -> None:
    answer = Client().get("/t/vision/workloads/")
    assert (answer.status_code, answer["Location"]) == (302, "/sign-in/?next=%2Ft%2Fvision%2Fworkloads%2F")


@pytest.mark.parametrize("url", CONSOLE)
def test_the_console_is_there_for_platform_and_auditor_alone(
    scene: Scene, signed_in: SignedIn, url: str
) -> None:
    cast = scene.cast
    seen = {
        name: signed_in(getattr(cast, name)).get(url).status_code for name in ("petra", "ann", "leon", "rosa")
    }
    assert seen == {"petra": 200, "ann": 200, "leon": 404, "rosa": 404}


def test_no_page_names_another_departments_work_or_tenant(scene: Scene, signed_in: SignedIn) -> None:
    client = signed_in(scene.cast.rosa)
    for url in pages_of(scene):
        shown = client.get(url).content.decode()
        assert "secret-run" not in shown, url
        assert "genomics" not in shown, url


def test_why_it_waits_counts_other_departments_without_a_name(scene: Scene, signed_in: SignedIn) -> None:
    shown = signed_in(scene.cast.rosa).get(scene.url(scene.waiting)).content.decode()
    assert "other tenants 1" in shown
    assert "genomics" in signed_in(scene.cast.petra).get(scene.url(scene.waiting)).content.decode()


def test_no_page_carries_inline_style_script_or_handler(scene: Scene, signed_in: SignedIn) -> None:
    client = signed_in(scene.cast.petra)
    for url in [*pages_of(scene), *CONSOLE]:
        answer = client.get(url)
        shown = answer.content.decode()
        assert not re.search(r"<style|\sstyle=|\son\w+=|javascript:|hx-on|hx-vals=.js:", shown), url
        assert not re.search(r"<script(?![^>]*\ssrc=)", shown), url
        assert "unsafe" not in answer["Content-Security-Policy"]


def test_every_page_has_one_heading_a_title_and_a_way_past_the_menu(
    scene: Scene, signed_in: SignedIn
) -> None:
    client = signed_in(scene.cast.petra)
    for url in [*pages_of(scene), *CONSOLE]:
        shown = client.get(url).content.decode()
        assert shown.count("<h1") == 1, url
        assert 'href="#main"' in shown, url
        assert re.search(r"<title>\s*\S.* · Allotment</title>", shown), url
