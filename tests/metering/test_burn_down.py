"""The burn-down of a budget: days sum to what the budget counts, what is ahead is an interval or unknown."""

import csv
import io
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from django.utils import timezone

from apps.metering.billing.selectors import burn_down, months
from apps.metering.billing.services import pricing_run
from apps.quotas.budgets.rules import budget
from apps.quotas.models import Budget, Price, Spend
from apps.quotas.specs import BudgetUnit
from apps.workloads.models import Workload
from portal.pages.parts.pictures.burn_down import Band, BurnChart, Point, burn_chart
from portal.pages.team.usage.burn import Drawn
from tests.conftest import Cast, client_of
from tests.factories import make_workload
from tests.metering.priced_scene import held, preempt
from tests.workloads.rest import Api

pytestmark = pytest.mark.both_databases

DAY, HOUR = timedelta(days=1), timedelta(hours=1)
NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
MONTH = budget.month_of(NOW)
BEGINS, ENDS = budget.bounds(MONTH)


@pytest.fixture
def row(cast: Cast) -> Workload:
    """Of two EUR an hour and device; a device is a seventh of a GPU."""
    Price.objects.update(valid_from=NOW - 90 * DAY, hourly=Decimal(2))
    return make_workload(cast.vision, cast.rosa, cast.offer)


def limited(cast: Cast, unit: BudgetUnit, soft: str | None, hard: str | None) -> Budget:
    limits = [None if each is None else Decimal(each) for each in (soft, hard)]
    return Budget.objects.create(
        tenant=cast.vision, unit=unit, soft_limit=limits[0], hard_limit=limits[1], created_by="petra"
    )


@pytest.mark.django_db
def test_days_sum_to_what_the_budget_counts_in_money_and_in_hours(cast: Cast, row: Workload) -> None:
    held(row, BEGINS - DAY, BEGINS + 36 * HOUR, "a")
    held(row, NOW - 20 * HOUR - timedelta(seconds=1), None, "b")
    held(row, BEGINS + 4 * DAY, BEGINS + 4 * DAY + 3 * HOUR, "c")
    preempt(row, BEGINS + 4 * DAY + 3 * HOUR)
    for unit in BudgetUnit:
        limited(cast, unit, None, "900")
    pricing_run.bill([row.pk], now=NOW)
    spent = Spend.objects.get(tenant=cast.vision, month=MONTH)
    money, hours = sorted(
        burn_down.of_tenant(cast.vision, MONTH, now=NOW),
        key=lambda each: each.limits.unit is not BudgetUnit.MONEY,
    )
    assert money.spent == round(spent.money, 2)
    assert hours.spent == round(spent.gpu_hours, 2)
    assert [each.charged for each in money.days[:5]] == [48, 24, 0, 0, 4]
    for found in (money, hours):
        assert len(found.days) == 20
        assert sum(each.charged for each in found.days) == found.spent == found.days[-1].cumulated
    listed = burn_down.money_days(cast.vision, MONTH, now=NOW)
    assert listed == money.days


@pytest.mark.django_db
def test_ahead_is_an_interval_that_begins_at_what_is_spent_and_ends_at_the_months_end(
    cast: Cast, row: Workload
) -> None:
    held(row, NOW - 12 * DAY, None)
    limited(cast, BudgetUnit.MONEY, "500", "900")
    (found,) = burn_down.of_tenant(cast.vision, MONTH, now=NOW)
    assert [each.day.day for each in found.ahead] == list(range(20, 31))
    assert all(
        a.outlook.expected <= b.outlook.expected for a, b in zip(found.ahead, found.ahead[1:], strict=False)
    )
    first, last = found.ahead[0].outlook, found.ahead[-1].outlook
    assert float(found.spent) <= first.low <= first.expected <= first.high
    # 11 whole days of 48 EUR: half of the first, on which it began at noon, is no day to go by.
    assert (last.low, last.expected, last.high) == pytest.approx((1080, 1080, 1080))
    bill = months.foreseen(months.month_of(cast.vision, MONTH, now=NOW), now=NOW)
    assert bill is not None
    assert (bill.low, bill.expected) == pytest.approx((1080, 1080))
    drawn = Drawn(found)
    assert drawn.words.startswith("576.00 of 900.00 EUR charged for devices; about ")
    assert drawn.words.endswith("probably over the limit") or drawn.words.endswith(": over the limit")
    assert drawn.rows[-1].charged is None
    assert drawn.rows[19].charged == 24
    assert drawn.rows[19].expected is not None


@pytest.mark.django_db
def test_without_days_to_go_by_nothing_is_foreseen_and_the_rest_is_hatched(cast: Cast, row: Workload) -> None:
    held(row, NOW - 2 * DAY, None)
    (found,) = burn_down.of_tenant(cast.vision, MONTH, now=NOW)
    drawn = Drawn(found)
    assert not found.ahead
    assert not drawn.has_limit
    assert drawn.words == "96.00 EUR charged for devices; no forecast: fewer than five whole days to go by"
    shown = burn_chart(drawn.chart)
    assert 'class="p-unknown"' in shown
    assert "u-hard" not in shown


