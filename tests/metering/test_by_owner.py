"""Lines of a bill by who owns what they are for: who comes first, what belongs to whom, and the sums."""

from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from apps.metering.billing.rules.by_owner import PRICES, by_owner, sums_of
from apps.metering.billing.rules.rounding import Key, Line
from apps.metering.specs import LineKind

AT = datetime(2026, 11, 1, tzinfo=UTC)
ROSA, LEON = UUID(int=1), UUID(int=2)
TRAIN, SERVE, CHAT = UUID(int=11), UUID(int=12), UUID(int=13)
OWNERS = {TRAIN: ROSA, SERVE: ROSA, CHAT: LEON}
KINDS = (LineKind.GPU, LineKind.REFUND, LineKind.CPU, LineKind.STORAGE, LineKind.CORRECTION)


@dataclass(frozen=True)
class Row:
    """A line and nothing else."""

    line: Line


def row(workload: UUID | None, amount: str, kind: LineKind = LineKind.GPU, *, offer: int = 0) -> Row:
    about = LineKind.GPU if kind in (LineKind.REFUND, LineKind.CORRECTION) else kind
    key, money = Key(about, workload, UUID(int=offer)), Decimal(amount)
    return Row(Line(kind, about, key, "", Decimal(1), "", money, AT, AT, unknown=money))


def test_the_dearest_owner_is_first_and_with_each_the_dearest_work() -> None:
    rows = [row(CHAT, "5"), row(TRAIN, "1"), row(SERVE, "7"), row(None, "6")]
    found = by_owner(rows, OWNERS)
    assert [(group.owner, str(group.sums[0])) for group in found] == [(ROSA, "8"), (None, "6"), (LEON, "5")]
    assert found[0].rows == [rows[2], rows[1]]


def test_all_lines_of_a_work_stay_together_in_their_order() -> None:
    work = [row(TRAIN, "4", LineKind.GPU), row(TRAIN, "-1", LineKind.REFUND)]
    rows = [row(SERVE, "5"), *work, row(TRAIN, "3", LineKind.CPU), row(TRAIN, "-0.5", LineKind.CORRECTION)]
    (found,) = by_owner(rows, OWNERS)
    assert found.rows == [*rows[1:], rows[0]], "5.50 of four lines before 5.00 of one"


def test_what_nobody_owns_is_a_group_of_its_own_the_dearest_offer_first() -> None:
    rows = [row(None, "1", offer=1), row(None, "2", offer=2), row(None, "-0.2", LineKind.REFUND, offer=2)]
    (found,) = by_owner(rows, OWNERS)
    assert (found.owner, found.rows) == (None, [rows[1], rows[2], rows[0]])


@given(
    st.lists(
        st.builds(
            row,
            st.sampled_from([None, *OWNERS]),
            st.decimals(-100, 100, places=2).map(str),
            st.sampled_from(KINDS),
        )
    )
)
def test_each_line_is_in_one_group_and_the_groups_sum_to_all_lines(rows: list[Row]) -> None:
    found = by_owner(rows, OWNERS)
    assert sorted(id(each) for group in found for each in group.rows) == sorted(map(id, rows))
    assert [sum(group.sums[at] for group in found) for at in range(len(PRICES))] == sums_of(rows)
    assert [group.sums for group in found] == [sums_of(group.rows) for group in found]
    assert [group.sums[0] for group in found] == sorted((group.sums[0] for group in found), reverse=True)
