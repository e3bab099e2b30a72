"""Estimates of starts: what is known bounds them, what is not is unknown, the past is believed."""

from datetime import UTC, datetime, timedelta
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apps.quotas.specs import OfferQuota
from apps.workloads.waiting.rules import eta
from apps.workloads.waiting.rules.eta import Ask, History, Interval, Pool, Run
from tests.sample import examples

NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)


def quota(nominal: int, borrow: int | None = 0) -> OfferQuota:
    return OfferQuota("H100", "allotment.dev/h100", "h100", nominal, borrow, None)


def run(
    tenant: str = "vision", *, count: int = 1, since: timedelta = HOUR, left: timedelta | None = None
) -> Run:
    return Run(tenant, "job", count, NOW - since, None if left is None else NOW + left)


def ask(name: str, tenant: str = "vision", *, count: int = 1, longest: float | None = 3600) -> Ask:
    return Ask(name, tenant, "job", count, longest)


def estimate(
    runs: list[Run], asks: list[Ask], *, devices: int = 1, history: History | None = None
) -> dict[str, Interval]:
    pool = Pool({"vision": quota(devices)}, devices)
    return eta.estimate(pool, runs, asks, history or History(), now=NOW, seed=7)


def test_what_fits_starts_now() -> None:
    assert estimate([], [ask("a")]) == {"a": Interval(NOW, NOW, NOW)}


def test_nothing_is_said_where_no_end_is_known() -> None:
    assert estimate([run()], [ask("a")]) == {}


def test_a_lease_bounds_the_wait() -> None:
    found = estimate([run(left=2 * HOUR)], [ask("a")])["a"]
    assert NOW < found.p10 < found.p50 < found.p90 <= NOW + 2 * HOUR


def test_past_durations_are_believed_given_how_long_it_runs_already() -> None:
    took = History({("job", "vision"): [600.0, 1200.0, 7200.0, 7200.0, 7200.0]})
    found = estimate([run(since=HOUR, left=6 * HOUR)], [ask("a")], history=took)["a"]
    assert found == Interval(NOW + HOUR, NOW + HOUR, NOW + HOUR)


def test_a_lease_ends_what_would_run_longer() -> None:
    took = History({("job", "vision"): [7200.0] * 5})
    found = estimate([run(left=HOUR / 2)], [ask("a")], history=took)["a"]
    assert found.p90 == NOW + HOUR / 2


def test_too_few_samples_of_a_tenant_give_way_to_everybodys() -> None:
    took = History({("job", "vision"): [1.0], ("job", "speech"): [7200.0] * 5})
    assert len(took.of("job", "vision")) == 6
    assert took.of("notebook", "vision") == ()


def test_who_stands_behind_starts_later() -> None:
    took = History({("job", "vision"): [3600.0] * 5})
    found = estimate([run(since=HOUR / 2)], [ask("first"), ask("second"), ask("third")], history=took)
    assert [found[name].p50 - NOW for name in ("first", "second", "third")] == [
        HOUR / 2,
        HOUR * 1.5,
        HOUR * 2.5,
    ]


def test_a_small_one_passes_a_large_one_that_does_not_fit() -> None:
    took = History({("job", "vision"): [3600.0] * 5})
    found = estimate([run(since=HOUR / 2)], [ask("large", count=2), ask("small")], devices=2, history=took)
    assert found["small"].p50 == NOW
    assert found["large"].p50 == NOW + HOUR


def test_borrowing_is_bounded_by_what_others_use() -> None:
    pool = Pool({"vision": quota(1, borrow=1), "speech": quota(1)}, 2)
    runs = [run("vision", left=4 * HOUR), run("speech", left=HOUR / 60)]
    found = eta.estimate(pool, runs, [ask("a")], History(), now=NOW, seed=7)["a"]
    assert found.p90 <= NOW + HOUR / 60


def test_far_back_nothing_is_promised() -> None:
    many = [ask(str(number), longest=60) for number in range(eta.MOST_ASKS + 5)]
    found = estimate([run(left=HOUR)], many)
    assert str(eta.MOST_ASKS) not in found


def test_the_same_seed_says_the_same() -> None:
    runs, asks = [run(left=2 * HOUR)], [ask("a"), ask("b")]
    assert estimate(runs, asks) == estimate(runs, asks)


@settings(max_examples=examples(40), deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 3), st.integers(1, 600)), max_size=5),
    st.lists(st.integers(1, 3), min_size=1, max_size=6),
)
def test_bounds_are_ordered_and_never_before_now(runs: list[tuple[int, int]], asks: list[int]) -> None:
    found = estimate(
        [run(count=count, left=timedelta(minutes=left)) for count, left in runs],
        [ask(str(index), count=count) for index, count in enumerate(asks)],
        devices=4,
    )
    assert all(NOW <= each.p10 <= each.p50 <= each.p90 for each in found.values())


@pytest.mark.parametrize("seed", range(3))
def test_eight_of_ten_starts_fall_inside_where_the_future_is_as_the_past(seed: int) -> None:
    """The simulated truth is drawn from the same durations that the estimate learned from."""
    dice = Random(seed)
    inside = judged = 0
    for case in range(120):
        past = [dice.lognormvariate(8, 0.6) for _ in range(40)]
        elapsed = [dice.uniform(0, 4000) for _ in range(4)]
        longer = [[s - e for s in past if s > e] for e in elapsed]
        if not all(longer):
            continue
        runs = [Run("vision", "job", 1, NOW - timedelta(seconds=e)) for e in elapsed]
        pool = Pool({"vision": quota(4)}, 4)
        found = eta.estimate(
            pool, runs, [ask("a"), ask("b")], History({("job", "vision"): past}), now=NOW, seed=case
        )["b"]
        truth = NOW + timedelta(seconds=sorted(dice.choice(left) for left in longer)[1])
        hit, of = eta.coverage([(found.p10, found.p90, truth)])
        inside, judged = inside + hit, judged + of
    assert judged > 60
    assert 0.68 <= inside / judged <= 0.92
