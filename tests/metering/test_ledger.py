"""The ledger balances: every share of every GPU at every moment belongs to somebody or to nobody, once."""

import os
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import lcm

import pytest

from apps.metering.ledger.rules.buckets import bucket, there_us
from apps.metering.ledger.rules.segments import Balance, BreachKind, Change, ChangeKind, Holding, balance

pytestmark = pytest.mark.both_databases

EVENTS = int(os.environ.get("LEDGER_EVENTS", "3000"))
SEED = int(os.environ.get("LEDGER_SEED", "7"))
WHOLE = Change(ChangeKind.PRESENT, 0, {"node": "n1", "model": "H100", "denominator": 1})
ONE = Change(ChangeKind.LAYOUT, 0, {"instances": {"n1/gpu-0": 1}})
CUT = Change(ChangeKind.PRESENT, 0, {"node": "n1", "model": "H100", "denominator": 7})
THREES = Change(ChangeKind.LAYOUT, 0, {"instances": {"n1/a": 3, "n1/b": 3}})
POOL = Change(ChangeKind.PRESENT, 0, {"node": "n1", "model": "T4", "denominator": 4, "size": 2, "pool": True})


def split(found: Balance) -> dict[tuple[str, str, str], int]:
    """Shares x time by account, reason and holder."""
    sums: dict[tuple[str, str, str], int] = {}
    for segment in found.segments:
        for share in segment.shares:
            key = (share.account, share.reason, share.holder)
            sums[key] = sums.get(key, 0) + share.numerator * (segment.ends - segment.begins)
    return {key: value for key, value in sums.items() if value}


def flag(kind: ChangeKind, at: int, sequence: int = 0) -> Change:
    return Change(kind, at, {}, sequence)


def test_a_whole_gpu_is_its_holders_and_else_free() -> None:
    found = balance([WHOLE, ONE], [Holding("a", "n1/gpu-0", 10, 40)], 0, 100)
    assert split(found) == {("tenant", "", "a"): 30, ("idle", "free", ""): 70}
    assert found.breaches == ()


def part(who: str, begins: int, ends: int, of: Fraction | None) -> Holding:
    return Holding(who, "n1/gpu-0", begins, ends, part=of)


def test_parts_of_a_device_are_their_holders_and_the_rest_is_free() -> None:
    """RULE: the GPU is divided as finely as the parts ask for, and none of them is alone."""
    held = [part("a", 0, 100, Fraction(1, 4)), part("b", 40, 100, Fraction(1, 3))]
    found = balance([WHOLE, ONE], held, 0, 100)
    assert found.breaches == ()
    assert [(each.denominator, each.size) for each in found.segments] == [(4, Fraction(1)), (12, Fraction(1))]
    first, second = ({s.holder or s.reason: s.numerator for s in each.shares} for each in found.segments)
    assert (first, second) == ({"a": 1, "free": 3}, {"a": 3, "b": 4, "free": 5})
    assert not any(share.alone for each in found.segments for share in each.shares)


def test_the_last_part_gets_no_more_than_the_device_has() -> None:
    held = [part("a", 0, 100, Fraction(3, 4)), part("b", 0, 100, Fraction(1, 2))]
    found = balance([WHOLE, ONE], held, 0, 100)
    assert split(found) == {("tenant", "", "a"): 300, ("tenant", "", "b"): 100}
    (breach,) = found.breaches
    assert (breach.holder, breach.wanted, breach.got) == ("b", 2, 1)


def test_what_parts_leave_of_a_device_is_held_by_whom_nobody_knows() -> None:
    """RULE: it is told first and counts last, so that known parts are whole; it may be nothing."""
    rest = {"n1/gpu-0": {"devices": ["n1/gpu-0"], "tenant": "", "reserved": False, "parts": {"n1/gpu-0": ""}}}
    other = {"z": {"devices": ["n1/gpu-0"], "tenant": "t", "reserved": False, "parts": {"n1/gpu-0": "1/2"}}}
    told = [Change(ChangeKind.CLAIMS, 0, {"claims": {**rest, **other}})]
    held = [part("a", 0, 50, Fraction(1, 4)), part("a", 50, 100, Fraction(1, 2))]
    found = balance([WHOLE, ONE, *told], held, 0, 100)
    assert found.breaches == ()
    assert [each.denominator for each in found.segments] == [4, 2]
    first, second = ({s.holder or s.account: s.numerator for s in each.shares} for each in found.segments)
    assert first == {"a": 1, "z": 2, "unattributed": 1}
    assert second == {"a": 1, "z": 1}


