"""What an operator plays in the sandbox, and what the product says of it: from the play to the row's words.

docs/fleet.md lists the plays.
"""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import pytest
from django.utils import timezone

from apps.cluster.objects.conditions import find
from apps.workloads.lifecycle.services import verbs
from apps.workloads.models import Workload, WorkloadEvent
from apps.workloads.selectors import reading
from apps.workloads.specs import Phase, WorkloadChange
from apps.workloads.status import waits
from apps.workloads.waiting.rules.situation import Cause
from apps.workloads.waiting.selectors import obstacles, waiting
from sandbox.controllers.kueue import status as state
from sandbox.controllers.kueue.names import ADMISSION_CHECKS, CLUSTER_QUEUES, WORKLOADS
from sandbox.controllers.kueue.stopping import checks
from sandbox.controllers.kueue.stopping.stopper import PODS_READY_TIMEOUT, REQUEUING_LIMIT
from sandbox.fleet.behaviours import ANNOTATION
from tests.conftest import Cast, as_actor
from tests.sandbox.controllers.bodies import kueue
from tests.workloads.asking import submit
from tests.workloads.lab import Lab

pytestmark = [pytest.mark.django_db]

CHECK = "capacity"
OUT = "The workload is deactivated"
LIMIT = "BackoffLimitExceeded"
WAITS = Cause.NEXT  # the test grants the tenant more than the queue of its cluster has


class Said(NamedTuple):
    """The cause with its sentences where something keeps it, else what is said of its pods."""

    reason: str
    words: str


def said(cast: Cast, row: Workload) -> Said:
    found = waiting.explanation_for(as_actor(cast.rosa), row, timezone.now())
    if found is not None:
        return Said(str(found.cause), " ".join(found.sentences))
    ready: Any = find(row.conditions, "Ready") or {}
    return Said(str(ready.get("reason")), str(ready.get("message")))


