"""The pages of the audit record: the console's and a team's, what they show, and how they read."""

import re
from html import unescape

import pytest
from axe_playwright_python.sync_playwright import Axe
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from playwright.sync_api import Browser, ViewportSize
from pytest_django.live_server_helper import LiveServer

from apps.audit import periodic, services
from apps.audit.models import AuditEvent
from apps.audit.specs import Target
from apps.workloads.lifecycle.services import verbs
from portal.pages.console.audit import audit_checks
from portal.pages.team.audit import audit_lines, audit_pages
from tests.audit.records import sql, write, write_many
from tests.conftest import SignedIn, as_actor
from tests.pages.conftest import Scene
from tests.pages.screens import RULES, in_each_look, page_of

CONSOLE, CHECK, TEAM = "/console/audit/", "/console/audit/check/", "/t/vision/audit/"
BREAK = "UPDATE audit_auditevent SET reason = 'nothing' WHERE chain = 'tenant:vision' AND sequence = 2"


@pytest.fixture
def petra(scene: Scene, signed_in: SignedIn) -> Client:
    return signed_in(scene.cast.petra)


@pytest.fixture
def record(scene: Scene) -> Scene:
    """Rosa stops what runs; otto and the platform do something elsewhere."""
    rosa, now = as_actor(scene.cast.rosa), timezone.now()
    verbs.stop_workload(actor=rosa, workload=scene.running, reason="lunch & rest", now=now)
    write("outsider", "workload.stop", Target("workload", scene.other.pk, "secret-run", "genomics"))
    spec = {"spec": [None, {"image": "a:1", "env": {"HF_TOKEN": "s3cret"}}], "note": [True, {}]}
    write("lead", "workload.create", Target("workload", "gone", "long-gone", "vision"), changes=spec)
    write("platform", "offer.update", Target("offer", scene.cast.offer.pk, scene.cast.offer.slug))
    write("system:sweep", "tenant.delete", Target("tenant", scene.cast.speech.pk, "speech", "speech"))
    return scene


def text_of(client: Client, path: str) -> str:
    answer = client.get(path)
    assert answer.status_code == 200
    return answer.content.decode()


def acts(page: str) -> list[str]:
    """The acts of the rows, in order."""
    return re.findall(r'<th scope="row">([\w.-]+)<', page)


@pytest.mark.parametrize("kind", audit_lines.OF_TEAM)
def test_a_thing_of_a_team_leads_to_a_page_that_is_there(scene: Scene, petra: Client, kind: str) -> None:
    write("lead", f"{kind}.update", Target(kind, scene.cast.vision.pk, "the-thing", "vision"))
    found = re.search(r'href="([^"?]+)"[^>]*>\s*the-thing', text_of(petra, CONSOLE))
    assert found
    assert petra.get(unescape(found[1])).status_code == 200


def test_every_kind_of_the_console_leads_to_a_page_that_is_there(record: Scene, petra: Client) -> None:
    offer, research = record.cast.offer, record.cast.vision.department
    things = {"offer": (offer.pk, offer.slug), "department": (research.pk, research.slug)}
    things["user"] = (record.cast.rosa.pk, record.cast.rosa.username)
    for kind, (pk, name) in things.items():
        write("platform", f"{kind}.create", Target(kind, pk, f"one-{name}"))
    page = text_of(petra, CONSOLE)
    for _, name in things.values():
        found = re.search(rf'href="([^"?]+)"[^>]*>\s*one-{name}', page)
        assert found, name
        assert petra.get(unescape(found[1])).status_code == 200


def test_the_console_shows_who_did_what_why_and_what_changed(record: Scene, petra: Client) -> None:
    page = text_of(petra, CONSOLE)
    assert acts(page)[0] == "workload.stop"
    assert set(acts(page)) == {"workload.stop", "workload.create", "offer.update", "tenant.delete"}
    assert f'<a href="/t/vision/workloads/{record.running.pk}/">rag-dev</a>' in page
    assert f'<a href="/console/offers/{record.cast.offer.slug}/">' in page
    assert "lunch &amp; rest" in page
    assert re.search(r">no</span>\s*<svg.*?became</span>\s*<span[^>]*>yes<", page, re.DOTALL)
    assert all(way in page for way in ("the product itself", "token alt_12345678", "browser or command"))
    assert "All of this request" in page
    assert 'href="/console/audit/" aria-current="page"' in page


def test_no_secret_is_on_a_page(record: Scene, petra: Client) -> None:
    page = text_of(petra, CONSOLE)
    assert "HF_TOKEN" in page
    assert "[secret]" in page
    assert "s3cret" not in page


def test_what_is_gone_is_named_without_a_link(record: Scene, petra: Client) -> None:
    assert re.search(r"<span>long-gone<span", text_of(petra, CONSOLE))


