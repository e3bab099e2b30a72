"""Templates on the pages: cards in New, the short form, the review, a team's defaults, the console."""

import re
from html import unescape
from typing import Any

import pytest
from django.test import Client

from apps.tenants.models import Tenant
from apps.workloads.models import Workload
from apps.workloads.template_models import Template, TemplateVersion
from apps.workloads.templates.selectors import catalogue
from tests.conftest import SignedIn
from tests.factories import NOW, make_template
from tests.pages.conftest import Scene

pytestmark = pytest.mark.django_db
FORM = "/t/vision/templates/lab/"
FLAG = {"name": "tensorboard", "type": "boolean", "default": True}


@pytest.fixture
def rosa(scene: Scene, signed_in: SignedIn) -> Client:
    make_template("lab", for_all=True)
    return signed_in(scene.cast.rosa)


@pytest.fixture
def petra(scene: Scene, signed_in: SignedIn) -> Client:
    return signed_in(scene.cast.petra)


def words_of(answer: Any) -> str:
    return " ".join(answer.content.decode().split())


def test_a_template_goes_from_its_card_over_the_review_to_a_workload(scene: Scene, rosa: Client) -> None:
    assert f'href="{FORM}"' in words_of(rosa.get("/t/vision/new/"))
    shown = words_of(rosa.get(FORM))
    assert "Hours (hours)" not in shown, "the unit is not said twice"
    assert shown.count('<label for="id_') == 3, "name, offer, hours"
    typed = {"name": "rag", "p-offer": scene.cast.offer.slug, "p-hours": "3"}
    review = words_of(rosa.get(f"{FORM}review/", typed))
    assert "Lab, version 1" in review
    assert f'action="{FORM}"' in review
    assert "for 3 h" in review, "what it costs until its stop"
    answer = rosa.post(FORM, {**typed, "seen_hourly": "0.42"})
    row = Workload.objects.get(name="rag")
    assert (answer.status_code, answer["Location"]) == (303, f"/t/vision/workloads/{row.pk}/")
    assert (row.template, row.template_version, row.spec["max_run_seconds"]) == ("lab", 1, 3 * 3600)
    assert "Lab v1" in words_of(rosa.get("/t/vision/workloads/"))
    assert f'<a href="{FORM}">Lab</a>' in words_of(rosa.get(f"/t/vision/workloads/{row.pk}/"))
    Template.objects.update(is_for_all=False)
    assert f'href="{FORM}"' not in words_of(rosa.get(f"/t/vision/workloads/{row.pk}/")), "a dead end"


def test_secrets_go_with_the_last_step_of_a_template(scene: Scene, rosa: Client) -> None:
    typed = {"name": "rag", "p-offer": scene.cast.offer.slug, "p-hours": "3"}
    assert 'name="secrets"' in words_of(rosa.get(f"{FORM}review/", typed))
    wrong = rosa.post(FORM, {**typed, "secrets": "no pair"})
    assert (wrong.status_code, "Each line is NAME=value." in words_of(wrong)) == (422, True)
    assert rosa.post(FORM, {**typed, "secrets": "HF_TOKEN=kept"}).status_code == 303
    row = Workload.objects.get(name="rag")
    assert [each.name for each in row.secrets.all()] == ["HF_TOKEN"]


def test_a_flag_that_was_taken_away_is_away_after_back(scene: Scene, rosa: Client) -> None:
    version = TemplateVersion.objects.get(template__slug="lab")
    version.parameters = [*version.parameters, FLAG]
    version.save()
    assert 'id="id_p-tensorboard" checked' in words_of(rosa.get(FORM))
    typed = {"name": "rag", "p-offer": scene.cast.offer.slug, "p-hours": "3"}
    review = rosa.get(f"{FORM}review/", typed)
    (back,) = re.findall(r'href="([^"]+)">Back</a>', review.content.decode())
    assert 'id="id_p-tensorboard">' in words_of(rosa.get(unescape(back)))


def test_what_was_reviewed_is_made_also_when_a_new_version_came_meanwhile(scene: Scene, rosa: Client) -> None:
    typed = {"name": "rag", "p-offer": scene.cast.offer.slug, "p-hours": "3"}
    review = words_of(rosa.get(f"{FORM}review/", typed))
    assert '<input type="hidden" name="version" value="1">' in review
    row = Template.objects.get(slug="lab")
    first = catalogue.version_of(row)
    TemplateVersion.objects.create(
        template=row, number=2, parameters=first.parameters, workload={**first.workload, "image": "evil/b:1"}
    )
    Template.objects.update(version=2)
    rosa.post(FORM, {**typed, "version": "1", "seen_hourly": "0.42"})
    made = Workload.objects.get(name="rag")
    assert made.template_version == 1
    assert made.spec["image"] != "evil/b:1"
    for odd in ("0", "9", "x", "\u0663", "9" * 30):
        assert rosa.post(FORM, {**typed, "version": odd}).status_code == 404


