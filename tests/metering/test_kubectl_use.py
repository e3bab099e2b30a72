"""What work made with kubectl did: seen by its devices' UUIDs, and split on the bill like any other."""

from collections.abc import Iterator
from datetime import date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from random import Random
from typing import Any

import pytest
from django.conf import settings

from apps.metering.allocations.rules import intervals
from apps.metering.allocations.rules.intervals import Interval
from apps.metering.allocations.services.collect import collect
from apps.metering.billing.rules import pricing
from apps.metering.billing.rules.effective_split import RECOVERABLE, Exact
from apps.metering.billing.rules.pricing import PricePeriod
from apps.metering.billing.selectors import charges, costs, months
from apps.metering.billing.selectors.costs import Group
from apps.metering.billing.services import statements
from apps.metering.ledger.selectors.facts import EPOCH
from apps.metering.ledger.services import rollup, verifying
from apps.metering.models import Allocation, Bucket, Device, HardwareFact, RollPosition
from apps.metering.specs import Source
from apps.metering.telemetry.rules.sources.reading import COLUMNS, DeviceLabels, Reading
from apps.metering.telemetry.services import partitions
from apps.metering.telemetry.services.ingest import ingest
from apps.metering.usage.selectors import aggregates
from apps.quotas.models import Offer, Price
from tests.conftest import Cast, as_actor
from tests.factories import make_offer
from tests.metering.books import AT, BUCKET, HOUR, MINUTE, STEP, Books, stored
from tests.metering.hardware import CUT, WHOLE, node, tell
from tests.metering.kubectl_scene import claimed, ends, priced, whole
from tests.metering.priced_scene import count_by
from tests.sample import every
from tests.workloads import bodies

__all__ = ["whole"]
pytestmark = pytest.mark.django_db
LATER = AT + timedelta(days=2)
SECOND = timedelta(seconds=1)
WORK = {
    "gpu-01/gpu-0": ("GPU-a", ""),
    "gpu-01/gpu-0-mig-1": ("GPU-a", "1"),
    "gpu-01/gpu-0-mig-2": ("GPU-a", "2"),
}
MIG_1, MIG_2 = "gpu-01/gpu-0-mig-1", "gpu-01/gpu-0-mig-2"


@pytest.fixture
def books(cast: Cast) -> Books:
    return Books(cast)


@pytest.fixture
def slice_(whole: Offer) -> Offer:
    """The offer of 3/7 of an H100 at 1.4 an hour."""
    return priced(make_offer(whole.flavor, "h100-3g", profile="3g.40gb"), "1.4")


def looks(books: Books, at: datetime, *seen: dict[str, Any]) -> None:
    tell(books.workload(), *seen)
    collect(books.cluster, now=at)


def works(books: Books, device: str, begins: datetime, until: datetime, sm: float = 0.5, **more: Any) -> None:
    found = books.device(*WORK[device])
    values = {"sm_active": round(sm * 1e6), "dram_active": 0} | more
    books.see(found, books.every(begins, until), **values)


def exact(begins: datetime = AT, until: datetime = LATER, now: datetime = LATER) -> Exact:
    total = Exact()
    for found in charges.charges(Allocation.objects.filter(workload=None), begins, until, now=now).values():
        total.add(found)
    parts = total.effective, total.waste, total.unknown
    assert total.allocated - total.refunded == sum(parts)
    assert min(*parts, *total.causes.values()) >= 0
    return total