def test_filters_stand_in_the_address_and_in_the_exports(record: Scene, petra: Client) -> None:
    page = text_of(petra, f"{CONSOLE}?q=lunch&tenant=vision&since=2026-11-01T00:00")
    assert acts(page) == ["workload.stop"]
    link = unescape(re.findall(r'href="(/api/v1/audit-events/export[^"]*)"', page)[0])
    assert link.endswith("?q=lunch&since=2026-11-01T00%3A00%3A00Z&tenant=vision&as=csv")
    assert petra.get(link).status_code == 200
    assert acts(text_of(petra, f"{CONSOLE}?actor=lead")) == ["workload.create"]
    assert acts(text_of(petra, f"{CONSOLE}?kind=tenant")) == ["tenant.delete"]
    assert acts(text_of(petra, f"{CONSOLE}?target={record.running.pk}")) == ["workload.stop"]
    assert "Nothing matches." in text_of(petra, f"{CONSOLE}?tenant=nowhere")
    assert "Nothing matches." in text_of(petra, f"{CONSOLE}?q=nothing-of-it")


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("since=yesterday", "Since, UTC: Enter a valid date/time."),
        ("cursor=x", ""),
        ("q=" + "a" * 200, "Search: Ensure this value has at most 100 characters (it has 200)."),
        ("request_id=", ""),
        (f"request_id={'r' * 200}", "Request: Ensure this value has at most 150 characters (it has 200)."),
        ("until=9999-99-99", "Before, UTC: Enter a valid date/time."),
    ],
)
def test_what_cannot_be_read_narrows_nothing_and_the_page_says_so(
    record: Scene, petra: Client, query: str, said: str
) -> None:
    page = text_of(petra, f"{CONSOLE}?{query}")
    assert len(acts(page)) == 5
    assert said in page
    assert ("<strong>not narrowed</strong>" in page) is bool(said)


def test_an_empty_record_says_what_will_be_there(scene: Scene, petra: Client) -> None:
    page = text_of(petra, CONSOLE)
    assert "Nothing has been recorded yet." in page
    assert "Not checked yet." in page


def test_a_page_costs_the_same_statements_for_many_events_as_for_few(record: Scene, petra: Client) -> None:
    def count() -> int:
        with CaptureQueriesContext(connection) as found:
            text_of(petra, CONSOLE)
        return len(found)

    count()
    few = count()
    write_many(60)
    write("lead", "workload.stop", Target("workload", record.running.pk, "rag-dev", "vision"), minute=99)
    assert count() <= few <= 12


def test_pages_lead_to_older_events_and_back(
    scene: Scene, petra: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit_pages, "PAGE", 3)
    write_many(7)
    seen, path = [], f"{CONSOLE}?action=workload.stop"
    while path:
        page = text_of(petra, path)
        seen += re.findall(r"vision #(\d)", page)
        older = re.search(r'href="(\?[^"]*)">Older<', page)
        path = f"{CONSOLE}{unescape(older[1])}" if older else ""
    assert seen == list("7654321")
    assert 'href="?action=workload.stop">Newest<' in page


def test_what_workers_found_last_is_told_with_the_first_broken_event(record: Scene, petra: Client) -> None:
    periodic.check_chains()
    assert "The record is whole:" in text_of(petra, CONSOLE)
    sql(BREAK)
    sql("DELETE FROM web_selfcheck")
    periodic.check_chains()
    page = text_of(petra, CONSOLE)
    assert "The record is not whole." in page
    link = re.search(r'href="([^"]*)">tenant:vision#2 edited: its content is not what was hashed<', page)
    assert link
    assert acts(text_of(petra, unescape(link[1])))[0] == "workload.create"
    sql("UPDATE web_selfcheck SET checked_at = '2026-01-01 00:00:00+00'")
    assert "older than it should be" in text_of(petra, CONSOLE)


def test_a_check_by_hand_goes_on_in_steps_to_the_end(
    record: Scene, petra: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_many(8, "speech")
    assert "Whole to the end." in text_of(petra, CHECK)
    monkeypatch.setattr(audit_checks, "AT_ONCE", 4)
    sql(BREAK)
    pages, path = [], CHECK
    while path:
        pages.append(text_of(petra, path))
        on = re.search(r'href="(\?cursor=[^"]*)">Go on', pages[-1])
        path = f"{CHECK}{unescape(on[1])}" if on else ""
    assert len(pages) == 4
    assert "Whole up to here." in pages[0]
    assert "1 chain broken." in pages[-1]
    assert "tenant:vision#2 edited" in pages[-1]
    assert str(services.verify().breaches[0]) == "tenant:vision#2 edited: its content is not what was hashed"
    assert AuditEvent.objects.count() == 5 + 8


def test_a_lead_sees_the_teams_record_and_a_member_its_own_acts(record: Scene, signed_in: SignedIn) -> None:
    page = text_of(signed_in(record.cast.leon), TEAM)
    assert acts(page) == ["workload.stop", "workload.create"]
    assert "Everything that was done" in page
    assert "tenant=vision" in page, "the export is of the team alone"
    page = text_of(signed_in(record.cast.rosa), TEAM)
    assert acts(page) == ["workload.stop"]
    assert "What you did" in page
    assert signed_in(record.cast.otto).get(TEAM).status_code == 404
    assert signed_in(record.cast.leon).get(CONSOLE).status_code == 404
    assert signed_in(record.cast.leon).get(CHECK).status_code == 404
    assert f'href="{TEAM}"' in text_of(signed_in(record.cast.leon), "/t/vision/members/")


@pytest.mark.browser
@pytest.mark.django_db(transaction=True)
@in_each_look
def test_the_pages_read_well(
    record: Scene, chromium: Browser, live_server: LiveServer, size: ViewportSize, theme: str
) -> None:
    axe = Axe()
    for user, path in (
        (record.cast.petra, CONSOLE),
        (record.cast.petra, CHECK),
        (record.cast.leon, TEAM),
    ):
        with page_of(chromium, live_server, user, size, theme) as page:
            page.goto(path)
            for details in page.locator("details.more").all():
                details.locator("summary").focus()
                page.keyboard.press("Enter")
            assert page.locator("details.more[open]").count() == page.locator("details.more").count()
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), f"{path} {size}"
            found = axe.run(page, options=RULES)
            assert found.violations_count == 0, found.generate_report()