def test_an_instance_is_sevenths_and_what_no_instance_covers_is_stranded() -> None:
    found = balance([CUT, THREES], [Holding("a", "n1/a", 0, 50)], 0, 100)
    assert split(found) == {
        ("tenant", "", "a"): 3 * 50,
        ("idle", "free", ""): 3 * 100 + 3 * 50,
        ("idle", "stranded", ""): 100,
    }


def test_instances_that_overlap_are_what_could_be_cut_and_strand_nothing() -> None:
    could = Change(ChangeKind.LAYOUT, 0, {"instances": {"n1/whole": 7, "n1/a": 3, "n1/b": 3}})
    found = balance([CUT, could], [Holding("a", "n1/a", 0, 100)], 0, 100)
    assert split(found) == {("tenant", "", "a"): 300, ("idle", "free", ""): 400}


def test_shares_of_a_plugin_are_shares_of_all_gpus_of_the_node() -> None:
    held = [Holding(f"p{i}", "n1/nvidia.com/gpu.shared#0", 0, 100) for i in range(3)]
    found = balance([POOL], held, 0, 100)
    assert split(found) == {
        **{("tenant", "", f"p{i}"): 100 for i in range(3)},
        ("idle", "free", ""): 500,
    }
    assert found.breaches == ()
    assert sum(split(found).values()) == 8 * 100


@pytest.mark.parametrize(
    ("kinds", "reason"),
    [
        ([ChangeKind.CORDONED], "cordoned"),
        ([ChangeKind.CORDONED, ChangeKind.UNHEALTHY], "unhealthy"),
        ([ChangeKind.RESERVED], "reserved"),
        ([ChangeKind.RESERVED, ChangeKind.CORDONED], "cordoned"),
        ([ChangeKind.CORDONED, ChangeKind.UNCORDONED], "free"),
        ([ChangeKind.UNHEALTHY, ChangeKind.HEALTHY], "free"),
    ],
)
def test_idle_time_says_why(kinds: list[ChangeKind], reason: str) -> None:
    flags = [flag(kind, 0, index) for index, kind in enumerate(kinds, 1)]
    assert split(balance([WHOLE, ONE, *flags], [], 0, 10)) == {("idle", reason, ""): 10}


def test_claims_of_nobody_are_unattributed_of_a_tenants_namespace_the_tenants_and_unused_ones_reserved() -> (
    None
):
    layout = Change(ChangeKind.LAYOUT, 0, {"instances": {f"n1/{n}": 1 for n in "abcdefg"}})
    claims = {
        "c1": {"devices": ["n1/a"], "tenant": "", "reserved": False},
        "c2": {"devices": ["n1/b", "n1/c"], "tenant": "t1", "reserved": False},
        "c3": {"devices": ["n1/d"], "tenant": "t1", "reserved": True},
    }
    found = balance([CUT, layout, Change(ChangeKind.CLAIMS, 5, {"claims": claims})], [], 0, 10)
    assert split(found) == {
        ("unattributed", "", ""): 5,
        ("tenant", "", "c2"): 10,
        ("idle", "reserved", ""): 5,
        ("idle", "free", ""): 35 + 15,
    }


def test_two_holders_of_one_gpu_balance_and_are_told_with_place_and_time() -> None:
    held = [Holding("late", "n1/gpu-0", 30, 80), Holding("first", "n1/gpu-0", 10, 60)]
    found = balance([WHOLE, ONE], held, 0, 100)
    assert split(found) == {
        ("tenant", "", "first"): 50,
        ("tenant", "", "late"): 20,
        ("idle", "free", ""): 30,
    }
    (breach,) = found.breaches
    assert (breach.kind, breach.holder, breach.device) == (BreachKind.OVER_ALLOCATED, "late", "n1/gpu-0")
    assert (breach.begins, breach.ends, breach.wanted, breach.got) == (30, 60, 1, 0)


