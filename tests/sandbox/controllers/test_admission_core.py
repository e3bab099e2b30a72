"""Kueue's admission as a pure function: quota, cohorts, order, flavors, preemption, and the words of
waiting.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandbox.controllers.kueue.admit import run
from sandbox.controllers.kueue.model import (
    CohortSpec,
    Flavor,
    FlavorResource,
    Fungibility,
    Outcome,
    PodSet,
    Preemption,
    QueueSpec,
    ResourceGroup,
    ResourceQuota,
    Work,
)
from tests.sample import examples

GPU = "nvidia.com/gpu"
FLAVORS = {"h100": Flavor("h100"), "a100": Flavor("a100")}


def queue(
    name: str, nominal: int, *, borrow: int | None = None, lend: int | None = None, **more: Any
) -> QueueSpec:
    fr = FlavorResource("h100", GPU)
    group = ResourceGroup(frozenset({GPU}), ("h100",))
    return QueueSpec(name=name, groups=(group,), quotas={fr: ResourceQuota(nominal, borrow, lend)}, **more)


def work(key: str, queue_name: str, gpus: int = 1, **more: Any) -> Work:
    given_order = more.pop("order", key)
    priority = more.pop("priority", 0)
    pods = PodSet(
        "main",
        1,
        {GPU: gpus},
        tolerations=more.pop("tolerations", ()),
        node_selector=more.pop("selector", {}),
    )
    return Work(key, key, queue_name, priority, given_order, (pods,), **more)


def held(key: str, queue_name: str, gpus: int = 1, **more: Any) -> Work:
    return work(
        key,
        queue_name,
        gpus,
        reserved=True,
        usage={FlavorResource("h100", GPU): gpus},
        reserved_at=key,
        **more,
    )


def admitted(outcome: Outcome) -> list[str]:
    return [a.key for a in outcome.admitted]


def waiting(outcome: Outcome) -> dict[str, str]:
    return {w.key: w.message for w in outcome.waiting}


SHORT = "couldn't assign flavors to pod set main: insufficient unused quota for nvidia.com/gpu in flavor h100"


def test_quota_admits_the_oldest_and_tells_the_next_what_is_missing() -> None:
    outcome = run([queue("a", 1)], [], FLAVORS, [work("2", "a"), work("1", "a")])
    assert admitted(outcome) == ["1"]
    assert waiting(outcome) == {"2": f"{SHORT}, 1 more needed"}


def test_higher_priority_goes_before_older() -> None:
    outcome = run([queue("a", 1)], [], FLAVORS, [work("1", "a"), work("2", "a", priority=5)])
    assert admitted(outcome) == ["2"]


def test_what_can_never_fit_says_so_with_the_capacity() -> None:
    queues = [queue("a", 2, borrow=1, cohort="c"), queue("b", 9, cohort="c")]
    outcome = run(queues, [], FLAVORS, [work("1", "a", 4)])
    assert waiting(outcome)["1"] == (
        "couldn't assign flavors to pod set main: insufficient quota for nvidia.com/gpu in flavor h100, "
        "previously considered podsets requests (0) + current podset request (4) > maximum capacity (3)"
    )


def test_a_resource_the_queue_does_not_cover_is_named() -> None:
    pods = PodSet("main", 1, {"example.com/x": 1})
    outcome = run([queue("a", 1)], [], FLAVORS, [Work("1", "1", "a", 0, "1", (pods,))])
    assert waiting(outcome)["1"].endswith("resource example.com/x unavailable in ClusterQueue")


@pytest.mark.parametrize(
    ("borrow", "lend", "expected"), [(None, None, 5), (1, None, 3), (None, 1, 3), (0, None, 2)]
)
def test_borrowing_and_lending_limits_bound_what_a_cohort_gives(
    borrow: int | None, lend: int | None, expected: int
) -> None:
    queues = [queue("a", 2, borrow=borrow, cohort="c"), queue("b", 3, lend=lend, cohort="c")]
    outcome = run(queues, [], FLAVORS, [work(str(n), "a") for n in range(8)])
    assert len(outcome.admitted) == expected


def test_a_cohorts_own_quota_and_its_parents_can_be_borrowed() -> None:
    fr = FlavorResource("h100", GPU)
    cohorts = [CohortSpec("c", "org", {fr: ResourceQuota(1)}), CohortSpec("org", "", {fr: ResourceQuota(2)})]
    outcome = run([queue("a", 1, cohort="c")], cohorts, FLAVORS, [work(str(n), "a") for n in range(8)])
    assert len(outcome.admitted) == 4


def test_entries_that_borrow_nothing_go_first_in_a_cohort() -> None:
    queues = [queue("a", 0, cohort="c"), queue("b", 1, cohort="c")]
    outcome = run(queues, [], FLAVORS, [work("1", "a"), work("2", "b")])
    assert admitted(outcome) == ["2"]


def test_strict_fifo_waits_behind_its_head_and_best_effort_goes_on() -> None:
    works = [work("1", "a", 3), work("2", "a", 1)]
    holding = [held("0", "a", 1)]
    strict = run([queue("a", 3, strict_fifo=True)], [], FLAVORS, [*works, *holding])
    relaxed = run([queue("a", 3)], [], FLAVORS, [*works, *holding])
    assert (admitted(strict), admitted(relaxed)) == ([], ["2"])


def test_workloads_of_one_shape_are_judged_once() -> None:
    works = [work(str(n), "a", shape="same") for n in range(4)]
    outcome = run([queue("a", 0)], [], FLAVORS, works)
    assert list(waiting(outcome)) == ["0"]


def test_an_inactive_queue_is_not_looked_at() -> None:
    outcome = run([queue("a", 1, active=False)], [], FLAVORS, [work("1", "a")])
    assert outcome == Outcome()


def test_reclaim_takes_back_lent_quota_from_lower_priority_newest_first() -> None:
    queues = [
        queue("a", 1, cohort="c"),
        queue("b", 2, cohort="c", preemption=Preemption(reclaim_within_cohort="LowerPriority")),
    ]
    holding = [held("1", "a"), held("2", "a"), held("3", "a")]
    outcome = run(queues, [], FLAVORS, [*holding, work("9", "b", priority=10)])
    assert [(e.key, e.by, e.reason) for e in outcome.evicted] == [("3", "9", "InCohortReclamation")]
    assert outcome.evicted[0].message == (
        "Preempted to accommodate a workload (UID: 9, JobUID: UNKNOWN) due to reclamation within the cohort; "
        "preemptor path: /c/b; preemptee path: /c/a"
    )
    assert waiting(outcome)["9"].endswith(". Pending the preemption of 1 workload(s)")


def test_reclaim_leaves_equal_priority_alone() -> None:
    queues = [
        queue("a", 1, cohort="c"),
        queue("b", 1, cohort="c", preemption=Preemption(reclaim_within_cohort="LowerPriority")),
    ]
    outcome = run(queues, [], FLAVORS, [held("1", "a"), held("2", "a"), work("9", "b")])
    assert outcome.evicted == ()


def test_within_a_queue_lower_priority_goes_only_when_the_policy_says_so() -> None:
    works = [held("1", "a"), work("9", "a", priority=1)]
    never = run([queue("a", 1)], [], FLAVORS, works)
    lower = run(
        [queue("a", 1, preemption=Preemption(within_cluster_queue="LowerPriority"))], [], FLAVORS, works
    )
    assert (never.evicted, [e.reason for e in lower.evicted]) == ((), ["InClusterQueue"])


def test_a_victim_on_its_way_out_is_not_evicted_twice() -> None:
    queues = [queue("a", 1, preemption=Preemption(within_cluster_queue="LowerPriority"))]
    outcome = run(queues, [], FLAVORS, [held("1", "a", evicted=True), work("9", "a", priority=1)])
    assert outcome.evicted == ()
    assert "Pending the preemption of 1" in waiting(outcome)["9"]


def two_flavors(**more: Any) -> QueueSpec:
    group = ResourceGroup(frozenset({GPU}), ("h100", "a100"))
    quotas = {FlavorResource("h100", GPU): ResourceQuota(1), FlavorResource("a100", GPU): ResourceQuota(1)}
    return QueueSpec(name="a", groups=(group,), quotas=quotas, **more)


def test_flavors_are_tried_in_order() -> None:
    outcome = run([two_flavors()], [], FLAVORS, [work("1", "a"), work("2", "a")])
    assert [dict(a.pod_sets[0].flavors) for a in outcome.admitted] == [{GPU: "h100"}, {GPU: "a100"}]


def test_borrowing_in_the_first_flavor_or_going_on_to_the_next_is_the_queues_choice() -> None:
    lender = QueueSpec(
        "b",
        "c",
        (ResourceGroup(frozenset({GPU}), ("h100",)),),
        {FlavorResource("h100", GPU): ResourceQuota(1)},
    )
    chosen = {}
    for policy in ("MayStopSearch", "TryNextFlavor"):
        queues = [two_flavors(cohort="c", fungibility=Fungibility(when_can_borrow=policy)), lender]
        outcome = run(queues, [], FLAVORS, [held("0", "a"), work("1", "a")])
        chosen[policy] = outcome.admitted[0].pod_sets[0].flavors[GPU]
    assert chosen == {"MayStopSearch": "h100", "TryNextFlavor": "a100"}


def test_a_selector_or_an_untolerated_taint_rules_a_flavor_out() -> None:
    taint = {"key": "gpu", "value": "h100", "effect": "NoSchedule"}
    flavors = {
        "h100": Flavor("h100", {"model": "h100"}, (taint,)),
        "a100": Flavor("a100", {"model": "a100"}),
    }
    picky = run([two_flavors()], [], flavors, [work("1", "a", selector={"model": "h100"})])
    assert waiting(picky)["1"] == (
        "couldn't assign flavors to pod set main: flavor a100 doesn't match node affinity, "
        "untolerated taint {gpu h100 NoSchedule <nil>} in flavor h100"
    )
    tolerant = run([two_flavors()], [], flavors, [work("1", "a", tolerations=({"operator": "Exists"},))])
    assert tolerant.admitted[0].pod_sets[0].flavors[GPU] == "h100"


@settings(max_examples=examples(60), deadline=None)
@given(
    nominal=st.lists(st.integers(0, 4), min_size=1, max_size=3),
    limits=st.lists(st.none() | st.integers(0, 4), min_size=3, max_size=3),
    asks=st.lists(st.tuples(st.integers(0, 2), st.integers(1, 4), st.integers(0, 2)), max_size=12),
)
def test_no_run_ever_admits_more_than_the_cohort_owns(
    nominal: list[int], limits: list[int | None], asks: list[tuple[int, int, int]]
) -> None:
    preemption = Preemption(reclaim_within_cohort="Any", within_cluster_queue="LowerPriority")
    queues = [
        queue(str(n), quota, borrow=limits[n], cohort="c", preemption=preemption)
        for n, quota in enumerate(nominal)
    ]
    works = [
        work(f"w{i:02d}", str(q % len(nominal)), gpus, priority=p) for i, (q, gpus, p) in enumerate(asks)
    ]
    outcome = run(queues, [], FLAVORS, works)
    used = {q.name: 0 for q in queues}
    for decision in outcome.admitted:
        used[decision.queue] += sum(decision.pod_sets[0].usage.values())
    assert sum(used.values()) <= sum(nominal)
    for n, quota in enumerate(nominal):
        limit = limits[n]
        assert limit is None or used[str(n)] <= quota + limit
    known = {w.key for w in works}
    assert {*admitted(outcome), *waiting(outcome)} <= known
