"""What counts as effective: by the formula set now, and for good by the one that a month was closed with."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.db.models import F

from apps.metering.billing.selectors import costs
from apps.metering.billing.selectors.costs import Group
from apps.metering.billing.services import pricing_run, statements
from apps.metering.ledger.selectors import effective_formula
from apps.metering.ledger.services import account_sums
from apps.metering.models import AccountSum, Allocation, Bucket
from apps.metering.specs import Formula
from apps.metering.usage.selectors import account_sums as usage_sums
from apps.metering.usage.selectors import aggregates, series
from apps.quotas.models import Price
from apps.workloads.models import Workload
from tests.conftest import Cast, as_actor
from tests.factories import make_workload
from tests.metering.made_buckets import decimals, roll
from tests.metering.priced_scene import AT, HOUR, NOW, count_by, held, line
from tests.workloads.rest import Api

pytestmark = pytest.mark.both_databases

LABELS = {"max-sm-dram": Formula.MAX.label, "sm": Formula.SM.label}


@pytest.fixture
def row(cast: Cast) -> Workload:
    Price.objects.update(valid_from=AT - timedelta(days=40), hourly=Decimal(2))
    return make_workload(cast.vision, cast.rosa, cast.offer)


@pytest.mark.django_db
def test_the_formula_can_be_sm_alone(row: Workload, monkeypatch: pytest.MonkeyPatch) -> None:
    a = held(row, AT, AT + 10 * HOUR)
    roll(a, NOW, effective=0.5, idle=0.5)
    count_by(monkeypatch, "sm")
    found = line()
    assert (found.effective, found.causes["partly"], found.causes["idle"]) == decimals(5, 5, 10)


@pytest.mark.django_db
def test_by_sm_alone_time_without_sm_is_unknown_and_a_month_closed_before_keeps_its_own(
    cast: Cast, row: Workload, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half of the time there is a DRAM figure alone; half of that is idle by it."""
    october, november = (datetime(2026, month, 12, tzinfo=UTC) for month in (10, 11))
    for name, begins in (("a", october), ("b", november)):
        roll(
            held(row, begins, begins + 10 * HOUR, name),
            NOW,
            effective=0.25,
            partly=0.25,
            idle=0.4,
            zombie=0.1,
        )
    tenth = F("held_us") * 100_000
    Bucket.objects.update(sm_us=F("held_us") / 2, sm_sum=tenth, blind_idle=2 * tenth)
    account_sums.remake(row.cluster, (october, november + 10 * HOUR))
    monkeypatch.setitem(effective_formula._NEWEST, "sm", Formula.SM_1)
    count_by(monkeypatch, "sm")
    statements.close_month(
        actor=as_actor(cast.petra), tenant=cast.vision, month=october.date().replace(day=1), now=NOW
    )
    monkeypatch.undo()
    count_by(monkeypatch, "sm")
    of_first, of_second = (decimals(2, 8, 8, 2, 0), decimals(2, 2, 4, 2, 10))
    for begins, wanted in ((october, of_first), (november, of_second)):
        period: dict[str, Any] = {"begins": begins, "ends": begins + 10 * HOUR, "now": NOW}
        (found,) = costs.costs(Allocation.objects.all(), Group.TENANT, **period)
        causes = (found.causes[cause] for cause in ("partly", "idle", "zombie"))
        assert (found.effective, *causes, found.unknown) == wanted
        (totals,) = aggregates.sums(Bucket.objects.all(), begins, begins + 10 * HOUR, by=("tenant",)).values()
        cut = series.steps_until(begins + 10 * HOUR, 10 * HOUR, 1)
        (drawn,) = series.series(Bucket.objects.all(), cut).values()
        of_all = usage_sums.series(AccountSum.objects.all(), cut, of=["seen"])[0]
        assert (of_all.allocated, of_all.seen) == pytest.approx((drawn[0].allocated, drawn[0].seen), abs=30)
        for sums in (totals, drawn[0]):
            done = (sums.effective, sums.partly, sums.idle, sums.zombie, sums.seen)
            parts = (*wanted[:4], 20 - wanted[4])
            unit = float(totals.gpu) if sums is totals else drawn[0].allocated
            assert [float(each) / unit for each in done] == pytest.approx([float(p) / 20 for p in parts])


