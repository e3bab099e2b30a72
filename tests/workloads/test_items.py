"""Numbers of items as text: what is written reads back, and no text is too large to be refused at once."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apps.workloads import items
from sandbox.controllers.indexed import write_indexes

MOST = 999


@settings(deadline=None)
@given(st.sets(st.integers(0, MOST)))
def test_what_is_written_reads_back(found: set[int]) -> None:
    assert items.numbers(items.text(found), most=MOST) == tuple(sorted(found))


@settings(deadline=None)
@given(st.sets(st.integers(0, MOST)))
def test_it_is_written_as_a_jobs_status_has_it(found: set[int]) -> None:
    assert items.text(found) == write_indexes(found)


def test_people_read_it_with_spaces() -> None:
    assert items.text([3, 7, 8, 9, 11, 12], between=", ") == "3, 7-9, 11, 12"


@pytest.mark.parametrize(
    "wrong", ["a", "-1", "1-", "1,,2", ",", "1 2", "9-3", "1000", "0-999999", "0-9999999999999", "１"]
)
def test_another_text_is_refused_at_once(wrong: str) -> None:
    with pytest.raises(ValueError, match=r"Numbers|Items|backwards"):
        items.numbers(wrong, most=MOST)