def test_its_charge_is_effective_wasted_by_cause_and_unknown_wherever_it_is_told(
    cast: Cast, whole: Offer, books: Books
) -> None:
    looks(books, AT, node(), WHOLE, claimed(cast, "gpu-01/gpu-0"))
    works(books, "gpu-01/gpu-0", AT, AT + HOUR, 0.5)
    works(books, "gpu-01/gpu-0", AT + HOUR, AT + 2 * HOUR, 0.01)
    ends()
    collect(books.cluster, now=AT + 4 * HOUR)
    books.roll(LATER)
    price = Fraction("3.33")
    found = exact()
    assert (found.charged, found.effective) == (4 * price, price * Fraction(51, 100))
    assert found.causes == {
        **dict.fromkeys(RECOVERABLE, 0), "idle": price * Fraction(99, 100), "partly": price / 2
    }  # fmt: skip
    assert found.unknown == 2 * price
    (line,) = months.month_of(cast.vision, date(2026, 11, 1), now=LATER).rows
    wanted = (Decimal("1.70"), Decimal("4.96"), Decimal("6.66"))
    assert (line.line.effective, line.line.waste, line.line.unknown) == wanted
    period = {"begins": AT, "ends": LATER, "now": LATER}
    for group in (Group.TENANT, Group.OFFER, Group.DEPARTMENT, Group.WORKLOAD, Group.MEMBER):
        (cost,) = costs.costs(Allocation.objects.all(), group, **period)
        assert cost.effective == Decimal("1.6983")
        assert cost.charged == cost.effective + cost.waste + cost.unknown
    rows = aggregates.rows_for(as_actor(cast.rosa))
    (totals,) = aggregates.sums(rows, AT, AT + 5 * HOUR, by=("tenant",)).values()
    assert totals.effective / totals.gpu == found.effective / found.charged
    assert verifying.verify(books.cluster).flaws == []


def test_what_begins_and_ends_anywhere_is_judged_for_its_own_time_alone(
    cast: Cast, whole: Offer, books: Books
) -> None:
    """Two claims one after the other in one bucket of one device."""
    odd = AT + timedelta(seconds=100, microseconds=7)
    looks(books, AT, node(), WHOLE, claimed(cast, "gpu-01/gpu-0"))
    ends()
    looks(books, odd, claimed(cast, "gpu-01/gpu-0", uid="r2"))
    works(books, "gpu-01/gpu-0", AT, AT + 90 * SECOND, 0.25)
    works(books, "gpu-01/gpu-0", AT + 90 * SECOND, AT + HOUR, 0.75)
    ends("r2")
    collect(books.cluster, now=AT + HOUR)
    books.roll(LATER)
    found = exact()
    first = 90 * Fraction(1, 4) + Fraction(10_000_007, 1_000_000) * Fraction(3, 4)
    rest = (3600 - Fraction(100_000_007, 1_000_000)) * Fraction(3, 4)
    assert found.effective == Fraction("3.33") * (first + rest) / 3600
    assert found.unknown == 0
    rows = Bucket.objects.filter(level=300, starts_at=AT, account="tenant")
    assert sorted(rows.values_list("held_us", flat=True)) == [100_000_007, 199_999_993]


def test_two_slices_of_one_claim_on_one_gpu_are_told_apart(cast: Cast, slice_: Offer, books: Books) -> None:
    looks(books, AT, node(), CUT, claimed(cast, MIG_1, MIG_2))
    works(books, MIG_1, AT, AT + HOUR, 0.8)
    works(books, MIG_2, AT, AT + HOUR, 0.1)
    ends()
    collect(books.cluster, now=AT + HOUR)
    books.roll(LATER)
    assert exact().effective == Fraction("1.4") * (Fraction(8, 10) + Fraction(1, 10))
    assert exact().unknown == 0
    hour = Bucket.objects.filter(level=3600, account="tenant")
    assert sorted(hour.values_list("held_us", "share_us", "effective")) == [
        (3_600_000_000, 3 * 3_600_000_000, 3_600_000_000 * some) for some in (100_000, 800_000)
    ]


def test_the_rest_of_a_unit_is_idle_and_a_price_that_changes_counts_from_its_moment(
    cast: Cast, whole: Offer, books: Books
) -> None:
    Price.objects.filter(offer=whole).update(least_seconds=3600)
    Price.objects.create(
        offer=whole, hourly=Decimal(6), currency="EUR", valid_from=AT + HOUR, least_seconds=3600
    )
    looks(books, AT, node(), WHOLE, claimed(cast, "gpu-01/gpu-0"))
    works(books, "gpu-01/gpu-0", AT, AT + 90 * MINUTE, 1.0)
    ends()
    collect(books.cluster, now=AT + 90 * MINUTE)
    books.roll(LATER)
    found = exact()
    assert (found.allocated, found.effective) == (Fraction("9.33"), Fraction("6.33"))
    assert found.causes["idle"] == 3
    assert found.unknown == 0


