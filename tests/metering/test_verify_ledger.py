"""`manage.py verify_ledger` finds what was tampered with, and says where."""

from datetime import timedelta
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.db.models import F

from apps.metering.ledger.rules.segments import ChangeKind
from apps.metering.ledger.services import invalidation, rollup
from apps.metering.models import AccountSum, Allocation, Bucket, Sample
from tests.conftest import Cast
from tests.metering.books import AT, HOUR, MINUTE, Books

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]


@pytest.fixture
def books(cast: Cast) -> Books:
    """Four hours of a whole GPU, a cut one and a pool, all rolled up."""
    found = Books(cast)
    gpu, cut, pool = found.whole(), found.cut(m0=3, m1=3), found.pool()
    found.hold(gpu, AT + 7 * MINUTE, AT + 3 * HOUR)
    found.hold(cut, AT + HOUR, None, name="n1/m0")
    found.hold(pool, AT, AT + HOUR, name=f"{pool}#0")
    found.see(found.device(gpu), found.every(AT, AT + HOUR))
    found.roll(AT + 4 * HOUR + rollup.LATE)
    return found


def verify(*words: str) -> tuple[str, str]:
    """(told, breaches); the breaches are empty when it held."""
    out, err = StringIO(), StringIO()
    try:
        call_command("verify_ledger", *words, stdout=out, stderr=err)
    except CommandError as failed:
        return out.getvalue(), f"{err.getvalue()}{failed}"
    return out.getvalue(), err.getvalue()


def test_an_honest_ledger_holds(books: Books) -> None:
    told, breaches = verify()
    assert breaches == ""
    assert f"north: {3 * 4 * 12} buckets of 300 s checked" in told
    assert "The ledger balances." in told


@pytest.mark.parametrize("level", [300, 3600, 86400])
def test_a_row_that_was_tampered_with_is_named_with_gpu_bucket_found_and_expected(
    books: Books, level: int
) -> None:
    row = Bucket.objects.filter(level=level, gpu="GPU-1", account="tenant").order_by("starts_at").last()
    assert row is not None
    Bucket.objects.filter(pk=row.pk).update(share_us=F("share_us") - 1)
    _, breaches = verify()
    place = f"GPU-1, {level} s from {row.starts_at:%Y-%m-%dT%H:%M:%SZ}, tenant/{row.holder} share_us"
    assert f"{place}: found {row.share_us - 1}, expected {row.share_us}" in breaches
    if level == 300:
        assert "sum of shares x µs: found 299999999, expected 300000000" in breaches


@pytest.mark.parametrize("column", ["effective", "idle", "seen_us", "sm_max", "memory_max_mib", "samples"])
def test_every_column_is_checked(books: Books, column: str) -> None:
    row = Bucket.objects.filter(level=300, gpu="GPU-1", account="tenant", seen_us__gt=0).first()
    assert row is not None
    Bucket.objects.filter(pk=row.pk).update(**{column: 17})
    _, breaches = verify()
    assert f"tenant/{row.holder} {column}: found 17" in breaches


def test_a_sum_by_account_that_is_not_that_of_its_buckets_is_named_and_made_anew(books: Books) -> None:
    row = AccountSum.objects.filter(level=3600, account="tenant").latest("starts_at")
    AccountSum.objects.filter(pk=row.pk).update(gpu_us=17)
    _, breaches = verify()
    place = f"all GPUs together, 3600 s from {row.starts_at:%Y-%m-%dT%H:%M:%SZ}, tenant/{row.owner} gpu_us"
    assert f"{place}: found 17, expected {row.gpu_us}" in breaches
    assert "does not hold: 1 breaches" in breaches
    told, breaches = verify("--remake-sums")
    assert (told.splitlines()[-1], breaches) == ("The ledger balances.", "")


def test_a_row_that_was_taken_out_or_put_in_is_named(books: Books) -> None:
    row = Bucket.objects.filter(level=300, gpu="GPU-2", reason="stranded").first()
    assert row is not None
    row.delete()
    _, breaches = verify()
    assert f"idle/stranded: found no row, expected {300_000_000} shares x µs" in breaches
    row.pk, row.reason = None, "free"
    row.gpu = "GPU-1"
    row.starts_at += timedelta(hours=1)
    Bucket.objects.filter(gpu="GPU-1", level=300, starts_at=row.starts_at).delete()
    row.save(force_insert=True)
    assert "GPU-1, 300 s" in verify()[1]


def test_a_row_that_was_booked_to_somebody_else_is_named(books: Books) -> None:
    row = Bucket.objects.filter(level=86400, account="tenant").first()
    assert row is not None
    Bucket.objects.filter(pk=row.pk).update(workload=books.workload("genomics"))
    assert f"owner of {row.holder}" in verify()[1]


def test_a_fact_that_came_without_a_mark_is_found(books: Books) -> None:
    Sample.objects.filter(ts=AT + 10 * MINUTE).update(sm_active=1)
    _, breaches = verify()
    assert "GPU-1, 300 s from 2026-11-20T09:05:00Z" in breaches
    invalidation.mark(books.cluster, [("GPU-1", AT, AT + 15 * MINUTE)])
    told, breaches = verify()
    assert (breaches, "3 wait to be rebuilt" in told) == ("", True)


def test_two_holders_of_one_gpu_balance_and_are_named_with_place_and_time(books: Books) -> None:
    second = books.hold("GPU-1", AT + 2 * HOUR, AT + 3 * HOUR + 30 * MINUTE)
    books.roll(AT + 4 * HOUR + rollup.LATE)
    _, breaches = verify()
    assert f"over-allocated: {second.pk} on n1/GPU-1 at 11:00:00 until 12:00:00" in breaches
    assert "found 0 shares, expected 1 shares" in breaches
    assert "1 breaches" in breaches


def test_a_holder_of_a_gpu_that_left_or_never_was_is_named(books: Books) -> None:
    books.fact("GPU-2", ChangeKind.GONE, AT + 2 * HOUR)
    ghost = books.hold("GPU-9", AT, AT + HOUR)
    books.roll(AT + 4 * HOUR + rollup.LATE)
    _, breaches = verify()
    held = Allocation.objects.get(gpu="GPU-2")
    assert f"absent: {held.pk} on n1/m0" in breaches
    assert f"absent: {ghost.pk} on n1/GPU-9" in breaches


def test_a_period_and_a_cluster_can_be_asked_for(books: Books) -> None:
    row = Bucket.objects.filter(level=300).order_by("starts_at").first()
    assert row is not None
    Bucket.objects.filter(pk=row.pk).update(held_us=1)
    assert verify("--from", "2026-11-21", "--cluster", "north")[1] == ""
    assert "held_us: found 1" in verify("--to", "2026-11-20")[1]
    with pytest.raises(CommandError, match="no cluster south"):
        call_command("verify_ledger", "--cluster", "south")
