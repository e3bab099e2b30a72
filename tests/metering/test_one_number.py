"""One number for one thing: every page, file and answer that tells waste tells what the rule says of it."""

import copy
import csv
import io
import re
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.test import Client
from django.utils import timezone
from pytest_django import DjangoDbBlocker

from apps.metering import periodic
from apps.metering.billing.rules.effective_split import CAUSES, INEFFICIENCY, RECOVERABLE
from apps.metering.billing.rules.two_prices import Split
from apps.metering.billing.selectors import costs
from apps.metering.billing.selectors.costs import CostLine, Group
from apps.metering.billing.services import corrections, pricing_run
from apps.metering.findings.services import lifecycle
from apps.metering.models import Allocation, Finding
from apps.quotas.models import Price, Spend
from apps.web.shapes.amounts import to_the_cent
from apps.workloads.models import Workload, WorkloadEvent
from apps.workloads.specs import Kind
from tests import factories
from tests.conftest import Cast, as_actor, make_cast
from tests.matrix.scene import undone
from tests.metering.traced import HOUR, NOW, running, seen, summed_up
from tests.workloads.rest import Api

pytestmark = pytest.mark.django_db
AT = NOW + timedelta(minutes=6)
"""The moment of every page: the ledger is rolled up to a minute before."""
ROLLED = NOW + timedelta(minutes=5)
"""Up to where usage counts: whole roll-ups."""
BEGUN = NOW - 6 * HOUR
CENT = Decimal("0.01")


