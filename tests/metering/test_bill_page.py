"""The two-price bill: its picture, its lines, its files, who sees it, and closing a month."""

import re
from datetime import UTC, datetime, timedelta
from decimal import ROUND_HALF_EVEN, Decimal
from urllib.parse import urlencode
from xml.etree import ElementTree as ET

import pytest
from axe_playwright_python.sync_playwright import Axe
from django.http import QueryDict
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st
from playwright.sync_api import Browser
from pytest_django.live_server_helper import LiveServer

from apps.accounts.models import User
from apps.metering.billing.rules.effective_split import CAUSES
from apps.metering.billing.rules.two_prices import CENT, Split, TwoPrices
from apps.metering.models import Allocation, Statement, StatementLine
from apps.quotas.models import Price
from apps.workloads.models import Workload
from portal.pages.parts.pictures.bill_steps import bill_chart
from portal.pages.team.usage.bill import as_of
from portal.pages.team.usage.bill_lines import MOST
from tests.conftest import Cast, SignedIn
from tests.factories import make_workload
from tests.metering.made_buckets import roll
from tests.metering.priced_scene import held, preempt
from tests.pages.screens import DESK, PHONE, RULES, page_of
from tests.workloads.rest import Api

DAY, HOUR = timedelta(days=1), timedelta(hours=1)


