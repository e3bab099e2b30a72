"""Another size or lease on the page: its price is said before, and a restart is confirmed."""

import re

import pytest
from django.test import Client

from apps.quotas.models import Offer, Price
from apps.workloads.models import Workload
from apps.workloads.specs import Kind, Phase
from tests import factories
from tests.conftest import SignedIn
from tests.pages.conftest import Scene

pytestmark = pytest.mark.django_db


@pytest.fixture
def rosa(scene: Scene, signed_in: SignedIn) -> Client:
    return signed_in(scene.cast.rosa)


@pytest.fixture
def wide(scene: Scene) -> Offer:
    offer = factories.make_offer(scene.cast.offer.flavor, "h100-whole", profile="", hourly="2.94")
    factories.make_quota(scene.cast.vision, offer)
    Price.objects.update(valid_from=scene.now.replace(year=scene.now.year - 1))
    return offer


def size(**changed: str) -> dict[str, str]:
    return {"offer": "h100-1g-10gb", "count": "1", "cpu": "2", "memory": "16Gi", "run_hours": "8", **changed}


def reviewed(client: Client, scene: Scene, **changed: str) -> tuple[str, dict[str, str]]:
    """What the review shows, and what its form would send."""
    answer = client.get(scene.url(scene.running, "size/review/"), size(**changed))
    assert answer.status_code == 200, re.findall(r'class="error"[^>]*>([^<]+)', answer.content.decode())
    html = answer.content.decode()
    return " ".join(html.split()), dict(re.findall(r'type="hidden" name="([^"]+)" value="([^"]*)"', html))


def test_it_is_reached_from_its_page_and_starts_with_what_is_there(scene: Scene, rosa: Client) -> None:
    shown = rosa.get(scene.url(scene.running)).content.decode()
    assert f'id="resize" href="{scene.url(scene.running, "size/")}"' in shown
    form = rosa.get(scene.url(scene.running, "size/")).content.decode()
    assert 'value="h100-1g-10gb" selected' in form
    for words in ('value="16Gi"', 'name="count" value="1"', "restart"):
        assert words in form


def test_what_runs_restarts_once_that_was_confirmed(scene: Scene, rosa: Client, wide: Offer) -> None:
    shown, sent = reviewed(rosa, scene, offer=wide.slug)
    for words in (
        "0.42 EUR/h",
        "2.94 EUR/h",
        "It restarts",
        "Change and restart",
        "can start now",
        "in memory",
    ):
        assert words in shown
    scene.running.refresh_from_db()
    assert (scene.running.phase, scene.running.offer) == (Phase.RUNNING, scene.cast.offer)
    answer = rosa.post(scene.url(scene.running, "size/"), sent)
    assert (answer.status_code, answer["Location"]) == (303, scene.url(scene.running))
    scene.running.refresh_from_db()
    assert (scene.running.phase, scene.running.offer) == (Phase.PENDING, wide)
    assert f"to change {scene.running.name}." in rosa.get(scene.url(scene.running)).content.decode()


def test_without_the_confirmation_nothing_restarts(scene: Scene, rosa: Client, wide: Offer) -> None:
    answer = rosa.post(scene.url(scene.running, "size/"), size(offer=wide.slug))
    assert answer.status_code == 422
    assert "It is running: offer can only change while it waits or is stopped." in answer.content.decode()
    scene.running.refresh_from_db()
    assert scene.running.phase == Phase.RUNNING


def test_a_lease_changes_under_what_runs(scene: Scene, rosa: Client) -> None:
    shown, sent = reviewed(rosa, scene, run_hours="12")
    assert "without a restart" in shown
    assert "Change and restart" not in shown
    assert rosa.post(scene.url(scene.running, "size/"), sent).status_code == 303
    scene.running.refresh_from_db()
    assert (scene.running.phase, scene.running.spec["max_run_seconds"]) == (Phase.RUNNING, 12 * 3600)


def test_a_lease_that_is_over_already_is_said_before(scene: Scene, rosa: Client) -> None:
    shown, _ = reviewed(rosa, scene, run_hours="30m")
    assert "at once</strong>: it has run that long already" in shown