@pytest.fixture(scope="module")
def shared(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[Cast]:
    """The scene of all tests here, made once: what each of them writes is undone by itself."""
    with django_db_blocker.unblock(), pytest.MonkeyPatch.context() as patch, undone():
        patch.setattr(timezone, "now", lambda: AT)
        yield judged(make_cast(factories.make_cluster()))


@pytest.fixture
def scene(shared: Cast) -> Cast:
    """Its people and tenants as the database has them, whatever an earlier test did to its own."""
    return copy.deepcopy(shared)


def judged(cast: Cast) -> Cast:
    """One sits, one is too large, one waits for data, one works; at a price whose cents do not divide."""
    whole = factories.make_offer(cast.offer.flavor, "h100-whole", profile="", hourly="2.9371")
    small = factories.make_offer(cast.offer.flavor, "h100-3g-40gb", profile="3g.40gb", hourly="1.26")
    small.gpu_memory_bytes, small.share_numerator = 40 * 1024**3, 3
    small.save()
    for tenant, offer in ((cast.vision, whole), (cast.vision, small), (cast.genomics, whole)):
        factories.make_quota(tenant, offer, nominal=8)
    Price.objects.update(valid_from=BEGUN - 24 * HOUR)
    works: dict[str, Any] = {
        "sits": {},
        "large": {"busy": True, "sm_active": 300_000, "dram_active": 200_000, "tensor_active": 200_000,
                  "memory_used_mib": 20_000, "smi": 95},
        "starved": {"busy": True, "sm_active": 200_000, "dram_active": 100_000, "tensor_active": 100_000,
                    "memory_used_mib": 60_000, "smi": 30},
        "works": {"busy": True},
    }  # fmt: skip
    for slug, did in works.items():
        tenant, owner = (cast.genomics, cast.otto) if slug == "works" else (cast.vision, cast.rosa)
        row = factories.make_workload(tenant, owner, whole, slug=slug)
        spec = {**row.spec, "kind": "job", "job": {}, "max_run_seconds": None}
        Workload.objects.filter(pk=row.pk).update(kind=Kind.JOB, spec=spec, created_at=BEGUN)
        running(row, since=BEGUN, uuid=f"GPU-{slug}")
        seen(f"GPU-{slug}-0", BEGUN, AT, **did)
    ids = list(Workload.objects.values_list("pk", flat=True))
    for minutes in (-10, 0):
        for pk in ids:
            lifecycle.judge_one(pk, now=AT + timedelta(minutes=minutes))
    summed_up(cast.vision.cluster, NOW)
    periodic.roll_up()
    pricing_run.price_workloads(ids, now=AT)
    pricing_run.bill(ids, now=AT)
    kinds = dict(Finding.objects.values_list("workload__slug", "kind"))
    assert kinds == {"sits": "hoarder", "large": "oversized", "starved": "data-starved"}
    return cast


def rule(
    group: Group = Group.WORKLOAD, only: Mapping[str, Any] | None = None, ends: datetime = AT
) -> dict[str, CostLine]:
    """What the rule says since midnight, by group."""
    rows, begins = Allocation.objects.filter(**(only or {})), AT.replace(hour=0, minute=0)
    return {line.key: line for line in costs.costs(rows, group, begins=begins, ends=ends, now=max(AT, ends))}


def split_of(line: CostLine) -> Split:
    """Cut as pages cut it: waste is rounded on its own, so that it is the same beside whatever it stands."""
    cut = Split(line.effective, line.recoverable, line.inefficiency, line.unknown).in_cents()
    assert f"{cut.recoverable}" == to_the_cent(line.recoverable)
    assert f"{cut.charged}" == to_the_cent(line.charged)
    return cut


def client_of(user: Any) -> Client:
    client = Client()
    client.force_login(user)
    return client


def text(client: Client, url: str, **headers: str) -> str:
    """What a reader sees of it."""
    answer = client.get(url, headers=headers)
    assert answer.status_code == 200, url
    shown = re.sub(r"<(style|script).*?</\1>", "", answer.content.decode(), flags=re.DOTALL)
    return " ".join(re.sub(r"<[^>]+>", " ", shown).split())


def told(body: Any) -> Iterator[Mapping[str, Any]]:
    """Every part of an answer that tells recoverable waste in money."""
    if isinstance(body, dict):
        if isinstance(body.get("recoverable"), dict):
            yield body
        body = list(body.values())
    for each in body if isinstance(body, list) else ():
        yield from told(each)


def money(told: Mapping[str, Any]) -> tuple[Decimal, ...]:
    names = ("effective", "recoverable", "inefficiency", "unknown")
    return tuple(Decimal(told[name]["amount"]) for name in names)


def figures(line: CostLine) -> tuple[Decimal, ...]:
    return line.effective, line.recoverable, line.inefficiency, line.unknown


def test_recoverable_waste_and_inefficiency_are_the_causes_they_are_made_of(scene: Cast) -> None:
    """The one that sits and what is too much are recoverable; waiting for data is not."""
    by_slug = {row.slug: rule()[str(row.pk)] for row in Workload.objects.all()}
    assert by_slug["sits"].recoverable > Decimal("17.5")
    assert by_slug["sits"].inefficiency < Decimal("0.2")
    part = 1 - Decimal("1.26") / Decimal("2.9371")
    assert by_slug["large"].causes["oversized"] == pytest.approx(
        by_slug["large"].charged * part, rel=Decimal("0.05")
    )
    assert by_slug["large"].inefficiency > 0
    assert by_slug["starved"].recoverable == by_slug["works"].recoverable == 0
    for line in by_slug.values():
        assert line.charged == sum(figures(line))
        assert line.waste == sum(line.causes.values())
    assert set(RECOVERABLE) | set(INEFFICIENCY) == set(CAUSES)


def test_rest_tells_the_same_of_workload_tenant_member_department_and_month(scene: Cast) -> None:
    rosa, petra = Api(scene.rosa).client, Api(scene.petra).client
    period = f"from={AT:%Y-%m-%d}T00:00:00Z&to={AT:%Y-%m-%dT%H:%M:%SZ}"
    for group in Group:
        found = petra.get(f"/api/v1/costs?group_by={group}&{period}").json()
        lines = rule(group)
        assert {each[str(group)]: money(each) for each in found["items"]} == {
            key or None: figures(line) for key, line in lines.items()
        }
        assert money(found["total"]) == figures(costs.total_of(lines.values()))
        for each in told(found):
            parts = {cause: Decimal(each["waste_by_cause"][cause]["amount"]) for cause in CAUSES}
            assert sum(parts[cause] for cause in RECOVERABLE) == Decimal(each["recoverable"]["amount"])
    for row in Workload.objects.filter(tenant=scene.vision):
        status = rosa.get(f"/api/v1/workloads/{row.pk}").json()["status"]["cost"]
        whole = rosa.get(f"/api/v1/workloads/{row.pk}/cost").json()
        assert money(status) == money(whole["total"]) == figures(rule()[str(row.pk)])
        assert status["as_of"] == whole["to"]
        assert status["allocated"] == whole["total"]["allocated"]
    month = rosa.get("/api/v1/tenants/vision/bill").json()
    (line,) = rule(Group.TENANT, {"tenant": scene.vision}).values()
    count = len(month["lines"])
    assert all(abs(a - b) <= CENT * count for a, b in zip(money(month), figures(line), strict=True))
    assert sum(money(month)) == Decimal(month["charged"]["amount"])


def test_a_finding_costs_what_the_ledger_says_on_every_page_and_its_week_never_more_than_the_work(
    scene: Cast,
) -> None:
    lines, client = rule(), client_of(scene.leon)
    own = {"sits": "recoverable", "large": "recoverable", "starved": "inefficiency"}
    for each in Api(scene.leon).client.get("/api/v1/findings").json()["items"]:
        row = Finding.objects.get(pk=each["id"])
        line = lines[each["workload"]]
        name = own[row.work.slug]
        assert each["recoverable"] is (name == "recoverable")
        assert Decimal(each["waste"]["amount"]) == row.wasted
        # A job that sits is busy while it starts, and that part is no finding's.
        assert row.wasted == pytest.approx(getattr(line, name), abs=Decimal("0.1"))
        assert row.wasted <= getattr(line, name) + Decimal("1e-7")
        shown = text(client, f"/t/vision/findings/{row.pk}/")
        assert f"so far {to_the_cent(row.wasted)} EUR" in shown
        hours = Decimal((row.work.stops_at - AT) / HOUR) if row.work.stops_at else Decimal(168)
        assert row.weekly <= Decimal("2.9371") * hours
    open_ = Finding.objects.filter(kind__in=("hoarder", "oversized"))
    so_far, week = (to_the_cent(sum(getattr(row, n) for row in open_)) for n in ("wasted", "weekly"))
    for user, url in ((scene.leon, "/t/vision/findings/"), (scene.petra, "/console/findings/")):
        shown = text(client_of(user), url)
        assert f"3 open : {week} EUR a week to recover, {so_far} of recoverable waste so far." in shown
    assert f"{week} EUR a week to recover" in text(client, "/t/vision/")
    assert f"{week} a week to recover" in text(client_of(scene.petra), "/console/")
    for user, url in (
        (scene.leon, "/t/vision/usage/"),
        (scene.leon, "/t/vision/"),
        (scene.petra, "/console/"),
    ):
        shown = text(client_of(user), url)
        for row in Finding.objects.all():
            assert f"{to_the_cent(row.wasted)} {to_the_cent(row.weekly)}" in shown, url


def test_the_headlines_and_tables_of_money_are_the_rules_to_the_cent(scene: Cast) -> None:
    whole, vision = (costs.total_of(rule(only=only).values()) for only in ({}, {"tenant": scene.vision}))
    pages = ((scene.petra, "/console/", " today", whole), (scene.leon, "/t/vision/usage/", "", vision))
    for user, url, today, line in pages:
        shown, cut = text(client_of(user), url), split_of(line)
        assert f"{cut.recoverable} EUR of recoverable waste{today}" in shown
        assert f"{cut.inefficiency} EUR of inefficiency" in shown
        assert "As of 15:0" in shown
    beside = text(client_of(scene.leon), "/t/vision/quota/?part=spent", hx_request="true")
    assert re.search(rf"Recoverable waste {cut.recoverable}, .*Inefficiency {cut.inefficiency} ", beside)
    fleet, team = (scene.petra, "/console/"), (scene.leon, "/t/vision/usage/?part=who")
    by_row = [
        (*fleet, rule(Group.TENANT)),
        (*fleet, rule(Group.DEPARTMENT)),
        (*team, rule(only={"tenant": scene.vision}, ends=ROLLED)),
        (*team, rule(Group.MEMBER, {"tenant": scene.vision}, ROLLED)),
    ]
    for user, url, lines in by_row:
        shown = text(client_of(user), url, **({"hx_request": "true"} if "part=" in url else {}))
        for line in lines.values():
            cut = split_of(line)
            row = rf"{cut.effective} {cut.recoverable} (\d+ % )?{cut.inefficiency} "
            assert re.search(row, shown), (url, line.key, row)


def test_what_a_workload_cost_adds_up_to_the_cent_on_its_page(scene: Cast) -> None:
    for row in Workload.objects.filter(tenant=scene.vision):
        cut, shown = (
            split_of(rule()[str(row.pk)]),
            text(client_of(scene.rosa), f"/t/vision/workloads/{row.pk}/"),
        )
        assert f"So far {cut.charged} EUR as of 15:06" in shown
        for word, part in (
            ("Effective", cut.effective), ("Recoverable waste", cut.recoverable),
            ("Inefficiency", cut.inefficiency), ("Unknown", cut.unknown),
        ):  # fmt: skip
            assert f"{word} {part} EUR" in shown, word
        assert cut.charged == cut.effective + cut.recoverable + cut.inefficiency + cut.unknown


def test_the_bill_says_as_of_when_and_its_lines_are_recoverable_or_not(scene: Cast) -> None:
    shown = text(client_of(scene.leon), "/t/vision/bill/?print=1")
    month = Api(scene.leon).client.get("/api/v1/tenants/vision/bill").json()
    effective, recoverable, inefficiency, unknown = money(month)
    assert (
        f"{effective} effective, {recoverable} recoverable waste, {inefficiency} inefficiency, {unknown}"
        in shown
    )
    assert "as of 15:06" in shown
    for line in month["lines"]:
        cells = " ".join(
            line[name]["amount"] for name in ("amount", "effective", "recoverable", "inefficiency")
        )
        assert cells in shown


def test_files_have_the_rules_figures_in_full(scene: Cast) -> None:
    team = {"tenant": scene.vision}
    files = (
        (scene.leon, "/t/vision/usage/workloads.csv", rule(only=team)),
        (scene.leon, "/t/vision/usage/members.csv", rule(Group.MEMBER, team)),
        (scene.petra, "/console/usage/tenants.csv", rule(Group.TENANT)),
        (scene.petra, "/console/usage/departments.csv", rule(Group.DEPARTMENT)),
    )
    for user, url, lines in files:
        rows = csv.DictReader(io.StringIO(client_of(user).get(url).content.decode("utf-8-sig")))
        found = {row["name"]: (Decimal(row["recoverable"]), Decimal(row["inefficiency"])) for row in rows}
        wanted = [(line.recoverable, line.inefficiency) for line in lines.values()]
        # A file of the pictures' time ends a minute before: its last place may be cut the other way.
        for a, b in zip(sorted(found.values()), sorted(wanted), strict=True):
            assert a == pytest.approx(b, abs=Decimal("1e-7")), url


def test_no_page_and_no_answer_that_tells_recoverable_waste_is_left_out() -> None:
    """What is enumerated above is all there is."""
    root = Path(settings.BASE_DIR) / "templates"
    pages = {str(p.relative_to(root)) for p in root.rglob("*.html") if "recoverable" in p.read_text()}
    assert pages == {
        "account/how.html", "team/workloads/detail.html", "team/usage/bill.html", "team/usage/charged.html",
        "team/usage/finding.html", "team/usage/findings_rows.html", "team/usage/found.html",
        "team/usage/money_table.html", "team/quota/of_month.html",
    }  # fmt: skip
    document = Client().get("/api/v1/openapi.json").json()["components"]["schemas"]
    bodies = {name for name, each in document.items() if "recoverable" in each.get("properties", {})}
    assert bodies == {"Bill", "BillLine", "Cost", "Finding", "GroupedCost", "WorkloadCost"}


def test_so_far_heads_no_other_figure_than_what_workloads_cost() -> None:
    """The money of a finding and the total of a bill have words of their own."""
    root = Path(settings.BASE_DIR) / "templates"
    pages = {str(p.relative_to(root)): p.read_text() for p in root.rglob("*.html")}
    used = {page for page, text in pages.items() if re.search("So far|so far[,.]", text)}
    assert used == {
        "account/home.html", "account/how.html", "account/mine.html", "team/members/detail.html",
        "team/usage/found.html", "team/workloads/detail.html", "team/workloads/list.html",
        "team/workloads/row.html",
    }  # fmt: skip


def test_so_far_is_what_is_charged_wherever_it_stands(scene: Cast) -> None:
    """A refund is in none of them: list, page, home, team and its members, as on the bill."""
    for row in Workload.objects.filter(tenant=scene.vision, slug="sits"):
        WorkloadEvent.objects.create(
            workload=row, at=AT, source="kueue", type="Normal", reason="Preempted", message="reclaimed"
        )
        row.allocations.update(ended_at=AT)
        pricing_run.price_workloads([row.pk], now=AT)
    row = Workload.objects.get(slug="sits")
    assert row.cost_refunded == Decimal("2.9371")
    own = to_the_cent(rule()[str(row.pk)].charged)
    rosas = to_the_cent(costs.total_of(rule(only={"tenant": scene.vision}).values()).charged)
    rosa, leon = client_of(scene.rosa), client_of(scene.leon)
    assert f"So far {own} EUR" in text(rosa, f"/t/vision/workloads/{row.pk}/")
    assert re.search(rf"sits .*?H100 whole {own} ", text(rosa, "/t/vision/workloads/"))
    assert f"{rosas} EUR so far" in text(rosa, "/")
    shown = text(leon, "/t/vision/")
    assert f"{rosas} EUR so far" in shown
    assert re.search(rf"{scene.rosa.username} .*? \d+ \d+ {rosas}", shown)


def ended(slug: str, *, at: Any) -> Workload:
    """It ends then, and is priced then, as the clock does: the ledger does not have its last minutes yet."""
    row = Workload.objects.get(slug=slug)
    row.allocations.update(ended_at=at)
    Workload.objects.filter(pk=row.pk).update(phase="Succeeded", ended_at=at)
    pricing_run.price_workloads([row.pk], now=at)
    return row


def told_twice(row: Workload, user: Any) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """What its object and its address of costs say."""
    client = Api(user).client
    status = client.get(f"/api/v1/workloads/{row.pk}").json()["status"]["cost"]
    return status, client.get(f"/api/v1/workloads/{row.pk}/cost").json()["total"]


def test_what_has_ended_costs_what_the_ledger_learns_of_it_afterwards(
    scene: Cast, monkeypatch: pytest.MonkeyPatch
) -> None:
    row, later = ended("large", at=AT), AT + timedelta(minutes=20)
    assert Workload.objects.get(pk=row.pk).cost_unknown
    monkeypatch.setattr(timezone, "now", lambda: later)
    periodic.roll_up()
    status, whole = told_twice(row, scene.rosa)
    assert money(status) == money(whole)
    assert Decimal(status["unknown"]["amount"]) == 0


def test_a_correction_of_what_has_ended_is_told_by_the_workload_and_the_budget_too(
    scene: Cast, monkeypatch: pytest.MonkeyPatch
) -> None:
    row, later = ended("large", at=AT), AT + timedelta(minutes=20)
    monkeypatch.setattr(timezone, "now", lambda: later)
    periodic.roll_up()
    before = Workload.objects.get(pk=row.pk).cost_charged
    corrections.correct_allocation(
        actor=as_actor(scene.petra), allocation=row.allocations.get(), started_at=BEGUN, ended_at=AT - HOUR,
        reason="its pod was gone", now=later,
    )  # fmt: skip
    periodic.roll_up()
    status, whole = told_twice(row, scene.rosa)
    assert money(status) == money(whole)
    charged = Workload.objects.get(pk=row.pk).cost_charged
    assert before - charged == Decimal("2.9371")
    (vision,) = rule(Group.TENANT, {"tenant": scene.vision}, later).values()
    assert Spend.objects.get(tenant=scene.vision).money == vision.charged


@pytest.mark.both_databases
def test_an_import_that_broke_off_before_it_priced_its_work_is_priced_all_the_same(scene: Cast) -> None:
    row = ended("large", at=AT)
    nothing = {f"cost_{name}": None for name in ("effective", "waste", "recoverable", "unknown", "as_of")}
    Workload.objects.filter(pk=row.pk).update(cost_allocated=0, **nothing)
    periodic.price_untold()
    status, whole = told_twice(row, scene.rosa)
    assert money(status) == money(whole)
    assert status["allocated"] == whole["allocated"] != {"amount": "0.00", "currency": "EUR"}
