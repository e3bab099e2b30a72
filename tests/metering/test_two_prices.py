"""What was allocated and what of it did work: the parts are the whole, exactly, however it is cut."""

from datetime import datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from random import Random
from typing import Any

import pytest
from django.test import Client

from apps.metering.allocations.rules.intervals import Interval
from apps.metering.billing.rules import effective_split, pricing
from apps.metering.billing.rules.effective_split import CAUSES, Exact
from apps.metering.billing.rules.pricing import PricePeriod
from apps.metering.billing.selectors import charges, costs
from apps.metering.billing.selectors.charged_intervals import WholeTenants, apart
from apps.metering.billing.selectors.costs import Group
from apps.metering.billing.services import pricing_run
from apps.metering.models import Allocation, Bucket, Correction, HardwareFact
from apps.quotas.models import Price
from apps.tenants.models import Tenant
from apps.workloads.models import Workload, WorkloadEvent
from tests.conftest import Cast
from tests.factories import make_offer, make_workload
from tests.metering.made_buckets import FIGURES, MILLION, decimals, floor, micros, roll
from tests.metering.priced_scene import AT, DAY, HOUR, NOW, SECOND, held, line, preempt, price
from tests.sample import every
from tests.workloads.rest import Api

pytestmark = pytest.mark.both_databases


@pytest.fixture
def row(cast: Cast) -> Workload:
    Price.objects.update(valid_from=AT - timedelta(days=40), hourly=Decimal(2))
    return make_workload(cast.vision, cast.rosa, cast.offer)


def exact(begins: datetime, ends: datetime, now: datetime = NOW) -> Exact:
    total = Exact()
    for found in charges.charges(Allocation.objects.all(), begins, ends, now=now).values():
        total.add(found)
    return total


@pytest.mark.django_db
def test_a_charge_is_effective_wasted_by_cause_and_unknown(row: Workload) -> None:
    a = held(row, AT, AT + 10 * HOUR)
    roll(a, NOW, effective=0.25, partly=0.125, idle=0.0625, hoarded=0.0625, zombie=0.25)
    found = line()
    assert (found.allocated, found.charged, found.effective) == (Decimal(20), Decimal(20), Decimal(5))
    assert found.causes == {
        "hoarded": Decimal("1.25"),
        "zombie": Decimal(5),
        "crashing": Decimal(0),
        "oversized": Decimal(0),
        "idle": Decimal("1.25"),
        "partly": Decimal("2.5"),
    }
    assert (found.recoverable, found.inefficiency) == (Decimal("6.25"), Decimal("3.75"))
    assert (found.waste, found.unknown) == (Decimal(10), Decimal(5))


@pytest.mark.django_db
def test_without_roll_ups_all_of_a_charge_is_unknown_and_nothing_is_waste(row: Workload) -> None:
    held(row, AT, AT + HOUR)
    found = line()
    assert (found.effective, found.waste, found.unknown) == (Decimal(0), Decimal(0), Decimal(2))


@pytest.mark.django_db
def test_what_runs_is_unknown_from_where_the_roll_ups_end(row: Workload) -> None:
    a = held(row, AT, None)
    roll(a, AT + 2 * HOUR, effective=1)
    found = line(ends=NOW, now=AT + 3 * HOUR)
    assert (found.allocated, found.effective, found.unknown) == (Decimal(6), Decimal(4), Decimal(2))


@pytest.mark.django_db
def test_a_bucket_that_lags_behind_tells_of_its_own_time_only(row: Workload) -> None:
    a = held(row, AT, None)
    roll(a, AT + 3 * HOUR / 60, effective=1)
    found = line(now=AT + 4 * HOUR / 60)
    assert found.effective == Decimal("0.1")
    assert found.unknown == found.allocated - found.effective


