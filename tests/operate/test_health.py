"""Console, Health and its REST: well, wrong, without Redis; how often it looks, and where its cures lead."""

import re
import socket
import threading
import time
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from apps.cluster.models import Cluster
from apps.metering.models import RollPosition
from apps.web import self_checks
from apps.web.stores import telling
from apps.web.stores.telling import Teller
from portal.operate import doctor, guides, health, service_checks
from portal.operate.findings import NOTE, OK, WRONG
from portal.operate.health import Lookout, Report
from portal.pages.console.health import health_lines
from tests.audit.records import write_many
from tests.conftest import Cast, SignedIn
from tests.factories import make_workload

pytestmark = [pytest.mark.django_db]
ROOT = Path(__file__).resolve().parents[2]
PAGE, REST = "/console/health/", "/api/v1/health"
LOCAL = {"mode", "secret key", "public address", "allowed hosts", "trusted proxies", "clock", "disk"}


@pytest.fixture(autouse=True)
def _fresh() -> None:
    health.lookout.forget()


def text_of(client: Client) -> str:
    answer = client.get(PAGE)
    assert answer.status_code == 200
    return " ".join(answer.content.decode().split())


def body_of(client: Client) -> Any:
    answer = client.get(REST)
    assert answer.status_code == 200
    return answer.json()


def break_two() -> None:
    """No worker lives, and the cluster does not answer."""
    names = [key for key in telling.client().scan_iter() if key.startswith(f"{telling.PARTS}:worker:")]
    telling.client().delete(*names)
    silent = timezone.now() - timedelta(minutes=2)
    Cluster.objects.update(last_seen_at=silent, message="dial tcp: <b>refused</b>")


@pytest.mark.both_databases
@pytest.mark.usefixtures("well")
def test_a_well_installation_shows_its_processes_and_figures(cast: Cast, signed_in: SignedIn) -> None:
    Teller("web", {"streams": lambda: 7.0}).tell()
    page = text_of(signed_in(cast.ann))
    notes = health.lookout.report(timezone.now()).notes
    assert f"<strong>Nothing is wrong, {notes} worth knowing.</strong>" in page
    assert page.count("> lives<") + page.count(">lives<") == len(service_checks.KINDS)
    assert socket.gethostname() in page
    assert re.search(r'data-label="Live streams" class="figure">7<', page)
    assert re.search(r'data-label="Watch: last answer" class="figure">\d+ s ago<', page)
    assert int(re.findall(r'hx-trigger="every (\d+)s, live"', page)[0]) >= 10
    assert f'href="{PAGE}" aria-current="page"' in page


@pytest.mark.usefixtures("well")
def test_what_is_wrong_comes_first_with_its_cure_and_runbook(cast: Cast, signed_in: SignedIn) -> None:
    break_two()
    page = text_of(signed_in(cast.petra))
    assert '<strong class="bad">2 things are wrong, ' in page
    assert re.findall(r"tone-(bad|warn)", page.split("Processes")[0])[:3] == ["bad", "bad", "warn"]
    assert "docs/runbook.md#allotmentprocessmissing" in page
    assert "docs/runbook.md#allotmentclustersilent" in page
    assert re.search(r'<th scope="row">worker</th>.{0,200}missing', page)
    assert "<code>python -m portal.run.worker</code>" in page
    assert "dial tcp: &lt;b&gt;refused&lt;/b&gt;" in page
    assert "dial tcp" not in text_of(signed_in(cast.ann))


def test_without_redis_the_page_says_what_is_not_known(
    cast: Cast, no_broker: None, signed_in: SignedIn
) -> None:
    page = text_of(signed_in(cast.petra))
    assert "Redis does not answer: which processes live" in page
    assert "Not known" in page
    assert "missing" not in page
    assert "docs/runbook.md#allotmentredisdown" in page
    body = body_of(signed_in(cast.petra))
    assert (body["parts"], body["queues"], body["well"]) == (None, None, False)
    assert [each["cluster"] for each in body["clusters"]] == ["north"]


