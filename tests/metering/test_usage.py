"""Series, sums and the heat picture: ratios of sums, in GPUs, and unknown where nobody looked."""

from datetime import timedelta
from fractions import Fraction
from itertools import pairwise

import pytest
from django.db.models import QuerySet
from django.http import QueryDict

from apps.metering.ledger.services import rollup
from apps.metering.models import Bucket
from apps.metering.specs import Account
from apps.metering.usage.rules.device_states import State
from apps.metering.usage.selectors import account_sums, aggregates, series
from portal.pages.team.usage import heat, use
from tests.conftest import Cast, as_actor
from tests.factories import make_user
from tests.metering.books import AT, BUCKET, HOUR, MINUTE, Books
from tests.workloads.rest import Api

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]
HOUR_US = 3_600_000_000


@pytest.fixture
def books(cast: Cast) -> Books:
    """For an hour vision has a GPU, half seen, and 3/7 of another, unseen; genomics has 4/7, seen."""
    found = Books(cast)
    gpu, cut = found.whole(), found.cut(m0=3, m1=4)
    found.hold(gpu, AT, AT + HOUR)
    found.hold(cut, AT, AT + HOUR, name="n1/m0")
    found.hold(cut, AT, AT + HOUR, name="n1/m1", row=found.workload("genomics"))
    whole, part = found.device(gpu), found.device(cut, "n1/m1")
    found.see(whole, found.every(AT, AT + HOUR / 2), sm_active=400_000, dram_active=0, smi=100)
    found.see(part, found.every(AT, AT + HOUR), sm_active=1_000_000, dram_active=0, smi=None)
    found.roll(AT + 2 * HOUR + rollup.LATE)
    return found


def held() -> QuerySet[Bucket]:
    return Bucket.objects.filter(held_us__gt=0).exclude(account=Account.IDLE)


def test_a_series_measures_only_what_was_seen(books: Books) -> None:
    cut = series.steps_until(AT + 2 * HOUR, HOUR, 2)
    assert series.moments(cut) == [AT, AT + HOUR]
    (found,) = series.series(held(), cut).values()
    first, second = series.filled(found, cut)
    assert first.allocated == pytest.approx(2 * 3600_000_000)
    assert first.coverage == pytest.approx((0.5 + 4 / 7) / 2)
    assert first.ratio("sm") == pytest.approx((0.5 * 0.4 + 4 / 7) / (0.5 + 4 / 7))
    assert first.ratio("smi") == pytest.approx(1.0)
    assert (second.allocated, second.ratio("sm"), second.ratio("smi"), second.coverage) == (
        0,
        None,
        None,
        None,
    )


DRAWN = ("seen", "smi_seen", "smi", "sm_seen", "sm", "tensor_seen", "tensor", "dram_seen", "dram", "beside")


def test_the_sums_by_account_draw_what_the_buckets_do(books: Books, cast: Cast) -> None:
    everything, vision = held(), held().filter(tenant=cast.vision)
    for person, rows in ((cast.petra, everything), (cast.rosa, vision)):
        for step, count in ((BUCKET, 24), (HOUR, 2)):
            cut = series.steps_until(AT + 2 * HOUR, step, count)
            (of_buckets,) = series.series(rows, cut, of=DRAWN).values()
            told = account_sums.series(account_sums.held_for(as_actor(person)), cut, of=DRAWN)
            assert told.keys() == of_buckets.keys()
            for at, sums in told.items():
                assert sums == pytest.approx(of_buckets[at], abs=30), "each bucket is rounded"
    nobody = as_actor(make_user("stranger"))
    assert account_sums.series(account_sums.held_for(nobody), cut, of=DRAWN) == {}


def test_the_sums_by_account_split_time_as_the_buckets_do(books: Books, cast: Cast) -> None:
    begins, ends = AT + BUCKET, AT + 2 * HOUR
    exact = aggregates.by_account(Bucket.objects.all(), begins, ends)
    told = account_sums.by_account(account_sums.rows_for(as_actor(cast.petra)), begins, ends)
    assert {key for key, gpu in told.items() if gpu} == {(each.account, each.reason) for each in exact}
    for each in exact:
        assert told[each.account, each.reason] == pytest.approx(float(each.totals.gpu), abs=30)


def test_what_nobody_saw_is_unknown_and_the_ledger_says_how_far_it_reaches(books: Books) -> None:
    cut = series.steps_until(AT + HOUR, BUCKET, 6)
    (found,) = series.series(held().filter(gpu="GPU-1"), cut).values()
    late = series.filled(found, cut)
    told = [(each.allocated, each.ratio("sm"), each.coverage) for each in late]
    assert told == [(300_000_000, None, 0.0)] * 6
    assert series.known() == (AT, AT + 2 * HOUR)
    assert series.as_of(AT + 9 * HOUR) == AT + 2 * HOUR


def test_before_the_first_roll_everything_is_unknown(cast: Cast) -> None:
    assert series.known() is None
    assert series.as_of(AT) is None
    assert aggregates.until() is None
    assert heat.shown(held(), use.asked(QueryDict()), now=AT) == heat.Shown()
    assert aggregates.by_account(Bucket.objects.all(), AT, AT + HOUR) == []


