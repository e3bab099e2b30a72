"""Every condition and state of Kueue's API that keeps work from being admitted has its words and its cure."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from apps.workloads.waiting.rules import kueue_states
from apps.workloads.waiting.rules.situation import Cause, Stop
from tests.workloads import bodies
from tests.workloads.bodies import Body, condition

AT = datetime(2026, 11, 20, 9, 0, tzinfo=UTC)
NOW = AT + timedelta(minutes=5)
RESERVED = (condition("QuotaReserved"), condition("Admitted", "False", reason="UnsatisfiedAdmissionChecks"))
EVICTIONS = """
    Preempted PodsReadyTimeout AdmissionCheck ClusterQueueStopped LocalQueueStopped NodeFailures
    FlavorMigration EvictedOnManagerCluster WorkloadSliceReplaced
"""
DEACTIVATIONS = "RequeuingLimitExceeded MaximumExecutionTimeExceeded AdmissionCheck"
WITHOUT_QUOTA = """
    Inadmissible Misconfigured Suspended OnHold AdmissionGated NoMatchingFlavor TopologyPlacementFailed
"""
QUOTA_AND_ORDER = """
    Pending Waiting WaitingForQuota PendingEvaluation WaitingForPreemptedWorkloads WaitingForPodsReady
    ExceedsMaxQuota
"""
QUEUES = """
    Stopped Terminating FlavorNotFound AdmissionCheckNotFound AdmissionCheckInactive TopologyNotFound
    MultipleMultiKueueAdmissionChecks MultiKueueAdmissionCheckAppliedPerFlavor
    MultiKueueWithProvisioningRequest ClusterQueueIsInactive ClusterQueueDoesNotExist Unknown