def says(lab: Lab, row: Workload, reason: str, words: str, within: int = 120) -> None:
    """Time passes until the row says so."""
    heard: list[Said] = []
    for _ in range(within // 5):
        lab.turn(row, 5)
        heard.append(said(lab.cast, row))
        if heard[-1].reason == str(reason) and words in heard[-1].words:
            return
    raise AssertionError(list(dict.fromkeys(heard)))


def notebook(cast: Cast) -> Workload:
    return submit(cast, volumes=[])


def job(cast: Cast) -> Workload:
    return submit(cast, kind="job", volumes=[], command=["sleep", "900"])


def behave(lab: Lab, behaviour: str) -> None:
    """As `python -m sandbox behave NAMESPACE BEHAVIOUR`."""
    lab.admin.patch("namespaces", lab.space, {"metadata": {"annotations": {ANNOTATION: behaviour}}})


PODS = {
    "image-pull": (notebook, Cause.IMAGE, 'pulling image "jupyter/pytorch:1": ErrImagePull: rpc error'),
    "init-crash": (notebook, Cause.WARNED, "back-off 20s restarting failed container=setup"),
    "oom-loop": (notebook, Cause.WARNED, "was killed (OOMKilled, exit code 137). back-off 10s restarting"),
    "prepare-fails": (notebook, Cause.WARNED, "handed to its pod. The cluster says: Failed to prepare"),
    "sandbox-fails": (job, Cause.WARNED, "set its pod up. The cluster says: Failed to create pod"),
    "evicted": (job, LIMIT, "Its node ended it (Evicted): The node was low on resource: memory. Threshold"),
    "refused": (job, LIMIT, "ended it (UnexpectedAdmissionError): Pod was rejected: Allocate failed"),
}  # fmt: skip


@pytest.mark.parametrize("behaviour", PODS)
def test_a_pod_that_does_not_start_or_stay_is_told_with_its_reason(behaviour: str, cast: Cast) -> None:
    ask, reason, words = PODS[behaviour]
    lab = Lab(cast)
    behave(lab, behaviour)
    says(lab, ask(cast), reason, words)


LOSSES = {
    "refused": "Its node refused it: Pod was rejected: Allocate failed due to",
    "evicted": "Its node ended it (Evicted): The node was low on resource: memory. Threshold",
}  # fmt: skip


@pytest.mark.parametrize("behaviour", LOSSES)
def test_a_notebook_that_its_node_does_not_keep_says_why_and_is_made_anew_after_a_pause_that_grows(
    behaviour: str, cast: Cast
) -> None:
    lab, words = Lab(cast), LOSSES[behaviour]
    behave(lab, behaviour)
    row = notebook(cast)
    for times in (1, 2, 3):
        run = fails(lab, row, times)
        assert words in run["cause"]
        assert said(cast, row).words.startswith(f"{run['cause']} It is tried again; if it")
        pause, moment = timedelta(seconds=2 ** (times - 1)), timezone.now() + timedelta(hours=1)
        failed_at(row, moment)
        assert (lab.turn(row, 5).phase, pods(lab)) == (Phase.PENDING, [])
        assert row.due_at == moment + pause
        failed_at(row, timezone.now() - pause)
        lines = WorkloadEvent.objects.filter(source="allotment", message__startswith=words)
        assert lines.count() == (times if behaviour == "evicted" else 1), "only what has run fills its story"
    behave(lab, "notebook")
    says(lab, row, "Running", "It runs.")


def fails(lab: Lab, row: Workload, times: int) -> dict[str, Any]:
    """Time passes until its pods have failed so often in a row: what the row keeps of the last."""
    for _ in range(24):
        run: dict[str, Any] = lab.turn(row, 5).last_run or {}
        if run.get("failures") == times:
            return run
    raise AssertionError(run)


def failed_at(row: Workload, moment: datetime) -> None:
    """As if its pod had failed then, and it had not been ready since before that."""
    run = {**(row.last_run or {}), "seen_at": moment.isoformat()}
    ready = {"since": "2026-11-20T09:00:00Z"}
    conditions = [each | ready if each["type"] == "Ready" else each for each in row.conditions]
    Workload.objects.filter(pk=row.pk).update(last_run=run, conditions=conditions)


def test_a_warning_is_repeated_and_counted_while_nothing_changes(cast: Cast) -> None:
    lab = Lab(cast)
    behave(lab, "sandbox-fails")
    row = job(cast)
    says(lab, row, Cause.WARNED, "Its node cannot set its pod up.")

    def count() -> int:
        events = [e for e in lab.admin.list("events", lab.space) if e["reason"] == "FailedCreatePodSandBox"]
        assert len(events) == 1
        return int(events[0]["count"])

    before = count()
    lab.turn(row, 30)
    assert count() == before + 2


def test_what_is_over_starts_as_usual(cast: Cast) -> None:
    lab = Lab(cast)
    behave(lab, "init-crash")
    row = notebook(cast)
    says(lab, row, Cause.WARNED, "restarting failed container=setup")
    (pod,) = lab.admin.list("pods", lab.space)
    usual: dict[str, Any] = {"metadata": {"annotations": {ANNOTATION: None}}}
    lab.admin.patch("pods", pod["metadata"]["name"], usual, namespace=lab.space)
    says(lab, row, "Running", "It runs.")


def checked(cast: Cast, ask: Callable[[Cast], Workload] = job) -> tuple[Lab, Workload]:
    """Work whose quota is reserved, and whose check nobody has answered."""
    lab = Lab(cast)
    by_hand = {"controllerName": checks.BY_HAND}
    lab.admin.create(ADMISSION_CHECKS, kueue("AdmissionCheck", CHECK, by_hand))
    strategy = {"admissionChecksStrategy": {"admissionChecks": [{"name": CHECK}]}}
    lab.admin.patch(CLUSTER_QUEUES, lab.space, {"spec": strategy})
    row = ask(cast)
    says(lab, row, Cause.CHECKED, f"Its quota is reserved, but the cluster's check {CHECK} has not answered")
    return lab, row


def answer(lab: Lab, state: str, **more: Any) -> None:
    """As `kubectl patch workload --subresource=status`."""
    (queued,) = lab.admin.list(WORKLOADS, lab.space)
    fresh = {**queued["status"]["admissionChecks"][0], "state": state, "message": "no node yet", **more}
    patch = {"status": {"admissionChecks": [fresh]}}
    name = queued["metadata"]["name"]
    lab.admin.patch(WORKLOADS, name, patch, namespace=lab.space, subresource="status")


ANSWERS: dict[str, tuple[dict[str, Any], str, str]] = {
    "passes": ({"state": "Ready"}, "Running", "It runs."),
    "asks again": ({"state": "Retry"}, Cause.CHECKED, "Reset to Pending after eviction. Previously: Retry."),
    "asks again later": (
        {"state": "Retry", "requeueAfterSeconds": 90}, Cause.SENT_BACK,
        "It was sent back: a check of the cluster did not pass. Kueue tries it again at",
    ),
    "never passes": (
        {"state": "Rejected"}, Cause.DEACTIVATED,
        f'rejected it. Kueue says: {OUT} due to AdmissionCheck in Rejected state: "{CHECK}" (no node yet).',
    ),
}  # fmt: skip


@pytest.mark.parametrize("ask", [job, notebook])
@pytest.mark.parametrize("how", ANSWERS)
def test_an_admission_check_is_told_until_it_is_answered(
    how: str, ask: Callable[[Cast], Workload], cast: Cast
) -> None:
    given, reason, words = ANSWERS[how]
    lab, row = checked(cast, ask)
    answer(lab, **given)
    says(lab, row, reason, words)


def waiting_work(cast: Cast, ask: Callable[[Cast], Workload]) -> tuple[Lab, Workload]:
    """Work that waits for the only device, which another job holds."""
    lab = Lab(cast)
    holder = submit(cast, slug="holder", kind="job", volumes=[], command=["sleep", "900"])
    says(lab, holder, "Running", "It runs.")
    row = ask(cast)
    says(lab, row, WAITS, "Needs 1")
    return lab, row


@pytest.mark.parametrize("ask", [notebook, job])
def test_what_a_hand_set_inactive_while_it_waits_is_started_again(
    ask: Callable[[Cast], Workload], cast: Cast
) -> None:
    lab, row = waiting_work(cast, ask)
    assert not obstacles.is_deactivated(row)
    (entry,) = [each for each in lab.admin.list(WORKLOADS, lab.space) if not state.has_quota(each)]
    name = entry["metadata"]["name"]
    lab.admin.patch(WORKLOADS, name, {"spec": {"active": False}}, namespace=lab.space)
    says(lab, row, Cause.DEACTIVATED, "spec.active of its Kueue Workload is false. Start it again")
    assert lab.admin.get(WORKLOADS, name, lab.space), "a pod whose gate is closed stays, and its Workload"
    start_again(lab, row)
    says(lab, row, WAITS, "Needs 1")


def start_again(lab: Lab, row: Workload) -> None:
    assert obstacles.is_deactivated(row), "else nothing offers it"
    now = lab.gateway.simulated.clock.now()
    verbs.resume_workload(actor=as_actor(lab.cast.rosa), workload=row, reason="", now=now)


def test_what_never_gets_ready_is_sent_back_then_taken_out_until_it_is_asked_for_again(
    cast: Cast,
) -> None:
    lab = Lab(cast)
    settings = {PODS_READY_TIMEOUT: "20s", REQUEUING_LIMIT: "1"}
    lab.admin.patch(CLUSTER_QUEUES, lab.space, {"metadata": {"annotations": settings}})
    behave(lab, "image-pull")
    row = job(cast)
    says(lab, row, Cause.SENT_BACK, "It was sent back: its pods did not become ready in time. Kueue tries it")
    says(lab, row, Cause.DEACTIVATED, "exceeding the maximum number of re-queuing retries")
    behave(lab, "train")
    start_again(lab, row)
    says(lab, row, "Running", "It runs.")


def pods(lab: Lab) -> list[str]:
    return [str(pod["metadata"]["uid"]) for pod in lab.admin.list("pods", lab.space)]


def out_of_its_queue(lab: Lab, row: Workload, words: str, cause: str = "") -> None:
    """No pod is made anew, and it says why, until somebody asks for it."""
    says(lab, row, Cause.DEACTIVATED, words)
    changed(lab, row, WorkloadChange(name="another name"))
    for _ in range(4):
        assert lab.turn(row, 30).phase == Phase.PENDING
        assert pods(lab) == []
    says(lab, row, Cause.DEACTIVATED, words)
    run = row.last_run or {}
    assert (run["outcome"], (cause or words) in run["cause"]) == ("evicted", True)


def test_a_notebook_that_never_gets_ready_is_not_made_anew_until_it_is_asked_for_again(cast: Cast) -> None:
    lab = Lab(cast)
    settings = {PODS_READY_TIMEOUT: "20s", REQUEUING_LIMIT: "0"}
    lab.admin.patch(CLUSTER_QUEUES, lab.space, {"metadata": {"annotations": settings}})
    behave(lab, "image-pull")
    row = notebook(cast)
    out_of_its_queue(lab, row, "exceeding the maximum number of re-queuing retries")
    behave(lab, "notebook")
    start_again(lab, row)
    says(lab, row, "Running", "It runs.")


def test_a_notebook_that_a_hand_sets_inactive_as_it_runs_waits_until_it_is_asked(cast: Cast) -> None:
    lab = Lab(cast)
    row = notebook(cast)
    says(lab, row, "Running", "It runs.")
    (entry,) = lab.admin.list(WORKLOADS, lab.space)
    name = entry["metadata"]["name"]
    lab.admin.patch(WORKLOADS, name, {"spec": {"active": False}}, namespace=lab.space)
    out_of_its_queue(lab, row, "spec.active of its Kueue Workload is false. Start it again", cause=OUT)
    events = WorkloadEvent.objects.filter(workload=row, reason=waits.BY_HAND)
    assert [each.message for each in events] == [OUT]
    start_again(lab, row)
    says(lab, row, "Running", "It runs.")


@pytest.mark.parametrize("asks", ["again", "for something else"])
def test_a_notebook_whose_check_is_rejected_as_it_runs_waits_until_it_is_asked(asks: str, cast: Cast) -> None:
    lab, row = checked(cast, notebook)
    answer(lab, "Ready")
    says(lab, row, "Running", "It runs.")
    answer(lab, "Rejected")
    out_of_its_queue(lab, row, f'AdmissionCheck in Rejected state: "{CHECK}" (no node yet)')
    if asks == "again":
        start_again(lab, row)
    else:
        changed(lab, row, WorkloadChange(spec=replace(reading.spec_of(row), image="jupyter/pytorch:2")))
    says(lab, row, Cause.CHECKED, f"Its quota is reserved, but the cluster's check {CHECK} has not answered")
    answer(lab, "Ready")
    says(lab, row, "Running", "It runs.")


def changed(lab: Lab, row: Workload, change: WorkloadChange) -> None:
    now = lab.gateway.simulated.clock.now()
    verbs.update_workload(actor=as_actor(lab.cast.rosa), workload=row, change=change, now=now)


QUEUES: dict[str, tuple[dict[str, Any], str]] = {
    "stopped": ({"stopPolicy": "Hold"}, "it is stopped. Kueue says: Can't admit new workloads: is stopped."),
    "without its check": (
        {"admissionChecksStrategy": {"admissionChecks": [{"name": CHECK}]}},
        f"not there. Kueue says: Can't admit new workloads: references missing AdmissionCheck(s): {CHECK}.",
    ),
}  # fmt: skip


@pytest.mark.parametrize("queue", QUEUES)
def test_a_queue_that_takes_nothing_in_says_why(queue: str, cast: Cast) -> None:
    spec, words = QUEUES[queue]
    lab = Lab(cast)
    lab.admin.patch(CLUSTER_QUEUES, lab.space, {"spec": spec})
    says(lab, job(cast), Cause.NOT_TAKEN_IN, words)


def test_a_check_that_nobody_answers_for_is_not_active(cast: Cast) -> None:
    lab, row = checked(cast)
    lab.admin.create(ADMISSION_CHECKS, kueue("AdmissionCheck", "other", {"controllerName": "example.com/x"}))
    strategy = {"admissionChecksStrategy": {"admissionChecks": [{"name": "other"}]}}
    lab.admin.patch(CLUSTER_QUEUES, lab.space, {"spec": strategy})
    lab.turn(row, 5)
    queue = lab.admin.get(CLUSTER_QUEUES, lab.space)
    assert queue is not None
    active = find(queue["status"]["conditions"], "Active")
    assert active is not None
    assert active["reason"] == "AdmissionCheckInactive"
