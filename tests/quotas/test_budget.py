"""Months, marks, holds and grants as plain arithmetic."""

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.quotas.allowances.rules import fit
from apps.quotas.budgets.rules import budget
from apps.quotas.budgets.rules.budget import Exhausted, Limits
from apps.quotas.specs import BudgetUnit, GrantSpan, HoldReason, OfferQuota
from apps.tenants.specs import Suspend
from apps.web.requests.periods import month_named

pytestmark = pytest.mark.both_databases

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
DAY = timedelta(days=1)
QUOTA = OfferQuota("H100", "allotment.dev/h100", "h100", 4, 2, 1)
NOVEMBER = date(2026, 11, 1)

spans = st.builds(
    lambda count, start, length: GrantSpan(
        count, NOW + timedelta(hours=start), NOW + timedelta(hours=start + length)
    ),
    st.integers(1, 9),
    st.integers(-50, 50),
    st.integers(1, 50),
)


def money(soft: str | None, hard: str | None) -> Limits:
    limits = (None if each is None else Decimal(each) for each in (soft, hard))
    return Limits(BudgetUnit.MONEY, *limits)


def test_a_grant_raises_the_guarantee_from_its_start_until_before_its_end() -> None:
    grant = GrantSpan(8, NOW, NOW + DAY)
    seen = [
        fit.effective(QUOTA, [grant], now=at).nominal
        for at in (NOW - timedelta(seconds=1), NOW, NOW + DAY - timedelta(seconds=1), NOW + DAY)
    ]
    assert seen == [4, 12, 12, 4]


def test_a_grant_changes_nothing_but_the_guarantee() -> None:
    raised = fit.effective(QUOTA, [GrantSpan(8, NOW, NOW + DAY)], now=NOW)
    assert (raised.borrowing_limit, raised.lending_limit) == (2, 1)


@given(st.lists(spans, max_size=6), st.integers(-60, 110))
def test_nothing_changes_between_now_and_the_next_change(grants: list[GrantSpan], hour: int) -> None:
    at = NOW + timedelta(hours=hour)
    change = fit.next_change(grants, now=at)
    here = fit.effective(QUOTA, grants, now=at)
    last = (change or at + 99 * DAY) - timedelta(microseconds=1)
    assert fit.effective(QUOTA, grants, now=last) == here
    assert change is None or change > at


@pytest.mark.parametrize(
    "text", ["", "2026", "2026-13", "2026-1", "2026-010", "1969-12", "0001-01", "9999-12"]
)
def test_what_names_no_month_that_can_be_billed_is_none(text: str) -> None:
    assert month_named(text) is None


def test_a_month_is_read_as_it_is_written() -> None:
    assert month_named("2026-11") == NOVEMBER
    assert budget.bounds(month_named("9998-12") or NOVEMBER)[1].year == 9999


def test_a_month_is_the_calendar_month_in_utc() -> None:
    begins, ends = budget.bounds(NOVEMBER)
    assert (begins, ends) == (datetime(2026, 11, 1, tzinfo=UTC), datetime(2026, 12, 1, tzinfo=UTC))
    assert budget.month_of(ends) == date(2026, 12, 1)
    assert budget.month_of(ends - timedelta(microseconds=1)) == NOVEMBER
    assert budget.bounds(date(2026, 12, 1))[1] == datetime(2027, 1, 1, tzinfo=UTC)


def test_marks_are_of_the_soft_limit_and_of_the_hard_one_where_there_is_none() -> None:
    spends = [Decimal(each) for each in ("49.99", "50", "79", "80", "100", "500")]
    assert [budget.mark(money("100", "400"), each) for each in spends] == [0, 50, 50, 80, 100, 100]
    assert [budget.mark(money(None, "100"), each) for each in spends] == [0, 50, 50, 80, 100, 100]


def test_only_a_hard_limit_is_ever_exhausted() -> None:
    assert not budget.is_exhausted(money("1", None), Decimal(99))
    assert budget.is_exhausted(money(None, "99"), Decimal(99))
    assert not budget.is_exhausted(money("1", "99.01"), Decimal(99))


def test_the_end_of_the_money_is_a_straight_line_through_now() -> None:
    begins, _ = budget.bounds(NOVEMBER)
    limits = money(None, "900")
    at = budget.exhausts_at(limits, Decimal(450), month=NOVEMBER, now=begins + 10 * DAY)
    assert at == begins + 20 * DAY
    assert budget.exhausts_at(limits, Decimal(45), month=NOVEMBER, now=begins + 10 * DAY) is None
    assert budget.exhausts_at(limits, Decimal(0), month=NOVEMBER, now=begins + 10 * DAY) is None
    assert budget.exhausts_at(limits, Decimal(901), month=NOVEMBER, now=NOW) == NOW


def test_a_hold_says_every_reason_and_ranks_suspension_before_budget_before_hand() -> None:
    spent = Exhausted("vision", "900.00 EUR", datetime(2026, 12, 1, tzinfo=UTC))
    held = budget.hold(suspend=Suspend.HOLD, exhausted=[spent], manual="petra since 20 Nov 12:00: audit.")
    assert held.reason is HoldReason.SUSPENDED
    assert held.detail.count("Held") == 3
    alone = budget.hold(suspend=Suspend.NONE, exhausted=[spent], manual="")
    assert alone.reason is HoldReason.BUDGET
    assert alone.detail == (
        "Held: this month's budget of vision, 900.00 EUR, is spent. New work starts on 1 December or once a "
        "manager of the department or a platform engineer raises it; running work continues."
    )
    assert not budget.hold(suspend=Suspend.NONE, exhausted=[], manual="").is_held


def test_a_departments_budget_names_the_platform_engineer_alone() -> None:
    spent = Exhausted("department research", "9 GPU-hours", datetime(2026, 12, 1, tzinfo=UTC))
    assert (
        "once a platform engineer raises it"
        in budget.hold(suspend=Suspend.NONE, exhausted=[spent], manual="").detail
    )