"""
"""The reasons of Kueue v0.19: workload_types.go, clusterqueue_types.go, localqueue_controller.go."""


def stop(queued: Body | None, *queues: Body) -> Stop:
    found = kueue_states.stop_of(queued, queues, NOW)
    assert found is not None
    assert found.words.endswith(found.frees)
    assert "in a moment" not in found.words
    return found


def inactive(*conditions: Body) -> Body:
    return bodies.queued(condition("QuotaReserved", "False", reason="Pending"), *conditions, active=False)


def checked(*checks: tuple[str, str, str]) -> Body:
    body = bodies.queued(*RESERVED)
    body["status"]["admissionChecks"] = [
        {"name": name, "state": state, "message": message} for name, state, message in checks
    ]
    return body


def queue(reason: str, message: str = "", status: str = "False") -> Body:
    return {"status": {"conditions": [condition("Active", status, reason=reason, message=message)]}}


@pytest.mark.parametrize("reason", DEACTIVATIONS.split())
def test_what_kueue_took_out_of_its_queue_says_why_and_how_it_starts_again(reason: str) -> None:
    evicted = condition("Evicted", reason=f"DeactivatedDueTo{reason}", message="exceeding the limit")
    found = stop(inactive(evicted))
    assert found.cause is Cause.DEACTIVATED
    assert found.words.startswith("Kueue took it out of its queue: ")
    assert "Kueue says: exceeding the limit." in found.words
    assert "tart it again" in found.frees
    coming = bodies.queued(condition("DeactivationTarget", reason=reason, message="exceeding the limit"))
    assert stop(coming) == found, "it is about to be"


def test_a_deactivation_that_nobody_knows_is_said_to_be_unknown() -> None:
    found = stop(inactive(condition("Evicted", reason="DeactivatedDueToTheMoon")))
    assert found.words.startswith(
        "Kueue took it out of its queue (TheMoon). What ends that is not known here;"
    )


@pytest.mark.parametrize("conditions", [(), (condition("Evicted", reason="Deactivated"),)])
def test_what_somebody_set_to_inactive_is_not_kueues_doing(conditions: tuple[Body, ...]) -> None:
    found = stop(inactive(*conditions))
    assert found.cause is Cause.DEACTIVATED
    assert "spec.active of its Kueue Workload is false." in found.words
    assert kueue_states.deactivated_at(inactive(*conditions)) is None


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ("Pending", "Its quota is reserved, but the cluster's check provision has not answered yet."),
        ("Retry", "but the cluster's check provision cannot pass at present. Kueue says: no node yet."),
        ("Rejected", "but the cluster's check provision was rejected. Kueue says: no node yet. It will"),
        ("Odd", "but the cluster's check provision says Odd. Kueue says: no node yet. What ends that is not"),
    ],
)  # fmt: skip
def test_an_admission_check_is_named_with_its_state_and_words(state: str, words: str) -> None:
    found = stop(checked(("other", "Ready", ""), ("provision", state, "no node yet")))
    assert found.cause is Cause.CHECKED
    assert words in found.words


def test_the_worst_check_is_told() -> None:
    found = stop(checked(("a", "Pending", ""), ("b", "Rejected", "no"), ("c", "Retry", "")))
    assert "check b was rejected" in found.words


def test_a_check_that_cannot_pass_is_told_without_quota_and_one_that_is_not_asked_yet_is_not() -> None:
    waits = bodies.waiting()
    waits["status"]["admissionChecks"] = [{"name": "a", "state": "Pending", "message": ""}]
    assert kueue_states.stop_of(waits, (), NOW) is None
    waits["status"]["admissionChecks"] = [{"name": "a", "state": "Retry", "message": "later"}]
    assert stop(waits).words.startswith("The cluster's check a cannot pass at present. Kueue says: later.")


def test_quota_that_is_reserved_without_an_open_check_says_that_no_more_is_known() -> None:
    found = stop(checked(("a", "Ready", "")))
    assert found.words.startswith("Its quota is reserved, and Kueue has not admitted it yet.")
    late = bodies.queued(RESERVED[0], condition("Admitted", "False", reason="PendingDelayedTopologyRequests"))
    assert "looks for room close together" in stop(late).words
    assert kueue_states.stop_of(bodies.admitted(), (), NOW) is None


@pytest.mark.parametrize("reason", EVICTIONS.split())
def test_what_was_sent_back_says_why_and_when_it_is_tried_again(reason: str) -> None:
    body = bodies.queued(condition("Evicted", reason=reason), condition("Requeued", "False", reason=reason))
    assert kueue_states.stop_of(body, (), NOW) is None, "it queues as before"
    body["status"]["requeueState"] = {"count": 2, "requeueAt": "2026-11-20T09:10:00Z"}
    found = stop(body)
    assert (found.cause, found.frees[:35]) == (Cause.SENT_BACK, "Kueue tries it again at 09:10; its ")
    assert found.words.startswith(f"It was sent back, for the 2nd time: {kueue_states.SENT_BACK[reason]}.")
    assert kueue_states.stop_of(body, (), NOW + timedelta(minutes=6)) is None


@pytest.mark.parametrize("reason", [*WITHOUT_QUOTA.split(), "SomethingNew"])
def test_what_kueue_does_not_take_in_says_so_in_its_words(reason: str) -> None:
    message = "ClusterQueue team-vision is inactive"
    found = stop(bodies.queued(condition("QuotaReserved", "False", reason=reason, message=message)))
    assert found.cause is Cause.NOT_TAKEN_IN
    assert f"Kueue says: {message}." in found.words
    assert found.is_of_its_offer is (reason == "NoMatchingFlavor"), "its team has one queue for all offers"
    is_known = reason in kueue_states.NOT_TAKEN_IN
    assert is_known is ("What ends that is not known here" not in found.frees)


@pytest.mark.parametrize("reason", QUOTA_AND_ORDER.split())
def test_quota_and_order_have_their_own_figures(reason: str) -> None:
    body = bodies.queued(condition("QuotaReserved", "False", reason=reason))
    assert kueue_states.stop_of(body, (), NOW) is None


def test_a_request_that_cannot_be_counted_says_why() -> None:
    refused = condition("Requeued", "False", reason="Inadmissible", message="DeviceClass x is not mapped")
    assert "Kueue says: DeviceClass x is not mapped." in stop(bodies.queued(refused)).words
    gated = stop(bodies.queued(condition("BlockedOnPreemptionGates", reason="PreemptionGated")))
    assert gated.words.startswith("It may not take others' place yet.")


@pytest.mark.parametrize("reason", [*QUEUES.split(), "SomethingNew"])
@pytest.mark.parametrize("queued", [None, bodies.waiting()], ids=["not seen", "waits"])
def test_a_queue_that_is_not_active_says_why(reason: str, queued: Body | None) -> None:
    found = stop(queued, queue(reason, "references missing ResourceFlavor(s): h100"))
    assert found.cause is Cause.NOT_TAKEN_IN
    why = kueue_states.QUEUE.get(reason, "Kueue says SomethingNew")
    assert found.words.startswith(f"Its queue takes nothing in: {why}. Kueue says: references missing")


def test_the_queue_that_is_the_cause_is_told_and_an_active_one_is_none() -> None:
    behind, repeats = queue("FlavorNotFound"), queue("ClusterQueueIsInactive")
    assert "ResourceFlavor" in stop(None, repeats, behind).words
    working: list[tuple[Body, ...]] = [(), (queue("Ready", status="True"),), ({"status": {}},)]
    for queues in working:
        assert kueue_states.stop_of(bodies.waiting(), queues, NOW) is None
        assert kueue_states.stop_of(None, queues, NOW) is None


def test_it_starts_again_once_it_is_asked_for_after_kueue_took_it_out() -> None:
    out: dict[str, Any] = inactive(condition("Evicted", reason="DeactivatedDueToRequeuingLimitExceeded"))
    assert kueue_states.deactivated_at(out) == AT
    second = timedelta(seconds=1)
    assert kueue_states.starts_again(out, AT)
    assert not kueue_states.starts_again(out, AT - second)
    out["spec"]["active"] = True
    assert kueue_states.deactivated_at(out) is None