@pytest.mark.django_db
def test_refunded_time_is_neither_effective_nor_waste(row: Workload) -> None:
    a = held(row, AT, AT + 3 * HOUR)
    roll(a, NOW, effective=0.5, idle=0.5)
    preempt(row, AT + 3 * HOUR)
    found = line()
    assert (found.allocated, found.refunded, found.charged) == (Decimal(6), Decimal(2), Decimal(4))
    assert (found.effective, found.waste, found.unknown) == (Decimal(2), Decimal(2), Decimal(0))


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("kind", "minutes_before_its_end", "refunded"),
    [("unhealthy", 5, 2), ("gone", 0, 2), ("unhealthy", 40, 0), ("gone", -5, 0), ("cordoned", 5, 0)],
)
def test_what_a_fault_of_the_platform_ended_is_refunded(
    row: Workload, kind: str, minutes_before_its_end: int, refunded: int
) -> None:
    held(row, AT, AT + 3 * HOUR, gpu="GPU-1")
    held(row, AT, AT + 3 * HOUR, "beside", gpu="GPU-2")
    at = AT + 3 * HOUR - minutes_before_its_end * 60 * SECOND
    HardwareFact.objects.create(cluster=row.cluster, gpu="GPU-1", kind=kind, at=at, recorded_at=at)
    assert (line().allocated, line().refunded) == decimals(12, refunded)


@pytest.mark.django_db
def test_a_correction_moves_the_charge_and_stale_roll_ups_never_exceed_it(row: Workload) -> None:
    a = held(row, AT, AT + 10 * HOUR)
    roll(a, NOW, effective=0.5, partly=0.5)
    Correction.objects.create(
        allocation=a, started_at=AT, ended_at=AT + HOUR, reason="clock", made_by="petra", made_at=NOW
    )
    found = line()
    assert (found.allocated, found.effective, found.waste, found.unknown) == decimals(2, 1, 1, 0)


@pytest.mark.django_db
def test_a_month_of_busy_devices_is_summed_on_every_database(row: Workload) -> None:
    """Eight devices for 14 days are 112 days x 86,400,000,000 µs x 1,000,000: more than 64 bits hold."""
    ends = NOW.replace(hour=0)
    days = [ends - timedelta(days=n) for n in range(1, 15)]
    assert 8 * len(days) * micros(DAY) * MILLION > 2**63
    for name in "abcdefgh":
        a = held(row, days[-1], ends, name)
        Bucket.objects.bulk_create(busy(a, day) for day in days)
    found = line(begins=days[-1], ends=ends)
    assert found.effective == found.charged == 8 * 14 * 24 * 2


def busy(a: Allocation, day: datetime) -> Bucket:
    us = micros(DAY)
    return Bucket(
        level=86400, starts_at=day, cluster_id=a.cluster_id, gpu=a.device, account="tenant",
        holder=str(a.pk), allocation=a, workload=a.workload, tenant=a.tenant, offer_id=a.offer_id,
        denominator=7, share_us=us, held_us=us, seen_us=us, effective=us * MILLION,
    )  # fmt: skip


@pytest.mark.django_db
def test_four_quarters_of_a_gpu_for_an_hour_are_one_gpu_hour(cast: Cast, row: Workload) -> None:
    for name in "abcd":
        Allocation.objects.create(
            cluster=row.cluster, tenant=row.tenant, workload=row,
        offer=row.offer, claim_uid=name, node="n", device=name,
            share_numerator=1, share_denominator=4, started_at=AT, ended_at=AT + HOUR,
        )  # fmt: skip
    assert line().gpu_hours == 1


@pytest.mark.django_db
@pytest.mark.parametrize("seed", every(4, range(8)))
def test_sums_of_parts_are_the_whole_and_equal_the_long_way_round(
    cast: Cast, row: Workload, seed: int
) -> None:
    rng = Random(seed)
    whole = make_offer(cast.offer.flavor, "h100-whole", profile="", hourly="3.33333333")
    other = make_workload(cast.speech, cast.leon, whole, slug="other")
    for number in range(8):
        some = rng.choice((row, other))
        begins = AT + rng.randint(0, 200_000) * SECOND + timedelta(microseconds=rng.randint(0, 999_999))
        a = held(some, begins, begins + rng.randint(60, 90_000) * SECOND, str(number))
        roll(a, NOW, rng)
        if rng.random() < 0.3:
            preempt(some, a.ended_at)  # type: ignore[arg-type]
    # Without a change in the window the database sums; with one, each allocation is looked at.
    for number in range(5 if seed % 2 else 0):
        moment = AT + rng.randint(0, 290_000) * SECOND
        price(rng.choice((row, other)).offer, f"{rng.randint(1, 999)}.{number}7", moment)
    begins = AT + rng.randint(0, 50_000) * SECOND
    ends = begins + rng.randint(60_000, 250_000) * SECOND
    total = exact(begins, ends)
    assert total.charged == total.effective + total.waste + total.unknown
    assert total.allocated - total.refunded == total.charged
    assert min(total.effective, total.unknown, *total.causes.values()) >= 0
    assert {name: value for name, value in total.known.items() if value} == long_way(begins, ends)
    assert total.effective > 0
    cut = begins + rng.random() * (ends - begins)
    together = Exact()
    together.add(exact(begins, cut))
    together.add(exact(cut, ends))
    assert_same(together, total)
    for group in Group:
        lines, of_tenants = (
            costs.costs(of, group, begins=begins, ends=ends, now=NOW)
            for of in (Allocation.objects.all(), WholeTenants(Tenant.objects.all()))
        )
        assert of_tenants == lines
        assert all(e.charged == e.effective + e.waste + e.unknown for e in lines)
        assert abs(costs.total_of(lines).charged - pricing.amount(total.charged)) < Decimal("1e-6")


