"""Buckets are what the facts say: in any order, twice, late, killed, and made anew."""

import os
import random
from collections.abc import Iterable
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction

import pytest
from django.db.models import Sum

from apps.metering.billing.selectors import costs
from apps.metering.billing.selectors.costs import Group
from apps.metering.ledger.rules.buckets import MILLION
from apps.metering.ledger.rules.segments import ChangeKind
from apps.metering.ledger.services import account_sums, bucket_store, invalidation, rollup
from apps.metering.models import Allocation, Bucket, Correction, DirtySpan, Finding, RollPosition, Sample
from apps.metering.specs import FindingKind, FindingPhase
from apps.quotas.models import Price
from apps.web.streams import events
from apps.workloads.models import Workload
from tests.conftest import Cast
from tests.metering.books import AT, BUCKET, HOUR, MINUTE, STEP, Books, stored
from tests.metering.priced_scene import count_by

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]
SEED = int(os.environ.get("LEDGER_SEED", "11"))
ROLLS = int(os.environ.get("LEDGER_ROLLS", "20"))
"""After how many random events the ledger is rolled up."""


@pytest.fixture
def books(cast: Cast) -> Books:
    return Books(cast)


def shares(level: int = 300, **only: object) -> dict[tuple[str, str], int]:
    """Shares x µs by account and reason."""
    rows = Bucket.objects.filter(level=level, **only).values_list("account", "reason")
    return {(account, reason): total for account, reason, total in rows.annotate(total=Sum("share_us"))}


def test_every_bucket_up_to_now_is_there_for_a_gpu_that_nobody_has(books: Books) -> None:
    books.whole()
    books.roll(AT + HOUR + rollup.LATE)
    assert list(Bucket.objects.filter(level=300).values_list("account", "reason").distinct()) == [
        ("idle", "free")
    ]
    assert Bucket.objects.filter(level=300).count() == 12
    assert shares(300) == shares(3600) == shares(86400) == {("idle", "free"): 3600 * MILLION}


def test_a_bucket_waits_for_late_words_before_it_is_made(books: Books) -> None:
    books.whole()
    books.roll(AT + BUCKET + rollup.LATE - timedelta(seconds=1))
    assert not Bucket.objects.exists()
    books.roll(AT + BUCKET + rollup.LATE)
    assert Bucket.objects.filter(level=300).count() == 1


def test_holders_samples_and_levels_add_up(books: Books) -> None:
    gpu = books.whole()
    held = books.hold(gpu, AT + MINUTE, AT + 31 * MINUTE)
    books.see(books.device(gpu), books.every(AT, AT + HOUR), smi=98)
    books.roll(AT + 2 * HOUR)
    for level in (300, 3600, 86400):
        sums = Bucket.objects.filter(level=level, allocation=held).aggregate(
            share=Sum("share_us"), seen=Sum("seen_us"), smi=Sum("smi_sum"), work=Sum("effective")
        )
        assert sums["share"] == sums["seen"] == 1800 * MILLION
        assert sums["smi"] == 1800 * MILLION * 980_000
        assert sums["work"] == 1800 * MILLION * 500_000
    row = Bucket.objects.get(level=3600, allocation=held)
    assert (row.workload, row.tenant, row.offer) == (held.workload, held.tenant, held.offer)
    assert (row.node, row.model, row.denominator) == ("n1", "H100", 1)


def test_instances_are_joined_by_their_own_uuid(books: Books) -> None:
    gpu = books.cut(m0=3, m1=3)
    one, two = (books.hold(gpu, name=f"n1/{name}") for name in ("m0", "m1"))
    books.see(books.device(gpu, "n1/m0"), books.every(AT, AT + HOUR), sm_active=900_000, power_mw=700_000)
    books.roll(AT + HOUR + rollup.LATE)
    first, second = (Bucket.objects.get(level=3600, allocation=held) for held in (one, two))
    assert (first.seen_us, second.seen_us) == (3600 * MILLION, 0)
    assert (first.share_us, first.denominator) == (3 * 3600 * MILLION, 7)
    assert first.power_us_mw == 0
    assert shares(3600)["idle", "stranded"] == 3600 * MILLION


def test_time_slicing_is_counted_in_shares_and_never_seen(books: Books) -> None:
    pool = books.pool()
    for _ in range(3):
        books.hold(pool, name=f"{pool}#0")
    books.roll(AT + HOUR + rollup.LATE)
    assert shares(3600) == {("tenant", ""): 3 * 3600 * MILLION, ("idle", "free"): 5 * 3600 * MILLION}
    assert Bucket.objects.filter(level=3600).aggregate(Sum("seen_us"))["seen_us__sum"] == 0