def test_what_is_refunded_is_neither_effective_nor_waste(cast: Cast, whole: Offer, books: Books) -> None:
    begins = AT + 2 * MINUTE
    looks(books, begins, node(), WHOLE, claimed(cast, "gpu-01/gpu-0"))
    works(books, "gpu-01/gpu-0", AT, AT + 3 * HOUR, 0.5)
    looks(books, AT + 3 * HOUR - 3 * MINUTE, node(ready=False))
    ends()
    collect(books.cluster, now=AT + 3 * HOUR + 2 * MINUTE)
    books.roll(LATER)
    found = exact()
    assert (found.allocated, found.refunded) == (Fraction("9.99"), Fraction("3.33"))
    assert found.effective == found.causes["partly"] == Fraction("3.33")
    assert found.unknown == 0


def test_a_bucket_in_which_the_device_became_of_another_offer_is_shared_by_time(
    cast: Cast, whole: Offer, books: Books
) -> None:
    Offer.objects.filter(pk=whole.pk).update(mechanism="device-plugin")
    looks(books, AT, node(), WHOLE, claimed(cast, "gpu-01/gpu-0"))
    Offer.objects.filter(pk=whole.pk).update(mechanism="dra")
    collect(books.cluster, now=AT + MINUTE)
    works(books, "gpu-01/gpu-0", AT, AT + MINUTE, 1.0)
    works(books, "gpu-01/gpu-0", AT + MINUTE, AT + 5 * MINUTE, 0.5)
    ends()
    collect(books.cluster, now=AT + 5 * MINUTE)
    books.roll(LATER)
    found = charges.charges(Allocation.objects.filter(workload=None), AT, LATER, now=LATER)
    by_offer = {lane.offer: sums for lane, sums in found.items()}
    assert len(by_offer) == Allocation.objects.filter(workload=None).count() == 2
    sums = by_offer[whole.pk]
    assert sums.allocated == Fraction("3.33") * 4 / 60
    assert sums.effective == sums.allocated * Fraction(60 + 4 * 30, 5 * 60)
    assert sums.effective + sums.waste == sums.allocated


@pytest.mark.parametrize("missing", ["uuid", "sm"])
def test_what_cannot_be_joined_or_was_not_measured_is_unknown(
    cast: Cast, whole: Offer, books: Books, missing: str
) -> None:
    looks(books, AT, node(), WHOLE, claimed(cast, "gpu-01/gpu-0"))
    if missing == "uuid":
        forget_uuids()
        works(books, "gpu-01/gpu-0", AT, AT + HOUR)
    else:
        works(books, "gpu-01/gpu-0", AT, AT + HOUR, sm_active=None, dram_active=None, smi=99)
    ends()
    collect(books.cluster, now=AT + HOUR)
    books.roll(LATER)
    assert exact().unknown == exact().charged == Fraction("3.33")


def forget_uuids() -> None:
    """As the facts were before they told UUIDs."""
    for fact in HardwareFact.objects.filter(kind="claims"):
        claims = {uid: {**claim} for uid, claim in fact.value["claims"].items()}
        for claim in claims.values():
            claim.pop("uuids", None)
        HardwareFact.objects.filter(pk=fact.pk).update(value={"claims": claims})