@pytest.mark.usefixtures("well")
def test_rest_has_the_same_without_what_others_said(cast: Cast, signed_in: SignedIn) -> None:
    break_two()
    body = body_of(signed_in(cast.ann))
    assert {each["name"] for each in body["findings"] if each["state"] == WRONG} == {
        "worker",
        "watch of north",
    }
    assert [each["state"] for each in body["findings"]] == sorted(
        (each["state"] for each in body["findings"]), key=[WRONG, NOTE, OK].index
    )
    assert all(each["cure"] for each in body["findings"] if each["state"] != OK)
    assert {each["name"] for each in body["findings"] if each["local"]} == LOCAL
    assert {each["kind"]: len(each["processes"]) for each in body["parts"]} == {
        kind: int(kind != "worker") for kind in service_checks.KINDS
    }
    assert {each["name"]: each["length"] for each in body["queues"]} == {"urgent": 0, "later": 0}
    assert 120 <= body["clusters"][0]["seen_seconds"] < 150
    assert "dial tcp" not in str(body)


@pytest.mark.parametrize(
    ("wrong", "notes", "words"),
    [
        (0, 0, "All is well."),
        (0, 1, "Nothing is wrong, 1 worth knowing."),
        (1, 0, "1 thing is wrong."),
        (2, 1, "2 things are wrong, 1 worth knowing."),
    ],
)
def test_the_verdict_is_one_line(wrong: int, notes: int, words: str) -> None:
    assert health_lines.verdict(wrong, notes) == words


@pytest.mark.usefixtures("well")
def test_a_report_is_kept_for_five_seconds() -> None:
    lookout, now = Lookout(), timezone.now()
    first = lookout.report(now)
    break_two()
    assert lookout.report(now + timedelta(seconds=4.9)) is first
    assert lookout.report(now + timedelta(seconds=5)).wrong == first.wrong + 2
    assert lookout.report(now - timedelta(minutes=1)).at < now


@pytest.mark.usefixtures("well")
def test_a_look_costs_the_same_however_much_there_is(cast: Cast) -> None:
    def statements() -> int:
        with CaptureQueriesContext(connection) as found:
            health.look(timezone.now())
        return len(found)

    few = statements()
    for number in range(5):
        make_workload(cast.vision, cast.rosa, cast.offer, slug=f"nb-{number}")
        Teller("worker").tell()
    write_many(60)
    assert statements() == few


def test_of_two_who_ask_at_once_one_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[datetime] = []

    def look(now: datetime) -> Report:
        looks.append(now)
        time.sleep(0.05)
        return Report(now, "here", (), (), (), ())

    monkeypatch.setattr(health, "look", look)
    lookout, now = Lookout(), timezone.now()
    people = [threading.Thread(target=lookout.report, args=(now,)) for _ in range(2)]
    for each in people:
        each.start()
    for each in people:
        each.join()
    assert looks == [now]


@pytest.mark.parametrize(
    ("breaches", "age", "state", "prefix"),
    [(None, 0, NOTE, "check of "), (0, 1, OK, ""), (1, 1, WRONG, ""), (0, 13, WRONG, "check of ")],
    ids=["never checked", "whole", "broken", "checked long ago"],
)
def test_record_and_ledger_are_told_as_workers_last_found_them(
    cast: Cast, no_broker: None, breaches: int | None, age: int, state: str, prefix: str
) -> None:
    now = timezone.now()
    RollPosition.objects.create(cluster=Cluster.objects.get(), since=now, until=now)
    for name in (self_checks.AUDIT, f"{self_checks.LEDGER}north"):
        if breaches is not None:
            self_checks.note(name, seen=9, breaches=breaches, now=now - timedelta(hours=age))
    found = {each.name: each.state for each in doctor.examine(now, whole=False)}
    names = [f"{prefix}{name}" for name in ("audit record", "balance of north")]
    assert [found.get(name) for name in names] == [state, state]


def test_each_guide_leads_to_a_section_that_is_there() -> None:
    for place in {*guides.BY_NAME.values(), guides.of("kueue of north")}:
        path, _, section = place.partition("#")
        heads = re.findall(r"^## (.+)$", (ROOT / path).read_text(), re.MULTILINE)
        assert section in {head.lower().replace(" ", "-") for head in heads}, place


@pytest.mark.parametrize(
    ("name", "section"),
    [
        ("watch of north", "allotmentclustersilent"),
        ("queue urgent", "allotmentqueuelag"),
        ("kueue of north", "allotmentclusterincomplete"),
        ("balance of north", "allotmentledgerdoesnotbalance"),
        ("check of audit record", "allotmentselfcheckoverdue"),
        ("disk", "health"),
        ("database disk", "allotmentdatabasefull"),
        ("client certificate of north", "allotmentcertificateends"),
        ("certificate of the portal", "allotmentcertificateends"),
    ],
)
def test_a_check_has_the_section_of_its_kind(name: str, section: str) -> None:
    assert guides.of(name).endswith(f"#{section}")
