"""What is live is rolled before a backlog, and what an upgrade has made anew."""

import itertools
from collections.abc import Callable, Sequence
from datetime import datetime
from importlib import import_module
from types import SimpleNamespace

import pytest
from django.apps import apps
from django.db import connection
from django.utils import timezone

from apps.cluster.models import Cluster
from apps.metering import periodic
from apps.metering.history.selectors import progress
from apps.metering.ledger.rules.buckets import MILLION
from apps.metering.ledger.selectors import effective_formula, facts
from apps.metering.ledger.services import account_sums, invalidation, rollup
from apps.metering.models import Bucket, Device, DirtySpan, Finding
from apps.metering.specs import FindingKind
from tests.conftest import Cast
from tests.metering.books import AT, BUCKET, HOUR, MINUTE, Books, stored

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]
UPGRADE = import_module("apps.metering.migrations.0006_blind_idle_of_before")
LATER = import_module("apps.metering.migrations.0009_counters_and_watts")


@pytest.fixture
def books(cast: Cast) -> Books:
    return Books(cast)


def one_slice(books: Books, now: datetime, monkeypatch: pytest.MonkeyPatch) -> None:
    """A roll whose time is over after its first slice, of eight marks."""
    ticks = itertools.count()
    with monkeypatch.context() as patched:
        patched.setattr(rollup, "SLICE", 8)
        patched.setattr(rollup, "time", SimpleNamespace(monotonic=lambda: next(ticks)))
        rollup.roll(books.cluster, now=now, seconds=1.5)


