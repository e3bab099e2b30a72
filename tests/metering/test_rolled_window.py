"""A roll writes what its window changes: buckets, and hours and days of those who hold something there."""

import pytest

from apps.metering.ledger.rules.buckets import MILLION
from apps.metering.ledger.services import account_sums, rollup
from apps.metering.models import Allocation, Bucket
from tests.conftest import Cast
from tests.metering.books import AT, BUCKET, HOUR, MINUTE, Books

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]


@pytest.fixture
def books(cast: Cast) -> Books:
    return Books(cast)


def numbers(held: Allocation) -> set[int]:
    """Of the rows that tell of an allocation; a row that is written anew has another."""
    return {*Bucket.objects.filter(holder=held.pk).values_list("pk", flat=True)}


def test_of_an_hour_and_a_day_only_those_in_the_window_are_written_anew(books: Books) -> None:
    gpu, later = books.cut(m0=3, m1=4), AT + 20 * MINUTE
    ended, stays = books.hold(gpu, AT, AT + 10 * MINUTE, name="n1/m0"), books.hold(gpu, AT, name="n1/m1")
    books.roll(later + rollup.LATE)
    of_ended, of_stays = numbers(ended), numbers(stays)
    assert books.roll(later + BUCKET + rollup.LATE).rows == 3 + 3, (
        "bucket, hour and day; and those of what is idle"
    )
    assert numbers(ended) == of_ended
    assert len(of_stays - numbers(stays)) == 2


def test_a_gpu_that_was_cut_anew_counts_all_of_its_day_in_common_parts(books: Books) -> None:
    gpu = books.cut(m0=3)
    books.hold(gpu, AT, AT + 10 * MINUTE, name="n1/m0")
    books.roll(AT + 20 * MINUTE + rollup.LATE)
    books.cut(gpu, AT + 20 * MINUTE, parts=4, m0=1)
    books.hold(gpu, AT + 20 * MINUTE, name="n1/m0")
    books.roll(AT + HOUR + rollup.LATE)
    days = Bucket.objects.filter(level=86400)
    assert {*days.values_list("denominator", flat=True)} == {28}
    assert sum(days.values_list("share_us", flat=True)) == 28 * 3600 * MILLION
    assert list(account_sums.differences(books.cluster, (AT - 9 * HOUR, AT + HOUR))) == []
