"""What the cluster shows, as phase and conditions: one row per situation."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from apps.cluster.specs import ObjectRef, Observed
from apps.workloads.specs import Kind, Phase
from apps.workloads.status import derivation, waits
from apps.workloads.status.derivation import Derived, Facts, ObservedWorkload
from apps.workloads.status.gathering import gather
from tests.workloads import bodies
from tests.workloads.bodies import Body

AT = datetime(2026, 11, 20, 9, 0, tzinfo=UTC)
NOW = AT + timedelta(seconds=20)
FACTS = Facts(
    kind=Kind.NOTEBOOK, generation=1, cluster="north", flavor="h100", wanted=True, deleting=False,
    phase=Phase.PENDING, asked_at=AT,
)  # fmt: skip
JOB = replace(FACTS, kind=Kind.JOB)
STOPPED = replace(FACTS, wanted=False)


def seen(**given: Any) -> ObservedWorkload:
    return ObservedWorkload(**{"controller": bodies.controller(), **given})


def said(derived: Derived, name: str) -> tuple[str, str]:
    (found,) = [fact for fact in derived.conditions if fact["type"] == name]
    return found["status"], found["reason"]


RUNNING = {"queued": bodies.admitted(), "pods": (bodies.ready_pod(),)}
DONE = bodies.controller("Job", bodies.condition("Complete"), completionTime="2026-11-20T09:00:12Z")
BROKEN = bodies.controller("Job", bodies.condition("Failed", reason="DeadlineExceeded", message="too long"))


def unplaced(reason: str) -> Body:
    refused = bodies.condition("PodScheduled", "False", reason=reason, message="0/6 nodes are available")
    return bodies.pod(refused, phase="Pending", node="", uid="p2")


UNPLACED, GATED = unplaced("Unschedulable"), unplaced("SchedulingGated")
CASES: dict[str, tuple[ObservedWorkload, Facts, Phase]] = {
    "nothing is there yet": (ObservedWorkload(), FACTS, Phase.PENDING),
    "Kueue has not seen it yet": (seen(), FACTS, Phase.PENDING),
    "it waits in the queue": (seen(queued=bodies.waiting()), FACTS, Phase.PENDING),
    "quota is reserved, not admitted": (
        seen(queued=bodies.queued(bodies.condition("QuotaReserved"))), FACTS, Phase.PENDING),
    "admitted, no pod": (seen(queued=bodies.admitted()), FACTS, Phase.STARTING),
    "admitted, pod not ready": (seen(queued=bodies.admitted(), pods=(bodies.pod(),)), FACTS, Phase.STARTING),
    "a notebook's pod is ready": (seen(**RUNNING), FACTS, Phase.RUNNING),
    "a job's pod runs": (seen(queued=bodies.admitted(), pods=(bodies.pod(),)), JOB, Phase.RUNNING),
    "a job's pod is not on a node yet": (
        seen(queued=bodies.admitted(), pods=(bodies.pod(phase="Pending", node=""),)), JOB, Phase.STARTING),
    "admitted, no node has room": (
        seen(queued=bodies.admitted(), pods=(UNPLACED,)), FACTS, Phase.PENDING),
    "admitted, one pod is on a node and another fits none": (
        seen(queued=bodies.admitted(), pods=(bodies.pod(phase="Pending"), UNPLACED)), FACTS, Phase.STARTING),
    "admitted, its pod is gated still": (
        seen(queued=bodies.admitted(), pods=(GATED,)), FACTS, Phase.STARTING),
    "a job is complete": (seen(controller=DONE), JOB, Phase.SUCCEEDED),
    "a job failed": (seen(controller=BROKEN), JOB, Phase.FAILED),
    "evicted: quota is taken back": (
        seen(queued=bodies.queued(bodies.condition("QuotaReserved", "False"), bodies.condition("Evicted"))),
        replace(FACTS, phase=Phase.RUNNING), Phase.PENDING),
    "to be stopped, something is left": (seen(remains=1), STOPPED, Phase.STOPPING),
    "to be stopped, nothing is left": (ObservedWorkload(), STOPPED, Phase.STOPPED),
    "to be deleted": (seen(**RUNNING), replace(FACTS, deleting=True), Phase.DELETING),
    "what succeeded stays so": (ObservedWorkload(), replace(JOB, phase=Phase.SUCCEEDED), Phase.SUCCEEDED),
    "what failed stays so": (seen(**RUNNING), replace(JOB, phase=Phase.FAILED), Phase.FAILED),
    "it runs again after an earlier run": (
        ObservedWorkload(remains=2), replace(FACTS, phase=Phase.PENDING), Phase.PENDING),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_the_phase_follows_from_the_objects(name: str) -> None:
    observed, facts, expected = CASES[name]
    assert derivation.derive(observed, facts, now=NOW).phase is expected


def test_a_waiting_notebook_says_what_kueue_says() -> None:
    derived = derivation.derive(seen(queued=bodies.waiting("1 more needed")), FACTS, now=NOW)
    assert derived.queue == {"reason": "Pending", "message": "1 more needed"}
    assert said(derived, "QuotaReserved") == ("False", "Pending")
    assert said(derived, "Ready") == ("False", "Waiting")


def test_a_running_notebook_shows_where_it_runs_and_on_what() -> None:
    observed = seen(**RUNNING, claims=(bodies.claim("gpu-01/gpu-0-mig-1"),))
    derived = derivation.derive(observed, replace(FACTS, device_ids={"gpu-01/gpu-0-mig-1": "MIG-1"}), now=NOW)
    assert derived.placement == [
        {"cluster": "north", "namespace": "ns", "pod": "w-0", "node": "gpu-01", "flavor": "h100",
         "devices": [{"id": "MIG-1", "name": "gpu-01/gpu-0-mig-1"}]}
    ]  # fmt: skip
    assert derived.started_at == AT
    assert said(derived, "DevicesAllocated") == ("True", "Allocated")
    assert said(derived, "Ready") == ("True", "Running")
    assert derived.queue is None


def test_a_run_keeps_its_start_while_it_lasts_and_loses_it_with_its_quota() -> None:
    earlier = AT - timedelta(hours=1)
    facts = replace(FACTS, phase=Phase.RUNNING, started_at=earlier)
    assert derivation.derive(seen(**RUNNING), facts, now=NOW).started_at == earlier
    assert derivation.derive(seen(queued=bodies.waiting()), facts, now=NOW).started_at is None


def test_kueue_is_called_silent_only_after_its_time() -> None:
    late = AT + derivation.KUEUE_PATIENCE + timedelta(seconds=1)
    assert said(derivation.derive(seen(), FACTS, now=NOW), "QuotaReserved") == ("False", "Pending")
    silent = derivation.derive(seen(), FACTS, now=late)
    assert said(silent, "QuotaReserved") == ("False", "KueueUnavailable")
    assert silent.queue == {"reason": "KueueUnavailable", "message": derivation.NOT_QUEUED}


def test_an_eviction_is_told_once_with_kueues_words() -> None:
    evicted = bodies.queued(
        bodies.condition("QuotaReserved", "False", reason="Pending"),
        bodies.condition("Evicted", reason="Preempted", message="genomics took it back"),
    )
    derived = derivation.derive(seen(queued=evicted), replace(FACTS, phase=Phase.RUNNING), now=NOW)
    first = derived.events[0]
    assert (first.type, first.reason, first.message) == ("Warning", "Preempted", "genomics took it back")
    again = derivation.derive(seen(queued=evicted), replace(FACTS, conditions=derived.conditions), now=NOW)
    assert [e for e in again.events if e.reason == "Preempted"] == []


def test_a_change_of_phase_is_one_line_and_no_change_is_none() -> None:
    derived = derivation.derive(seen(**RUNNING), FACTS, now=NOW)
    assert [event.reason for event in derived.events] == ["Running"]
    same = replace(FACTS, phase=Phase.RUNNING, conditions=derived.conditions)
    assert derivation.derive(seen(**RUNNING), same, now=NOW).events == ()


def test_waiting_longer_than_asked_fails_for_good() -> None:
    facts = replace(FACTS, max_wait_seconds=600)
    assert (
        derivation.derive(seen(queued=bodies.waiting()), facts, now=AT + timedelta(seconds=599)).phase
        is Phase.PENDING
    )
    late = AT + timedelta(seconds=600)
    failed = derivation.derive(seen(queued=bodies.waiting()), facts, now=late)
    assert failed.phase is Phase.FAILED
    assert failed.ended_at == late
    assert said(failed, "Ready") == ("False", derivation.WAITED_TOO_LONG)
    stored = replace(facts, phase=Phase.FAILED, conditions=failed.conditions)
    again = derivation.derive(ObservedWorkload(), stored, now=late + timedelta(hours=1))
    assert (again.phase, said(again, "Ready")) == (Phase.FAILED, ("False", derivation.WAITED_TOO_LONG))


@pytest.mark.parametrize("asked", [0, 10])
def test_what_fits_now_has_the_time_to_be_let_in(asked: int) -> None:
    facts = replace(FACTS, max_wait_seconds=asked)
    soon = derivation.derive(ObservedWorkload(), facts, now=AT + waits.TO_BE_LET_IN - timedelta(seconds=1))
    assert soon.phase is Phase.PENDING
    late = derivation.derive(ObservedWorkload(), facts, now=AT + waits.TO_BE_LET_IN)
    assert late.phase is Phase.FAILED
    words = f"within {asked} s" if asked else "at once"
    assert late.events[-1].message == f"It did not start {words}, as asked."


def test_what_was_admitted_in_time_does_not_fail_for_waiting() -> None:
    facts = replace(FACTS, max_wait_seconds=60)
    assert (
        derivation.derive(seen(queued=bodies.admitted()), facts, now=AT + timedelta(hours=1)).phase
        is Phase.STARTING
    )


@pytest.mark.parametrize(("kind", "phase"), [(Kind.NOTEBOOK, Phase.PENDING), (Kind.JOB, Phase.FAILED)])
def test_what_is_never_done_gives_up_its_first_wait_alone(kind: Kind, phase: Phase) -> None:
    late = AT + timedelta(days=3)
    ran = replace(FACTS, kind=kind, phase=Phase.RUNNING, max_wait_seconds=60)
    again = derivation.derive(seen(queued=bodies.waiting()), ran, now=late)
    for _ in range(2):
        stored = replace(ran, phase=again.phase, conditions=again.conditions)
        again = derivation.derive(seen(queued=bodies.waiting()), stored, now=late)
        assert again.phase is phase
    stopped = derivation.derive(ObservedWorkload(), replace(stored, wanted=False), now=late)
    anew = replace(ran, phase=Phase.PENDING, conditions=stopped.conditions)
    assert derivation.derive(seen(queued=bodies.waiting()), anew, now=late).phase is Phase.FAILED


def test_a_job_ends_when_kubernetes_says_so() -> None:
    assert derivation.derive(seen(controller=DONE), JOB, now=NOW).ended_at == AT + timedelta(seconds=12)
    failed = derivation.derive(seen(controller=BROKEN), JOB, now=NOW)
    assert said(failed, "Ready") == ("False", "DeadlineExceeded")
    assert failed.events[-1].type == "Warning"


@pytest.mark.parametrize(
    ("status_of_pod", "reason"),
    [
        (
            {
                "containerStatuses": [
                    {"state": {"waiting": {"reason": "ErrImagePull", "message": "no such image"}}}
                ]
            },
            "ErrImagePull",
        ),
        ({"containerStatuses": [{"state": {"waiting": {"reason": "ContainerCreating"}}}]}, "Starting"),
        ({"conditions": [bodies.condition("PodScheduled", "False", reason="SchedulingGated")]}, "Starting"),
    ],
)
def test_a_start_that_hangs_names_its_reason(status_of_pod: Mapping[str, Any], reason: str) -> None:
    pod = bodies.pod(phase="Pending")
    pod["status"] |= status_of_pod
    derived = derivation.derive(seen(queued=bodies.admitted(), pods=(pod,)), FACTS, now=NOW)
    assert (derived.phase, said(derived, "Ready")) == (Phase.STARTING, ("False", reason))


def test_what_fits_no_node_keeps_since_when_and_what_it_was_let_in_for() -> None:
    """A service that has run once keeps its time, and gives up no second wait."""
    service = replace(
        FACTS, kind=Kind("service"), phase=Phase.RUNNING, started_at=AT, max_wait_seconds=1, pods=1
    )
    stuck = derivation.derive(seen(queued=bodies.admitted(), pods=(UNPLACED,)), service, now=NOW)
    assert (stuck.phase, stuck.started_at, stuck.placement) == (Phase.PENDING, AT, [])
    assert said(stuck, "PodScheduled") == said(stuck, "Ready") == ("False", "Unschedulable")
    assert stuck.queue == {"reason": "Unschedulable", "message": "0/6 nodes are available"}
    stored = replace(service, phase=stuck.phase, conditions=stuck.conditions)
    evicted = derivation.derive(seen(queued=bodies.waiting()), stored, now=NOW + timedelta(hours=1))
    assert (evicted.phase, said(evicted, "PodScheduled")[0]) == (Phase.PENDING, "Unknown")
    assert said(evicted, "Ready")[1] == "WaitsAgain"


def ended(reason: str, code: int, *, state: str = "state", **container: Any) -> Body:
    """A pod whose container ended like this, as the kubelet writes it."""
    pod = bodies.pod()
    terminated = {"terminated": {"reason": reason, "exitCode": code, "finishedAt": "2026-11-20T09:00:11Z"}}
    pod["status"]["containerStatuses"] = [{state: terminated, **container}]
    return pod


@pytest.mark.parametrize(
    ("reason", "code", "words"),
    [
        ("Error", 3, "It ended with exit code 3."),
        ("Error", 143, "It was ended by SIGTERM (exit code 143)."),
        ("Error", 255, "It was ended by signal 127 (exit code 255)."),
        ("OOMKilled", 137,
         "It used more memory than it asked for and was killed (OOMKilled, exit code 137)."),
        ("Completed", 0, ""),
    ],
)  # fmt: skip
def test_a_failed_job_says_how_its_program_ended(reason: str, code: int, words: str) -> None:
    derived = derivation.derive(seen(controller=BROKEN, pods=(ended(reason, code),)), JOB, now=NOW)
    (ready,) = [fact for fact in derived.conditions if fact["type"] == "Ready"]
    assert ready["message"] == f"{words} too long".strip()
    # Its pod may be seen after the job was seen to fail, and may be gone later on.
    early = derivation.derive(seen(controller=BROKEN), JOB, now=NOW)
    failed = replace(JOB, phase=Phase.FAILED, conditions=early.conditions)
    late = derivation.derive(seen(controller=BROKEN, pods=(ended(reason, code),)), failed, now=NOW)
    assert late.conditions == derived.conditions
    gone = derivation.derive(ObservedWorkload(), replace(failed, conditions=late.conditions), now=NOW)
    assert gone.conditions[-1]["message"] == ready["message"]


def test_a_notebook_whose_program_was_started_again_says_so_and_why() -> None:
    pod = ended("OOMKilled", 137, state="lastState", restartCount=1)
    pod["status"]["conditions"] = bodies.ready_pod()["status"]["conditions"]
    derived = derivation.derive(seen(queued=bodies.admitted(), pods=(pod,)), FACTS, now=NOW)
    assert derived.phase is Phase.RUNNING
    assert derived.conditions[-1]["message"] == (
        "It runs. It was started again. It used more memory than it asked for and was killed (OOMKilled, "
        "exit code 137)."
    )


def test_a_program_that_keeps_failing_says_how_it_ended() -> None:
    waits = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s restarting failed container"}}
    pod = ended("Error", 1, state="lastState", restartCount=2)
    pod["status"]["containerStatuses"][0]["state"] = waits
    derived = derivation.derive(seen(queued=bodies.admitted(), pods=(pod,)), FACTS, now=NOW)
    assert said(derived, "Ready") == ("False", "CrashLoopBackOff")
    assert derived.conditions[-1]["message"].startswith("It ended with exit code 1. back-off 10s")


def observed(body: Mapping[str, Any], *, deleting: bool = False) -> Observed:
    meta = body["metadata"]
    owner = next((o["uid"] for o in meta.get("ownerReferences", [])), "")
    ref = ObjectRef(body["kind"], meta["namespace"], meta["name"])
    return Observed(ref, uid=meta["uid"], controller_uid=owner, deleting=deleting, body=body)


def test_the_present_run_is_told_from_what_remains_of_an_earlier_one() -> None:
    everything = [
        observed(bodies.controller(uid="new")),
        observed(bodies.waiting() | {"metadata": bodies.queued(owner="new")["metadata"]}),
        observed(bodies.pod(uid="old-pod", owner="old")),
    ]
    found = gather(everything, controller_kind="StatefulSet", wanted=True)
    assert (found.remains, found.pods, bool(found.queued)) == (1, (), True)
    assert gather(everything, controller_kind="StatefulSet", wanted=False).remains == 3


def test_a_controller_on_its_way_out_is_no_present_run() -> None:
    going = [observed(bodies.controller(), deleting=True), observed(bodies.ready_pod())]
    found = gather(going, controller_kind="StatefulSet", wanted=True)
    assert (found.controller, found.remains) == (None, 2)


def test_volumes_and_services_do_not_keep_a_stop_from_ending() -> None:
    volume = {"kind": "PersistentVolumeClaim", "metadata": {"name": "v", "namespace": "ns", "uid": "v1"}}
    assert gather([observed(volume)], controller_kind="StatefulSet", wanted=False).remains == 0