@pytest.mark.django_db
@pytest.mark.parametrize(("first", "then"), [("max-sm-dram", "sm"), ("sm", "max-sm-dram")])
def test_costs_and_usage_of_a_closed_month_stay_what_it_was_closed_with(
    cast: Cast, row: Workload, monkeypatch: pytest.MonkeyPatch, first: str, then: str
) -> None:
    """October is closed, November is not: the same work, told by what was and by what is in force."""
    share = {"max-sm-dram": Decimal("0.5"), "sm": Decimal("0.25")}
    october, november = (datetime(2026, month, 12, tzinfo=UTC) for month in (10, 11))
    for name, begins in (("a", october), ("b", november)):
        roll(held(row, begins, begins + 10 * HOUR, name), NOW, effective=0.5, idle=0.5)
    count_by(monkeypatch, first)
    closed = statements.close_month(
        actor=as_actor(cast.petra),
        tenant=cast.vision,
        month=october.date().replace(day=1),
        now=NOW,
    )
    count_by(monkeypatch, then)
    for begins, formula in ((october, first), (november, then)):
        period: dict[str, Any] = {"begins": begins, "ends": begins + 10 * HOUR, "now": NOW}
        (found,) = costs.costs(Allocation.objects.all(), Group.TENANT, **period)
        assert found.effective == 20 * share[formula]
        assert (found.formula, found.waste) == (LABELS[formula], 20 - found.effective)
        (totals,) = aggregates.sums(Bucket.objects.all(), begins, begins + 10 * HOUR, by=("tenant",)).values()
        cut = series.steps_until(begins + 10 * HOUR, 10 * HOUR, 1)
        (drawn,) = series.series(Bucket.objects.all(), cut).values()
        for sums in (totals, drawn[0]):
            assert float(sums.effective / sums.seen) == pytest.approx(float(share[formula]))
            assert float((sums.effective + sums.partly + sums.idle) / sums.seen) == pytest.approx(1)
    assert closed.effective == 20 * share[first]
    both: dict[str, Any] = {"begins": october, "ends": november + 10 * HOUR, "now": NOW}
    (found,) = costs.costs(Allocation.objects.all(), Group.WORKLOAD, **both)
    assert found.effective == Decimal(15)
    assert found.formula == "; ".join(sorted(LABELS.values()))
    pricing_run.price_workloads([row.pk], now=NOW)
    row.refresh_from_db()
    assert row.cost_effective == Decimal(15)
    assert statements.corrections_of(closed, now=NOW) == []


@pytest.mark.django_db
def test_another_tenants_closed_month_is_judged_by_its_own_formula_alone(
    cast: Cast, row: Workload, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = make_workload(cast.genomics, cast.rosa, cast.offer, slug="other")
    october = datetime(2026, 10, 12, tzinfo=UTC)
    for name, each in (("a", row), ("b", other)):
        roll(held(each, october, october + 10 * HOUR, name), NOW, effective=0.5, idle=0.5)
    statements.close_month(
        actor=as_actor(cast.petra),
        tenant=cast.vision,
        month=october.date().replace(day=1),
        now=NOW,
    )
    count_by(monkeypatch, "sm")
    told = (
        Api(cast.petra).client.get("/api/v1/costs?from=2026-10-12T00:00:00Z&to=2026-10-12T10:00:00Z").json()
    )
    found = {each["tenant"]: (each["effective"]["amount"], each["formula"]) for each in told["items"]}
    assert found == {"vision": ("10.00", Formula.MAX.label), "genomics": ("5.00", Formula.SM.label)}
    assert told["formula"] == told["total"]["formula"] == f"{Formula.SM.label}; {Formula.MAX.label}"