def test_every_level_gives_the_same_sums(books: Books) -> None:
    rows = Bucket.objects.exclude(account=Account.IDLE)
    whole = aggregates.sums(rows, AT - HOUR, AT + 24 * HOUR, by=("tenant__slug",))
    pieces = [
        aggregates.sums(rows, AT + n * BUCKET, AT + (n + 1) * BUCKET, by=("tenant__slug",)) for n in range(12)
    ]
    for key, totals in whole.items():
        assert aggregates.together(piece[key] for piece in pieces) == totals
    assert whole["vision",].gpu == HOUR_US + Fraction(3, 7) * HOUR_US
    assert whole["vision",].seen == HOUR_US // 2
    assert whole["vision",].effective == Fraction(4, 10) * HOUR_US / 2
    assert whole["vision",].partly == Fraction(6, 10) * HOUR_US / 2
    assert whole["vision",].wasted + whole["vision",].effective == whole["vision",].seen
    assert whole["vision",].ratio("sm") == pytest.approx(0.4)
    assert whole["genomics",].ratio("smi") is None


def test_the_fewest_rows_make_up_a_window() -> None:
    begins, ends = AT - timedelta(hours=9, minutes=10), AT + timedelta(hours=40, minutes=5)
    parts = aggregates.spans(begins, ends)
    assert [level for level, _, _ in parts] == [300, 86400, 3600, 300]
    assert [parts[0][1], parts[-1][2]] == [begins, ends]
    assert all(one[2] == two[1] for one, two in pairwise(parts))


@pytest.mark.parametrize(
    ("step", "level", "width"),
    [(BUCKET, 300, 1), (3 * BUCKET, 300, 3), (HOUR, 3600, 1), (6 * HOUR, 3600, 6), (24 * HOUR, 86400, 1)],
)
def test_the_coarsest_level_that_fits_is_read(step: timedelta, level: int, width: int) -> None:
    ends = AT.replace(hour=0)
    cut = series.steps_until(ends + timedelta(seconds=1), step, 10)
    assert (cut.level, cut.width, cut.count) == (level, width, 10)
    assert (cut.begins, cut.ends) == (ends - 10 * step, ends)


def test_accounts_share_out_all_there_is(books: Books) -> None:
    lines = aggregates.by_account(Bucket.objects.all(), AT, AT + 2 * HOUR)
    assert [(line.account, line.reason, line.totals.gpu) for line in lines] == [
        (Account.IDLE, "free", Fraction(2 * HOUR_US)),
        (Account.TENANT, "", Fraction(2 * HOUR_US)),
    ]


def test_everybody_sees_their_own_tenants_rows_and_only_platform_people_the_idle_ones(
    books: Books, cast: Cast
) -> None:
    rosa, otto, petra = (aggregates.rows_for(as_actor(user)) for user in (cast.rosa, cast.otto, cast.petra))
    assert set(rosa.values_list("tenant__slug", flat=True)) == {"vision"}
    assert set(otto.values_list("tenant__slug", flat=True)) == {"genomics"}
    assert set(petra.values_list("account", flat=True)) == {"tenant", "idle"}


def test_the_heat_picture_has_the_most_waste_first_and_goes_on_where_it_is_asked_to(books: Books) -> None:
    day, now = use.asked(QueryDict("span=24h")), AT + 2 * HOUR
    shown = heat.shown(held(), day, now=now)
    assert [row.name for row in shown.rows] == ["n1 1", "n1 2"]
    assert shown.rows[0].wasted == pytest.approx(0.5 * 0.6)
    assert [row.name for row in heat.shown(held(), day, now=now, skip=1).rows] == ["n1 2"]


def test_sums_are_exact_beyond_what_64_bits_hold(cast: Cast) -> None:
    books = Books(cast)
    gpu = books.whole()
    held = books.hold(gpu)
    books.roll(AT + 10 * MINUTE)
    row = Bucket.objects.get(level=300, allocation=held)
    huge = 2**62 + 1
    for index in range(5):
        row.pk, row.gpu, row.held_us, row.share_us, row.sm_us = None, f"g{index}", 10, 10, 1
        row.sm_sum = huge
        row.save(force_insert=True)
    totals = aggregates.sums(Bucket.objects.exclude(gpu=gpu), AT, AT + BUCKET, by=("tenant",))
    assert next(iter(totals.values())).sm == Fraction(5 * huge, 1_000_000)


def test_the_balance_over_rest_comes_out_at_nothing_and_is_for_those_who_see_the_fleet(
    books: Books, cast: Cast
) -> None:
    window = f"?from={AT + 2 * MINUTE:%Y-%m-%dT%H:%M:%SZ}&to={AT + 9 * HOUR:%Y-%m-%dT%H:%M:%SZ}"
    found = Api(cast.ann).client.get(f"/api/v1/allocations/balance{window}").json()
    assert (found["from"], found["to"]) == ("2026-11-20T09:00:00Z", "2026-11-20T11:00:00Z")
    assert found["device_seconds"] == "14400.00000000"
    assert (found["tenants"], found["idle"]) == ("7200.00000000", "7200.00000000")
    assert (found["unattributed"], found["difference"]) == ("0", "0")
    assert found["idle_by_reason"] == {"free": "7200.00000000"}
    Bucket.objects.filter(level=3600, account="idle").delete()
    broken = Api(cast.petra).client.get(f"/api/v1/allocations/balance{window}").json()
    assert broken["difference"] == "7200.00000000"
    assert Api(cast.rosa).client.get("/api/v1/allocations/balance").status_code == 404


def test_a_little_of_a_state_is_never_said_to_be_none_of_it() -> None:
    hours = {State.IDLE: 199.0, State.UNKNOWN: 0.5, State.FREE: 900.0}
    assert heat.words_of([heat.Row("n1 1", "n1", hours, 0.0)], 1) == (
        "1 device: of the time they were held, idle 100 %, unknown < 1 %"
    )
