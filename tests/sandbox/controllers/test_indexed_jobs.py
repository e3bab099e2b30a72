"""Indexed Jobs: tries of each index, what failed, when that ends the Job, and suspension."""

from __future__ import annotations

from typing import Any

import pytest

from sandbox.api.meta.errors import ApiError
from sandbox.controllers.kubelet import FAILING_INDEXES
from tests.sandbox.controllers.bodies import NAMESPACE, job
from tests.sandbox.controllers.conftest import World


def indexed(name: str, failing: str, **spec: Any) -> dict[str, Any]:
    body = job(name, delay="2s", completionMode="Indexed", **spec)
    body["spec"]["template"]["metadata"]["annotations"][FAILING_INDEXES] = failing
    return body


def test_an_index_that_fails_ends_neither_the_others_nor_the_job_before_its_end(world: World) -> None:
    body = indexed("j", "3,7-8", completions=20, parallelism=4, backoffLimitPerIndex=1)
    made = world.create("jobs.batch", body)
    assert made["spec"]["backoffLimit"] == 2**31 - 1
    assert len(world.pods_of(made)) == 4
    active = []
    for _ in range(60):
        world.wait(3)
        active.append(found_job(world)["status"].get("active", 0))
    assert max(active) == 4
    status = found_job(world)["status"]
    assert (status["completedIndexes"], status["failedIndexes"]) == ("0-2,4-6,9-19", "3,7,8")
    assert (status["succeeded"], status["failed"], "active" in status) == (17, 6, False)
    assert {c["type"]: c["reason"] for c in status["conditions"]} == {
        "FailureTarget": "FailedIndexes",
        "Failed": "FailedIndexes",
    }
    tries = sorted(
        p["metadata"]["annotations"]["batch.kubernetes.io/job-index-failure-count"]
        for p in world.pods_of(made)
        if p["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"] == "7"
    )
    assert tries == ["0", "1"]


def found_job(world: World) -> dict[str, Any]:
    found = world.client.get("jobs.batch", "j", NAMESPACE)
    assert found is not None
    return found


def test_too_many_failed_indexes_end_a_job(world: World) -> None:
    world.create(
        "jobs.batch",
        indexed("j", "0-9", completions=10, parallelism=2, backoffLimitPerIndex=0, maxFailedIndexes=1),
    )
    world.wait(30)
    status = found_job(world)["status"]
    assert [c["reason"] for c in status["conditions"]] == ["MaxFailedIndexesExceeded"] * 2
    assert status["failedIndexes"] == "0,1"


def test_an_indexed_job_that_is_suspended_keeps_what_is_done(world: World) -> None:
    made = world.create("jobs.batch", indexed("j", "", completions=4, parallelism=2, backoffLimitPerIndex=0))
    world.wait(6)
    done = found_job(world)["status"]["completedIndexes"]
    assert done
    world.client.patch("jobs.batch", "j", {"spec": {"suspend": True}}, namespace=NAMESPACE)
    world.wait(3)
    assert found_job(world)["status"]["completedIndexes"] == done
    world.client.patch("jobs.batch", "j", {"spec": {"suspend": False}}, namespace=NAMESPACE)
    world.wait(30)
    assert found_job(world)["status"]["completedIndexes"] == "0-3"
    assert [c["type"] for c in found_job(world)["status"]["conditions"]][-1] == "Complete"
    assert len({p["metadata"]["name"] for p in world.pods_of(made)}) <= 6


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"backoffLimitPerIndex": 1}, "spec.backoffLimitPerIndex"),
        ({"completionMode": "Indexed", "completions": 2, "maxFailedIndexes": 1}, "spec.backoffLimitPerIndex"),
        (
            {"completionMode": "Indexed", "completions": 2, "backoffLimitPerIndex": 1, "maxFailedIndexes": 3},
            "spec.maxFailedIndexes",
        ),
        ({"completionMode": "Indexed", "parallelism": 2}, "spec.completions"),
    ],
)
def test_an_ill_formed_indexed_job_is_refused(world: World, spec: dict[str, Any], field: str) -> None:
    with pytest.raises(ApiError) as refused:
        world.create("jobs.batch", job("j", **spec))
    assert field in refused.value.message