def test_a_second_holder_of_an_instance_gets_nothing_of_the_instances_beside_it() -> None:
    held = [Holding("first", "n1/a", 0, 100), Holding("late", "n1/a", 50, 100)]
    found = balance([CUT, THREES], held, 0, 100)
    assert split(found) == {
        ("tenant", "", "first"): 300,
        ("idle", "free", ""): 300,
        ("idle", "stranded", ""): 100,
    }
    assert [(b.holder, b.wanted, b.got) for b in found.breaches] == [("late", 3, 0)]


@pytest.mark.parametrize(
    ("about", "holders", "alone"),
    [
        ([WHOLE, ONE], {"a": "n1/gpu-0"}, {"a": True}),
        ([CUT, THREES], {"a": "n1/a", "b": "n1/b"}, {"a": True, "b": True}),
        ([CUT, THREES], {"a": "n1/a", "b": "n1/a"}, {"a": False, "b": False}),
        ([POOL], {"a": "n1/nvidia.com/gpu.shared#0"}, {"a": False}),
    ],
    ids=["whole", "instances", "the same instance", "behind a plugin"],
)
def test_telemetry_speaks_of_who_is_alone_on_a_device_that_is_known(
    about: list[Change], holders: dict[str, str], alone: dict[str, bool]
) -> None:
    held = [Holding(name, device, 0, 100) for name, device in holders.items()]
    (segment,) = balance(about, held, 0, 100).segments
    assert {share.holder: share.alone for share in segment.shares if share.holder} == alone


def test_a_holder_of_what_is_not_there_holds_nothing_and_is_told() -> None:
    found = balance([WHOLE, ONE, flag(ChangeKind.GONE, 50)], [Holding("a", "n1/gpu-0", 0, 80)], 0, 100)
    assert split(found) == {("tenant", "", "a"): 50}
    assert [(b.kind, b.begins, b.ends) for b in found.breaches] == [(BreachKind.ABSENT, 50, 80)]
    ghost = balance([WHOLE, ONE], [Holding("a", "n1/gpu-9", 0, 80)], 0, 100)
    assert split(ghost) == {("idle", "free", ""): 100}
    assert [(b.kind, b.device) for b in ghost.breaches] == [(BreachKind.ABSENT, "n1/gpu-9")]


def test_a_gpu_cut_anew_within_a_bucket_is_counted_in_a_common_share() -> None:
    recut = [Change(ChangeKind.PRESENT, 40, {"node": "n1", "model": "H100", "denominator": 7}, 2),
             Change(ChangeKind.LAYOUT, 40, {"instances": {"n1/a": 3, "n1/b": 4}}, 3)]  # fmt: skip
    held = [Holding("a", "n1/gpu-0", 0, 40), Holding("b", "n1/a", 50, None)]
    found = balance([WHOLE, ONE, *recut], held, 0, 100)
    rows = {row.key: row for row in bucket(found.segments, {})}
    assert {row.denominator for row in rows.values()} == {7}
    assert rows["tenant", "", "a"].share_us == 7 * 40
    assert rows["tenant", "", "b"].share_us == 3 * 50
    assert sum(row.share_us for row in rows.values()) == 7 * 100


def test_a_late_fact_takes_its_place_in_time_whenever_it_is_recorded() -> None:
    facts = [WHOLE, ONE, flag(ChangeKind.UNCORDONED, 60, 5), flag(ChangeKind.CORDONED, 20, 9)]
    expected = {("idle", "free", ""): 60, ("idle", "cordoned", ""): 40}
    for _ in range(10):
        random.Random(SEED).shuffle(facts)
        assert split(balance(facts, [], 0, 100)) == expected


@dataclass
class Story:
    """Random facts of one GPU: re-cuts, faults, holders, late words and corrections, in no good order."""

    told: int
    changes: list[Change] = field(default_factory=list)
    held: dict[str, Holding] = field(default_factory=dict)