@pytest.fixture
def last(cast: Cast) -> datetime:
    """A moment in the month before this one, with ten hours held from then on."""
    this = timezone.now().astimezone(UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    at = this - 5 * DAY
    Price.objects.update(valid_from=at - 90 * DAY, hourly=Decimal(2))
    row = make_workload(cast.vision, cast.rosa, cast.offer)
    a = held(row, at, at + 10 * HOUR)
    roll(a, timezone.now(), effective=0.5, partly=0.125, idle=0.125, hoarded=0.125)
    preempt(row, at + 10 * HOUR)
    return at


def bill(**money: str) -> TwoPrices:
    told = {key: Decimal(value) for key, value in money.items()}
    causes = {key: told.pop(key) for key in CAUSES if key in told}
    return TwoPrices(**{"refunded": Decimal(0), "unknown": Decimal(0), **told}, causes=causes, currency="EUR")


def test_each_bar_starts_where_the_last_one_ends() -> None:
    found = bill(allocated="100", refunded="20", hoarded="30", idle="10", unknown="15", effective="25")
    assert found.adds_up
    assert [(s.word, int(s.money)) for s in found.steps] == [
        ("Allocated", 100), ("Refunds", -20), ("Charged", 80), ("Hoarded", -30), ("Zombie", 0),
        ("Crash loops", 0), ("Oversized", 0), ("Idle", -10), ("Partly used", 0), ("Unknown", -15),
        ("Effective", 25),
    ]  # fmt: skip
    rects = [r.attrib for r in ET.fromstring(bill_chart(found)).iter("rect")]  # noqa: S314 - our own markup
    bars = [(r["class"], r["x"], r["width"]) for r in rects]
    assert bars[:4] == [
        ("b-total", "0.000%", "100.000%"),
        ("b-refunds", "80.000%", "20.000%"),
        ("b-total", "0.000%", "80.000%"),
        ("m-hoarded", "50.000%", "30.000%"),
    ]
    assert bars[-2:] == [("m-unknown", "25.000%", "15.000%"), ("m-effective", "0.000%", "25.000%")]
    parts = "25.00 effective, 30.00 recoverable waste, 10.00 inefficiency, 15.00 unknown"
    assert found.words == f"80.00 EUR charged: {parts}"


@given(st.lists(st.decimals(0, 1000, places=8), min_size=4, max_size=4))
def test_of_any_split_the_cents_add_up_and_waste_is_what_it_is_elsewhere(parts: list[Decimal]) -> None:
    whole = Split(*parts)
    cut = whole.in_cents()
    names = ("effective", "recoverable", "inefficiency", "unknown")
    assert (
        sum(getattr(cut, name) for name in names)
        == cut.charged
        == whole.charged.quantize(CENT, ROUND_HALF_EVEN)
    )
    assert cut.recoverable == whole.recoverable.quantize(CENT, ROUND_HALF_EVEN)
    assert all(getattr(cut, name) >= 0 for name in names)
    assert all(abs(getattr(cut, name) - getattr(whole, name)) <= 3 * CENT for name in names)


def test_a_bill_that_does_not_add_up_says_so_and_an_empty_one_is_empty() -> None:
    assert not bill(allocated="1", effective="0.99").adds_up
    empty = bill(allocated="0", effective="0")
    assert "Nothing charged" in bill_chart(empty)
    assert "style=" not in bill_chart(bill(allocated="1", effective="1"))


@pytest.mark.django_db
def test_the_page_shows_the_month_its_sums_and_its_files(
    cast: Cast, signed_in: SignedIn, last: datetime
) -> None:
    client = signed_in(cast.rosa)
    page = client.get(f"/t/vision/bill/?month={last:%Y-%m}&print=1").content.decode()
    for words in (
        "18.00 EUR charged: 9.00 effective, 2.25 recoverable waste, 4.50 inefficiency, 2.25 unknown",
        "charged x max(SM active, DRAM active), v1",
        "adds up to the cent",
        "Refund: nb-ada",
        "not closed yet",
    ):
        assert words in page, words
    assert "Close the month" not in page
    text = client.get(f"/t/vision/bill/lines.csv?month={last:%Y-%m}").content.decode().splitlines()
    assert text[0].startswith("kind,description,workload,offer")
    assert len(text) == 3
    assert client.get(f"/t/vision/bill/focus.csv?month={last:%Y-%m}").status_code == 200
    assert client.get("/t/vision/bill/else.csv").status_code == 404
    assert client.get("/t/vision/bill/focus.csv?month=9998-12").status_code == 404
    for month in ("2026-13", "nonsense"):
        assert client.get(f"/t/vision/bill/focus.csv?month={month}").status_code == 400


@pytest.mark.django_db
def test_a_month_without_work_says_that_nothing_is_charged(cast: Cast, signed_in: SignedIn) -> None:
    for month in ("", "?month=2020-01", "?month=9998-12"):
        page = signed_in(cast.rosa).get(f"/t/vision/bill/{month}")
        assert page.status_code == 200
        assert "Nothing charged" in page.content.decode()


@pytest.mark.django_db
def test_only_who_sees_the_tenant_sees_its_bill(cast: Cast, signed_in: SignedIn, last: datetime) -> None:
    for user, status in ((cast.leon, 200), (cast.petra, 200), (cast.ann, 200), (cast.otto, 404)):
        client = signed_in(user)
        for path in ("", "lines.csv", "focus.csv"):
            assert client.get(f"/t/vision/bill/{path}").status_code == status


@pytest.mark.django_db
def test_a_platform_engineer_closes_a_month_and_nobody_else(
    cast: Cast, signed_in: SignedIn, last: datetime
) -> None:
    typed = {"month": f"{last:%Y-%m}"}
    assert signed_in(cast.leon).post("/t/vision/bill/close/", typed).status_code == 403
    petra = signed_in(cast.petra)
    assert "Close the month" in petra.get(f"/t/vision/bill/?month={last:%Y-%m}").content.decode()
    assert petra.post("/t/vision/bill/close/", typed).status_code == 303
    assert petra.post("/t/vision/bill/close/", typed).status_code == 409
    Price.objects.update(hourly=9)
    page = petra.get(f"/t/vision/bill/?month={last:%Y-%m}").content.decode()
    found = ("statement vision-0001", "adds up to the cent", "Closed months", "18.00 EUR charged")
    assert all(words in page for words in found)


@pytest.mark.django_db
def test_a_closed_month_that_was_tampered_with_does_not_add_up(
    cast: Cast, signed_in: SignedIn, last: datetime
) -> None:
    petra = signed_in(cast.petra)
    petra.post("/t/vision/bill/close/", {"month": f"{last:%Y-%m}"})
    statement, line = Statement.objects.get(), StatementLine.objects.filter(kind="gpu").get()
    line.pk, line.position, line.amount = None, 9, Decimal(0)
    StatementLine.objects.bulk_create([line])
    page = petra.get(f"/t/vision/bill/?month={last:%Y-%m}").content.decode()
    assert "does not add up" in page
    assert not Api(cast.petra).client.get(f"/api/v1/statements/{statement.pk}").json()["status"]["whole"]


@pytest.mark.django_db
def test_rest_closes_lists_and_shows_statements_to_those_who_see_the_tenant(
    cast: Cast, last: datetime
) -> None:
    petra, rosa, otto = (Api(user).client for user in (cast.petra, cast.rosa, cast.otto))
    body = {"tenant": "vision", "month": f"{last:%Y-%m}"}
    kind = "application/json"
    assert rosa.post("/api/v1/statements", body, content_type=kind).status_code == 403
    bad = petra.post("/api/v1/statements", {**body, "month": "2026-13"}, content_type=kind)
    assert (bad.status_code, bad.json()["errors"][0]["pointer"]) == (422, "#/month")
    dry = petra.post("/api/v1/statements?dry_run=true", body, content_type=kind)
    assert dry.status_code == 200, dry.content
    assert not Statement.objects.exists()
    made = petra.post("/api/v1/statements", body, content_type=kind)
    assert made.status_code == 201, made.content
    status = made.json()["status"]
    assert (status["total"]["amount"], status["waste"]["amount"]) == ("18.00", "6.75")
    assert [line["kind"] for line in status["lines"]] == ["gpu", "refund"]
    address = made["Location"]
    assert rosa.get(address).json()["status"]["digest"] == status["digest"]
    assert otto.get(address).status_code == 404
    assert len(rosa.get("/api/v1/statements?tenant=vision").json()["items"]) == 1
    assert otto.get("/api/v1/statements").json()["items"] == []
    assert petra.post("/api/v1/statements", body, content_type=kind).status_code == 409
    shown = rosa.get(f"/api/v1/tenants/vision/bill?month={last:%Y-%m}").json()
    assert (shown["statement"], shown["charged"]["amount"]) == ("vision-0001", "18.00")
    assert otto.get("/api/v1/tenants/vision/bill").status_code == 404
    assert rosa.get("/api/v1/tenants/vision/bill?month=soon").status_code == 400


@pytest.mark.django_db
def test_the_present_month_is_foreseen_once_enough_days_are_known(cast: Cast, signed_in: SignedIn) -> None:
    now = timezone.now()
    Price.objects.update(valid_from=now - 90 * DAY, hourly=Decimal(2))
    row: Workload = make_workload(cast.vision, cast.rosa, cast.offer)
    held(row, now - 20 * DAY, None)
    page = signed_in(cast.rosa).get("/t/vision/bill/").content.decode()
    assert "The whole month" in page
    found = Api(cast.rosa).client.get("/api/v1/tenants/vision/bill").json()["outlook"]
    assert float(found["low"]["amount"]) <= float(found["expected"]["amount"])
    assert "mean of the last" in found["method"]


@pytest.mark.browser
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_page_reads_well(
    cast: Cast, last: datetime, chromium: Browser, live_server: LiveServer, theme: str
) -> None:
    wrong: list[object] = []
    for size in (DESK, PHONE):
        with page_of(chromium, live_server, cast.petra, size, theme) as page:
            for month in (f"?month={last:%Y-%m}", ""):
                page.goto(f"/t/vision/bill/{month}")
                if month:
                    page.locator(".bill-lines summary").click()
                    page.get_by_role("rowheader", name="Refund: nb-ada").wait_for()
                found = Axe().run(page, options=RULES).response["violations"]
                wrong += [(month, each["id"], [n["target"] for n in each["nodes"]]) for each in found]
                wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
                wrong += [(month, "wide", wide)] if wide > 0 else []
    assert not wrong


def lines_of(page: str) -> list[str]:
    """The names of the lines that a page or a part of it shows, in their order."""
    return re.findall(r'<tr><th scope="row">(?:<a [^>]*>)?([^<,]*)', page)


def people_of(page: str) -> list[tuple[str, str]]:
    """Whose lines they are, and what they come to in the first column of money."""
    heads = re.findall(r'<tbody id="of-([^"]*)".*?data-label="EUR" class="figure">([^<]*)', page, re.DOTALL)
    return [(key, money) for key, money in heads]


@pytest.fixture
def shared(cast: Cast, last: datetime) -> str:
    """The bill of the month that Rosa, Leon and a kubectl of somebody paid for."""
    User.objects.filter(pk=cast.leon.pk).update(display_name="Leon Lead")
    for slug, hours in (("small", 4), ("large", 6), ("by-hand", 2)):
        row = make_workload(cast.vision, cast.leon, cast.offer, slug=slug)
        made = held(row, last, last + hours * HOUR, slug)
    Allocation.objects.filter(pk=made.pk).update(workload=None, origin="kubectl")
    return f"/t/vision/bill/?month={last:%Y-%m}"


@pytest.mark.django_db
def test_lines_are_folded_by_person_the_dearest_first(cast: Cast, signed_in: SignedIn, shared: str) -> None:
    page = signed_in(cast.rosa).get(shared).content.decode()
    leon, rosa = str(cast.leon.pk), str(cast.rosa.pk)
    assert people_of(page) == [(leon, "20.00"), (rosa, "18.00"), ("nobody", "4.00")]
    assert lines_of(page) == []
    assert "<summary>Leon Lead</summary>" in page
    assert '<td data-label="Quantity" class="figure">5 lines</td>' in page
    assert '<td data-label="EUR" class="figure">42.00</td>' in page
    assert "adds up to the cent" in page
    assert page.index("adds up") < page.index("Lines by person") < page.index("Budget burn-down")


@pytest.mark.django_db
def test_a_persons_lines_come_as_a_part_or_with_the_page(
    cast: Cast, signed_in: SignedIn, shared: str
) -> None:
    client, asked = signed_in(cast.rosa), f"{shared}&person={cast.leon.pk}"
    part = client.get(f"{asked}&part=lines", headers={"HX-Request": "true"})
    assert lines_of(part.content.decode()) == ["large", "small"]
    assert "<table" not in part.content.decode()
    page = client.get(asked).content.decode()
    assert lines_of(page) == ["large", "small"]
    assert '<details class="more" open><summary>Leon Lead' in page
    assert lines_of(client.get(f"{shared}&person=nobody").content.decode()) == ["Made with kubectl"]
    for nobody in (cast.ann.pk, "", "nonsense"):
        url = f"{shared}&part=lines&person={nobody}"
        assert client.get(url, headers={"HX-Request": "true"}).status_code == 404
    printed = client.get(f"{shared}&print=1").content.decode()
    assert lines_of(printed) == ["large", "small", "nb-ada", "Refund: nb-ada", "Made with kubectl"]


def test_a_part_is_as_of_the_moment_of_its_page_which_never_lies_ahead() -> None:
    at, now = "2026-11-28T06:51:00+00:00", datetime(2026, 11, 28, 7, tzinfo=UTC)
    assert as_of(QueryDict(urlencode({"part": "lines", "at": at})), now) == datetime.fromisoformat(at)
    for asked in ({"at": at}, {"part": "lines"}, *({"part": "lines", "at": each} for each in (
        "", "2026-11-28T07:51:00+00:00"
    ))):  # fmt: skip
        assert as_of(QueryDict(urlencode(asked)), now) == now


@pytest.mark.django_db
def test_many_lines_of_a_person_come_in_pages_and_sums_and_files_are_of_all_of_them(
    cast: Cast, signed_in: SignedIn, last: datetime
) -> None:
    for number in range(2 * MOST + 3):
        row = make_workload(cast.vision, cast.rosa, cast.offer, slug=f"run-{number:03d}")
        held(row, last, last + HOUR, f"c{number}")
    month, client = f"/t/vision/bill/?month={last:%Y-%m}", signed_in(cast.rosa)
    of_rosa = f"{month}&person={cast.rosa.pk}"
    pages = [client.get(f"{of_rosa}&skip={skip}").content.decode() for skip in (0, 100, 200, 999_999)]
    for page in pages:
        assert people_of(page) == [(str(cast.rosa.pk), "424.00")]
        assert page.count("205 lines</td>") == 2
        assert "adds up to the cent" in page
    assert [len(lines_of(page)) for page in pages] == [100, 100, 5, 0]
    assert [f"&amp;skip={skip}#of-" in page for page, skip in zip(pages, (100, 200, 300), strict=False)] == [
        True, True, False,
    ]  # fmt: skip
    assert len({line for page in pages for line in lines_of(page)}) == 205
    assert client.get(f"{of_rosa}&skip=-1").status_code == 200
    folded = client.get(month).content.decode()
    assert f'href="?month={last:%Y-%m}&amp;print=1"' in folded
    assert '<details class="more" open>' not in folded
    printed = client.get(f"{month}&print=1&skip=100").content.decode()
    assert len(lines_of(printed)) == 205
    assert printed.count('<details class="more" open>') == printed.count('<details class="more"') == 3
    text = client.get(f"/t/vision/bill/lines.csv?month={last:%Y-%m}&skip=100").content.decode()
    assert len(text.splitlines()) == 206