@pytest.mark.django_db
def test_what_began_after_the_last_price_of_the_time_is_summed_by_the_database(row: Workload) -> None:
    price(row.offer, "3", AT + 5 * HOUR)
    before, after = held(row, AT, AT + 6 * HOUR), held(row, AT + 5 * HOUR, AT + 9 * HOUR, "b")
    rows = Allocation.objects.all()
    assert set(rows.filter(apart(rows, AT, AT + 10 * HOUR))) == {before}
    assert set(rows.filter(apart(rows, AT, AT + 5 * HOUR))) == set(), "a change at the end is none"
    roll(before, NOW, effective=0.5)
    roll(after, NOW, effective=0.25)
    total = exact(AT, AT + 10 * HOUR, NOW)
    assert total.allocated == Fraction(5 * 2 + 1 * 3 + 4 * 3)
    assert total.effective == Fraction(5 * 2 + 1 * 3, 2) + Fraction(4 * 3, 4)


def assert_same(one: Exact, other: Exact) -> None:
    for name in ("allocated", "refunded", "seconds", "refunded_seconds", "effective", "unknown", "causes"):
        assert getattr(one, name) == getattr(other, name), name


def long_way(begins: datetime, ends: datetime) -> dict[str, Fraction]:
    """Bucket by bucket of 5 minutes: the money of the part that is paid for x what was done / held."""
    sums = dict.fromkeys(FIGURES, Fraction(0))
    moments = dict[Any, list[datetime]]()
    for event in WorkloadEvent.objects.filter(reason="Preempted"):
        moments.setdefault(event.workload_id, []).append(event.at)
    for bucket in Bucket.objects.filter(level=300).select_related("allocation"):
        a = bucket.allocation
        assert a is not None
        assert a.ended_at is not None
        paid = a.ended_at
        if any(a.started_at <= at <= a.ended_at + 60 * SECOND for at in moments.get(a.workload_id, ())):
            paid = max(a.started_at, a.ended_at - HOUR)
        first = max(bucket.starts_at, begins, a.started_at)
        last = min(bucket.starts_at + 300 * SECOND, ends, paid)
        if first < last:
            money = pricing.cost(Interval(first, last), periods(a))
            for name in FIGURES:
                sums[name] += money * getattr(bucket, name) / (bucket.held_us * MILLION)
    return {name: value for name, value in sums.items() if value}


def periods(a: Allocation) -> list[PricePeriod]:
    return [PricePeriod(p.valid_from, p.hourly) for p in Price.objects.filter(offer=a.offer_id)]


@pytest.mark.django_db
def test_a_workload_carries_both_prices_and_rest_shows_them_with_the_formula(
    cast: Cast, row: Workload
) -> None:
    a = held(row, AT, None)
    roll(a, AT + 2 * HOUR, effective=0.5, partly=0.25, hoarded=0.25)
    pricing_run.price_workloads([row.pk], now=AT + 3 * HOUR)
    row.refresh_from_db()
    figures = (row.cost_allocated, row.cost_effective, row.cost_waste, row.cost_unknown, row.cost_hourly)
    assert figures == decimals(6, 2, 2, 2, 2)
    client: Client = Api(cast.rosa).client
    cost = client.get(f"/api/v1/workloads/{row.pk}").json()["status"]["cost"]
    assert [cost[name]["amount"] for name in ("effective", "waste", "unknown")] == ["2.00"] * 3
    told = client.get(f"/api/v1/workloads/{row.pk}/cost?from=2026-11-18T10:00:00Z&to=2026-11-18T12:00:00Z")
    assert told.json()["formula"] == "charged x max(SM active, DRAM active), v1"
    total = told.json()["total"]
    assert (total["allocated"]["amount"], total["effective"]["amount"]) == ("4.00", "2.00")
    assert {cause: total["waste_by_cause"][cause]["amount"] for cause in CAUSES} == {
        "hoarded": "1.00", "zombie": "0.00", "crashing": "0.00", "oversized": "0.00", "idle": "0.00",
        "partly": "1.00",
    }  # fmt: skip


