"""Arrays: what is asked for and refused, how far one is, and the request that runs what failed again."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apps.errors import Conflict, Invalid
from apps.workloads import items
from apps.workloads.models import Workload
from apps.workloads.selectors import reading, rerun
from apps.workloads.spec import parsing
from apps.workloads.specs import CompletionMode, JobBlock, Kind, Phase
from apps.workloads.status import arrays, derivation
from apps.workloads.status.derivation import Facts, ObservedWorkload
from tests.conftest import Cast
from tests.workloads import bodies
from tests.workloads.asking import problems_of, submit

NOW = datetime(2026, 11, 20, 9, 0, 20, tzinfo=UTC)
FACTS = Facts(
    kind=Kind.JOB, generation=1, cluster="north", flavor="h100", wanted=True, deleting=False,
    phase=Phase.PENDING, asked_at=NOW,
)  # fmt: skip
JOB = {"kind": "job", "offer": "h100-whole", "image": "python:3.13"}
COMMAND = {**JOB, "command": ["python", "fold.py"]}
TWENTY = tuple(range(20))


def block(**job: Any) -> JobBlock:
    found = parsing.parse({**COMMAND, "job": job}).job
    assert found
    return found


def test_more_than_one_run_is_an_array_unless_it_is_said_not_to_be() -> None:
    assert block(completions=20).numbered == TWENTY
    assert block(completions=20, completion_mode="NonIndexed").numbered == ()
    assert not block().is_array
    assert block(completion_mode="Indexed").numbered == (0,)


def test_quota_is_asked_for_what_runs_at_once() -> None:
    spec = parsing.parse({**COMMAND, "count": 2, "job": {"completions": 20, "parallelism": 4}})
    assert (spec.pods, spec.devices) == (4, 8)


def test_named_items_are_all_there_are() -> None:
    named = block(items="3, 7-9")
    assert (named.completions, named.numbered) == (4, (3, 7, 8, 9))
    assert parsing.as_json(parsing.parse({**COMMAND, "job": {"items": "9,8,7,3"}}))["job"] == {
        "completions": 4,
        "parallelism": 1,
        "backoff_limit": 0,
        "completion_mode": "Indexed",
        "max_failed_indexes": None,
        "items": "3,7-9",
    }


@pytest.mark.parametrize(
    ("job", "pointer"),
    [
        ({"completions": 1001}, "completions"),
        ({"completions": 0}, "completions"),
        ({"completions": 3, "parallelism": 4}, "parallelism"),
        ({"completions": 3, "max_failed_indexes": 4}, "max_failed_indexes"),
        ({"max_failed_indexes": 1}, "max_failed_indexes"),
        ({"completion_mode": "NonIndexed", "items": "3"}, "items"),
        ({"completion_mode": "indexed"}, "completion_mode"),
        ({"items": "3,1000"}, "items"),
        ({"items": "9-3"}, "items"),
        ({"items": "3,7", "completions": 3}, "completions"),
    ],
)
def test_what_no_array_can_be_is_refused_where_it_stands(job: dict[str, Any], pointer: str) -> None:
    assert f"/spec/job/{pointer}" in problems_of({**COMMAND, "job": job})


def test_ten_thousand_runs_that_are_alike_are_no_array() -> None:
    assert block(completions=10_000, completion_mode="NonIndexed").completions == 10_000


@pytest.mark.parametrize("name", ["JOB_COMPLETION_INDEX", "ALLOTMENT_ITEMS"])
def test_no_request_hides_its_item_from_a_program(name: str) -> None:
    body = {**COMMAND, "env": {name: "7"}}
    assert problems_of({**body, "job": {"completions": 2}}) == {f"/spec/env/{name}": "reserved_name"}
    parsing.parse(body)


def test_only_a_command_that_can_be_told_its_item_runs_named_items() -> None:
    assert problems_of({**JOB, "job": {"items": "3"}}) == {"/spec/job/items": "invalid_value"}
    filled = {**JOB, "command": ["fold", "$(JOB_COMPLETION_INDEX)"]}
    assert problems_of({**filled, "job": {"items": "3"}}) == {"/spec/command": "invalid_value"}
    parsing.parse({**filled, "job": {"completions": 4}})


def test_a_job_that_was_stored_before_there_were_arrays_stays_as_it_was_made() -> None:
    body = parsing.as_json(
        parsing.parse({**COMMAND, "job": {"completions": 4, "completion_mode": "NonIndexed"}})
    )
    old: Any = {**body, "job": {"completions": 4, "parallelism": 2, "backoff_limit": 1}}
    kept = parsing.stored(old).job
    assert kept == JobBlock(4, 2, 1, CompletionMode.RUNS)
    assert parsing.stored({**old, "env": {"LONG": "x" * parsing.LONGEST_KEPT}}).job == kept


@settings(deadline=None)
@given(st.sets(st.integers(0, 19)), st.data())
def test_every_item_is_done_failed_or_left(done: set[int], data: st.DataObject) -> None:
    failed = data.draw(st.sets(st.sampled_from(sorted(set(TWENTY) - done)))) if len(done) < 20 else set()
    job = bodies.controller(
        "Job",
        completedIndexes=items.text(done),
        failedIndexes=items.text(failed),
    )
    found = arrays.standing(arrays.progress_of(job, TWENTY), TWENTY)
    assert found is not None
    assert (set(found.done), set(found.failed)) == (done, failed)
    assert len(found.done) + len(found.failed) + found.left == found.total == 20
    assert set(found.missing) == set(TWENTY) - done


def seen(*pods: Mapping[str, Any], **status: Any) -> ObservedWorkload:
    controller = bodies.controller("Job", **status)
    return ObservedWorkload(controller=controller, queued=bodies.admitted(), pods=pods)


def test_progress_is_told_in_the_items_own_numbers() -> None:
    facts = replace(FACTS, items=(3, 7, 8, 9))
    derived = derivation.derive(seen(completedIndexes="0,2", failedIndexes="1"), facts, now=NOW)
    assert derived.items == {"total": 4, "done": "3,8", "failed": "7"}


def test_a_fresh_job_has_no_progress_and_what_is_no_array_has_none_at_all() -> None:
    fresh = derivation.derive(seen(), replace(FACTS, items=(0, 1)), now=NOW)
    assert fresh.items == {"total": 2, "done": "", "failed": ""}
    assert derivation.derive(seen(completedIndexes="0"), FACTS, now=NOW).items is None
    assert arrays.standing(None, ()) is None


def test_an_array_is_placed_where_its_items_run_now() -> None:
    ended = bodies.pod(uid="p1", phase="Succeeded", node="gpu-01")
    going = bodies.pod(uid="p2", node="gpu-02")
    facts = replace(FACTS, items=TWENTY)
    derived = derivation.derive(seen(ended, going), facts, now=NOW)
    assert (derived.phase, [pod["node"] for pod in derived.placement]) == (Phase.RUNNING, ["gpu-02"])
    between = derivation.derive(seen(ended, {**ended}), facts, now=NOW)
    assert (between.phase, [pod["node"] for pod in between.placement]) == (Phase.RUNNING, ["gpu-01"])


@pytest.fixture
def failed(cast: Cast) -> Workload:
    """An array of 20 with four at once, of which 3 and 7 to 9 failed, and 12 never ended."""
    row = submit(cast, kind="job", command=["python", "fold.py"], job={"completions": 20, "parallelism": 4})
    row.phase, row.items = Phase.FAILED, {"total": 20, "done": "0-2,4-6,10,11,13-19", "failed": "3,7-9"}
    row.save()
    return row


@pytest.mark.django_db
def test_only_what_did_not_end_well_runs_again_under_its_own_numbers(failed: Workload) -> None:
    asked = rerun.request_of(failed)
    assert asked.spec.job == JobBlock(5, 4, 0, CompletionMode.ITEMS, None, (3, 7, 8, 9, 12))
    assert asked.spec == replace(reading.spec_of(failed), block=asked.spec.block)
    assert (asked.name, asked.labels) == (f"{failed.name} (failed items)", failed.labels)


@pytest.mark.django_db
def test_what_failed_of_a_rerun_runs_again_too(failed: Workload) -> None:
    failed.spec = parsing.as_json(rerun.request_of(failed).spec)
    failed.items = {"total": 5, "done": "3,7,12", "failed": "8,9"}
    again = rerun.request_of(failed).spec.job
    assert again
    assert (again.items, again.parallelism) == ((8, 9), 2)


@pytest.mark.django_db
def test_an_array_of_which_nothing_ended_runs_again_as_it_was(failed: Workload) -> None:
    failed.items = None
    assert rerun.request_of(failed).spec == reading.spec_of(failed)


@pytest.mark.django_db
@pytest.mark.parametrize("phase", [phase for phase in Phase if phase is not Phase.FAILED])
def test_nothing_runs_again_of_what_has_not_failed(failed: Workload, phase: Phase) -> None:
    failed.phase = phase
    with pytest.raises(Conflict):
        rerun.request_of(failed)


@pytest.mark.django_db
def test_nothing_runs_again_of_what_is_no_array(cast: Cast) -> None:
    row = submit(cast, kind="job", command=["true"])
    row.phase = Phase.FAILED
    with pytest.raises(Conflict, match="no array"):
        rerun.request_of(row)


@pytest.mark.django_db
def test_an_images_own_command_cannot_be_told_other_items(failed: Workload) -> None:
    failed.spec = {**failed.spec, "command": []}
    with pytest.raises(Invalid, match="Name the command"):
        rerun.request_of(failed)