def test_what_is_stopped_takes_it_at_its_next_start(scene: Scene, rosa: Client, wide: Offer) -> None:
    Workload.objects.filter(pk=scene.running.pk).update(phase=Phase.STOPPED, suspended=True)
    assert "it counts from its next start" in rosa.get(scene.url(scene.running, "size/")).content.decode()
    shown, sent = reviewed(rosa, scene, offer=wide.slug, memory="", cpu="")
    assert "Change and restart" not in shown
    assert rosa.post(scene.url(scene.running, "size/"), sent).status_code == 303
    scene.running.refresh_from_db()
    assert (scene.running.phase, scene.running.offer) == (Phase.STOPPED, wide)
    assert scene.running.spec["memory"] == "32Gi", "as the new offer has"


@pytest.mark.parametrize(
    ("changed", "status", "words"),
    [
        ({"count": "9"}, 409, "can never start"),
        ({"count": "9"}, 409, "or ask a platform engineer for quota"),
        ({"memory": "lots"}, 422, "lots"),
        ({"count": "0"}, 422, "ask for at least 1 device"),
        ({"run_hours": "soon"}, 422, "whole number"),
        ({"run_hours": "900"}, 422, "runs at most"),
        ({"offer": "nonsense"}, 422, "not one of the available choices"),
    ],
)
def test_refusals_stand_in_place_and_say_what_to_do(
    scene: Scene, rosa: Client, changed: dict[str, str], status: int, words: str
) -> None:
    for method, tail in (("get", "size/review/"), ("post", "size/")):
        answer = getattr(rosa, method)(scene.url(scene.running, tail), size(**changed, restart="yes"))
        assert (answer.status_code, words in answer.content.decode()) == (status, True), (method, words)
        assert 'class="error-summary"' in answer.content.decode()


def test_a_price_that_moved_is_shown_again(scene: Scene, rosa: Client, wide: Offer) -> None:
    _, sent = reviewed(rosa, scene, offer=wide.slug)
    Price.objects.filter(offer=wide).update(hourly="3.50")
    answer = rosa.post(scene.url(scene.running, "size/"), sent)
    assert answer.status_code == 409
    assert "2.94 → 3.50 EUR/h" in answer.content.decode()


def test_the_quote_follows_what_is_typed(scene: Scene, rosa: Client) -> None:
    typed = {**size(count="2"), "part": "quote"}
    answer = rosa.get(scene.url(scene.running, "size/review/"), typed, headers={"HX-Request": "true"})
    shown = answer.content.decode()
    assert shown.strip().startswith('<section id="quote"')
    assert ("0.42 EUR/h" in shown, "0.84 EUR/h" in shown) == (True, True)


def test_back_keeps_what_was_typed(scene: Scene, rosa: Client) -> None:
    shown, _ = reviewed(rosa, scene, memory="8Gi", cpu="")
    (back,) = re.findall(r'href="([^"]+size/\?[^"]+)"', shown)
    again = rosa.get(back.replace("&amp;", "&")).content.decode()
    assert 'value="8Gi"' in again
    assert 'name="cpu" value="2"' not in again


def test_nothing_changed_is_nothing_to_do(scene: Scene, rosa: Client) -> None:
    shown, _ = reviewed(rosa, scene)
    assert "Nothing would change." in shown
    assert "Change and restart" not in shown


@pytest.mark.parametrize("phase", [Phase.SUCCEEDED, Phase.FAILED])
def test_what_has_ended_is_not_resized(scene: Scene, rosa: Client, phase: Phase) -> None:
    Workload.objects.filter(pk=scene.running.pk).update(phase=phase)
    assert 'id="resize"' not in rosa.get(scene.url(scene.running)).content.decode()
    assert rosa.get(scene.url(scene.running, "size/")).status_code == 409


def test_a_job_is_led_to_another_like_it(scene: Scene, rosa: Client) -> None:
    Workload.objects.filter(pk=scene.running.pk).update(kind=Kind.JOB)
    answer = rosa.get(scene.url(scene.running, "size/"))
    assert answer.status_code == 409
    assert "New like this" in answer.content.decode()


def test_only_those_who_may_are_offered_it(scene: Scene, signed_in: SignedIn) -> None:
    ann = signed_in(scene.cast.ann)
    assert 'id="resize"' not in ann.get(scene.url(scene.running)).content.decode()
    assert ann.get(scene.url(scene.running, "size/")).status_code == 403
    assert signed_in(scene.cast.otto).get(scene.url(scene.running, "size/")).status_code == 404
