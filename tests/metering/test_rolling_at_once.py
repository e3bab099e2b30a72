"""Writers of facts and rollers at the same time, on PostgreSQL: no fact is lost between them."""

import threading
from collections.abc import Callable

import pytest
from django.db import connection, transaction

from apps.metering.ledger.services import invalidation, rollup
from apps.metering.models import Bucket, Device, DirtySpan
from tests.conftest import Cast
from tests.metering.books import AT, BUCKET, HOUR, STEP, Books, stored
from tests.patience import patient

pytestmark = [pytest.mark.postgres, pytest.mark.django_db(transaction=True), pytest.mark.both_databases]


@pytest.fixture
def books(cast: Cast) -> Books:
    if connection.vendor != "postgresql":
        pytest.skip("PostgreSQL alone has writers at the same time")
    return Books(cast)


def in_thread(work: Callable[[], None]) -> threading.Thread:
    def run() -> None:
        try:
            work()
        finally:
            connection.close()

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def test_a_sample_that_is_committed_after_a_roll_began_is_never_lost(books: Books) -> None:
    gpu = books.whole()
    held = books.hold(gpu)
    books.roll(AT + HOUR)
    device = books.device(gpu)
    invalidation.mark(books.cluster, [(gpu, AT, AT + BUCKET)])
    written, rolled = threading.Event(), threading.Event()

    def write() -> None:
        with transaction.atomic():
            books.see(device, [AT + STEP])
            written.set()
            rolled.wait(20)

    writer = in_thread(write)
    assert written.wait(20)
    assert books.roll(AT + HOUR).buckets == 0
    rolled.set()
    writer.join(patient(20))
    assert books.roll(AT + HOUR).buckets == 1
    assert Bucket.objects.get(level=300, starts_at=AT, allocation=held).seen_us == 30_000_000


def test_many_writers_and_rollers_at_once_leave_the_rows_of_a_fresh_start(books: Books) -> None:
    gpus = [books.whole(f"GPU-{index}") for index in range(3)]
    for gpu in gpus:
        books.hold(gpu, AT, AT + HOUR)
    devices = [books.device(gpu) for gpu in gpus]
    now = AT + 2 * HOUR

    def write(device: Device) -> None:
        for at in books.every(AT, AT + HOUR):
            with transaction.atomic():
                books.see(device, [at])

    def roll() -> None:
        for _ in range(20):
            rollup.roll(books.cluster, now=now)

    threads = [in_thread(lambda device=device: write(device)) for device in devices]  # type: ignore[misc]
    threads += [in_thread(roll) for _ in range(2)]
    for thread in threads:
        thread.join(patient(90))
    books.roll(now)
    assert not DirtySpan.objects.exists()
    after = stored()
    assert sum(Bucket.objects.filter(level=86400).values_list("seen_us", flat=True)) == 3 * 3600 * 10**6
    books.anew(now)
    assert stored() == after