@pytest.mark.django_db
def test_a_workload_that_never_held_anything_has_no_effective_price(row: Workload) -> None:
    pricing_run.price_workloads([row.pk], now=NOW)
    row.refresh_from_db()
    assert row.cost_allocated == 0
    assert row.cost_effective is row.cost_unknown is None


@pytest.mark.django_db
def test_a_tenants_own_price_and_the_capacity_decide(cast: Cast, row: Workload) -> None:
    price(cast.offer, "0.50", AT - HOUR, capacity="spot")
    price(cast.offer, "1", AT + 2 * HOUR, tenant=cast.vision, valid_until=AT + 3 * HOUR)
    held(row, AT, AT + 4 * HOUR, capacity="on-demand")
    assert line().allocated == Decimal(7)
    Allocation.objects.update(capacity="spot")
    assert line().allocated == Decimal("2.5")
    make = make_workload(cast.speech, cast.leon, cast.offer, slug="other")
    Allocation.objects.update(workload=make, tenant=make.tenant)
    assert line().allocated == Decimal(2)


@pytest.mark.django_db
def test_what_ended_is_charged_in_whole_units_and_the_rest_of_the_last_one_is_idle(row: Workload) -> None:
    Price.objects.update(least_seconds=3600)
    a = held(row, AT, AT + 90 * 60 * SECOND)
    roll(a, NOW, effective=1)
    found = line()
    assert (found.allocated, found.effective, found.causes["idle"], found.unknown) == decimals(4, 3, 1, 0)
    assert found.gpu_hours == pricing.amount(Fraction(3, 14))
    before, after = line(ends=AT + 100 * 60 * SECOND), line(begins=AT + 100 * 60 * SECOND)
    assert before.allocated + after.allocated == 4
    held(row, AT, None, "open")
    assert line(Group.OFFER, now=AT + 90 * 60 * SECOND).allocated == 4 + 3


def test_cents_sum_to_the_total_and_none_is_off_by_a_cent() -> None:
    rng = Random(1)
    for _ in range(2000):
        parts = [
            Fraction(rng.randint(-(10**6), 10**6), rng.randint(1, 9999)) for _ in range(rng.randint(1, 9))
        ]
        found = pricing.cents(parts)
        assert sum(found) == Decimal(round(sum(parts, Fraction(0)) * 100)).scaleb(-2)
        assert all(abs(Fraction(c) - p) < Fraction(1, 100) for c, p in zip(found, parts, strict=True))
    assert pricing.cents([Fraction(1, 3)] * 3) == [Decimal("0.34"), Decimal("0.33"), Decimal("0.33")]


def test_a_cover_has_every_moment_once_and_no_cut_inside_a_roll_up() -> None:
    rng = Random(2)
    for _ in range(300):
        begins = AT + rng.randint(0, 10**6) * SECOND
        ends = begins + rng.randint(1, 10**6) * SECOND
        cuts = [AT + rng.randint(0, 2 * 10**6) * SECOND for _ in range(rng.randint(0, 4))]
        kept = rng.choice((effective_split.BEGINNING, AT + rng.randint(0, 10**6) * SECOND))
        plan = effective_split.cover(begins, ends, cuts, kept)
        spans = [s for stretch in plan.stretches for s in stretch.spans] + list(plan.edges)
        taken = sorted((max(s.begins, begins), min(s.ends, ends)) for s in spans)
        assert (taken[0][0], taken[-1][1]) == (begins, ends)
        assert all(a[1] == b[0] for a, b in pairwise(taken))
        inner = [s for stretch in plan.stretches for s in stretch.spans]
        assert all(s.begins == floor(s.begins, s.level) for s in spans)
        assert not any(s.begins < cut < s.ends and cut != floor(cut, s.level) for s in inner for cut in cuts)
        assert all(s.level > 300 or s.begins >= kept for s in spans)
        whole = [s for stretch in plan.stretches for s in stretch.spans if s.level == 86400]
        if not cuts and (ends - begins) > timedelta(days=3):
            assert whole
    assert micros(HOUR) == 3_600_000_000
