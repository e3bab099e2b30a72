"""Quota in a cohort: what can start now, what waits, what never can, and who lent what to whom."""

import itertools
import random
from types import SimpleNamespace
from typing import Any

import pytest

from apps.quotas.allowances.rules.fit import Use, VerdictKind, available, lent, reachable, verdict
from sandbox.controllers.kueue.model import FlavorResource, ResourceQuota
from sandbox.controllers.kueue.quota import QuotaTree
from tests.quotas.specs import quota

pytestmark = pytest.mark.both_databases


def use(nominal: int, used: int, *, borrow: int | None = 0, lend: int | None = None) -> Use:
    return Use(quota("H100", nominal=nominal, borrow=borrow, lend=lend), used)


@pytest.mark.parametrize(
    ("nominal", "borrow", "others", "expected"),
    [
        (8, 4, [(8, None)], 12),  # its own limit binds
        (8, 4, [(2, None)], 10),  # the cohort has no more
        (8, None, [(5, 3), (4, 0)], 11),  # only what is lent counts
        (8, 0, [(8, None)], 8),  # nothing may be borrowed
        (0, 2, [], 0),  # nobody to borrow from
    ],
)
def test_a_tenant_reaches_its_guarantee_and_what_it_may_borrow_of_what_others_lend(
    nominal: int, borrow: int | None, others: list[tuple[int, int | None]], expected: int
) -> None:
    lenders = [quota(nominal=n, borrow=0, lend=limit) for n, limit in others]
    assert reachable(quota(nominal=nominal, borrow=borrow), lenders) == expected


@pytest.mark.parametrize(
    ("own", "others", "expected"),
    [
        (use(8, 3), [], 5),
        (use(8, 8, borrow=4), [use(8, 8)], 0),
        (use(8, 8, borrow=4), [use(8, 5)], 3),
        (use(8, 10, borrow=4), [use(8, 0)], 2),
        (use(8, 8, borrow=None), [use(8, 0, lend=2)], 2),
        (use(8, 0), [use(0, 4, borrow=4)], 4),  # its guarantee is lent out until the borrower ends
        (use(8, 0, lend=2), [use(0, 2, borrow=4)], 6),  # what is not lent stays its own
        (
            use(4, 9, borrow=2),
            [use(8, 0)],
            0,
        ),  # over its limit after a cut: running work stays, nothing starts
    ],
)
def test_what_is_available_now_follows_the_cohorts_pool(own: Use, others: list[Use], expected: int) -> None:
    assert available(own, others) == expected


def test_what_is_closed_to_a_tenant_serves_the_others_alone() -> None:
    shut = Use(quota("H100", nominal=8, borrow=4, lend=2, closed=True), 3)
    assert (available(shut, [use(8, 0)]), reachable(shut.quota, [quota(nominal=8)])) == (0, 0)
    assert available(use(8, 8, borrow=8), [shut]) == 5, "all of its guarantee, less what still runs"


def test_nothing_available_ever_leads_beyond_what_is_reachable() -> None:
    amounts = range(4)
    for nominal, limit, lend, other, used, taken in itertools.product(amounts, repeat=6):
        own, neighbour = use(nominal, used, borrow=limit, lend=lend), use(other, taken, borrow=3)
        if used <= reachable(own.quota, [neighbour.quota]):
            most = max(used, reachable(own.quota, [neighbour.quota]))
            assert used + available(own, [neighbour]) <= most


def test_more_than_is_reachable_can_never_start_and_the_words_say_what_can() -> None:
    answer = verdict(
        16,
        quota("H100", nominal=8, borrow=4),
        others=[quota(nominal=8)],
        used=0,
        free_in_cohort=16,
        tenant="vision",
    )
    assert (answer.kind, answer.reachable) == (VerdictKind.NEVER, 12)
    assert answer.words == (
        "16 H100 can never start; vision reaches 12 (8 guaranteed + 4). "
        "Ask for 12 or fewer, or ask a platform engineer for quota."
    )


def test_what_fits_but_not_now_waits() -> None:
    answer = verdict(
        2,
        quota("H100", nominal=8, borrow=4),
        others=[quota(nominal=8)],
        used=7,
        free_in_cohort=1,
        tenant="vision",
    )
    assert answer.kind is VerdictKind.WAITS
    assert answer.words == "2 H100 must wait: 1 free for vision now, 7 of 12 in use."


def test_what_is_free_starts_now() -> None:
    answer = verdict(
        2, quota("H100", nominal=8, borrow=0), others=[], used=1, free_in_cohort=7, tenant="vision"
    )
    assert (answer.kind, answer.words) == (VerdictKind.NOW, "2 H100 can start now.")


def test_without_quota_it_is_not_offered() -> None:
    answer = verdict(
        1, quota("H100", nominal=0, borrow=0), others=[], used=0, free_in_cohort=9, tenant="vision"
    )
    assert (answer.kind, answer.reachable) == (VerdictKind.NOT_OFFERED, 0)
    assert answer.message == "vision has no quota of H100."


def test_what_lenders_lent_sums_to_what_is_borrowed() -> None:
    def parts(uses: list[Use]) -> list[int]:
        return [lent(own, [*uses[:at], *uses[at + 1 :]], ahead=at) for at, own in enumerate(uses)]

    assert parts([use(8, 2), use(5, 1), use(3, 3), use(1, 6, borrow=8)]) == [3, 2, 0, 0]
    assert parts([use(0, 1, borrow=1), use(2, 0), use(2, 0), use(2, 0)]) == [
        0,
        1,
        0,
        0,
    ]  # the first of equals


def test_a_tenant_that_uses_all_its_guarantee_lent_nothing() -> None:
    assert lent(use(4, 4), [use(0, 1, borrow=2), use(2, 0)], ahead=2) == 0


def test_the_ledger_agrees_with_kueues_own_quota_tree() -> None:
    rng = random.Random(7)
    compared = 0
    for _ in range(2000):
        uses = [_any_use(rng) for _ in range(rng.randint(1, 4))]
        tree = _tree(uses)
        for place, own in enumerate(uses):
            others = [other for index, other in enumerate(uses) if index != place]
            node = tree.queues[str(place)]
            assert available(own, others) == max(0, node.available(DEVICE)), (own, others)
            assert reachable(own.quota, [other.quota for other in others]) == node.potential_available(DEVICE)
            compared += 1
    assert compared > 2000


DEVICE = FlavorResource("h100", "allotment.dev/h100-whole")


def _any_use(rng: random.Random) -> Use:
    nominal = rng.randint(0, 8)
    lend = rng.choice([None, rng.randint(0, nominal)])
    return use(nominal, rng.randint(0, 10), borrow=rng.choice([None, rng.randint(0, 6)]), lend=lend)


def _tree(uses: list[Use]) -> QuotaTree:
    """The same quotas and uses as the simulated Kueue keeps them: other code after the same rules."""
    queues: list[Any] = [
        SimpleNamespace(name=str(place), cohort="research", quotas={DEVICE: _kueue(own)})
        for place, own in enumerate(uses)
    ]
    tree = QuotaTree(queues, [])
    for place, own in enumerate(uses):
        tree.add_usage(str(place), {DEVICE: own.used})
    return tree


def _kueue(own: Use) -> ResourceQuota:
    return ResourceQuota(own.quota.nominal, own.quota.borrowing_limit, own.quota.lending_limit)
