"""A statement in FOCUS's columns: what the specification asks of each, and sums that are the statement's."""

import csv
import io
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from random import Random

import pytest
from django.db import connection
from django.test import Client

from apps.metering.billing.rules import focus
from apps.metering.billing.selectors import focus_export, months
from apps.metering.billing.services import statements
from apps.metering.models import Correction, Statement
from apps.metering.usage.selectors import aggregates
from apps.quotas.models import Price
from apps.tenants.models import Tenant
from apps.workloads.models import Workload
from portal.pages.console.fleet import fleet_focus
from tests.conftest import Cast, as_actor
from tests.factories import make_workload
from tests.metering.books import Books
from tests.metering.closing import AT, DAY, HOUR, NOVEMBER, NOW, close
from tests.metering.made_buckets import roll
from tests.metering.priced_scene import held, preempt, price
from tests.sample import every
from tests.workloads.rest import Api

pytestmark = pytest.mark.both_databases

MUST = {
    "BilledCost", "BillingAccountId", "BillingCurrency", "BillingPeriodStart", "BillingPeriodEnd",
    "ChargeCategory", "ChargeDescription", "ChargePeriodStart", "ChargePeriodEnd", "ContractedCost",
    "EffectiveCost", "InvoiceIssuerName", "ListCost", "ProviderName", "PublisherName", "ServiceCategory",
    "ServiceName",
}  # fmt: skip


BEGUN = datetime(2026, 10, 12, tzinfo=UTC)


@pytest.fixture
def books(cast: Cast) -> Books:
    return Books(cast)


@pytest.fixture
def row(cast: Cast) -> Workload:
    Price.objects.update(valid_from=AT - 90 * DAY, hourly=Decimal(2))
    return make_workload(cast.vision, cast.rosa, cast.offer)