@pytest.mark.django_db
def test_a_month_that_is_over_has_no_limits_and_no_forecast(cast: Cast, row: Workload) -> None:
    held(row, BEGINS - 10 * DAY, BEGINS - 9 * DAY)
    limited(cast, BudgetUnit.MONEY, None, "900")
    month = budget.month_of(BEGINS - DAY)
    (found,) = burn_down.of_tenant(cast.vision, month, now=NOW)
    assert (found.limits.hard, found.spent, len(found.days), found.is_over) == (None, Decimal(48), 31, True)
    drawn = Drawn(found)
    assert drawn.words == "48.00 EUR charged for devices"
    assert "p-unknown" not in burn_chart(drawn.chart)


def test_the_picture_has_its_limits_and_its_band_on_one_axis() -> None:
    chart = BurnChart(
        BEGINS, ENDS, BEGINS + DAY, [Point(BEGINS + DAY, 50)], [Band(ENDS, 300, 200, 400)], 250, 350, "words"
    )  # fmt: skip
    shown = burn_chart(chart)
    assert chart.top == 400
    for words in ("soft limit 250.00", "hard limit 350.00", "charged 50.00", "foreseen 300.00"):
        assert words in shown
    assert 'd="M33.3 87.50L1000.0 0.00L1000.0 50.00Z"' in shown
    assert "style=" not in shown


@pytest.mark.django_db
def test_page_file_and_rest_tell_the_same_to_those_who_see_the_tenant(cast: Cast, row: Workload) -> None:
    now = timezone.now()
    held(row, now - 10 * DAY, None)
    made = limited(cast, BudgetUnit.MONEY, "40000", "50000")
    rosa = client_of(cast.rosa)
    shown = rosa.get("/t/vision/bill/").content.decode()
    for words in (
        "Budget burn-down",
        "of 50,000.00 EUR charged for devices",
        "within the limit",
        "hard limit 50,000.00",
    ):
        assert words in shown, words
    lines = list(csv.DictReader(io.StringIO(rosa.get("/t/vision/bill/budget.csv").content.decode())))
    assert lines[0]["hard_limit"] == "50000.00000000" or Decimal(lines[0]["hard_limit"]) == 50000
    assert {line["unit"] for line in lines} == {"EUR"}
    api = Api(cast.rosa).client
    told = api.get(f"/api/v1/budgets/{made.pk}/burn-down").json()
    assert told["hard_limit"] == {"amount": "50000", "currency": "EUR"}
    assert [each["day"] for each in told["days"]] == [line["day"] for line in lines if line["charged"]]
    assert [each["day"] for each in told["forecast"]] == [line["day"] for line in lines if line["expected"]]
    bill = api.get("/api/v1/tenants/vision/bill").json()
    assert [each["day"] for each in bill["days"]] == [each["day"] for each in told["days"]]
    assert Api(cast.otto).client.get(f"/api/v1/budgets/{made.pk}/burn-down").status_code == 404
    assert client_of(cast.otto).get("/t/vision/bill/budget.csv").status_code == 404


@pytest.mark.django_db
def test_no_budget_is_said_and_what_was_charged_is_shown_all_the_same(cast: Cast) -> None:
    shown = client_of(cast.rosa).get("/t/vision/bill/").content.decode()
    assert "No budget of its own" in shown
    assert "0.00 EUR charged for devices" in shown


@pytest.mark.django_db
def test_a_departments_counts_all_its_tenants(cast: Cast, row: Workload) -> None:
    now = timezone.now()
    held(row, now - HOUR, None)
    petra = client_of(cast.petra)
    address = f"/console/departments/{cast.vision.department.slug}/"
    assert "Budget burn-down" not in petra.get(f"{address}budget/").content.decode()
    assert petra.get(f"{address}budget.csv").content.decode().splitlines()[1:] == []
    made = Budget.objects.create(
        department=cast.vision.department,
        unit=BudgetUnit.GPU_HOURS,
        hard_limit=Decimal(90),
        created_by="petra",
    )
    shown = petra.get(f"{address}budget/").content.decode()
    assert "0.14 of 90.00 GPU-hours charged for devices" in shown or now.day == 1
    told = Api(cast.petra).client.get(f"/api/v1/budgets/{made.pk}/burn-down").json()
    assert told["hard_limit"] == {"amount": "90", "unit": "gpu_hours"}
    assert client_of(cast.rosa).get(f"{address}budget.csv").status_code == 404


@pytest.mark.django_db
def test_a_departments_counts_the_departments_below_it_as_its_budget_does(cast: Cast, row: Workload) -> None:
    now = timezone.now()
    held(row, now - HOUR, None)
    above, below = cast.genomics.department, cast.vision.department
    assert above != below
    made = Budget.objects.create(
        department=above, unit=BudgetUnit.GPU_HOURS, hard_limit=Decimal(90), created_by="petra"
    )
    month = budget.month_of(now)
    assert burn_down.of_budget(made, month, now=now).spent == 0
    below.parent = above
    below.save()
    assert burn_down.of_budget(made, month, now=now).spent > 0 or now.day == 1