SPAN = 1_000_000
PARTS = (*[Fraction(1)] * 4, Fraction(1, 2), Fraction(1, 3), Fraction(2, 5))


def stories(count: int, rng: random.Random) -> Iterator[Story]:
    """Stories of up to 60 events, `count` events in all."""
    while count > 0:
        length = min(count, rng.randint(5, 60))
        count -= length
        story = Story(length, [Change(ChangeKind.PRESENT, 0, _about(rng, pool=rng.random() < 0.2))])
        for sequence in range(1, length):
            _event(story, sequence, rng)
        yield story


def _about(rng: random.Random, *, pool: bool = False) -> dict[str, object]:
    if pool:
        return {"node": "n", "denominator": rng.choice([2, 4, 8]), "size": rng.randint(1, 8), "pool": True}
    return {"node": "n", "denominator": rng.choice([1, 4, 7])}


def _event(story: Story, sequence: int, rng: random.Random) -> None:
    at, choice = rng.randrange(SPAN), rng.random()
    if choice < 0.5:
        ends = None if rng.random() < 0.2 else at + rng.randrange(SPAN // 3)
        of = rng.choice(PARTS)
        story.held[f"h{sequence}"] = Holding(f"h{sequence}", f"n/{rng.randrange(6)}", at, ends, part=of)
    elif choice < 0.65 and story.held:  # a correction: the same holder, another interval
        name = rng.choice(sorted(story.held))
        ends = at + rng.randrange(SPAN // 2)
        story.held[name] = replace(story.held[name], begins=at, ends=ends)
    elif choice < 0.75:
        story.changes.append(Change(ChangeKind.PRESENT, at, _about(rng), sequence))
    elif choice < 0.85:
        layout = {f"n/{index}": rng.randint(1, 4) for index in range(rng.randint(0, 6))}
        story.changes.append(Change(ChangeKind.LAYOUT, at, {"instances": layout}, sequence))
    elif choice < 0.9:
        device = f"n/{rng.randrange(6)}"
        claims = {"c": {"devices": [device], "tenant": rng.choice(["", "t"]), "reserved": rng.random() < 0.5,
                        "parts": {device: rng.choice(["1", "2/5", ""])}}}  # fmt: skip
        story.changes.append(Change(ChangeKind.CLAIMS, at, {"claims": claims}, sequence))
    else:
        kinds = [kind for kind in ChangeKind if kind not in ("present", "layout", "claims")]
        story.changes.append(flag(rng.choice(kinds), at, sequence))


@pytest.mark.timeout(900)
def test_random_stories_balance_to_the_last_share_whatever_the_order(
    record_property: Callable[[str, object], None],
) -> None:
    rng, told, breaches = random.Random(SEED), 0, 0
    for story in stories(EVENTS, rng):
        told += story.told
        begins, ends = sorted(rng.sample(range(SPAN), 2))
        found = balance(story.changes, story.held.values(), begins, ends)
        breaches += len(found.breaches)
        _balances(found, begins, ends)
        shuffled = story.changes[:]
        rng.shuffle(shuffled)
        assert balance(shuffled, reversed(list(story.held.values())), begins, ends) == found
        middle = rng.randint(begins, ends)
        if begins < middle < ends:
            halves = [balance(story.changes, story.held.values(), *part) for part in
                      ((begins, middle), (middle, ends))]  # fmt: skip
            parts = [split(half) for half in halves]
            both = {key: sum(part.get(key, 0) for part in parts) for part_ in parts for key in part_}
            assert both == split(found)
    assert told == EVENTS
    record_property("events", told)
    record_property("contradictions told", breaches)
    assert breaches > 0


def _balances(found: Balance, begins: int, ends: int) -> None:
    assert [s.begins for s in found.segments] == [begins, *(s.ends for s in found.segments[:-1])]
    assert found.segments[-1].ends == ends
    for segment in found.segments:
        assert sum(share.numerator for share in segment.shares) == segment.denominator * segment.size
        assert all(share.numerator >= 0 for share in segment.shares)
    rows = bucket(found.segments, {})
    denominator = lcm(*(s.denominator for s in found.segments if s.size))
    assert sum(row.share_us for row in rows) == denominator * there_us(found.segments)
