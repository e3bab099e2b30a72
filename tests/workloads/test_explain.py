"""The words of waiting: each cause on facts of its own, and what a viewer may be told."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from apps.quotas.catalogue.rules.cores import CoreNode
from apps.quotas.catalogue.rules.room import Room, placeable_cores
from apps.words import ordinal
from apps.workloads.waiting.rules import explain
from apps.workloads.waiting.rules.eta import Interval
from apps.workloads.waiting.rules.node_room import Nearest, NodeHolder, Unplaced
from apps.workloads.waiting.rules.situation import (
    Alternative,
    Cause,
    Eviction,
    Explanation,
    Holder,
    Refund,
    Situation,
    Stop,
    View,
)

AT = datetime(2026, 11, 20, 14, 5, tzinfo=UTC)
NOW = datetime(2026, 11, 20, 13, 0, tzinfo=UTC)
BASE = Situation(
    tenant="vision", department="research", offer="a100", offer_name="A100", asked=2, reachable=8, own_used=8,
    nominal=8, position=3, of=5, cluster="North",
)  # fmt: skip
IN_QUOTA = replace(BASE, own_used=0, available=2, position=1)
SINCE = datetime(2026, 11, 20, 12, tzinfo=UTC)
UNPLACED = replace(
    BASE, admitted=True, position=None, reachable=16,
    unplaced=Unplaced(SINCE, nearest=Nearest("gpu-3", 4, (
        NodeHolder("train of vision", 2, AT), NodeHolder(None, 2)))),
)  # fmt: skip
NEAREST = (
    "It cannot start yet. Admitted, but fits no node: needs 8 A100 on one node, and the most that any node "
    "has free is 4 (9 in all). It has been so since 12:00. It goes on by itself once 8 are free on one node. "
    "Nearest: 4 more on gpu-3, of those held by train of vision (2, ends by 14:05), work of others (2, no "
    "end known)."
)
SPREAD = Room(capacity=16, free=9, most=4, largest=8, places=(4, 4, 1))
ENOUGH = Room(capacity=8, free=4, most=4, largest=8)


def told(situation: Situation, view: View | None = None) -> Explanation:
    return explain.explain(situation, view or View(), now=NOW)


def words(situation: Situation, view: View | None = None) -> str:
    found = told(situation, view)
    return " ".join((found.headline, *found.sentences))


def test_it_says_place_need_time_holders_and_what_starts_now() -> None:
    situation = replace(
        BASE,
        holders=(Holder("genomics", "a100", 6, AT), Holder(None, "a100", 2)),
        alternatives=(Alternative("h100-3g", "H100 3g.40gb", Decimal("1.26"), "EUR"),),
        starts=Interval(AT, AT + timedelta(minutes=15), AT + timedelta(hours=1, minutes=5)),
    )
    assert words(situation) == (
        "Waiting, 3rd of 5. Needs 2 A100; vision uses all 8 it may have. "
        "It starts when 2 of vision's own end. About 14:20 (14:05 to 15:10). "
        "Held by genomics 6 (first ends by 14:05), other tenants 2 (no end known). "
        "Starts now instead: H100 3g.40gb, 1.26 EUR/h."
    )


CAUSES: list[tuple[Cause, Situation, str]] = [
    (
        Cause.CLUSTER_SILENT,
        replace(BASE, silent_since=AT, stop=Stop(Cause.HELD, "x", "Somebody ends it.")),
        "North is silent since 14:05. Nothing to do: what you asked for is stored",
    ),
    (Cause.KUEUE_SILENT, replace(BASE, kueue_silent=True), "Kueue does not answer: no pod can start."),
    (
        Cause.INCOMPLETE,
        replace(
            BASE, kueue_silent=True, lack=Stop(Cause.INCOMPLETE, "Missing: batch. It goes on.", "It goes on.")
        ),
        "Missing: batch. It goes on.",
    ),
    (
        Cause.HELD,
        replace(BASE, stop=Stop(Cause.HELD, "Held by a platform engineer.", "Somebody ends it.")),
        "Held by a platform",
    ),
    (
        Cause.BUDGET,
        replace(
            BASE,
            stop=Stop(
                Cause.BUDGET, "November's budget is spent. Starts 1 Dec or once raised.", "Somebody ends it."
            ),
        ),
        "Starts 1 Dec or once raised.",
    ),
    (
        Cause.SUSPENDED,
        replace(BASE, stop=Stop(Cause.SUSPENDED, "vision admits no new work.", "Somebody ends it.")),
        "vision admits no new work.",
    ),
    (
        Cause.CLOSED,
        replace(BASE, reachable=0, stop=Stop(Cause.CLOSED, "A100 is switched off.", "Somebody offers it.")),
        "Waiting, 3rd of 5. A100 is switched off.",
    ),
    (
        Cause.IMAGE,
        replace(
            IN_QUOTA,
            admitted=True,
            position=None,
            trouble=Stop(Cause.IMAGE, "Its image is gone.", "Somebody ends it."),
        ),
        "It cannot start yet. Its image is gone.",
    ),
    (
        Cause.VOLUME,
        replace(
            IN_QUOTA,
            admitted=True,
            position=None,
            trouble=Stop(Cause.VOLUME, "Its disk is gone.", "Somebody ends it."),
        ),
        "It cannot start yet. Its disk is gone.",
    ),
    (
        Cause.WARNED,
        replace(
            IN_QUOTA,
            admitted=True,
            position=None,
            trouble=Stop(Cause.WARNED, "Its node refuses it.", "Somebody ends it."),
        ),
        "It cannot start yet. Its node refuses it.",
    ),
    *(
        (
            cause,
            replace(BASE, position=None, stop=Stop(cause, "Kueue says so.", "Somebody ends it.")),
            "Kueue says",
        )
        for cause in (Cause.DEACTIVATED, Cause.CHECKED, Cause.SENT_BACK, Cause.NOT_TAKEN_IN)
    ),
    (
        Cause.TOO_LARGE,
        replace(BASE, asked=9),
        "vision can hold at most 8, so it can never start. Ask for 8 or fewer",
    ),
    (Cause.TOO_LARGE, replace(BASE, reachable=0), "vision has no quota of it any more"),
    (
        Cause.TOO_LARGE,
        replace(IN_QUOTA, per_pod=2, room=Room(capacity=8, free=8, most=1, largest=1)),
        "in one pod; no node has more than 1, so it can never start",
    ),
    (
        Cause.REFUSED,
        replace(
            BASE, position=None, of=None, refused=Stop(Cause.REFUSED, "It was refused.", "Somebody ends it.")
        ),
        "Waiting. It was refused.",
    ),
    (Cause.ON_ITS_WAY, replace(BASE, position=None, of=None), "Waiting. It is on its way into the queue."),
    (
        Cause.RECLAIMED,
        replace(BASE, eviction=Eviction(Cause.RECLAIMED, AT)),
        "Preempted 14:05: it ran on 2 A100 lent by others, who took them back.",
    ),
    (
        Cause.PREEMPTED,
        replace(BASE, eviction=Eviction(Cause.PREEMPTED, AT - timedelta(days=1))),
        "Preempted 19 Nov 14:05: more urgent work took its 2 A100.",
    ),
    (
        Cause.PREEMPTED,
        replace(BASE, eviction=Eviction(Cause.PREEMPTED, AT, Refund(Decimal("1204.505"), "EUR"))),
        "What its last hour cost is refunded: 1,204.50 EUR.",
    ),
    (
        Cause.RECLAIMED,
        replace(BASE, eviction=Eviction(Cause.RECLAIMED, AT, Refund(None, "EUR"))),
        "What its last hour cost is refunded; the sum is not counted yet.",
    ),
    (
        Cause.QUOTA_USED,
        replace(BASE, own_used=7),
        "vision uses 7 of the 8 it may have. It starts when 1 of vision's own ends.",
    ),
    (Cause.QUOTA_USED, replace(BASE, asked=1, own_used=1, reachable=1), "vision uses the 1 it may have."),
    (
        Cause.LENT,
        replace(BASE, own_used=4, lent=3, available=1),
        "vision uses 4 of its 8 guaranteed, and 3 of them are lent. It starts when 1 comes back",
    ),
    (
        Cause.NONE_TO_LEND,
        replace(BASE, asked=6, own_used=2, nominal=2, available=4),
        "vision uses 2 of 8, and research has only 4 free for it now. It starts when 2 come free",
    ),
    (
        Cause.NONE_TO_LEND,
        replace(BASE, own_used=4, nominal=4, available=0),
        "vision uses 4 of 8, and research has none to lend now. It starts when 2 come free in research.",
    ),
    # Only what is lent comes back, and only up to one's own.
    (
        Cause.NONE_TO_LEND,
        replace(BASE, own_used=4, lent=0, available=1),
        "research has only 1 free for it now",
    ),
    (
        Cause.NONE_TO_LEND,
        replace(BASE, own_used=4, nominal=5, lent=3, available=1),
        "research has only 1 free for it now",
    ),
    (
        Cause.NODE_DOWN,
        replace(
            IN_QUOTA, room=Room(capacity=4, free=1, most=1, largest=2, down=2, nodes_down=("gpu-3", "gpu-4"))
        ),
        "1 free, and 2 more on gpu-3, gpu-4, out of service",
    ),
    (
        Cause.FRAGMENTED,
        replace(IN_QUOTA, per_pod=2, room=Room(capacity=8, free=3, most=1, largest=2)),
        ", 2 on one node; 3 are free, but at most 1 on one. It starts when 2 are free together",
    ),
    (
        Cause.FRAGMENTED,
        replace(IN_QUOTA, room=Room(capacity=8, free=0, most=0, largest=2, elsewhere=5)),
        "5 memory slices of such GPUs are free, but their MIG layout leaves no place for it",
    ),
    (
        Cause.NO_DEVICE,
        replace(IN_QUOTA, admitted=True, position=None, room=Room(capacity=8, free=0, most=0, largest=2)),
        "quota allows it, but none is free in North",
    ),
    (
        Cause.FITS_NO_NODE,
        replace(UNPLACED, asked=8, per_pod=8, room=SPREAD),
        NEAREST,
    ),
    (
        Cause.FITS_NO_NODE,
        replace(UNPLACED, asked=16, per_pod=4, unplaced=Unplaced(SINCE, placed=1), room=SPREAD),
        "only 1 of its 4 pods fit a node: each pod needs 4 A100 on one node, and there is room for 2 of 3",
    ),
    (
        Cause.FITS_NO_NODE,
        replace(UNPLACED, per_pod=2, room=SPREAD),
        "9 are free, so something else keeps it. It has been so since 12:00. It is tried again by itself;",
    ),
    (
        Cause.NODE_DOWN,
        replace(UNPLACED, asked=2, room=Room(capacity=8, free=0, most=0, largest=2, down=2)),
        "out of service",
    ),
    (Cause.BEHIND, replace(IN_QUOTA, position=3, room=ENOUGH), "2 ahead of it are served first."),
    (Cause.NEXT, replace(IN_QUOTA, room=ENOUGH), "it is free: it starts in a moment."),
]


@pytest.mark.parametrize(("cause", "situation", "part"), CAUSES, ids=[str(c[0]) for c in CAUSES])
def test_each_cause_has_its_words(cause: Cause, situation: Situation, part: str) -> None:
    found = told(situation)
    assert found.cause is cause
    assert part in words(situation)
    ends_by_itself = cause in (Cause.NEXT, Cause.ON_ITS_WAY)
    assert bool(found.frees) is not ends_by_itself
    assert words(situation).count(found.frees) == 1 or ends_by_itself


def test_every_cause_is_tried() -> None:
    assert {cause for cause, _, _ in CAUSES} | {Cause.TENANT_HELD} == set(Cause)


@pytest.mark.parametrize("silence", [{"silent_since": AT}, {"kueue_silent": True}])
def test_nothing_is_promised_while_nothing_starts(silence: dict[str, object]) -> None:
    starts = Interval(AT, AT, AT)
    other = Alternative("h100-3g", "H100 3g.40gb", None)
    found = told(replace(BASE, starts=starts, alternatives=(other,), **silence))  # type: ignore[arg-type]
    assert (found.starts, found.alternatives) == (None, ())
    assert found.frees.startswith("Nothing to do: what you asked for is stored")
    assert "instead" not in " ".join(found.sentences)


WHATEVER_ITS_SIZE = (
    Cause.HELD, Cause.SUSPENDED, Cause.IMAGE, Cause.WARNED, Cause.DEACTIVATED, Cause.CHECKED, Cause.SENT_BACK,
    Cause.NOT_TAKEN_IN,
)  # fmt: skip


@pytest.mark.parametrize("cause", WHATEVER_ITS_SIZE)
def test_no_other_offer_is_named_against_what_meets_every_offer(cause: Cause) -> None:
    other = Alternative("h100-3g", "H100 3g.40gb", None)
    stop = Stop(cause, "It is so. It ends.", "It ends.")
    found = told(replace(BASE, alternatives=(other,), stop=stop))
    assert (found.cause, found.alternatives) == (cause, ())
    assert "instead" not in " ".join(found.sentences)
    found = told(replace(BASE, alternatives=(other,), stop=replace(stop, is_of_its_offer=True)))
    assert found.alternatives == (other,)


def test_another_offer_is_named_where_its_own_is_closed() -> None:
    other = Alternative("h100-3g", "H100 3g.40gb", None)
    closed = Stop(Cause.CLOSED, "It is closed. Take another.", "Take another.")
    assert "Starts now instead: H100 3g.40gb." in words(replace(BASE, alternatives=(other,), stop=closed))


def test_a_first_place_has_its_own_words() -> None:
    assert words(replace(BASE, position=1, of=3)).startswith("Waiting, first in line.")


def test_another_day_is_said() -> None:
    tomorrow = AT + timedelta(days=1)
    situation = replace(BASE, holders=(Holder("speech", "a100", 1, tomorrow),))
    assert "first ends by 21 Nov 14:05" in words(situation)


def test_foreign_tenants_are_counted_and_never_named() -> None:
    holders = (Holder("speech", "a100", 1), Holder("genomics", "a100", 2, AT), Holder("physics", "a100", 3))
    view = View(frozenset({"vision", "speech"}), knows_nodes=False)
    found = told(replace(BASE, holders=holders), view)
    assert found.holders == (Holder(None, "a100", 5, AT), Holder("speech", "a100", 1))
    assert "genomics" not in " ".join(found.sentences)
    assert told(replace(BASE, holders=holders)).holders == holders


def test_nodes_are_named_to_those_who_may_know_them() -> None:
    down = Room(capacity=4, free=0, most=0, largest=2, down=2, nodes_down=("gpu-3",))
    situation = replace(IN_QUOTA, room=down)
    assert "gpu-3" in words(situation)
    assert "gpu-3" not in words(situation, View(frozenset({"vision"}), knows_nodes=False))


def test_what_a_tenant_holds_is_one_line_with_its_earliest_end() -> None:
    later = AT + timedelta(hours=1)
    assert explain.merged([Holder("a", "x", 1, later), Holder("a", "x", 2, AT), Holder("a", "x", 1)]) == (
        Holder("a", "x", 4, AT),
    )


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (1, "1st"),
        (2, "2nd"),
        (3, "3rd"),
        (4, "4th"),
        (11, "11th"),
        (12, "12th"),
        (21, "21st"),
        (112, "112th"),
    ],
)
def test_ordinals(number: int, text: str) -> None:
    assert ordinal(number) == text


def test_cores_of_a_pod_are_on_one_node() -> None:
    nodes = [CoreNode("a", 8, 3, True), CoreNode("b", 16, 2, True), CoreNode("c", 8, 8, False)]
    assert placeable_cores(nodes) == Room(32, 5, 3, 16, down=8, nodes_down=("c",))
