"""Working hours on a notebook's page, in its form, and over REST."""

import re
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client

from apps.metering.models import IdlePolicy
from apps.workloads.hours_specs import Day
from apps.workloads.lifecycle.services import verbs
from apps.workloads.models import Workload
from apps.workloads.specs import Kind
from portal.pages.team.workloads import as_typed
from tests.conftest import SignedIn, as_actor
from tests.pages.conftest import Scene

pytestmark = pytest.mark.django_db
TYPED = {"days": "Mon-Fri", "begins": "8", "ends": "18:30", "time_zone": "Europe/Berlin"}
KEPT = {
    "days": ["Mon", "Tue", "Wed", "Thu", "Fri"],
    "from": "08:00",
    "until": "18:30",
    "time_zone": "Europe/Berlin",
}
ZONES = "Name a time zone of the IANA list, such as Europe/Berlin."


@pytest.fixture
def rosa(scene: Scene, signed_in: SignedIn) -> Client:
    return signed_in(scene.cast.rosa)


def save(client: Client, scene: Scene, **typed: str) -> Any:
    return client.post(scene.url(scene.running, "hours/"), {**TYPED, **typed})


def errors(html: str) -> list[str]:
    return re.findall(r'class="error"[^>]*>Error: ([^<]+)', html)


def hours_of(row: Workload) -> Any:
    row.refresh_from_db()
    return (row.spec["notebook"] or {}).get("hours")


def test_they_are_set_from_its_page_and_told_there(scene: Scene, rosa: Client) -> None:
    page = scene.url(scene.running)
    before = rosa.get(page).content.decode()
    assert f'href="{page}hours/"' in before
    assert "hours-next" not in before
    form = rosa.get(f"{page}hours/").content.decode()
    for words in ('value="Mon-Fri"', 'value="08:00"', 'value="UTC"', "It has none"):
        assert words in form
    assert 'id="remove"' not in form
    answer = save(rosa, scene)
    assert (answer.status_code, answer["Location"]) == (303, page)
    assert hours_of(scene.running) == KEPT
    assert scene.running.phase == "Running"
    after = " ".join(rosa.get(page).content.decode().split())
    assert "Mon-Fri 08:00-18:30 Europe/Berlin" in after
    assert re.search(r'id="hours-next">Its working hours stop it [^<]+ at 18:30 Europe/Berlin\.<', after)


def test_the_form_has_what_there_is_and_what_it_saves(scene: Scene, rosa: Client) -> None:
    save(rosa, scene, days="Mon, Wed", begins="9:15", ends="24:00")
    form = " ".join(rosa.get(scene.url(scene.running, "hours/")).content.decode().split())
    for words in ('value="Mon, Wed"', 'value="09:15"', 'value="24:00"', 'value="Europe/Berlin"'):
        assert words in form
    # 29.5 and 168 hours of 0.42.
    assert re.search(
        r"<strong>29[.,]5 of 168 hours</strong> a week, at most 12\.39 EUR instead of 70\.56", form
    )


def test_they_are_removed(scene: Scene, rosa: Client) -> None:
    save(rosa, scene)
    assert save(rosa, scene, days="", begins="", remove="yes").status_code == 303
    assert hours_of(scene.running) is None
    assert scene.running.hours_due_at is None


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ({"days": ""}, "Name a day at least, such as Mon."),
        ({"days": "Mondy-Fry, x"}, "Of Mon, Tue, Wed, Thu, Fri, Sat, Sun."),
        ({"ends": "7"}, "Must be later on the same day than 08:00."),
        ({"ends": "8"}, "Must be later on the same day than 08:00."),
        ({"begins": "25"}, "A time such as 08:00."),
        ({"begins": "noon"}, "A time such as 08:00."),
        ({"time_zone": "europe/berlin"}, "Did you mean Europe/Berlin?"),
        ({"time_zone": "Here"}, ZONES),
    ],
)
def test_what_is_wrong_comes_back_beside_its_field(
    scene: Scene, rosa: Client, typed: dict[str, str], words: str
) -> None:
    answer = save(rosa, scene, **typed)
    assert (answer.status_code, errors(answer.content.decode())) == (422, [words])
    assert hours_of(scene.running) is None