def test_a_wrong_value_stands_at_its_field_and_a_moved_price_is_shown(scene: Scene, rosa: Client) -> None:
    typed = {"p-offer": scene.cast.offer.slug, "p-hours": "99"}
    for answer in (rosa.get(f"{FORM}review/", typed), rosa.post(FORM, typed)):
        assert answer.status_code == 422
        assert "From 1 to 24 hours." in words_of(answer)
    part = rosa.get(f"{FORM}review/", {**typed, "part": "quote"}, headers={"HX-Request": "true"})
    assert "The price follows" in words_of(part)
    moved = rosa.post(FORM, {**typed, "p-hours": "2", "seen_hourly": "9.99"})
    assert (moved.status_code, "the price moved" in words_of(moved)) == (409, True)
    assert not Workload.objects.exclude(template="").exists()


@pytest.mark.parametrize(("typed", "kept"), [({}, {}), ({"p-tensorboard": "False"}, {"tensorboard": False})])
def test_a_flag_of_which_a_lead_says_nothing_is_as_the_template_says(
    scene: Scene, rosa: Client, signed_in: SignedIn, typed: dict[str, str], kept: dict[str, bool]
) -> None:
    version = TemplateVersion.objects.get(template__slug="lab")
    version.parameters = [*version.parameters, FLAG]
    version.save()
    leon = signed_in(scene.cast.leon)
    assert leon.post(f"{FORM}defaults/", {"p-hours": "4", **typed}).status_code == 303
    assert catalogue.defaults_in(scene.cast.vision) == {"lab": {"hours": 4, **kept}}
    again = words_of(leon.get(f"{FORM}defaults/"))
    assert ('<option value="False" selected>' in again) == bool(kept)
    assert ('id="id_p-tensorboard" checked' in words_of(rosa.get(FORM))) == (not kept)


def test_a_lead_sets_what_the_teams_form_starts_with(scene: Scene, rosa: Client, signed_in: SignedIn) -> None:
    leon = signed_in(scene.cast.leon)
    assert "Defaults of" in words_of(leon.get(FORM))
    assert "Defaults of" not in words_of(rosa.get(FORM))
    assert rosa.get(f"{FORM}defaults/").status_code == 403
    wrong = leon.post(f"{FORM}defaults/", {"p-hours": "99"})
    assert (wrong.status_code, "From 1 to 24 hours." in words_of(wrong)) == (422, True)
    assert leon.post(f"{FORM}defaults/", {"p-hours": "4"}).status_code == 303
    assert 'value="4"' in words_of(rosa.get(FORM))
    assert 'value="4"' in words_of(leon.get(f"{FORM}defaults/"))
    leon.post(f"{FORM}defaults/", {})
    assert catalogue.defaults_in(scene.cast.vision) == {}


def test_the_console_adds_those_of_the_product_edits_compares_exports_and_retires(petra: Client) -> None:
    assert "The product comes with PyTorch notebook" in words_of(petra.get("/console/templates/"))
    assert petra.post("/console/shipped-templates/").status_code == 303
    assert "Batch array" in words_of(petra.get("/console/templates/"))
    page = "/console/templates/batch-array/"
    text = petra.get("/console/templates/batch-array.yaml").content.decode()
    assert (
        petra.post(f"{page}edit/", {"source": text.replace("default: 10", "default: 20")}).status_code == 303
    )
    assert "Compare with 1" in words_of(petra.get(page))
    shown = words_of(petra.get(f"{page}diff/1/2/"))
    assert "/parameters/items/default" in shown
    assert petra.get(f"{page}diff/1/3/").status_code == 404
    other = petra.post(f"{page}edit/", {"source": text.replace("template: batch-array", "template: other")})
    assert (other.status_code, "This is batch-array" in words_of(other)) == (422, True)
    broken = words_of(petra.post(f"{page}edit/", {"source": "a: [1"}))
    assert "YAML: It is not YAML." in broken, "the problem leads to its field"
    petra.post(page, {"name": "Arrays", "least_trust": "standard", "tenants": ["vision"]})
    row = Template.objects.get(slug="batch-array")
    assert (row.name, row.least_trust, row.is_for_all) == ("Arrays", "standard", False)
    Tenant.objects.filter(slug="vision").update(deleted_at=NOW)
    assert '<option value="vision" selected>Vision (deleted)</option>' in words_of(petra.get(page))
    petra.post(page, {"name": "Arrays", "least_trust": "standard", "tenants": ["vision"]})
    row.refresh_from_db()
    assert (row.is_for_all, row.tenants.get().slug) == (False, "vision"), "nobody else has it now"
    assert 'name="reason"' in words_of(petra.get(f"{page}retire/"))
    petra.post(f"{page}retire/", {"reason": "old"})
    assert ": old. <strong>Version 2</strong>" in words_of(petra.get(page))
    petra.post(f"{page}restore/")
    row.refresh_from_db()
    assert row.retired_at is None
