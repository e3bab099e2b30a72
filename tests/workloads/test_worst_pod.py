"""The worst of its pods is told, with counts, init containers and former lives too; the root cause first."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from apps.workloads.specs import Kind, Phase
from apps.workloads.status import derivation
from apps.workloads.status.derivation import Derived, Facts, ObservedWorkload
from apps.workloads.status.endings import ending_of
from apps.workloads.status.tally import INDEX
from tests.workloads import bodies
from tests.workloads.bodies import Body

NOW = datetime(2026, 11, 20, 9, 0, 20, tzinfo=UTC)
FACTS = Facts(
    kind=Kind.NOTEBOOK, generation=1, cluster="north", flavor="h100", wanted=True, deleting=False,
    phase=Phase.PENDING, asked_at=NOW,
)  # fmt: skip
JOB = replace(FACTS, kind=Kind.JOB)
LATER = "2026-11-20T09:05:00Z"
LIMIT = bodies.controller(
    "Job",
    bodies.condition(
        "Failed", reason="BackoffLimitExceeded", message="Job has reached the specified backoff limit"
    ),
)
NODE_LOST = {"reason": "NodeLost", "message": "Node gpu-01 which was running pod w-0 is unresponsive"}
BACK_OFF = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 5m0s restarting failed container"}}
UNREADY = bodies.condition("Ready", "False", at=LATER)


def container(
    reason: str = "Error", code: int = 1, *, state: Body | None = None, at: str = bodies.AT, **other: Any
) -> Body:
    """A container that ended so: at last, or, where its present state is given, before that."""
    over = {"terminated": {"reason": reason, "exitCode": code, "finishedAt": at, **other}}
    return {"name": "main", "state": over} if state is None else {"state": state, "lastState": over}


def pods(*named: Body) -> tuple[Body, ...]:
    """Each with a name and number of its own."""
    for number, pod in enumerate(named):
        pod["metadata"] |= {"name": f"w-{number}", "uid": f"p{number}"}
    return named


def crashing(code: int = 1, reason: str = "Error") -> Body:
    return bodies.pod(UNREADY, containerStatuses=[container(reason, code, state=BACK_OFF)])


def leaving(**status: Any) -> Body:
    pod = bodies.pod(UNREADY, **status)
    pod["metadata"]["deletionTimestamp"] = LATER
    return pod


def rejected(reason: str, message: str) -> Body:
    return bodies.pod(phase="Failed", reason=reason, message=message)


def numbered(pod: Body, index: int, at: str = bodies.AT) -> Body:
    pod["metadata"] |= {"labels": {INDEX: str(index)}, "creationTimestamp": at}
    return pod


def derive(facts: Facts, *all_pods: Body, **other: Any) -> Derived:
    given = {"controller": bodies.controller(), "queued": bodies.admitted(), **other}
    return derivation.derive(ObservedWorkload(pods=pods(*all_pods), **given), facts, now=NOW)


def ready(derived: Derived) -> tuple[str, str, str]:
    (fact,) = [fact for fact in derived.conditions if fact["type"] == "Ready"]
    return fact["status"], fact["reason"], fact["message"]


RUNS = bodies.pod
EIGHT = replace(JOB, pods=8)
EXIT_1 = "It ended with exit code 1."
NO_MEMORY = "It used more memory than it asked for and was killed (OOMKilled, exit code 137)."
CRASHES = f"1 of 8 runs; 7 crash: exit 1. {EXIT_1}"
FAILED = f"1 of 8 runs; 7 have failed: exit 1. {EXIT_1}"
SEVERAL = f"1 of 8 runs; 2 crash: OOMKilled; 1 cannot start: ErrImagePull. {NO_MEMORY}"
IS_LOST = "is being removed: Node gpu-01 which was running pod w-0 is unresponsive."
REFUSED = "Its node ended it (UnexpectedAdmissionError): Allocate failed."
CASES: dict[str, tuple[Facts, list[Body], Phase, tuple[str, str, str]]] = {
    "all run": (EIGHT, [RUNS() for _ in range(8)], Phase.RUNNING, ("True", "Running", "It runs.")),
    "one of eight runs, seven crash": (
        EIGHT, [RUNS(), *(crashing() for _ in range(7))], Phase.RUNNING,
        ("True", "PartlyRuns", CRASHES)),
    "one of eight runs, seven have failed": (
        EIGHT, [RUNS(), *(bodies.pod(phase="Failed", containerStatuses=[container()]) for _ in range(7))],
        Phase.RUNNING, ("True", "PartlyRuns", FAILED)),
    "what failed was replaced": (
        JOB, [bodies.pod(phase="Failed", containerStatuses=[container()]), RUNS()], Phase.RUNNING,
        ("True", "Running", "It runs.")),
    "some are on their way": (
        EIGHT, [RUNS(), bodies.pod(phase="Pending")], Phase.RUNNING, ("True", "Running", "It runs.")),
    "several reasons, most first": (
        EIGHT,
        [RUNS(), crashing(137, "OOMKilled"), crashing(137, "OOMKilled"),
         bodies.pod(phase="Pending", containerStatuses=[{"state": {"waiting": {"reason": "ErrImagePull"}}}])],
        Phase.RUNNING,
        ("True", "PartlyRuns", SEVERAL)),
    "a lost node, two pods": (
        replace(JOB, pods=2), [RUNS(), leaving(**NODE_LOST)], Phase.RUNNING,
        ("True", "PartlyRuns", f"1 of 2 runs; 1 {IS_LOST}")),
    "a lost node, its only pod": (
        JOB, [leaving(**NODE_LOST)], Phase.STARTING,
        ("False", "PodLeaving", f"It does not run: its pod {IS_LOST}")),
    "a node that does not answer yet": (
        JOB, [bodies.pod(UNREADY, containerStatuses=[{"state": {"running": {"startedAt": bodies.AT}}}])],
        Phase.RUNNING, ("False", "NotReady", "It does not run: its pod is not ready.")),
    "it has not been ready yet": (
        JOB, [bodies.pod(bodies.condition("Ready", "False"),
                         containerStatuses=[{"state": {"running": {"startedAt": LATER}}}])],
        Phase.RUNNING, ("True", "Running", "It runs.")),
    "a loop for want of memory": (
        FACTS, [crashing(137, "OOMKilled")], Phase.STARTING,
        ("False", "CrashLoopBackOff", f"{NO_MEMORY} back-off 5m0s restarting failed container")),
    "evicted": (
        JOB, [rejected("Evicted", "The node was low on resource: memory.")], Phase.STARTING,
        ("False", "Evicted", "Its node ended it (Evicted): The node was low on resource: memory.")),
    "its node would not have it": (
        JOB, [rejected("UnexpectedAdmissionError", "Allocate failed")], Phase.STARTING,
        ("False", "UnexpectedAdmissionError", REFUSED)),
    "evicted, and another one starts": (
        JOB, [rejected("Evicted", "low on memory"), bodies.pod(phase="Pending")], Phase.STARTING,
        ("False", "Starting", "Its node ended it (Evicted): low on memory. Its pod is being started.")),
    "an init container's image": (
        FACTS, [bodies.pod(phase="Pending", initContainerStatuses=[
            {"state": {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}}],
            containerStatuses=[{"state": {"waiting": {"reason": "PodInitializing"}}}])], Phase.STARTING,
        ("False", "ImagePullBackOff", "no such image")),
    "an init container that fails again and again": (
        FACTS, [bodies.pod(phase="Pending", initContainerStatuses=[container(code=3, state=BACK_OFF)],
                           containerStatuses=[{"state": {"waiting": {"reason": "PodInitializing"}}}])],
        Phase.STARTING,
        ("False", "CrashLoopBackOff",
         "It ended with exit code 3. back-off 5m0s restarting failed container")),
    "a training of which one node crashes": (
        replace(FACTS, kind=Kind("training"), pods=2),
        [numbered(RUNS(), 0), numbered(bodies.pod(phase="Failed", containerStatuses=[container()]), 1)],
        Phase.STARTING,
        ("False", "PodFailed", "1 of 2 runs; 1 has failed: exit 1. It ended with exit code 1.")),
    "a replica that crashes": (
        replace(FACTS, kind=Kind("service"), pods=2), [bodies.ready_pod(), crashing(2)], Phase.RUNNING,
        ("True", "PartlyRuns", "1 of 2 replicas answer. 1 crashes: exit 2. It ended with exit code 2.")),
    "a replica that is rolled away": (
        replace(FACTS, kind=Kind("service"), pods=2), [bodies.ready_pod(), leaving()], Phase.RUNNING,
        ("True", "Running", "1 of 2 replicas answer.")),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_the_worst_pod_decides_what_is_said(name: str) -> None:
    facts, all_pods, phase, said = CASES[name]
    derived = derive(facts, *all_pods)
    assert (derived.phase, ready(derived)) == (phase, said)


def test_of_an_array_the_newest_pod_of_each_index_counts_and_what_failed_for_good_does_not() -> None:
    items = replace(JOB, pods=4, items=(0, 1, 2, 3))
    broken: dict[str, Any] = {"phase": "Failed", "containerStatuses": [container()]}
    all_pods = (
        numbered(bodies.pod(phase="Succeeded"), 0),
        numbered(bodies.pod(**broken), 1), numbered(RUNS(), 1, LATER),
        numbered(bodies.pod(**broken), 2),
        numbered(bodies.pod(**broken), 3),
    )  # fmt: skip
    said = ready(derive(items, *all_pods, controller=bodies.controller("Job", failedIndexes="3")))
    assert said[2] == "1 of 2 runs; 1 has failed: exit 1. It ended with exit code 1."


GONE_BY_ITSELF: dict[str, tuple[list[Body], str]] = {
    "memory": ([container("OOMKilled", 137)],
               NO_MEMORY),
    "no such command": ([container(code=127)], "It ended with exit code 127: its command was not found."),
    "a command that is no program": ([container(code=126)],
                                     "It ended with exit code 126: its command cannot be run."),
    "not even a shell": (
        [container("StartError", 128, message='exec: "train": executable file not found in $PATH')],
        'Its command could not be started: exec: "train": executable file not found in $PATH.'),
    "a helper ended well after it": ([container("OOMKilled", 137), container("Completed", 0, at=LATER)],
                                     NO_MEMORY),
}  # fmt: skip


@pytest.mark.parametrize("name", GONE_BY_ITSELF)
def test_a_job_that_failed_says_the_root_cause_first(name: str) -> None:
    statuses, words = GONE_BY_ITSELF[name]
    pod = bodies.pod(phase="Failed", containerStatuses=statuses)
    said = ready(derive(JOB, pod, controller=LIMIT))
    assert said[1:] == ("BackoffLimitExceeded", f"{words} Job has reached the specified backoff limit")


@pytest.mark.parametrize("reason", ["Evicted", "UnexpectedAdmissionError", "NodeShutdown"])
def test_a_job_that_its_node_ended_says_so_first(reason: str) -> None:
    pod = rejected(reason, "The node was low on resource: memory.")
    words = "Its node ended it ({}): The node was low on resource: memory. Job has reached the specified"
    assert ready(derive(JOB, pod, controller=LIMIT))[2].startswith(words.format(reason))


def test_what_was_removed_for_anothers_failure_is_not_the_cause() -> None:
    first = bodies.pod(phase="Failed", containerStatuses=[container(code=3)])
    after = leaving(phase="Failed", containerStatuses=[container(code=143, at=LATER)])
    assert ending_of([first, after]) == ending_of([after, first]) == "It ended with exit code 3."
    assert ending_of([bodies.pod(phase="Succeeded", containerStatuses=[container("Completed", 0)])]) == ""


def test_nothing_is_said_of_the_pods_of_what_waits() -> None:
    derived = derivation.derive(ObservedWorkload(queued=bodies.waiting(), pods=(leaving(),)), JOB, now=NOW)
    assert (derived.phase, ready(derived)[1]) == (Phase.PENDING, "Waiting")