def test_the_teams_clock_is_offered(scene: Scene, rosa: Client) -> None:
    IdlePolicy.objects.create(tenant=scene.cast.vision, time_zone="Asia/Tokyo")
    assert 'value="Asia/Tokyo"' in rosa.get(scene.url(scene.running, "hours/")).content.decode()


def test_who_may_not_change_it_sees_them_and_no_link(scene: Scene, rosa: Client, signed_in: SignedIn) -> None:
    save(rosa, scene)
    ann = signed_in(scene.cast.ann)
    shown = ann.get(scene.url(scene.running)).content.decode()
    assert "Mon-Fri 08:00-18:30 Europe/Berlin" in shown
    assert f'href="{scene.url(scene.running)}hours/"' not in shown
    assert ann.get(scene.url(scene.running, "hours/")).status_code == 403
    assert save(ann, scene, days="Sat").status_code == 403
    assert hours_of(scene.running) == KEPT


def test_what_is_no_notebook_has_no_such_page(scene: Scene, rosa: Client) -> None:
    spec = {**scene.running.spec, "kind": "job", "notebook": None, "job": {"completions": 1}}
    Workload.objects.filter(pk=scene.running.pk).update(kind=Kind.JOB, spec=spec)
    assert rosa.get(scene.url(scene.running, "hours/")).status_code == 409
    assert "Working hours" not in rosa.get(scene.url(scene.running)).content.decode()


def test_a_notebook_that_rests_says_so(scene: Scene, rosa: Client) -> None:
    save(rosa, scene)
    verbs.stop_workload(
        actor=as_actor(scene.cast.petra),
        workload=scene.running,
        reason="idle",
        now=scene.now,
        until_asked=True,
    )
    assert "no more until somebody does." in rosa.get(scene.url(scene.running)).content.decode()


def test_extending_past_their_end_says_when_it_stops(scene: Scene, rosa: Client) -> None:
    save(rosa, scene)
    soon, lease = scene.now + timedelta(minutes=5), scene.now + timedelta(hours=8)
    Workload.objects.filter(pk=scene.running.pk).update(hours_due_at=soon, stops_at=lease)
    rosa.post(scene.url(scene.running, "extend/"), {"seconds": "7200"})
    shown = rosa.get(scene.url(scene.running)).content.decode()
    assert f"rag-dev now stops {soon + timedelta(hours=2):%H:%M}." in shown


def test_the_list_is_in_the_order_of_the_next_stop(scene: Scene, rosa: Client) -> None:
    other = Workload.objects.get(pk=scene.waiting.pk)
    Workload.objects.filter(pk=other.pk).update(phase="Running", stops_at=scene.now + timedelta(hours=2))
    lease = {"stops_at": scene.now + timedelta(hours=8)}
    Workload.objects.filter(pk=scene.running.pk).update(**lease, hours_due_at=scene.now + timedelta(hours=1))
    shown = rosa.get("/t/vision/workloads/?sort=stop").content.decode()
    assert shown.index("rag-dev") < shown.index("next-one")
    Workload.objects.filter(pk=scene.running.pk).update(hours_due_at=None)
    shown = rosa.get("/t/vision/workloads/?sort=stop").content.decode()
    assert shown.index("rag-dev") > shown.index("next-one")


NEW = "/t/vision/new/notebook/h100-1g-10gb/"