def test_the_same_again_changes_nothing_and_costs_nothing(books: Books) -> None:
    gpu = books.whole()
    books.hold(gpu)
    books.see(books.device(gpu), books.every(AT, AT + HOUR))
    books.roll(AT + 2 * HOUR)
    before = stored()
    assert books.roll(AT + 2 * HOUR).buckets == 0
    books.see(books.device(gpu), books.every(AT, AT + HOUR))
    assert books.roll(AT + 2 * HOUR).buckets > 0
    assert stored() == before


def test_only_what_is_marked_is_made_anew_however_long_the_history(books: Books) -> None:
    gpu = books.whole()
    books.hold(gpu)
    books.roll(AT + 30 * HOUR)
    done = books.roll(AT + 30 * HOUR + BUCKET)
    assert done.buckets == 1
    books.see(books.device(gpu), [AT + 5 * HOUR + 2 * MINUTE])
    assert books.roll(AT + 30 * HOUR + BUCKET).buckets == 1


def test_late_samples_find_their_bucket_hour_and_day(books: Books) -> None:
    gpu = books.whole()
    held = books.hold(gpu)
    books.roll(AT + 6 * HOUR)
    books.see(books.device(gpu), [AT + 10 * MINUTE])
    books.roll(AT + 6 * HOUR)
    for level in (300, 3600, 86400):
        seen = Bucket.objects.filter(level=level, allocation=held).aggregate(Sum("seen_us"))["seen_us__sum"]
        assert seen == 30 * MILLION


def test_counters_that_are_0_under_full_load_are_unknown_and_nobodys_waste(books: Books) -> None:
    """dcgm-exporter issue 662: watts and nvidia-smi contradict them."""
    gpu = books.whole()
    held = books.hold(gpu)
    device = books.device(gpu)
    device.model = "NVIDIA H100 80GB HBM3"
    device.save()
    stuck = {"sm_active": 0, "tensor_active": 0, "dram_active": 0, "smi": 100, "power_mw": 560_000}
    books.see(device, books.every(AT, AT + HOUR / 2), **stuck)
    books.see(device, books.every(AT + HOUR / 2, AT + HOUR), **(stuck | {"power_mw": 90_000}))
    books.roll(AT + HOUR + rollup.LATE)
    row = Bucket.objects.get(level=3600, allocation=held)
    assert (row.held_us, row.seen_us, row.samples) == (3600 * MILLION, 1800 * MILLION, 60)
    assert (row.effective, row.idle) == (0, 1800 * MILLION**2)


def test_counters_of_an_instance_that_are_0_under_its_boards_load_are_unknown_unless_a_neighbour_works(
    books: Books,
) -> None:
    """Twenty minutes under load with all instances at 0, twenty beside a busy one, twenty at rest."""
    gpu = books.cut(m0=3, m1=4)
    held = books.hold(gpu, name="n1/m0")
    devices = [books.device(gpu, name) for name in ("n1/m0", "n1/m1")]
    for number, each in enumerate(devices, 1):
        each.model, each.gpu_instance = "NVIDIA H100 80GB HBM3", number
        each.save()
    dead = {"sm_active": 0, "tensor_active": 0, "dram_active": 0, "smi": None, "power_mw": 560_000}
    alive = {**dead, "sm_active": 900_000, "dram_active": 300_000}
    third = HOUR / 3
    for begins, beside, watts in (
        (AT, dead, 560_000),
        (AT + third, alive, 560_000),
        (AT + 2 * third, dead, 90_000),
    ):
        times = books.every(begins, begins + third)
        books.see(devices[0], times, **(dead | {"power_mw": watts}))
        books.see(devices[1], times, **(beside | {"power_mw": watts}))
    books.roll(AT + HOUR + rollup.LATE)
    row = Bucket.objects.get(level=3600, allocation=held)
    assert (row.held_us, row.seen_us) == (3600 * MILLION, 2400 * MILLION)
    assert (row.effective, row.idle) == (0, 2400 * MILLION**2)


