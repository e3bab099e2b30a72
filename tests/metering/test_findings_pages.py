"""Findings on pages and over REST: who sees what, who answers what, and the same countdown everywhere."""

import csv
import io
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from apps.accounts.models import User
from apps.metering.findings.services import lifecycle
from apps.metering.models import Finding, IdlePolicy
from apps.notices.models import Notice
from apps.quotas.models import Price
from apps.quotas.requests.services.deciding import RequestWish, ask
from apps.quotas.specs import RequestKind
from apps.workloads.models import Workload
from apps.workloads.spec import parsing
from apps.workloads.specs import Kind
from tests.conftest import Cast, as_actor
from tests.factories import join, make_offer, make_quota, make_user, make_workload, notebook_body
from tests.metering.traced import HOUR, running, seen
from tests.workloads.rest import Api

pytestmark = pytest.mark.django_db
JSON = "application/json"
PLACED = {
    "cluster": "north",
    "namespace": "vision",
    "pod": "asr-tune-0",
    "node": "gpu-01",
    "flavor": "h100",
    "devices": [],
}


@pytest.fixture
def row(cast: Cast) -> Finding:
    """Rosa's job, idle for five hours, whose countdown runs at this moment."""
    now = timezone.now()
    offer = make_offer(cast.offer.flavor, "h100-whole", profile="", hourly="3")
    Price.objects.update(valid_from=now - timedelta(days=3))
    make_quota(cast.vision, offer, nominal=8)
    asked = parsing.parse(notebook_body(offer.slug) | {"kind": "job", "job": {}})
    job = make_workload(cast.vision, cast.rosa, offer, slug="asr-tune", spec=parsing.as_json(asked))
    Workload.objects.filter(pk=job.pk).update(kind=Kind.JOB, placement=[PLACED])
    running(job, since=now - 5 * HOUR)
    seen("GPU-1-0", now - 5 * HOUR, now)
    lifecycle.judge_one(job.pk, now=now - timedelta(minutes=7))
    lifecycle.judge_one(job.pk, now=now)
    found = Finding.objects.get()
    assert found.stops_at is not None
    return found