def test_what_is_live_waits_for_no_backlog_of_other_gpus(
    books: Books, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, last = books.whole("GPU-a"), books.whole("GPU-z")
    now = AT + 30 * HOUR + rollup.LATE
    books.roll(now)
    invalidation.mark(books.cluster, [(first, AT, AT + 29 * HOUR)])
    held = books.hold(last, now - rollup.LATE - BUCKET, now)
    backlog = DirtySpan.objects.filter(gpu=first).count()
    one_slice(books, now, monkeypatch)
    assert Bucket.objects.filter(level=300, allocation=held).exists()
    assert DirtySpan.objects.filter(gpu=first).count() == backlog - 7
    books.roll(now)
    after = stored()
    books.anew(now)
    assert stored() == after


def test_the_clock_leaves_a_past_that_comes_in_to_whoever_brings_it(
    books: Books, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, last = books.whole("GPU-a"), books.whole("GPU-z")
    now = AT + 30 * HOUR + rollup.LATE
    books.roll(now)
    invalidation.mark(books.cluster, [(first, AT, AT + 28 * HOUR)])
    backlog = DirtySpan.objects.count()
    held = books.hold(last, now - rollup.LATE - BUCKET, now - rollup.LATE)
    monkeypatch.setattr(timezone, "now", lambda: now)
    monkeypatch.setattr(progress, "coming", lambda: progress.Coming(40, is_ended=False))
    periodic.roll_up()
    assert Bucket.objects.filter(level=300, allocation=held).exists()
    assert DirtySpan.objects.count() == backlog
    monkeypatch.setattr(progress, "coming", lambda: progress.Coming(40, is_ended=True))
    periodic.roll_up()
    assert not DirtySpan.objects.exists()


def test_what_a_new_finding_is_of_is_made_ahead_and_anew_when_its_time_is_over(books: Books) -> None:
    gpu, beside = books.whole("GPU-a"), books.whole("GPU-b")
    held, _ = books.hold(gpu), books.hold(beside)
    for each in (gpu, beside):
        books.see(books.device(each), books.every(AT, AT + HOUR), sm_active=0, dram_active=0)
    now = AT + HOUR / 2 + BUCKET / 2
    books.roll(now)
    Finding.objects.create(
        workload=held.workload, tenant=held.tenant, kind=FindingKind.HOARDER, since=AT, created_at=now,
        judged_at=now, idle=[[AT.timestamp(), (AT + HOUR).timestamp()]],
    )  # fmt: skip
    invalidation.mark_findings(held.work.allocations.all(), [(AT.timestamp(), now.timestamp())])
    rolled = rollup.roll_up(now=now)
    ahead = Bucket.objects.filter(level=300, starts_at=AT + HOUR / 2)
    assert [(row.allocation, row.held_us, row.hoarded) for row in ahead] == [
        (held, 150 * MILLION, 150 * MILLION**2)
    ]
    assert rolled.tenants == {str(held.tenant_id)}
    assert not list(account_sums.differences(books.cluster, (AT, AT + 24 * HOUR)))
    later = AT + HOUR + rollup.LATE
    assert rollup.roll_up(now=later).buckets == 2 * 6
    after = stored()
    books.anew(later)
    assert stored() == after


def test_a_live_mark_and_an_older_one_beside_it_are_made_together(
    books: Books, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpu = books.whole()
    now = AT + 5 * HOUR + rollup.LATE
    books.roll(now)
    border = AT + 5 * HOUR - rollup.LIVE
    invalidation.mark(books.cluster, [(gpu, border - BUCKET, border + BUCKET)])
    windows: list[object] = []
    real = facts.compute

    def seen(cluster: Cluster, gpus: Sequence[str], *window: datetime) -> object:
        windows.append(window)
        return real(cluster, gpus, *window)

    monkeypatch.setattr(facts, "compute", seen)
    books.roll(now)
    assert windows == [(border - BUCKET, border + BUCKET)]


@pytest.mark.skipif(connection.vendor != "sqlite", reason="counts the steps of SQLite's own machine")
def test_a_slice_costs_the_same_however_long_the_backlog(
    books: Books, monkeypatch: pytest.MonkeyPatch
) -> None:
    books.whole("GPU-z")
    now = AT + HOUR + rollup.LATE
    books.roll(now)

    def steps(gpus: int) -> int:
        invalidation.mark(books.cluster, [(f"GPU-{n:02}", AT - 30 * BUCKET, AT) for n in range(gpus)])
        counted = itertools.count()
        connection.connection.set_progress_handler(lambda: next(counted) and None, 1)
        try:
            one_slice(books, now, monkeypatch)
        finally:
            connection.connection.set_progress_handler(None, 1)
        return next(counted)

    few, many = steps(4), steps(60)
    assert DirtySpan.objects.count() > 60 * 29
    assert many < 1.2 * few


def test_an_upgrade_makes_anew_what_may_be_idle_without_sm(books: Books) -> None:
    gpu = books.whole()
    books.hold(gpu)
    books.see(books.device(gpu), books.every(AT, AT + HOUR), sm_active=None, dram_active=0)
    books.roll(AT + 2 * HOUR)
    before = stored()
    assert Bucket.objects.filter(level=3600, blind_idle=3600 * MILLION**2).count() == 1
    Bucket.objects.update(blind_idle=0)
    UPGRADE.make_anew(apps, None)
    books.roll(AT + 2 * HOUR)
    assert stored() == before


def test_an_upgrade_bounds_what_cannot_be_made_anew(books: Books) -> None:
    gpu = books.whole()
    books.hold(gpu)
    books.see(books.device(gpu), books.every(AT, AT + HOUR / 2), sm_active=None, dram_active=0)
    books.see(books.device(gpu), books.every(AT + HOUR / 2, AT + HOUR), sm_active=0, dram_active=0)
    books.roll(AT + 2 * HOUR)
    Bucket.objects.filter(level=300).delete()
    known = Bucket.objects.get(level=3600, starts_at=AT)
    Bucket.objects.update(blind_idle=0)
    UPGRADE.bound(apps, None)
    v2 = effective_formula._since_sm_2()
    (found,) = Bucket.objects.filter(level=3600, starts_at=AT).values_list(
        "blind_idle", v2["partly"], v2["idle"]
    )
    assert found == (known.blind_idle, 0, 1800 * MILLION**2)
    assert known.blind_idle == 1800 * MILLION**2


def test_an_upgrade_makes_anew_what_may_contradict_its_watts(books: Books) -> None:
    gpu, calm = books.whole(), books.whole("GPU-calm")
    for each in (gpu, calm):
        books.hold(each)
    quiet = {"sm_active": 0, "tensor_active": 0, "dram_active": 0, "smi": 0, "power_mw": 90_000}
    books.see(books.device(calm), books.every(AT, AT + HOUR), **quiet)
    books.see(books.device(gpu), books.every(AT, AT + HOUR), **(quiet | {"smi": 100, "power_mw": 560_000}))
    books.roll(AT + 2 * HOUR)
    Device.objects.filter(uuid=gpu).update(model="NVIDIA H100 80GB HBM3")
    LATER.make_anew(apps, None)
    assert set(DirtySpan.objects.values_list("gpu", flat=True)) == {gpu}
    books.roll(AT + 2 * HOUR)
    assert Bucket.objects.get(level=86400, gpu=gpu, account="tenant").seen_us == 0
    assert Bucket.objects.get(level=86400, gpu=calm, account="tenant").idle == 3600 * MILLION**2


def test_of_gpus_with_many_holders_few_are_computed_together(
    books: Books, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpus = [books.whole(f"GPU-{name}") for name in "abc"]
    for gpu, begins in itertools.product(gpus, range(3)):
        books.hold(gpu, AT + begins * MINUTE, AT + (begins + 1) * MINUTE)
    books.hold(gpus[2], AT + 4 * MINUTE, None)
    now = AT + BUCKET + rollup.LATE
    parts: list[Sequence[str]] = []

    def start(cluster: Cluster, part: Sequence[str], *window: datetime) -> Callable[[], facts.Computed]:
        parts.append(part)
        return rollup.when_asked(cluster, part, *window)

    monkeypatch.setattr(rollup, "HOLDERS", 6)
    rollup.roll(books.cluster, now=now, start=start)
    assert parts == [gpus[:2], gpus[2:]]
    after = stored()
    monkeypatch.undo()
    books.anew(now)
    assert stored() == after