@pytest.mark.timeout(900)
def test_random_order_repetition_and_lateness_give_the_rows_of_a_fresh_start(books: Books) -> None:
    rng = random.Random(SEED)
    whole, cut, pool = books.whole(), books.cut(m0=3, m1=4), books.pool()
    row = books.workload()
    Finding.objects.create(
        workload=row, tenant=row.tenant, kind=FindingKind.HOARDER, since=AT, created_at=AT, judged_at=AT,
        idle=[[AT.timestamp() + 600, AT.timestamp() + 4000]],
    )  # fmt: skip
    own = books.whole("GPU-3")
    books.hold(own, AT, row=row)
    places = [(whole, ""), (cut, "n1/m0"), (cut, "n1/m1"), (pool, f"{pool}#0")]
    samples = [
        (books.device(gpu, name), at)
        for gpu, name in places[:3]
        for at in books.every(AT, AT + 3 * HOUR)
        if rng.random() < 0.8
    ]
    samples += [(books.device(own), at) for at in books.every(AT, AT + HOUR)]
    rng.shuffle(samples)
    now = AT
    for index in range(ROLLS):
        now += timedelta(seconds=rng.randrange(9000 // ROLLS))
        _something(books, rng, places, row)
        part = samples[index * len(samples) // ROLLS : (index + 2) * len(samples) // ROLLS]
        for device in {device for device, _ in part}:
            times = [at for other, at in part if other == device]
            books.see(device, times, sm_active=lambda at: int(at.timestamp()) * 7919 % MILLION)
        books.roll(now)
    books.roll(AT + 4 * HOUR)
    day = AT - 9 * HOUR, AT + 15 * HOUR
    assert list(account_sums.differences(books.cluster, day)) == []
    incremental = stored()
    books.anew(AT + 4 * HOUR)
    assert stored() == incremental
    assert Bucket.objects.filter(hoarded__gt=0).exists()


def _something(books: Books, rng: random.Random, places: list[tuple[str, str]], row: Workload) -> None:
    """A holder that comes or goes, a correction, or a change of the hardware, somewhere in the past."""
    at = AT + timedelta(seconds=rng.randrange(3 * 3600))
    gpu, name = rng.choice(places)
    mine = Allocation.objects.filter(ended_at=None, gpu__in={gpu for gpu, _ in places})
    choice, open_ = rng.random(), mine.order_by("started_at", "device", "claim_uid").first()
    if choice < 0.4:
        ends = None if rng.random() < 0.3 else at + timedelta(seconds=rng.randrange(3600))
        books.hold(gpu, at, ends, name=name, row=row if rng.random() < 0.5 else None)
    elif choice < 0.6 and open_ is not None:
        Allocation.objects.filter(pk=open_.pk).update(ended_at=max(at, open_.started_at))
        invalidation.mark(books.cluster, [(open_.gpu, open_.started_at, books.until(at))])
    elif choice < 0.75 and open_ is not None:
        # Straight into the table: the service refuses what another holder has, the roll must bear it.
        Correction.objects.create(
            allocation=open_, started_at=at, ended_at=at + HOUR, reason="r", made_by="r", made_at=AT
        )
        invalidation.mark(books.cluster, [(open_.gpu, AT, books.until(at + HOUR))])
    elif choice < 0.8:
        books.cut(places[1][0], at, parts=rng.choice((1, 4, 7)), m0=1)
    else:
        kinds = (ChangeKind.CORDONED, ChangeKind.UNCORDONED, ChangeKind.UNHEALTHY, ChangeKind.HEALTHY)
        books.fact(gpu, rng.choice(kinds), at)


def test_a_roll_killed_within_a_slice_loses_and_doubles_nothing(
    books: Books, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpu = books.whole()
    books.hold(gpu)
    books.see(books.device(gpu), books.every(AT, AT + HOUR))
    monkeypatch.setattr(rollup, "SLICE", 4)
    real, calls = bucket_store.summed, []

    def dies(*given: object, **more: object) -> object:
        calls.append(1)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return real(*given, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(bucket_store, "summed", dies)
    with pytest.raises(KeyboardInterrupt):
        books.roll(AT + HOUR + rollup.LATE)
    assert DirtySpan.objects.filter(starts_at__lt=AT + HOUR).count() == 8
    books.roll(AT + HOUR + rollup.LATE)
    after = stored()
    books.anew(AT + HOUR + rollup.LATE)
    assert stored() == after


def test_a_gpu_that_left_has_no_more_buckets_and_one_that_came_back_has(books: Books) -> None:
    gpu = books.whole()
    books.fact(gpu, ChangeKind.GONE, AT + 10 * MINUTE)
    books.roll(AT + HOUR)
    books.fact(gpu, ChangeKind.PRESENT, AT + 90 * MINUTE, node="n1", model="H100", denominator=1)
    books.roll(AT + 2 * HOUR + rollup.LATE)
    assert shares(86400) == {("idle", "free"): 40 * 60 * MILLION}
    before = stored()
    books.anew(AT + 2 * HOUR + rollup.LATE)
    assert stored() == before


def test_a_dismissed_finding_takes_its_cause_back(books: Books) -> None:
    gpu = books.whole()
    held = books.hold(gpu)
    books.see(books.device(gpu), books.every(AT, AT + HOUR), sm_active=0, dram_active=0)
    found = Finding.objects.create(
        workload=held.workload, tenant=held.tenant, kind=FindingKind.ZOMBIE, since=AT, created_at=AT,
        judged_at=AT, idle=[[AT.timestamp(), AT.timestamp() + 1800]],
    )  # fmt: skip
    spans = [(AT.timestamp(), AT.timestamp() + 1800)]
    books.roll(AT + HOUR + rollup.LATE)
    row = Bucket.objects.get(level=3600, allocation=held)
    assert (row.zombie, row.idle) == (1800 * MILLION**2, 1800 * MILLION**2)
    Finding.objects.filter(pk=found.pk).update(phase=FindingPhase.DISMISSED)
    invalidation.mark_findings(held.work.allocations.all(), spans)
    books.roll(AT + HOUR + rollup.LATE)
    row = Bucket.objects.get(level=3600, allocation=held)
    assert (row.zombie, row.idle) == (0, 3600 * MILLION**2)


def test_five_minutes_are_pruned_once_hours_exist_and_the_past_is_closed_then(
    books: Books, settings: object
) -> None:
    gpu = books.whole()
    books.hold(gpu)
    now = AT + timedelta(days=17)
    books.roll(now)
    sums = shares(3600), shares(86400)
    assert rollup.prune(books.cluster, now=now) > 0
    position = RollPosition.objects.get()
    assert position.pruned_until is not None
    assert not Bucket.objects.filter(level=300, starts_at__lt=position.pruned_until).exists()
    assert (shares(3600), shares(86400)) == sums
    invalidation.mark(books.cluster, [(gpu, AT, AT + HOUR)])
    books.roll(now)
    assert (shares(3600), shares(86400)) == sums
    assert not DirtySpan.objects.exists()


def test_a_mark_that_is_there_is_written_again_so_that_it_is_locked(books: Books) -> None:
    invalidation.mark(books.cluster, [("g", AT, AT + MINUTE)])
    invalidation.mark(books.cluster, [("g", AT + MINUTE, AT + 6 * MINUTE), ("g", AT, AT)])
    assert list(DirtySpan.objects.order_by("starts_at").values_list("starts_at", flat=True)) == [
        AT,
        AT + BUCKET,
    ]


def test_the_balance_holds_in_every_bucket_of_every_level(books: Books) -> None:
    books.whole()
    gpu = books.cut(m0=3, m1=2)
    books.hold(gpu, AT + 7 * MINUTE, AT + 50 * MINUTE, name="n1/m0")
    books.roll(AT + 3 * HOUR + rollup.LATE)
    for level in (300, 3600, 86400):
        for spot in Bucket.objects.filter(level=level).values("gpu", "starts_at").distinct():
            rows = list(Bucket.objects.filter(level=level, **spot))
            gpus = sum(Fraction(row.share_us, row.denominator) for row in rows)
            there = min(level, 3 * 3600)
            assert gpus == there * MILLION
    assert not Sample.objects.exists()
    assert STEP.total_seconds() == 30


def test_the_clock_rolls_up_and_prunes_every_cluster_and_tells_the_open_pages(
    books: Books, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[tuple[list[str], str | None]] = []

    def publish(topics: Iterable[str], *, part: str | None, data: object) -> None:
        told.append((list(topics), part))

    monkeypatch.setattr(events, "publish", publish)
    held = books.hold(books.whole())
    rollup.tell_pages(rollup.roll_up(now=AT + HOUR))
    assert Bucket.objects.filter(level=300, allocation=held).count() == 11
    assert [topics for topics, _ in told] == [
        ["console"], ["tenant:vision"], [f"workload:{held.workload_id}"]
    ]  # fmt: skip
    told.clear()
    rollup.tell_pages(rollup.roll_up(now=AT + HOUR))
    assert told == []
    rollup.roll_up(now=AT + timedelta(days=16))
    rollup.prune_ledger(now=AT + timedelta(days=16))
    assert RollPosition.objects.get().pruned_until is not None


@pytest.mark.parametrize("formula", ["max-sm-dram", "sm"])
def test_the_time_of_a_found_evasion_is_hoarded_whole_on_the_bill(
    books: Books, formula: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    count_by(monkeypatch, formula)
    Price.objects.update(valid_from=AT - timedelta(days=1), hourly=Decimal(2))
    row, gpu = books.workload(), books.whole()
    books.hold(gpu, AT, AT + HOUR, row=row)
    books.see(books.device(gpu), books.every(AT, AT + HOUR), sm_active=MILLION, dram_active=0)
    Finding.objects.create(
        workload=row, tenant=row.tenant, kind=FindingKind.EVASION, since=AT, created_at=AT, judged_at=AT,
        idle=[[(AT + HOUR / 2).timestamp(), (AT + HOUR).timestamp()]],
    )  # fmt: skip
    now = AT + 2 * HOUR
    books.roll(now)
    (found,) = costs.costs(Allocation.objects.all(), Group.TENANT, begins=AT, ends=now, now=now)
    assert (found.effective, found.causes["hoarded"]) == (Decimal(1), Decimal(1))
    assert (found.waste, found.unknown) == (Decimal(1), Decimal(0))
