"""Asking for a workload in four steps, with and without htmx; refusals in the API's own words."""

import re
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.test import Client

from apps.quotas.budgets.services import holding
from apps.quotas.models import Offer, Price
from apps.tenants.models import Tenant
from apps.workloads.lifecycle.selectors import admission_check
from apps.workloads.models import Workload
from apps.workloads.spec import parsing
from apps.workloads.specs import WorkloadSpec
from tests import factories
from tests.conftest import SignedIn, as_actor
from tests.pages import fleet
from tests.pages.conftest import Scene

STEP = "/t/vision/new/notebook/h100-1g-10gb/"
TYPED = {"name": "rag", "count": "1", "memory": "16Gi", "disk": "20Gi", "run_hours": "4"}


def form(**changed: str) -> dict[str, str]:
    return {**TYPED, "kind": "notebook", "offer": "h100-1g-10gb", "key": str(uuid4()), **changed}


@pytest.fixture
def rosa(scene: Scene, signed_in: SignedIn) -> Client:
    return signed_in(scene.cast.rosa)


def made() -> Any:
    return Workload.objects.filter(name="rag")


def test_the_radios_lead_to_the_fields_without_javascript(rosa: Client) -> None:
    answer = rosa.get("/t/vision/new/notebook/?offer=h100-1g-10gb")
    assert (answer.status_code, answer["Location"]) == (302, STEP)


def test_an_offer_says_price_memory_isolation_and_start(rosa: Client) -> None:
    shown = rosa.get("/t/vision/new/notebook/").content.decode()
    for words in ("H100 1g.10gb", "0.42 EUR/h", "10.0 GiB", "Memory and faults isolated", "starts now"):
        assert words in shown


def test_the_review_stores_nothing_and_says_price_total_and_start(rosa: Client) -> None:
    shown = rosa.post(f"{STEP}review/", TYPED).content.decode()
    for words in ("can start now", "0.42 EUR/h", "1.68 EUR for 4 h", "kind: Pod"):
        assert words in shown
    assert not made().exists()


@pytest.fixture
def whole(scene: Scene) -> Offer:
    """Two whole GPUs that nobody holds: what would start now instead."""
    offer = factories.make_offer(scene.cast.offer.flavor, "h100-whole", profile="", hourly="2.94")
    factories.make_quota(scene.cast.vision, offer)
    Price.objects.update(valid_from=scene.now - timedelta(days=1))
    return offer


def test_the_review_names_what_would_start_now_instead_with_its_price(
    scene: Scene, rosa: Client, whole: Offer
) -> None:
    fleet.reserve(scene.cast.speech, {scene.cast.offer: 2}, now=scene.now)
    shown = " ".join(rosa.post(f"{STEP}review/", {**TYPED, "count": "2"}).content.decode().split())
    assert f">{whole.name}</a> 5.88 EUR/h" in shown, "the price of all that is asked for"


def test_nothing_starts_now_on_any_page_while_the_queue_is_held(
    scene: Scene, rosa: Client, whole: Offer
) -> None:
    waits, use = scene.url(scene.waiting), f"Use {whole.name}, 2.94 EUR/h"
    instead = f"Starts now instead: {whole.name}, 2.94 EUR/h."
    rest = f"/api/v1/workloads/{scene.waiting.pk}"
    assert use in rosa.get(waits).content.decode()
    assert instead in rosa.get(rest).json()["status"]["queue"]["message"]

    petra = as_actor(scene.cast.petra)
    holding.hold_queue(actor=petra, tenant=scene.cast.vision, reason="the audit", now=scene.now)
    shown = rosa.get(waits).content.decode()
    assert "the audit. A manager of the department" in shown
    assert use not in shown
    queue = rosa.get(rest).json()["status"]["queue"]
    assert (queue["cause"], queue["alternatives"]) == ("TenantHeld", [])
    assert "instead" not in queue["message"]
    for step in ("/t/vision/new/", "/t/vision/new/notebook/"):
        shown = rosa.get(step).content.decode()
        assert "the audit. A manager of the department" in shown, "it says why, and who ends it"
        assert re.search(r"Nothing starts now|<strong>0</strong> start now", shown)
        assert "starts now ·" not in shown


def test_what_waits_takes_the_other_offer_with_one_button(scene: Scene, rosa: Client, whole: Offer) -> None:
    shown = rosa.get(scene.url(scene.waiting)).content.decode()
    (button,) = re.findall(
        rf'<form method="post" action="([^"]+/move/)"[^>]*>(.*?Use {whole.name}.*?)</form>', shown, re.DOTALL
    )
    typed = dict(re.findall(r'name="(offer|seen_hourly)" value="([^"]+)"', button[1]))
    answer = rosa.post(button[0], typed)
    assert (answer.status_code, answer["Location"]) == (303, scene.url(scene.waiting))
    before = scene.waiting.spec
    scene.waiting.refresh_from_db()
    assert scene.waiting.offer == whole
    assert scene.waiting.spec["image"] == before["image"]
    assert f"now asks for {whole.name}" in rosa.get(scene.url(scene.waiting)).content.decode()


def test_the_review_has_an_address_of_its_own(rosa: Client) -> None:
    fields = rosa.get(STEP).content.decode()
    assert f'<form method="get" action="{STEP}review/"' in fields
    again = rosa.get(f"{STEP}review/", TYPED)
    assert again.status_code == 200
    assert "1.68 EUR for 4 h" in again.content.decode()
    assert rosa.get(f"{STEP}review/", {**TYPED, "memory": "lots"}).status_code == 422