def test_the_form_of_a_new_one_takes_them_under_its_fold(scene: Scene, rosa: Client) -> None:
    IdlePolicy.objects.create(tenant=scene.cast.vision, time_zone="Asia/Tokyo")
    form = rosa.get(NEW).content.decode()
    folded = form[form.index("<summary>Advanced</summary>") :]
    assert 'name="days"' in folded
    assert "Empty: Asia/Tokyo." in folded
    assert '<details class="more"><summary>Advanced' in form
    typed = {"name": "office", "count": "1", "run_hours": "12", "days": "mon - fri", "hours_until": "17"}
    review = rosa.get(f"{NEW}review/", typed)
    assert review.status_code == 200, errors(review.content.decode())
    sent = dict(re.findall(r'type="hidden" name="([^"]+)" value="([^"]*)"', review.content.decode()))
    assert rosa.post("/t/vision/workloads/", sent).status_code == 303
    made = Workload.objects.get(name="office")
    assert str(made.hours) == "Mon-Fri 08:00-17:00 Asia/Tokyo"
    assert made.hours_due_at is not None


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        (
            {"days": "Mon", "hours_zone": "Nowhere"},
            ZONES,
        ),
        ({"days": "Mon", "hours_from": "9", "hours_until": "8"}, "Must be later on the same day than 09:00."),
        ({"hours_from": "9"}, "Name a day at least, such as Mon."),
    ],
)
def test_and_says_what_is_wrong_there(scene: Scene, rosa: Client, typed: dict[str, str], words: str) -> None:
    answer = rosa.get(f"{NEW}review/", {"name": "office", "count": "1", "run_hours": "8", **typed})
    shown = answer.content.decode()
    assert (answer.status_code, errors(shown)) == (422, [words])
    assert '<details class="more" open><summary>Advanced' in shown


def test_new_like_this_brings_them_along(scene: Scene, rosa: Client) -> None:
    save(rosa, scene)
    form = rosa.get(scene.url(scene.running, "duplicate/"), follow=True).content.decode()
    for words in ('value="Mon-Fri"', 'value="18:30"', 'value="Europe/Berlin"'):
        assert words in form


@pytest.mark.parametrize(
    ("text", "days"),
    [
        ("Mon-Fri", ["Mon", "Tue", "Wed", "Thu", "Fri"]),
        ("monday, WED  fri", ["Mon", "Wed", "Fri"]),
        ("Fri-Mon", ["Fri", "Sat", "Sun", "Mon"]),
        ("Mon-Mon, Mon", ["Mon"]),
        ("Mo-Fr", ["Mo-Fr"]),
        ("-", ["-"]),
        ("", []),
    ],
)
def test_days_as_they_are_typed(text: str, days: list[Day]) -> None:
    assert as_typed.days(text) == days


def test_rest_takes_and_tells_them(scene: Scene, rosa: Client) -> None:
    url = f"/api/v1/workloads/{scene.running.pk}"
    etag = rosa.get(url)["ETag"]
    body = {"spec": {"notebook": {"hours": KEPT}}}
    answer = rosa.patch(
        url,
        body,
        content_type="application/json",
        headers={"If-Match": etag},
    )
    assert answer.status_code == 200, answer.content
    found = answer.json()
    assert found["spec"]["notebook"]["hours"] == KEPT
    status = found["status"]["working_hours"]
    assert (status["starts_at"], status["message"][-23:]) == (None, "at 18:30 Europe/Berlin.")
    scene.running.refresh_from_db()
    due = f"{scene.running.hours_due_at:%Y-%m-%dT%H:%M:%SZ}"
    assert status["stops_at"] == due
    Workload.objects.filter(pk=scene.running.pk).update(stops_at=None)
    countdown = rosa.get(url).json()["status"]["countdown"]
    assert (countdown["reason"], countdown["stops_at"]) == ("WorkingHours", due)
    copy = rosa.post(f"{url}/duplicate", {}, content_type="application/json")
    assert (copy.status_code, copy.json()["spec"]["notebook"]["hours"]) == (201, KEPT)
    stopped = rosa.post(f"{url}/stop", {}, content_type="application/json").json()["status"]["working_hours"]
    assert stopped["stops_at"] is None
    assert stopped["starts_at"] is not None
