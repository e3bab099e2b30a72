"""A statement in FOCUS's columns: what the specification asks of each, and sums that are the statement's."""

import csv
import io
import json
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from django.test import Client

from apps.metering.billing.rules import focus
from apps.metering.billing.selectors import months
from apps.metering.billing.services import statements
from apps.metering.models import Correction
from apps.quotas.models import Price
from apps.workloads.models import Workload
from tests.conftest import Cast
from tests.factories import make_workload
from tests.metering.closing import AT, DAY, HOUR, NOVEMBER, NOW, close
from tests.metering.made_buckets import roll
from tests.metering.priced_scene import held, preempt, price
from tests.workloads.rest import Api

pytestmark = pytest.mark.both_databases

MUST = {
    "BilledCost", "BillingAccountId", "BillingCurrency", "BillingPeriodStart", "BillingPeriodEnd",
    "ChargeCategory", "ChargeDescription", "ChargePeriodStart", "ChargePeriodEnd", "ContractedCost",
    "EffectiveCost", "InvoiceIssuerName", "ListCost", "ProviderName", "PublisherName", "ServiceCategory",
    "ServiceName",
}  # fmt: skip


@pytest.fixture
def row(cast: Cast) -> Workload:
    Price.objects.update(valid_from=AT - 90 * DAY, hourly=Decimal(2))
    return make_workload(cast.vision, cast.rosa, cast.offer)