def test_back_from_the_review_keeps_what_was_typed(rosa: Client) -> None:
    shown = rosa.post(f"{STEP}review/", TYPED).content.decode()
    (back,) = re.findall(r'href="(/t/vision/new/notebook/h100-1g-10gb/\?[^"]+)"', shown)
    again = rosa.get(back.replace("&amp;", "&")).content.decode()
    assert 'value="rag"' in again
    assert 'value="20Gi"' in again


def test_create_makes_one_and_leads_to_it(rosa: Client) -> None:
    answer = rosa.post("/t/vision/workloads/", form())
    row = made().get()
    assert (answer.status_code, answer["Location"]) == (303, f"/t/vision/workloads/{row.pk}/")
    assert parsing.parse(row.spec).max_run_seconds == 4 * 3600
    assert parsing.parse(row.spec).volumes[0].size_bytes == 20 * 2**30


def test_with_htmx_create_redirects_by_header(rosa: Client) -> None:
    answer = rosa.post("/t/vision/workloads/", form(), headers={"HX-Request": "true"})
    assert (answer.status_code, answer["HX-Redirect"]) == (204, f"/t/vision/workloads/{made().get().pk}/")


def test_what_starts_within_seconds_is_not_asked_why_it_waits(scene: Scene, rosa: Client) -> None:
    rosa.post("/t/vision/workloads/", form())
    why = r'<section id="why"[^>]*?( hidden)?>'
    assert re.findall(why, rosa.get(scene.url(made().get())).content.decode()) == [" hidden"]
    Workload.objects.filter(pk=scene.waiting.pk).update(asked_at=scene.now - timedelta(minutes=1))
    assert re.findall(why, rosa.get(scene.url(scene.waiting)).content.decode()) == [""]


def test_the_same_form_sent_twice_makes_one(rosa: Client) -> None:
    typed = form()
    first, second = rosa.post("/t/vision/workloads/", typed), rosa.post("/t/vision/workloads/", typed)
    assert first["Location"] == second["Location"]
    assert made().count() == 1


def test_a_wrong_field_is_named_beside_it_and_above_in_the_parsers_words(rosa: Client) -> None:
    answer = rosa.post(f"{STEP}review/", {**TYPED, "memory": "lots", "disk": "-1Gi"})
    shown = answer.content.decode()
    assert answer.status_code == 422
    assert "<title>Error: " in shown
    assert 'class="error-summary"' in shown
    assert 'href="#id_memory"' in shown
    assert 'aria-describedby="id_memory_error id_memory_hint"' in shown
    assert "is negative" in shown
    assert 'value="rag"' in shown


def test_pages_and_rest_refuse_with_the_same_words(rosa: Client) -> None:
    spec = {"kind": "notebook", "offer": "h100-1g-10gb", "count": 9}
    rest = rosa.post("/api/v1/workloads", {"tenant": "vision", "spec": spec}, content_type="application/json")
    page = rosa.post("/t/vision/workloads/", form(count="9"))
    assert rest.status_code == page.status_code == 409
    for words in (rest.json()["detail"], rest.json()["hint"]):
        assert words in page.content.decode()


def test_a_price_that_moved_is_shown_before_anything_is_made(scene: Scene, rosa: Client) -> None:
    Price.objects.filter(offer=scene.cast.offer).update(hourly="0.50")
    answer = rosa.post("/t/vision/workloads/", form(seen_hourly="0.42000000"))
    assert answer.status_code == 409
    assert "0.42 → 0.50 EUR/h" in answer.content.decode()
    assert not made().exists()


def test_what_was_reviewed_is_judged_once(rosa: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    judged: list[str] = []
    check = admission_check.check

    def counted(tenant: Tenant, spec: WorkloadSpec, **options: Any) -> admission_check.Ask:
        judged.append(spec.offer)
        return check(tenant, spec, **options)

    monkeypatch.setattr(admission_check, "check", counted)
    assert rosa.post("/t/vision/workloads/", form(seen_hourly="0.42000000")).status_code == 303
    assert judged == ["h100-1g-10gb"]


def test_the_quote_follows_what_is_typed(rosa: Client) -> None:
    answer = rosa.post(f"{STEP}review/?part=quote", {**TYPED, "count": "2"}, headers={"HX-Request": "true"})
    shown = answer.content.decode()
    assert shown.strip().startswith('<section id="quote"')
    assert "0.84 EUR/h" in shown


@pytest.mark.parametrize("path", ["new/nonsense/", "new/notebook/nonsense/", "new/notebook/?offer=nonsense"])
def test_an_unknown_kind_or_offer_is_not_found(rosa: Client, path: str) -> None:
    assert rosa.get(f"/t/vision/{path}").status_code == 404


def test_a_job_is_its_command_run_by_a_shell(rosa: Client) -> None:
    typed = {
        "name": "train",
        "image": "registry.example/team/train:1",
        "command": "python train.py\r\n--epochs 3",
    }
    asked = {**typed, "kind": "job", "offer": "h100-1g-10gb", "completions": "2", "key": str(uuid4())}
    assert rosa.post("/t/vision/workloads/", asked).status_code == 303
    spec = parsing.parse(Workload.objects.get(name="train").spec)
    assert spec.command == ("sh", "-c", "python train.py\n--epochs 3")
    assert spec.job is not None
    assert spec.job.completions == 2


def test_hostile_names_are_text(rosa: Client) -> None:
    shown = rosa.post(f"{STEP}review/", {**TYPED, "name": "<script>alert(1)</script>"}).content.decode()
    assert "<script>alert(1)" not in shown
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in shown
