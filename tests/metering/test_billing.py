"""What a tenant spends in a month, handed down to its budgets; preempted time is given back."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction

import pytest
from django.utils import timezone

from apps.metering import periodic
from apps.metering.allocations.rules.intervals import Interval
from apps.metering.allocations.services.collect import Touched, collect
from apps.metering.billing.rules import pricing
from apps.metering.billing.rules.pricing import PricePeriod
from apps.metering.billing.selectors import costs
from apps.metering.billing.selectors.costs import Group
from apps.metering.billing.services import pricing_run
from apps.metering.models import Allocation
from apps.quotas.budgets.rules.budget import Limits
from apps.quotas.budgets.services import budgeting
from apps.quotas.models import Price, Spend, TenantQueue
from apps.quotas.specs import BudgetUnit, HoldReason
from apps.workloads.models import Workload, WorkloadEvent
from apps.workloads.specs import Phase
from tests.conftest import Cast, as_actor
from tests.factories import make_workload

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]
AT = datetime(2026, 11, 30, 22, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)


@pytest.fixture
def row(cast: Cast) -> Workload:
    Price.objects.update(valid_from=AT - timedelta(days=40))
    return make_workload(cast.vision, cast.rosa, cast.offer)


def held(row: Workload, begins: datetime, ends: datetime | None, name: str = "a") -> Allocation:
    return Allocation.objects.create(
        cluster=row.cluster, tenant=row.tenant, workload=row,
        offer=row.offer, claim_uid=name, node="gpu-01", device=name,
        share_numerator=1, share_denominator=7, started_at=begins, ended_at=ends,
    )  # fmt: skip


def spend(month: str) -> tuple[Decimal, Decimal]:
    found = Spend.objects.get(month=f"2026-{month}-01")
    return found.money, found.gpu_hours


def test_the_last_hour_at_most_is_refunded() -> None:
    prices = [PricePeriod(AT - 9 * HOUR, Decimal(2))]
    long, short = Interval(AT, AT + 5 * HOUR), Interval(AT, AT + HOUR / 2)
    assert pricing.cost(pricing.refunded(long), prices) == Fraction(2)
    assert pricing.refunded(short) == short


def test_a_month_is_billed_to_its_end_and_the_next_one_from_its_beginning(row: Workload) -> None:
    held(row, AT, None)
    pricing_run.bill([row.pk], now=AT + HOUR)
    assert spend("11") == (Decimal("0.42"), Decimal("0.14285714"))
    pricing_run.bill([row.pk], now=AT + 3 * HOUR)
    assert spend("11")[0] == Decimal("0.84")
    assert spend("12")[0] == Decimal("0.42")


def test_the_tenants_of_many_workloads_are_asked_for_in_parts(
    cast: Cast, row: Workload, monkeypatch: pytest.MonkeyPatch
) -> None:
    others = [make_workload(tenant, cast.rosa, cast.offer) for tenant in (cast.speech, cast.genomics)]
    rows = [row, *others]
    for number, each in enumerate(rows):
        held(each, AT, AT + HOUR, str(number))
    monkeypatch.setattr(pricing_run, "AT_ONCE", 2)
    pricing_run.bill([each.pk for each in rows], now=AT + HOUR)
    spent = dict(Spend.objects.values_list("tenant__slug", "money"))
    assert spent == dict.fromkeys(("vision", "speech", "genomics"), Decimal("0.42"))


def preempt(row: Workload, at: datetime) -> None:
    WorkloadEvent.objects.create(
        workload=row, at=at, source="kueue", type="Warning", reason="Preempted", message="taken back"
    )


def test_preempted_time_is_given_back_and_shown(row: Workload) -> None:
    held(row, AT - 5 * HOUR, AT - 3 * HOUR)
    held(row, AT - 2 * HOUR, AT - HOUR, "b")
    preempt(row, AT - 3 * HOUR)
    pricing_run.bill([row.pk], now=AT)
    assert spend("11")[0] == Decimal("0.84")
    rows = Allocation.objects.select_related("workload__tenant")
    (line,) = costs.costs(rows, Group.TENANT, begins=AT - 9 * HOUR, ends=AT, now=AT)
    assert (line.allocated, line.refunded) == (Decimal("1.26"), Decimal("0.42"))


def test_what_the_last_loss_gave_back_is_handed_down_as_the_ledger_counts_it(row: Workload) -> None:
    held(row, AT - 5 * HOUR, AT - 3 * HOUR)
    pricing_run.price_workloads([row.pk], now=AT)
    row.refresh_from_db()
    assert {row.cost_last_refund, row.cost_last_refund_end} == {None}
    assert row.cost_refunded == 0
    preempt(row, AT - 3 * HOUR)
    pricing_run.price_workloads([row.pk], now=AT)
    row.refresh_from_db()
    assert (row.cost_refunded, row.cost_last_refund) == (Decimal("0.42"), Decimal("0.42"))
    assert row.cost_last_refund_end == AT - 3 * HOUR
    begun, ended = AT - 2.5 * HOUR, AT - HOUR
    held(row, begun, ended, "b")
    held(row, begun, ended - timedelta(seconds=20), "c")
    preempt(row, ended - timedelta(seconds=30))
    pricing_run.price_workloads([row.pk], now=AT)
    row.refresh_from_db()
    assert (row.cost_refunded, row.cost_last_refund) == (Decimal("1.26"), Decimal("0.84"))
    assert row.cost_last_refund_end == ended


def test_a_preemption_that_is_known_after_the_run_was_priced_is_priced_once_more(row: Workload) -> None:
    ended = AT - timedelta(minutes=2)
    Workload.objects.filter(pk=row.pk).update(phase=Phase.PENDING, updated_at=AT)
    held(row, AT - HOUR, ended)
    pricing_run.price_workloads([row.pk], now=AT)
    assert collect(row.cluster, now=AT).workloads == set()
    preempt(row, ended)
    assert collect(row.cluster, now=AT).changed == {row.pk}
    pricing_run.price_workloads([row.pk], now=AT)
    row.refresh_from_db()
    assert row.cost_last_refund_end == ended
    assert collect(row.cluster, now=AT).workloads == set()


def test_what_ends_while_a_tick_reads_is_charged_to_its_end(
    row: Workload, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No later tick touches it: what is missing of it now would be missing until its ledger is made."""
    ends: list[datetime] = []

    def reads(_: object, **__: object) -> Touched:
        ends.append(timezone.now())
        held(row, ends[0] - HOUR, ends[0])
        return Touched({row.pk}, set())

    monkeypatch.setattr(periodic, "collect", reads)
    periodic.collect_allocations()
    row.refresh_from_db()
    assert row.cost_as_of is not None
    assert row.cost_as_of > ends[0]
    assert row.cost_allocated == Decimal("0.42")


def test_a_billing_tick_holds_the_queue_once_the_budget_is_spent(cast: Cast, row: Workload) -> None:
    TenantQueue.objects.create(tenant=cast.vision, cluster=cast.vision.cluster)
    limits = Limits(BudgetUnit.MONEY, None, Decimal("0.42"))
    budgeting.set_budget(actor=as_actor(cast.petra), owner=cast.vision, limits=limits, now=AT)
    held(row, AT, None)
    reasons = []
    for seconds in (3585, 3600, 3615):
        pricing_run.bill([row.pk], now=AT + timedelta(seconds=seconds))
        reasons.append(TenantQueue.objects.get(tenant=cast.vision).hold_reason)
    assert reasons == [HoldReason.NONE, HoldReason.BUDGET, HoldReason.BUDGET]
