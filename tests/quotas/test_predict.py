"""The prediction by itself: small departments whose outcome follows from Kueue's documented rules."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from apps.quotas.kueue.predict import reading, scheduling
from apps.quotas.kueue.predict.tree import Snapshot
from apps.quotas.kueue.predict.view import (
    Cohort,
    FlavorResource,
    Prediction,
    Queue,
    ResourceQuota,
    View,
    Work,
)
from tests.factories import NOW
from tests.quotas import predict_cases

GPU: FlavorResource = ("h100", "gpu")


def queue(
    name: str, nominal: int, *, borrow: int | None = None, lend: int | None = None, **more: object
) -> Queue:
    return Queue(
        name=name,
        cohort=str(more.pop("cohort", "research")),
        flavors=("h100",),
        quotas={GPU: ResourceQuota(nominal, borrow, lend)},
        reclaim_within_cohort="LowerPriority",
        **more,  # type: ignore[arg-type]
    )


def work(name: str, owner: str, count: int, *, age: int = 0, priority: int = 500, runs: bool = False) -> Work:
    held = {"flavors": {"gpu": "h100"}, "reserved_at": NOW - timedelta(minutes=age)} if runs else {}
    return Work(name, owner, {"gpu": count}, NOW - timedelta(minutes=age), priority, **held)  # type: ignore[arg-type]


def predicted(*parts: object) -> Prediction:
    view = View(
        cohorts=tuple(part for part in parts if isinstance(part, Cohort)),
        queues=tuple(part for part in parts if isinstance(part, Queue)),
        work=tuple(part for part in parts if isinstance(part, Work)),
    )
    return scheduling.predict(view, now=NOW)


def test_what_fits_into_the_guarantee_starts_in_the_order_of_priority_then_age() -> None:
    jobs = [
        work("young", "a", 1, age=1),
        work("old", "a", 1, age=9),
        work("urgent", "a", 1, priority=1000),
    ]
    assert predicted(queue("a", 2), *jobs).holds == {"urgent", "old"}


def test_a_large_one_that_waits_does_not_keep_a_small_one_from_starting() -> None:
    assert predicted(queue("a", 2), work("large", "a", 3, age=9), work("small", "a", 1)).holds == {"small"}


def test_in_a_strict_queue_it_does() -> None:
    running = work("there", "a", 1, age=20, runs=True)
    strict = queue("a", 3, is_strict=True)
    found = predicted(strict, running, work("large", "a", 3, age=9), work("small", "a", 1))
    assert found.starts == ()


def test_idle_devices_are_borrowed_within_the_limit() -> None:
    parts = [queue("a", 1, borrow=1), queue("b", 4), *(work(f"j{n}", "a", 1, age=9 - n) for n in range(4))]
    assert predicted(*parts).holds == {"j0", "j1"}


def test_what_is_not_lent_is_not_borrowed() -> None:
    parts = [queue("a", 0, borrow=4), queue("b", 4, lend=1), work("j0", "a", 1, age=2), work("j1", "a", 1)]
    assert predicted(*parts).holds == {"j0"}


def test_an_owner_takes_lent_devices_back_from_work_of_a_lower_class_only() -> None:
    borrowers = [
        work("low", "a", 2, age=9, priority=100, runs=True),
        work("equal", "a", 2, age=8, priority=500, runs=True),
    ]
    found = predicted(queue("a", 0), queue("b", 4), *borrowers, work("owner", "b", 2, priority=500))
    assert found.preempted == {"low": "owner"}
    assert found.holds == {"owner", "equal"}


def test_work_within_its_guarantee_is_never_preempted() -> None:
    own = work("own", "a", 2, age=9, priority=100, runs=True)
    found = predicted(queue("a", 2), queue("b", 1), own, work("large", "b", 3, priority=10_000))
    assert found.preempted == {}
    assert "large" in found.waits


def test_as_few_as_possible_are_preempted_and_the_latest_first() -> None:
    borrowers = [work(f"b{n}", "a", 1, age=10 - n, priority=100, runs=True) for n in range(3)]
    found = predicted(queue("a", 0), queue("b", 3), *borrowers, work("owner", "b", 1, priority=500))
    assert found.preempted == {"b2": "owner"}


def test_a_department_lends_to_its_neighbour_below_the_same_parent() -> None:
    cohorts = [Cohort("top"), Cohort("research", "top"), Cohort("bio", "top")]
    parts = [queue("a", 0), queue("b", 2, cohort="bio"), work("guest", "a", 2)]
    assert predicted(*cohorts, *parts).holds == {"guest"}


def test_a_departments_bounds_keep_its_devices_to_itself() -> None:
    bounded = Cohort("bio", "top", {GPU: ResourceQuota(0, None, 0)})
    cohorts = [Cohort("top"), Cohort("research", "top"), bounded]
    parts = [queue("a", 0), queue("b", 2, cohort="bio"), work("guest", "a", 2)]
    assert predicted(*cohorts, *parts).holds == frozenset()


def test_a_stopped_queue_starts_nothing() -> None:
    assert predicted(queue("a", 2, is_stopped=True), work("job", "a", 1)).waits == {"job"}


def test_a_cut_below_what_runs_preempts_nobody_by_itself() -> None:
    running = work("large", "a", 4, age=9, runs=True)
    assert predicted(queue("a", 1), running).holds == {"large"}


def test_two_offers_of_a_flavor_share_its_cpu() -> None:
    quotas: Mapping[FlavorResource, ResourceQuota] = {
        ("h100", "whole"): ResourceQuota(1, 0),
        ("h100", "slice"): ResourceQuota(1, 0),
        ("h100", "cpu"): ResourceQuota(3, 0, 0),
    }
    shared = Queue("a", "", ("h100",), quotas)
    first = Work("first", "a", {"whole": 1, "cpu": 2}, NOW)
    assert predicted(shared, first, replace(first, key="second", requests={"slice": 1, "cpu": 2})).holds == {
        "first"
    }


@pytest.mark.parametrize("seed", range(1, 40))
def test_nobody_ever_holds_more_than_there_is(seed: int) -> None:
    case = predict_cases.make(seed)
    jobs = [
        Work(
            each.name,
            each.queue,
            {f"allotment.dev/{each.offer}": each.count},
            NOW + timedelta(seconds=place),
            each.priority.rank,
        )
        for place, each in enumerate(case.jobs)
    ]
    base = reading.view(case.queues(case.after), case.cohorts, [], local={})
    view = replace(base, work=tuple(jobs))
    found = scheduling.predict(view, now=NOW)
    assert found.is_settled
    assert found.holds | found.waits == {job.key for job in jobs}
    assert not found.holds & found.waits
    held = [replace(job, flavors=_flavors(job)) for job in jobs if job.key in found.holds]
    snapshot = Snapshot(replace(view, work=tuple(held)))
    roots = [node for node in snapshot.cohorts.values() if node.parent is None]
    assert all(used <= node.subtree_quota[fr] for node in roots for fr, used in node.usage.items())


def _flavors(job: Work) -> dict[str, str]:
    return {name: predict_cases.OFFERS[name.removeprefix("allotment.dev/")] for name in job.requests}


def test_the_same_view_is_read_from_whole_objects_and_from_the_mirrors() -> None:
    body: dict[str, Any] = {
        "metadata": {
            "namespace": "vision",
            "name": "w",
            "creationTimestamp": "2026-11-21T08:00:00Z",
            "uid": "u",
        },
        "spec": {"queueName": "gpu", "priority": 500},
    }
    resources = {"requests": {"cpu": "1500m"}, "limits": {"allotment.dev/l4-whole": "2"}}
    whole = {"count": 2, "template": {"spec": {"containers": [{"resources": resources}]}}}
    kept = {"count": 2, "resources": [resources]}
    local = {("vision", "gpu"): "vision"}
    found = [
        reading.read_work({**body, "spec": {**body["spec"], "podSets": [pods]}}, local)
        for pods in (whole, kept)
    ]
    assert found[0] == found[1]
    assert found[0] is not None
    assert found[0].requests == {"cpu": 3000, "allotment.dev/l4-whole": 4}