def test_a_month_closed_before_uuids_were_told_stays_and_what_is_held_is_seen_from_then_on(
    cast: Cast, whole: Offer, books: Books
) -> None:
    december = AT.replace(month=12, day=1, hour=0)
    begins = december - HOUR
    day = december.toordinal() - EPOCH.toordinal()
    partitions.ensure([day - 1, day])
    Price.objects.filter(offer=whole).update(valid_from=begins - HOUR)
    looks(books, begins, node(), WHOLE, claimed(cast, "gpu-01/gpu-0"))
    forget_uuids()
    works(books, "gpu-01/gpu-0", begins, december + 2 * HOUR)
    books.roll(december + 30 * MINUTE)
    before = stored(300)
    closed = statements.close_month(
        actor=as_actor(cast.petra), tenant=cast.vision, month=date(2026, 11, 1), now=december + 30 * MINUTE
    )
    assert closed.unknown == closed.total == Decimal("3.33")
    collect(books.cluster, now=december + HOUR)
    for _ in range(2):  # as the roll-up goes on, and made anew from facts
        books.roll(december + 3 * HOUR)
        assert stored(300)[: len(before)] == before
        assert verifying.verify(books.cluster).flaws == []
        assert statements.corrections_of(closed, now=december + 3 * HOUR) == []
        found = exact(december, december + 2 * HOUR, december + 3 * HOUR)
        assert found.effective == found.unknown / 2 == Fraction("3.33") / 2
        books.anew(december + 3 * HOUR)