def page(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def url(row: Finding) -> str:
    return f"/t/vision/findings/{row.pk}/"


def test_the_countdown_is_the_same_on_page_in_rest_and_in_the_message(cast: Cast, row: Finding) -> None:
    assert row.stops_at is not None
    rest = Api(cast.rosa).client
    found = rest.get(f"/api/v1/findings/{row.pk}").json()
    work = rest.get(f"/api/v1/workloads/{row.workload_id}").json()["status"]["countdown"]
    (message,) = Notice.objects.filter(kind="idle.warned", user=cast.rosa).values_list("message", flat=True)
    html = page(cast.rosa).get(f"/t/vision/workloads/{row.workload_id}/").content.decode()
    clock = f"{row.stops_at:%H:%M}"
    assert found["countdown"]["stops_at"] == work["stops_at"]
    assert work["stops_at"].startswith(f"{row.stops_at:%Y-%m-%dT%H:%M:%S}")
    assert (work["reason"], work["message"]) == ("Idle", found["countdown"]["message"])
    assert found["countdown"]["extensions_left"] == 2
    assert message == f"asr-tune stops {clock} UTC: {work['message']}. Extend 2 h (2 left)."
    assert f'data-deadline="{row.stops_at.isoformat()}"' in html
    assert "Extend 2 h (2 left)" in html
    assert url(row) in html


def test_rest_tells_what_it_rests_on_and_what_it_costs(cast: Cast, row: Finding) -> None:
    found = Api(cast.ann).client.get("/api/v1/findings?tenant=vision&kind=hoarder&phase=Open").json()
    (body,) = found["items"]
    assert body["waste"]["currency"] == "EUR"
    assert body["weekly"] == {"amount": "504.00", "currency": "EUR"}
    assert body["evidence"]["figures"]["sm_active"] == 0.0
    assert body["evidence"]["devices"][0]["device"] == "GPU-1-0"
    assert body["suggestion"]["saving_weekly"]["amount"] == "504.00"
    assert body["blocks"] == {"count": 0, "devices": 0, "message": None}
    assert body["message"].startswith("asr-tune: H100 whole, SM active 0 % for ")


def test_a_finding_is_seen_by_its_tenant_and_by_those_who_see_everything(cast: Cast, row: Finding) -> None:
    assert Api(cast.otto).client.get("/api/v1/findings").json()["items"] == []
    for path in (f"/api/v1/findings/{row.pk}", f"/api/v1/findings/{row.pk}/dismiss"):
        assert Api(cast.otto).client.get(path).status_code in (404, 405)
    assert (
        Api(cast.otto).client.post(f"/api/v1/findings/{row.pk}/dismiss", {}, content_type=JSON).status_code
        == 404
    )
    for user, status in ((cast.otto, 404), (cast.rosa, 200), (cast.leon, 200), (cast.ann, 200)):
        assert page(user).get(url(row)).status_code == status
        assert page(user).get("/t/vision/findings/").status_code == status
    for user, status in ((cast.rosa, 404), (cast.leon, 404), (cast.ann, 200), (cast.petra, 200)):
        assert page(user).get("/console/findings/").status_code == status
    assert page(cast.otto).get(f"/t/genomics/findings/{row.pk}/").status_code == 404


@pytest.mark.parametrize(
    ("query", "status"),
    [("?kind=moon", 400), ("?phase=open", 400), ("?workload=1", 400), ("?tenant=genomics", 400), ("", 200)],
)
def test_a_wrong_filter_is_told(cast: Cast, row: Finding, query: str, status: int) -> None:
    assert Api(cast.rosa).client.get(f"/api/v1/findings{query}").status_code == status


def test_the_owner_extends_dismisses_and_is_refused_beyond(cast: Cast, row: Finding) -> None:
    rosa, base = Api(cast.rosa).client, f"/api/v1/findings/{row.pk}"
    later = rosa.post(f"{base}/extend", {"reason": "lunch"}, content_type=JSON).json()
    assert later["countdown"]["extensions_left"] == 1
    rosa.post(f"{base}/extend", {}, content_type=JSON)
    refused = rosa.post(f"{base}/extend", {}, content_type=JSON)
    assert (refused.status_code, refused.json()["code"]) == (409, "extension_limit")
    assert rosa.post(f"{base}/act", {"action": "warn"}, content_type=JSON).status_code == 403
    assert rosa.post(f"{base}/dismiss", {}, content_type=JSON).status_code == 422
    refused = rosa.post(f"{base}/dismiss", {"reason": "mine"}, content_type=JSON)
    assert (refused.status_code, refused.json()["code"]) == (409, "extension_limit")


def test_a_dry_run_changes_nothing(cast: Cast, row: Finding) -> None:
    body: Any = (
        Api(cast.leon)
        .client.post(
            f"/api/v1/findings/{row.pk}/dismiss?dry_run=true", {"reason": "rehearsal"}, content_type=JSON
        )
        .json()
    )
    assert (body["dry_run"], body["result"]["phase"]) == (True, "Dismissed")
    row.refresh_from_db()
    assert row.phase == "Open"


def test_a_mate_may_not_answer_and_sees_no_button(cast: Cast, row: Finding) -> None:
    mate = make_user("mate")
    join(cast.vision, mate)
    assert (
        Api(mate).client.post(f"/api/v1/findings/{row.pk}/extend", {}, content_type=JSON).status_code == 403
    )
    html = page(mate).get(url(row)).content.decode()
    assert "Evidence" in html
    for cell in (
        'data-label="Judged">Hoarder',
        'data-label="SM active" class="figure">0 %',
        "72 W",
        "29.3 GiB",
    ):
        assert cell in html
    assert f'{url(row)}dismiss/"' not in html
    assert page(mate).get(f"{url(row)}dismiss/").status_code == 403


def test_the_owner_extends_with_one_press_and_is_led_back(cast: Cast, row: Finding) -> None:
    before = row.stops_at
    answer = page(cast.rosa).post(f"{url(row)}extend/")
    assert (answer.status_code, answer["Location"]) == (303, url(row))
    row.refresh_from_db()
    assert before is not None
    assert row.stops_at == before + 2 * HOUR


def test_the_message_extends_with_one_press_as_its_page_does(cast: Cast, row: Finding) -> None:
    button = f'action="{url(row)}extend/"'
    assert button in page(cast.rosa).get("/notices/").content.decode()
    before = row.stops_at
    assert page(cast.rosa).post(f"{url(row)}extend/").status_code in (204, 302, 303)
    row.refresh_from_db()
    assert before is not None
    assert row.stops_at == before + 2 * HOUR
    page(cast.rosa).post("/notices/")
    assert button not in page(cast.rosa).get("/notices/").content.decode()


def test_beside_a_request_for_more_stands_what_is_held_idle(cast: Cast, row: Finding) -> None:
    wish = RequestWish(RequestKind.GUARANTEED, 1, "A paper.")
    offer, now = row.work.offer, timezone.now()
    asked = ask(actor=as_actor(cast.leon), tenant=cast.vision, offer=offer, wish=wish, now=now)
    months = f"What 30 days of {cast.vision.name} did"
    assert months in page(cast.leon).get("/t/vision/quota/").content.decode()
    assert months not in page(cast.rosa).get("/t/vision/quota/").content.decode(), "who may not ask"
    client = page(cast.petra)
    html = client.get(f"/console/requests/{asked.pk}/").content.decode()
    assert months in html
    assert f'vision: <a href="{url(row)}">asr-tune: ' in html
    client.post(f"{url(row)}stop/", {"reason": "one waits"})
    assert "Held idle now" not in client.get(f"/console/requests/{asked.pk}/").content.decode()


def test_the_console_stops_and_releases_with_a_reason(cast: Cast, row: Finding) -> None:
    client = page(cast.petra)
    html = client.get("/console/findings/").content.decode()
    for words in ("504.00 EUR a week</strong>\n  to recover", "Stop and release", "Not a hoarder", "high"):
        assert words in html
    answer = client.post(f"{url(row)}stop/", {"reason": "four wait"})
    assert answer.status_code == 303
    job = Workload.objects.get(pk=row.work.pk)
    row.refresh_from_db()
    assert (job.suspended, row.phase, row.reason) == (True, "Acted", "four wait")
    assert "3.00 EUR/h saved." in client.get(url(row)).content.decode()
    closed = client.post(f"{url(row)}stop/", {"reason": "again"})
    assert closed.status_code == 409
    assert "It is closed" in closed.content.decode()


def test_a_dismissal_without_a_reason_comes_back_with_the_words(cast: Cast, row: Finding) -> None:
    answer = page(cast.leon).post(f"{url(row)}dismiss/", {"reason": ""})
    assert answer.status_code == 422
    assert "There is a problem" in answer.content.decode()


def test_an_unknown_answer_is_not_found(cast: Cast, row: Finding) -> None:
    assert page(cast.leon).get(f"{url(row)}explode/").status_code == 404


def test_empty_lists_and_parts(cast: Cast, row: Finding) -> None:
    Finding.objects.update(phase="Dismissed", closed_at=None)
    html = page(cast.rosa).get("/t/vision/findings/").content.decode()
    assert "Nothing found." in html
    assert "None, checked" in html
    assert "asr-tune" in page(cast.rosa).get("/t/vision/findings/?show=all").content.decode()
    part = page(cast.rosa).get("/t/vision/findings/?part=rows", headers={"HX-Request": "true"})
    assert part.content.decode().lstrip().startswith("<section")


def test_leads_set_the_idle_policy_on_a_page_and_members_read_it(cast: Cast) -> None:
    typed = {
        "mode": "tell", "idle": 120, "countdown": 60, "extension": 60, "most_extensions": 1,
        "quiet_from": "22:00", "quiet_to": "06:00", "time_zone": "Europe/Berlin",
    }  # fmt: skip
    here = "/t/vision/idle-policy/"
    assert page(cast.leon).get(here).status_code == 200
    html = page(cast.rosa).get(here).content.decode()
    assert "A lead of Vision changes it." in html
    assert page(cast.rosa).post(here, typed).status_code == 403
    assert page(cast.leon).post(here, typed).status_code == 303
    stored = IdlePolicy.objects.get(tenant=cast.vision)
    assert (stored.mode, stored.idle_seconds, f"{stored.quiet_to}") == ("tell", 7200, "06:00:00")
    for wrong in ({"quiet_to": ""}, {"time_zone": "Moon"}, {"idle": 1}):
        answer = page(cast.leon).post(here, typed | wrong)
        assert answer.status_code == 422
        assert "problem" in answer.content.decode()
    assert page(cast.otto).get(here).status_code == 404


def table(user: User, url: str) -> list[dict[str, str]]:
    answer = page(user).get(url)
    assert answer["Content-Type"] == "text/csv; charset=utf-8"
    return list(csv.DictReader(io.StringIO(answer.content.decode())))


def test_the_list_is_a_file_too_of_a_team_and_of_everybody(cast: Cast, row: Finding) -> None:
    (line,) = table(cast.rosa, "/t/vision/findings/findings.csv")
    assert (line["workload"], line["owner"], line["kind"]) == ("asr-tune", "researcher", "hoarder")
    assert (line["weekly"], line["currency"], line["blocks"]) == ("504.00000000", "EUR", "0")
    assert row.stops_at is not None
    assert line["stops_at"] == f"{row.stops_at:%Y-%m-%dT%H:%M:%SZ}"
    assert table(cast.ann, "/console/findings/findings.csv") == [line]
    Finding.objects.update(phase="Dismissed", reason="=mine()")
    assert table(cast.petra, "/console/findings/findings.csv") == []
    (every,) = table(cast.petra, "/console/findings/findings.csv?show=all")
    assert (every["phase"], every["reason"]) == ("Dismissed", "'=mine()")
    assert page(cast.rosa).get("/console/findings/findings.csv").status_code == 404
    assert page(cast.otto).get("/t/vision/findings/findings.csv").status_code == 404
    assert "/t/vision/findings/findings.csv" in page(cast.rosa).get("/t/vision/findings/").content.decode()
    shown = page(cast.ann).get("/console/findings/?show=all").content.decode()
    assert "/console/findings/findings.csv?show=all" in shown


def test_first_pages_show_the_worst_with_money_and_a_button_and_what_closed_today(
    cast: Cast, row: Finding
) -> None:
    stop = f'href="{url(row)}stop/"'
    for user, path, is_theirs in (
        (cast.leon, "/t/vision/", True),
        (cast.rosa, "/t/vision/", True),
        (cast.petra, "/console/", True),
        (cast.ann, "/console/", False),
    ):
        shown = page(user).get(f"{path}?part=worst", headers={"HX-Request": "true"}).content.decode()
        assert (stop in shown) is is_theirs, path
        assert f"{row.wasted:.2f}" in shown
    Finding.objects.update(closed_at=timezone.now(), phase="Resolved", wasted=Decimal("3.20"))
    shown = page(cast.leon).get("/t/vision/").content.decode()
    assert f'href="{url(row)}"' in shown, "money that was wasted today has its finding beside it"
    assert stop not in shown
    assert "None, checked" not in shown.partition("Worst findings")[2].partition("</section>")[0]
    Finding.objects.update(closed_at=timezone.now() - timedelta(days=2))
    shown = page(cast.leon).get("/t/vision/").content.decode()
    assert "None, checked" in shown.partition("Worst findings")[2].partition("</section>")[0]


def test_a_finding_by_a_policy_of_its_own_says_so(cast: Cast, row: Finding) -> None:
    short = {"action": "warn", "for_seconds": 120}
    Workload.objects.update(spec={**row.work.spec, "idle_policy": short})
    assert "after 2 min" in page(cast.leon).get("/t/vision/").content.decode().replace("\n        ", " ")
