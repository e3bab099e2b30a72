"""The story of a workload: done, at hand, not yet, failed; told from its row alone."""

from datetime import UTC, datetime
from typing import Any

from apps.workloads.specs import Kind, Phase
from apps.workloads.status.story import Facts, StepState, tell

NOW = datetime(2026, 11, 20, 9, 0, tzinfo=UTC)


def facts(phase: Phase, *, kind: Kind = Kind.NOTEBOOK, **known: Any) -> Facts:
    found = {
        "conditions": [],
        "placement": [],
        "created_at": NOW,
        "started_at": None,
        "ended_at": None,
        **known,
    }
    return Facts(kind=kind, phase=phase, **found)


def condition(kind: str, status: str, message: str = "") -> dict[str, str]:
    return {"type": kind, "status": status, "message": message, "since": NOW.isoformat()}


def states(given: Facts) -> dict[str, str]:
    return {step.name: str(step.state) for step in tell(given)}


def test_what_waits_is_at_its_quota_with_the_queues_words() -> None:
    steps = tell(facts(Phase.PENDING, conditions=[condition("QuotaReserved", "False", "insufficient quota")]))
    at_hand = [step for step in steps if step.state is StepState.NOW]
    assert [(step.name, step.message) for step in at_hand] == [("Quota reserved", "insufficient quota")]


def test_a_running_notebook_has_only_its_end_before_it() -> None:
    names = ("QuotaReserved", "Admitted", "DevicesAllocated", "Ready")
    placement = [{"node": "gpu-1", "devices": [{"name": "gpu-1/gpu-0"}]}]
    given = facts(
        Phase.RUNNING, conditions=[condition(n, "True") for n in names], placement=placement, started_at=NOW
    )
    shown = states(given)
    assert [name for name, state in shown.items() if state != "done"] == ["Ended"]
    assert [step.message for step in tell(given) if step.name == "Devices allocated"] == ["1 on gpu-1"]


def test_a_job_is_never_opened() -> None:
    assert "Open" not in states(facts(Phase.PENDING, kind=Kind.JOB))


def test_a_failure_ends_the_story_with_its_reason() -> None:
    given = facts(
        Phase.FAILED, kind=Kind.JOB, conditions=[condition("Ready", "False", "backoff limit")], ended_at=NOW
    )
    last = tell(given)[-1]
    assert (last.name, last.state, last.message, last.at) == (
        "Failed",
        StepState.FAILED,
        "backoff limit",
        NOW,
    )


def test_what_has_run_has_its_places_behind_it_though_it_holds_none_any_more() -> None:
    names = ("QuotaReserved", "Admitted", "DevicesAllocated")
    ended = [condition(name, "False", "It holds no quota.") for name in names]
    for conditions in (ended, []):
        given = facts(Phase.SUCCEEDED, kind=Kind.JOB, conditions=conditions, started_at=NOW, ended_at=NOW)
        assert set(states(given).values()) == {"done"}
        assert {step.message for step in tell(given)} == {""}


def test_what_was_stopped_while_it_waited_never_got_a_place() -> None:
    shown = states(facts(Phase.STOPPED, ended_at=NOW))
    assert (shown["Quota reserved"], shown["Started"], shown["Stopped"]) == ("later", "later", "done")


def test_what_the_cluster_refused_stands_beside_accepted() -> None:
    given = facts(Phase.PENDING, conditions=[condition("Synced", "False", "The API server refused it.")])
    assert tell(given)[0].message == "The API server refused it."