def test_a_month_closed_with_one_formula_keeps_it(
    cast: Cast, whole: Offer, books: Books, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks(books, AT, node(), WHOLE, claimed(cast, "gpu-01/gpu-0"))
    works(books, "gpu-01/gpu-0", AT, AT + HOUR, 0.25, dram_active=750_000)
    ends()
    collect(books.cluster, now=AT + HOUR)
    books.roll(LATER)
    count_by(monkeypatch, "sm")
    assert exact().effective == Fraction("3.33") / 4
    count_by(monkeypatch, "max-sm-dram")
    now = AT + timedelta(days=20)
    closed = statements.close_month(
        actor=as_actor(cast.petra), tenant=cast.vision, month=date(2026, 11, 1), now=now
    )
    assert closed.effective == Decimal("2.50")
    count_by(monkeypatch, "sm")
    assert exact().effective == Fraction("3.33") * 3 / 4
    assert statements.corrections_of(closed, now=now) == []


def test_it_is_told_by_hours_and_days_where_five_minutes_are_no_longer_kept(
    cast: Cast, slice_: Offer, books: Books, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks(books, AT, node(), CUT, claimed(cast, MIG_1))
    works(books, MIG_1, AT, AT + 20 * HOUR, 0.3)
    ends()
    collect(books.cluster, now=AT + 20 * HOUR + 100 * SECOND)
    books.roll(LATER)
    windows = [(AT, LATER), (AT + HOUR, AT + 19 * HOUR), (AT + 90 * MINUTE, AT + 3 * HOUR)]
    before = [exact(*window).effective for window in windows]
    kept = settings.CONFIG.model_copy(update={"ledger_fine_days": 1})
    monkeypatch.setattr(settings, "CONFIG", kept)
    books.roll(AT + timedelta(days=4))
    rollup.prune(books.cluster, now=AT + timedelta(days=4))
    assert RollPosition.objects.get().pruned_until is not None
    assert not Bucket.objects.filter(level=300, starts_at__lt=AT + 21 * HOUR).exists()
    assert [exact(*window).effective for window in windows] == before
    assert before[0] == Fraction("1.4") * 20 * 3 / 10


@pytest.mark.parametrize("seed", every(5, range(5)))
def test_parts_are_the_whole_and_equal_what_samples_say(
    cast: Cast, slice_: Offer, books: Books, seed: int
) -> None:
    rng = Random(seed)
    held = dict(_story(rng, books))
    done = {device: list(_work(rng, books, device)) for device in (MIG_1, MIG_2)}
    for number in range(seed):
        at = AT + BUCKET * rng.randint(1, 30)
        Price.objects.create(offer=slice_, hourly=Decimal(f"{number}.37"), currency="EUR", valid_from=at)
    books.roll(LATER)
    found = exact()
    assert (found.charged, found.effective, found.unknown) == _by_hand(slice_, held, done)
    assert 0 < found.effective < found.charged
    cuts = sorted(AT + rng.random() * 4 * HOUR for _ in range(3))
    together = Exact()
    for begins, until in zip([AT, *cuts], [*cuts, LATER], strict=True):
        together.add(exact(begins, until))
    assert (together.charged, together.parts()) == (found.charged, found.parts())
    before = stored()
    books.anew(LATER)
    assert stored() == before
    assert verifying.verify(books.cluster).flaws == []


def _story(rng: Random, books: Books) -> Iterator[tuple[tuple[str, str], Interval]]:
    """Claims of one or both slices that begin and end at odd moments: what held which device when."""
    looks(books, AT, node(), CUT)
    at, number = AT, 0
    while at < AT + 4 * HOUR:
        number += 1
        devices = rng.choice(([MIG_1], [MIG_2], [MIG_1, MIG_2]))
        begins = at + timedelta(microseconds=rng.randint(1, 20 * 60 * 10**6))
        at = begins + timedelta(microseconds=rng.randint(10**6, 80 * 60 * 10**6))
        looks(books, begins, claimed(books.cast, *devices, uid=f"c{number}"))
        ends(f"c{number}")
        collect(books.cluster, now=at)
        yield from (((f"c{number}", device), Interval(begins, at)) for device in devices)


def _work(rng: Random, books: Books, device: str) -> Iterator[tuple[Interval, Fraction]]:
    """Samples with holes, and what each says of its 30 s."""
    sm, dram = (
        {at: rng.choice((0, 5_000, rng.randint(0, 10**6))) for at in books.every(AT, AT + 6 * HOUR)}
        for _ in range(2)
    )
    times = [at for at in sm if rng.random() < 0.8]
    books.see(books.device(*WORK[device]), times, sm_active=sm.__getitem__, dram_active=dram.__getitem__)
    yield from ((Interval(at - STEP, at), Fraction(max(sm[at], dram[at]), 10**6)) for at in times)


def _by_hand(
    offer: Offer,
    held: dict[tuple[str, str], Interval],
    done: dict[str, list[tuple[Interval, Fraction]]],
) -> tuple[Fraction, Fraction, Fraction]:
    """Charged, effective and unknown, sample by sample: no roll-up plays a part."""
    periods = [PricePeriod(row.valid_from, row.hourly) for row in Price.objects.filter(offer=offer)]
    charged, effective, unknown = Fraction(0), Fraction(0), Fraction(0)
    for (_, device), interval in held.items():
        # By the whole second; nobody used what is beyond its end.
        charged += pricing.cost(pricing.billed(interval, periods), periods)
        unknown += pricing.cost(interval, periods)
        for span, work in done[device]:
            if part := intervals.clipped(span, interval.started_at, interval.ended_at):
                money = pricing.cost(part, periods)
                unknown, effective = unknown - money, effective + money * work
    return charged, effective, unknown


def test_a_slice_whose_exporter_tells_no_mig_uuid_takes_the_one_of_its_pods_claim(
    cast: Cast, slice_: Offer, books: Books
) -> None:
    pod = bodies.ready_pod()
    pod["metadata"] |= {"namespace": cast.vision.object_name, "name": "by-hand", "uid": "p-1", "labels": {}}
    claim = claimed(cast, MIG_1)
    claim["metadata"]["ownerReferences"] = bodies.owned_by("p-1")
    looks(books, AT, node(), CUT, pod, claim)
    labels = DeviceLabels(
        "GPU-a", 3, 0, "3g.40gb", node="gpu-01", pods=((cast.vision.object_name, "by-hand"),)
    )
    ingest(
        books.cluster,
        [Reading(labels, _micros(AT + MINUTE), (50,) * len(COLUMNS))],
        source=Source.DCGM,
        step=STEP,
        now=AT + HOUR,
    )
    assert Device.objects.get().instance_uuid == "MIG-1"


def _micros(at: datetime) -> int:
    return int(at.timestamp()) * 10**6


def test_nothing_is_asked_of_roll_ups_where_nothing_is_held(
    cast: Cast, django_assert_num_queries: Any
) -> None:
    rows = Allocation.objects.filter(workload=None).filter(tenant=cast.vision)
    with django_assert_num_queries(5) as asked:
        assert charges.charges(rows, AT, LATER, now=LATER) == {}
    assert not [each for each in asked.captured_queries if Bucket._meta.db_table in each["sql"]]