def read(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def file_of(statement: Statement) -> list[dict[str, str]]:
    return read(focus_export.text_of(months.month_of_statement(statement), now=NOW))


def number(row: dict[str, str], name: str) -> Decimal:
    return Decimal(row[name])


def is_priced(row: dict[str, str]) -> bool:
    """FOCUS: usage that is no correction has a price, refunds included."""
    return row["ChargeCategory"] == "Usage" and not row["ChargeClass"]


def hold_to_the_rules(rows: list[dict[str, str]]) -> None:
    """What FOCUS asks of every row, and of all together."""
    parents: dict[str, str] = {}
    meters: dict[str, str] = {}
    details: dict[str, str] = {}
    for row in rows:
        assert all(row[name] for name in MUST), row
        json.loads(row["Tags"])
        assert is_priced(row) == bool(row["PricingQuantity"]) == bool(row["ContractedUnitPrice"])
        if not is_priced(row):
            continue
        for name in PRICED:
            assert row[name], name
        for unit, cost in (("ContractedUnitPrice", "ContractedCost"), ("ListUnitPrice", "ListCost")):
            assert abs(number(row, unit) * number(row, "PricingQuantity") - number(row, cost)) < HALF_A_CENT
        assert row["BilledCost"] == row["EffectiveCost"] == row["ContractedCost"]
        day = (row["ChargePeriodStart"][:10], row["ChargePeriodEnd"])
        assert row["ChargePeriodStart"].endswith("T00:00:00Z")
        assert day[1][:10] == day[0] or day[1].endswith("T00:00:00Z")
        assert parents.setdefault(row["SkuPriceId"], row["SkuId"]) == row["SkuId"]
        assert meters.setdefault(row["SkuId"], row["SkuMeter"]) == row["SkuMeter"] != ""
        assert details.setdefault(row["SkuPriceId"], row["SkuPriceDetails"]) == row["SkuPriceDetails"]
        if row["x_UnknownCost"]:
            parts = ("x_RecoverableCost", "x_InefficiencyCost", "x_EffectiveUseCost", "x_UnknownCost")
            assert number(row, "x_WasteCost") == sum(number(row, name) for name in parts[:2])
            assert sum(number(row, name) for name in parts) <= number(row, "BilledCost") + Decimal("1e-7")


@pytest.mark.django_db
def test_every_row_has_what_focus_asks_for_and_they_sum_to_the_statement(cast: Cast, row: Workload) -> None:
    price(cast.offer, "1.50", AT - 60 * DAY, tenant=cast.vision)
    price(None, "0.04", AT - 60 * DAY, resource="cpu")
    Workload.objects.filter(pk=row.pk).update(labels={"owner": "me", "allotment.dev/owner": "me"})
    a = held(row, AT, AT + 10 * HOUR, capacity="spot")
    roll(a, NOW, effective=0.5, idle=0.25)
    preempt(row, AT + 10 * HOUR)
    made = close(cast)
    client: Client = Api(cast.rosa).client
    answer = client.get(f"/api/v1/statements/{made.pk}/focus.csv")
    assert (answer.status_code, answer["Content-Type"]) == (200, "text/csv; charset=utf-8")
    rows = read(answer.content.decode())
    assert list(rows[0]) == list(focus.COLUMNS)
    hold_to_the_rules(rows)
    assert sum(number(each, "BilledCost") for each in rows) == made.total
    gpu, refund, cpu = rows[:3]
    assert (gpu["ListUnitPrice"], gpu["ContractedUnitPrice"]) == ("2.00000000", "1.50000000")
    assert [number(gpu, name) for name in ("ListCost", "BilledCost")] == [20, 15]
    assert (gpu["PricingQuantity"], gpu["PricingUnit"]) == ("10.00000000", "Hours")
    assert [number(gpu, f"x_{name}Cost") for name in ("EffectiveUse", "Idle", "Inefficiency", "Unknown")] == [
        Decimal(text) for text in ("6.75", "3.375", "3.375", "3.375")
    ]
    assert [number(refund, name) for name in ("BilledCost", "ListCost")] == [Decimal("-1.5"), -2]
    assert (refund["PricingQuantity"], refund["ConsumedUnit"]) == ("-1.00000000", "Hours")
    assert (cpu["ServiceName"], cpu["PricingUnit"], cpu["x_EffectiveUseCost"]) == ("CPU", "Core-Hours", "")
    assert (gpu["ChargePeriodStart"], gpu["ChargePeriodEnd"]) == (
        "2026-10-20T00:00:00Z", "2026-10-21T00:00:00Z",
    )  # fmt: skip
    assert (gpu["BillingAccountId"], gpu["SubAccountId"], gpu["InvoiceId"]) == (
        "research", "vision", "vision-0001",
    )  # fmt: skip
    assert (gpu["SkuId"], gpu["SkuPriceId"], gpu["PricingCategory"], gpu["SkuMeter"]) == (
        "gpu/h100-1g-10gb", "gpu/h100-1g-10gb/spot", "Dynamic", "Device Hours",
    )  # fmt: skip
    assert json.loads(gpu["SkuPriceDetails"])["F_GpuCount"] == round(1 / 7, 6)
    tags = json.loads(gpu["Tags"])
    assert (tags["allotment.dev/owner"], tags["owner"]) == ("researcher", "me")


PRICED = (
    "ConsumedQuantity", "ConsumedUnit", "ContractedUnitPrice", "ListUnitPrice", "PricingCategory",
    "PricingQuantity", "PricingUnit", "SkuId", "SkuMeter", "SkuPriceDetails", "SkuPriceId",
)  # fmt: skip
HALF_A_CENT = Decimal("0.005")


@pytest.mark.django_db
@pytest.mark.parametrize("seed", every(4, range(12)))
def test_of_any_month_each_row_is_price_times_quantity_of_one_day_and_all_are_the_bill(
    cast: Cast, row: Workload, seed: int
) -> None:
    """Prices of the team and of all that change, minimum units, refunds, spot, CPU, days and odd seconds."""
    rng = Random(seed)
    for _ in range(rng.randrange(1, 5)):
        whose = cast.vision if rng.random() < 0.5 else None
        at = AT - 10 * DAY + rng.random() * 20 * DAY
        price(cast.offer, f"{rng.uniform(0.1, 4):.8f}", at, tenant=whose,
              least_seconds=rng.choice((1, 60, 3600)))  # fmt: skip
    price(None, "0.0371", AT - 60 * DAY, resource="cpu")
    works = [row, make_workload(cast.vision, cast.rosa, cast.offer, slug="other")]
    for index in range(rng.randrange(2, 7)):
        begins = AT - 5 * DAY + rng.random() * 14 * DAY
        ends = begins + rng.random() * 3 * DAY + timedelta(microseconds=rng.randrange(10**6))
        work = rng.choice(works)
        a = held(work, begins, ends, f"d{index}", capacity=rng.choice(("", "spot")))
        if rng.random() < 0.5:
            roll(a, NOW, effective=0.25, idle=0.25, hoarded=0.125)
        if rng.random() < 0.4:
            preempt(work, ends)
    made = close(cast)
    rows = file_of(made)
    hold_to_the_rules(rows)
    assert sum(number(each, "BilledCost") for each in rows) == made.total
    rest = [number(each, "BilledCost") for each in rows if each["ChargeCategory"] == "Adjustment"]
    assert len(rest) <= 1
    assert all(abs(each) < HALF_A_CENT + Decimal("1e-6") for each in rest)
    assert statements.is_whole(made)


@pytest.mark.django_db
def test_names_of_what_is_sold_do_not_tell_price_time_or_buyer(cast: Cast, row: Workload) -> None:
    """The same SKU on demand, on spot, after a new price and of another team; a price id per capacity."""
    price(cast.offer, "1.20", AT + 3 * HOUR, tenant=cast.vision)
    held(row, AT, AT + 10 * HOUR)
    held(row, AT, AT + 10 * HOUR, "b", capacity="spot")
    rows = [each for each in file_of(close(cast)) if is_priced(each)]
    assert {each["SkuId"] for each in rows} == {"gpu/h100-1g-10gb"}
    assert {each["SkuPriceId"] for each in rows} == {"gpu/h100-1g-10gb/any", "gpu/h100-1g-10gb/spot"}
    assert {each["ContractedUnitPrice"] for each in rows} == {"2.00000000", "1.20000000"}


@pytest.mark.django_db
def test_minimum_units_are_priced_and_what_was_used_is_consumed(cast: Cast, row: Workload) -> None:
    """Ten minutes of a unit of an hour, all given back."""
    Price.objects.update(least_seconds=3600)
    held(row, AT, AT + HOUR / 6)
    preempt(row, AT + HOUR / 6)
    used, back = file_of(close(cast))
    assert [number(each, "PricingQuantity") for each in (used, back)] == [1, -1]
    assert number(used, "ConsumedQuantity") == pytest.approx(Decimal(1) / 6, abs=Decimal("1e-8"))
    assert [number(each, "ListCost") for each in (used, back)] == [2, -2]


@pytest.mark.django_db
def test_a_closed_months_file_never_changes(cast: Cast, row: Workload) -> None:
    """Not by a new name, label, owner, price, offer or correction; and an edit of it shows."""
    a = held(row, AT, AT + 10 * HOUR)
    made = close(cast)
    url, client = f"/api/v1/statements/{made.pk}/focus.csv", Api(cast.rosa).client
    before = client.get(url).content
    Workload.objects.filter(pk=row.pk).update(slug="renamed", labels={"a": "b"}, owner=cast.leon)
    cast.offer.name, cast.offer.slug = "Another", "another"
    cast.offer.save()
    cast.vision.name = "Vision 2"
    cast.vision.save()
    Price.objects.update(hourly=Decimal(9))
    Correction.objects.create(
        allocation=a, started_at=AT, ended_at=AT + HOUR, reason="clock", made_by="petra", made_at=NOW
    )
    assert client.get(url).content == before
    assert statements.is_whole(made)
    with connection.cursor() as cursor:
        forged = focus_export.packed(before.decode().replace("vision", "speech"))
        cursor.execute("UPDATE metering_statementexport SET focus = %s", [forged])
    assert not statements.is_whole(Statement.objects.get(pk=made.pk))


@pytest.mark.django_db
def test_a_month_that_was_closed_before_files_were_kept_is_made_of_its_lines(
    cast: Cast, row: Workload
) -> None:
    held(row, AT, AT + 10 * HOUR)
    preempt(row, AT + 10 * HOUR)
    month = replace(months.month_of_statement(close(cast)))
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM metering_statementexport")
    old = [replace(each.line, unit_price=None, list_price=None, listed=Decimal(0)) for each in month.rows]
    month = replace(month, rows=[replace(r, line=line) for r, line in zip(month.rows, old, strict=True)])
    _, refund = read(focus_export.text_of(month, now=NOW))
    told = [number(refund, name) for name in ("ListCost", "ContractedUnitPrice", "ListUnitPrice")]
    assert told == [-2, 2, 2]


@pytest.mark.django_db
def test_a_correction_speaks_of_the_month_that_it_corrects(cast: Cast, row: Workload) -> None:
    a = held(row, AT, AT + 10 * HOUR)
    close(cast)
    Correction.objects.create(
        allocation=a, started_at=AT, ended_at=AT + HOUR, reason="clock", made_by="petra", made_at=NOW
    )
    november = close(cast, NOVEMBER, now=NOW + 40 * DAY)
    (line,) = file_of(november)
    assert (line["ChargeClass"], Decimal(line["BilledCost"])) == ("Correction", Decimal(-18))
    assert (line["ChargePeriodStart"][5:7], line["BillingPeriodStart"][5:7]) == ("10", "11")
    assert statements.is_whole(november)


@pytest.mark.django_db
def test_the_fleets_file_has_the_time_that_nobody_paid_for_so_that_it_is_the_fleet(
    cast: Cast, books: Books
) -> None:
    """Two GPUs for a day and a half: one was held for some hours, by two teams."""
    Price.objects.update(valid_from=BEGUN - 90 * DAY, hourly=Decimal("2.9371"))
    for gpu in ("GPU-1", "GPU-2"):
        books.whole(gpu, BEGUN)
    for tenant, begins, ends in (("vision", 1, 5), ("genomics", 6, 30)):
        row = books.workload(tenant)
        books.hold("GPU-1", BEGUN + begins * HOUR, BEGUN + ends * HOUR, row=row)
    now = BEGUN + 36 * HOUR
    books.roll(now)
    until = aggregates.until()
    assert until is not None
    text = fleet_focus.text_of(as_actor(cast.petra), BEGUN.date().replace(day=1), now=now)
    rows = read(text)
    hold_to_the_rules(rows)
    own = [each for each in rows if each["SubAccountId"] == "platform"]
    assert {each["SubAccountId"] for each in rows} == {"platform", "vision", "genomics"}
    assert all(number(each, "BilledCost") == 0 for each in own)
    assert all("free" in each["ChargeDescription"] for each in own)
    hours = sum(number(each, "x_GpuHours") for each in rows if each["x_GpuHours"])
    assert hours == pytest.approx(Decimal(2 * ((until - BEGUN) / HOUR)), abs=Decimal("1e-6"))
    bills = sum(months.month_of(t, BEGUN.date().replace(day=1), now=now).total for t in Tenant.objects.all())
    assert sum(number(each, "BilledCost") for each in rows) == bills
    petra, leon = Client(), Client()
    petra.force_login(cast.petra)
    leon.force_login(cast.leon)
    answer = petra.get(f"/console/usage/focus.csv?month={BEGUN:%Y-%m}")
    assert (answer.status_code, read(answer.content.decode())[0].keys()) == (200, rows[0].keys())
    assert leon.get("/console/usage/focus.csv").status_code == 404


@pytest.mark.django_db
def test_the_fleets_file_stays_the_fleet_with_refunds_and_teams_that_were_deleted(
    cast: Cast, books: Books
) -> None:
    """What is given back was held all the same; and a team that is gone was charged while it was there."""
    Price.objects.update(valid_from=BEGUN - 90 * DAY, hourly=Decimal(3))
    books.whole("GPU-1", BEGUN)
    for tenant, begins, ends in (("vision", 1, 5), ("genomics", 6, 10)):
        row = books.workload(tenant)
        books.hold("GPU-1", BEGUN + begins * HOUR, BEGUN + ends * HOUR, row=row)
        preempt(row, BEGUN + ends * HOUR)
    now = BEGUN + 36 * HOUR
    books.roll(now)
    until = aggregates.until()
    assert until is not None
    Tenant.objects.filter(pk=cast.genomics.pk).update(deleted_at=now)
    rows = read(fleet_focus.text_of(as_actor(cast.petra), BEGUN.date().replace(day=1), now=now))
    hold_to_the_rules(rows)
    assert {each["SubAccountId"] for each in rows} == {"platform", "vision", "genomics"}
    assert sum(number(each, "BilledCost") for each in rows) == 2 * (4 - 1) * 3
    assert {each["x_GpuHours"] for each in rows if each["ChargeDescription"].startswith("Refund")} == {""}
    hours = sum(number(each, "x_GpuHours") for each in rows if each["x_GpuHours"])
    assert hours == pytest.approx(Decimal((until - BEGUN) / HOUR), abs=Decimal("1e-6"))


@pytest.mark.django_db
def test_a_name_cannot_become_a_formula(cast: Cast, row: Workload) -> None:
    Workload.objects.filter(pk=row.pk).update(labels={"note": "=1+1"}, slug="-cmd")
    held(row, AT, AT + HOUR)
    made = close(cast)
    text = Api(cast.rosa).client.get(f"/api/v1/statements/{made.pk}/focus.csv").content.decode()
    (line,) = read(text)
    assert (line["ResourceName"], line["ChargeDescription"][:5]) == ("'-cmd", "'-cmd")


@pytest.mark.django_db
def test_what_only_its_tenant_has_a_price_for_costs_nothing_at_list(cast: Cast, row: Workload) -> None:
    Price.objects.update(tenant=cast.vision)
    held(row, AT, AT + 10 * HOUR)
    (found,) = file_of(close(cast))
    assert [number(found, name) for name in ("BilledCost", "ListUnitPrice", "ListCost")] == [20, 0, 0]