def read(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


@pytest.mark.django_db
def test_every_line_has_what_focus_asks_for_and_sums_to_the_statement(cast: Cast, row: Workload) -> None:
    price(cast.offer, "1.50", AT - 60 * DAY, tenant=cast.vision)
    price(None, "0.04", AT - 60 * DAY, resource="cpu")
    a = held(row, AT, AT + 10 * HOUR, capacity="spot")
    roll(a, NOW, effective=0.5, idle=0.25)
    preempt(row, AT + 10 * HOUR)
    made = close(cast)
    client: Client = Api(cast.rosa).client
    answer = client.get(f"/api/v1/statements/{made.pk}/focus.csv")
    assert (answer.status_code, answer["Content-Type"]) == (200, "text/csv; charset=utf-8")
    rows = read(answer.content.decode())
    assert list(rows[0]) == list(focus.COLUMNS)
    assert all(each[name] for each in rows for name in MUST)
    assert sum(Decimal(each["BilledCost"]) for each in rows) == made.total
    gpu, refund, cpu = rows
    assert (gpu["ListUnitPrice"], gpu["ContractedUnitPrice"]) == ("2.00000000", "1.50000000")
    assert (gpu["ListCost"], gpu["BilledCost"], gpu["EffectiveCost"]) == ("20.00", "15.00", "15.00")
    assert (gpu["PricingQuantity"], gpu["PricingUnit"]) == ("10.00000000", "Hours")
    assert (gpu["x_EffectiveUseCost"], gpu["x_IdleCost"], gpu["x_UnknownCost"]) == ("6.75", "3.38", "3.37")
    assert (refund["ChargeCategory"], refund["ChargeClass"]) == ("Usage", "")
    assert (refund["BilledCost"], refund["ListCost"]) == ("-1.50", "-2.00")
    assert (refund["PricingQuantity"], refund["ConsumedUnit"]) == ("-1.00000000", "Hours")
    assert (cpu["ServiceName"], cpu["PricingUnit"], cpu["x_EffectiveUseCost"]) == ("CPU", "Core-Hours", "")
    assert (gpu["BillingPeriodStart"], gpu["BillingPeriodEnd"]) == (
        "2026-10-01T00:00:00Z",
        "2026-11-01T00:00:00Z",
    )
    assert (gpu["BillingAccountId"], gpu["SubAccountId"], gpu["InvoiceId"]) == (
        "research",
        "vision",
        "vision-0001",
    )
    assert (gpu["SkuId"], gpu["PricingCategory"]) == ("gpu/h100-1g-10gb/spot", "Dynamic")
    assert json.loads(gpu["Tags"])["owner"] == "researcher"


PRICED = (
    "ConsumedQuantity", "ConsumedUnit", "ContractedUnitPrice", "ListUnitPrice", "PricingCategory",
    "PricingQuantity", "PricingUnit", "SkuId", "SkuPriceId",
)  # fmt: skip


@pytest.mark.django_db
def test_what_is_used_has_a_price_whose_product_with_its_quantity_is_its_cost(
    cast: Cast, row: Workload
) -> None:
    """FOCUS: none of these is null for a usage that is no correction, refunds included."""
    price(cast.offer, "1.50", AT - 60 * DAY, tenant=cast.vision)
    price(cast.offer, "1.20", AT + 3 * HOUR, tenant=cast.vision)
    price(None, "0.04", AT - 60 * DAY, resource="cpu")
    held(row, AT, AT + 10 * HOUR)
    preempt(row, AT + 10 * HOUR)
    rows: list[dict[str, Any]]
    rows = [dict(zip(focus.COLUMNS, each, strict=True)) for each in
            months.focus_rows(months.month_of_statement(close(cast)))]  # fmt: skip
    assert len(rows) == 3
    for each in rows:
        assert (each["ChargeCategory"], each["ChargeClass"]) == ("Usage", None)
        assert None not in [each[name] for name in PRICED]
        for unit, cost in (("ContractedUnitPrice", "ContractedCost"), ("ListUnitPrice", "ListCost")):
            assert abs(each[unit] * each["PricingQuantity"] - each[cost]) <= Decimal("0.005")
    assert rows[0]["SkuPriceId"] == "gpu/h100-1g-10gb@1.29"
    assert sum(each["ListCost"] for each in rows[:2]) == 18


@pytest.mark.django_db
def test_a_refund_of_before_prices_were_kept_has_what_its_amount_says(cast: Cast, row: Workload) -> None:
    held(row, AT, AT + 10 * HOUR)
    preempt(row, AT + 10 * HOUR)
    month = months.month_of_statement(close(cast))
    old = [replace(each.line, unit_price=None, list_price=None, listed=Decimal(0)) for each in month.rows]
    month = replace(month, rows=[replace(r, line=line) for r, line in zip(month.rows, old, strict=True)])
    refund = dict(zip(focus.COLUMNS, months.focus_rows(month)[1], strict=True))
    assert (refund["ListCost"], refund["ContractedUnitPrice"], refund["ListUnitPrice"]) == (-2, 2, 2)


@pytest.mark.django_db
def test_a_correction_speaks_of_the_month_that_it_corrects(cast: Cast, row: Workload) -> None:
    a = held(row, AT, AT + 10 * HOUR)
    close(cast)
    Correction.objects.create(
        allocation=a, started_at=AT, ended_at=AT + HOUR, reason="clock", made_by="petra", made_at=NOW
    )
    november = close(cast, NOVEMBER, now=NOW + 40 * DAY)
    (found,) = months.focus_rows(months.month_of_statement(november))
    line = dict(zip(focus.COLUMNS, found, strict=True))
    assert (line["ChargeClass"], line["BilledCost"]) == ("Correction", Decimal("-18.00"))
    assert (f"{line['ChargePeriodStart']:%m}", f"{line['BillingPeriodStart']:%m}") == ("10", "11")
    assert statements.is_whole(november)


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
    (line,) = months.focus_rows(months.month_of_statement(close(cast)))
    found = dict(zip(focus.COLUMNS, line, strict=True))
    assert (found["BilledCost"], found["ListUnitPrice"], found["ListCost"]) == (20, 0, 0)


@pytest.mark.django_db
def test_what_is_charged_in_units_has_the_mean_price_of_what_was_held(cast: Cast, row: Workload) -> None:
    """Ten minutes of a unit of an hour, all given back: the product is the cost all the same."""
    Price.objects.update(least_seconds=3600)
    held(row, AT, AT + HOUR / 6)
    preempt(row, AT + HOUR / 6)
    rows: list[dict[str, Any]]
    rows = [dict(zip(focus.COLUMNS, each, strict=True)) for each in
            months.focus_rows(months.month_of_statement(close(cast)))]  # fmt: skip
    for unit, cost in (("ContractedUnitPrice", "ContractedCost"), ("ListUnitPrice", "ListCost")):
        assert [each[cost] for each in rows] == [2, -2]
        assert all(
            abs(each[unit] * each["PricingQuantity"] - each[cost]) <= Decimal("0.005") for each in rows
        )
