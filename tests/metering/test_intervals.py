"""From claims and pods to half-open intervals."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from apps.cluster.objects.trim import released
from apps.metering.allocations.rules.claim_intervals import Claim, Fact, before_the_next, facts
from tests.workloads import bodies

AT = datetime(2026, 11, 20, 9, 0, tzinfo=UTC)
LATER = AT + timedelta(minutes=10)
HELD = Claim(
    uid="r1", owner="w", body=bodies.claim("gpu-01/gpu-0"), gone_at=None, pod=bodies.pod(), pod_gone_at=None
)


def ended_pod(at: str) -> dict[str, Any]:
    return bodies.pod(phase="Succeeded", containerStatuses=[{"state": {"terminated": {"finishedAt": at}}}])


def test_a_held_device_is_an_open_interval_from_its_allocation_on() -> None:
    (fact,) = facts([HELD])
    assert (fact.device, fact.node, fact.started_at, fact.ended_at) == ("gpu-01/gpu-0", "gpu-01", AT, None)


def test_every_device_of_a_claim_is_an_interval_of_its_own() -> None:
    claim = replace(HELD, body=bodies.claim("gpu-01/gpu-0", "gpu-01/gpu-1"))
    assert [fact.device for fact in facts([claim])] == ["gpu-01/gpu-0", "gpu-01/gpu-1"]


@pytest.mark.parametrize(
    ("change", "ends"),
    [
        ({"gone_at": LATER}, LATER),
        ({"pod_gone_at": LATER, "gone_at": LATER + timedelta(seconds=9)}, LATER),
        ({"pod": ended_pod("2026-11-20T09:05:00Z"), "gone_at": LATER}, AT + timedelta(minutes=5)),
        ({"gone_at": AT - timedelta(seconds=1)}, AT),
    ],
)
def test_it_ends_with_what_is_known_first_and_never_before_it_began(
    change: dict[str, Any], ends: datetime
) -> None:
    (fact,) = facts([replace(HELD, **change)])
    assert fact.ended_at == ends


def test_a_claim_that_was_cleared_before_it_was_deleted_keeps_its_interval() -> None:
    cleared = bodies.claim()
    cleared |= released(HELD.body, cleared, LATER)
    (fact,) = facts([replace(HELD, body=cleared)])
    assert (fact.started_at, fact.ended_at) == (AT, LATER)


@pytest.mark.parametrize(
    ("pod", "seen_at", "begins"),
    [
        (bodies.pod(startTime="2026-11-20T09:02:00Z"), LATER, AT + timedelta(minutes=2)),
        (bodies.pod(startTime="2026-11-20T09:12:00Z"), LATER, LATER),
        (None, LATER, LATER),
    ],
)
def test_a_claim_that_does_not_say_since_when_is_held_since_its_pod_began_or_it_was_seen(
    pod: dict[str, Any] | None, seen_at: datetime, begins: datetime
) -> None:
    body = bodies.claim("gpu-01/gpu-0")
    del body["status"]["allocation"]["allocationTimestamp"]
    (fact,) = facts([replace(HELD, body=body, pod=pod, seen_at=seen_at)])
    assert (fact.started_at, fact.ended_at, fact.is_start_seen) == (begins, None, True)
    (said,) = facts([replace(HELD, seen_at=seen_at)])
    assert (said.started_at, said.is_start_seen) == (AT, False)


def test_shares_of_one_device_are_one_interval_of_the_memory_that_they_consume_together() -> None:
    body = bodies.claim("gpu-01/gpu-0", "gpu-01/gpu-0", "gpu-01/gpu-1")
    for number, result in enumerate(body["status"]["allocation"]["devices"]["results"][:2]):
        result |= {"shareID": f"s{number}", "consumedCapacity": {"memory": "1Ki"}}
    first, second = facts([replace(HELD, body=body)])
    assert (first.device, first.is_shared, first.memory) == ("gpu-01/gpu-0", True, 2048)
    assert (second.device, second.is_shared, second.memory) == ("gpu-01/gpu-1", False, None)


def test_what_was_never_allocated_or_is_no_gpu_is_nothing() -> None:
    network = replace(HELD, body=bodies.claim("net/0", driver="dra.net"))
    assert facts([replace(HELD, body=bodies.claim()), network]) == []


def test_an_end_is_at_most_the_start_of_the_next_holder_of_the_device() -> None:
    def held(claim: str, begins: float, ends: float | None, device: str = "gpu-01/gpu-0") -> Fact:
        until = None if ends is None else AT + timedelta(seconds=ends)
        return Fact(claim, device, "gpu-01", AT + timedelta(seconds=begins), until)

    late, short, last = held("a", 0, 5.4), held("b", 4, 4.7), held("c", 4, None)
    beside = held("d", 0, 9, device="gpu-01/gpu-1")
    assert before_the_next([last, beside, late, short]) == [held("a", 0, 4), held("b", 4, 4)]
    assert before_the_next([held("a", 0, None), last]) == [], "whose end is not known is left alone"
    excluding = held("e", 6, None, device="gpu-01/gpu-2")
    pairs = {("gpu-01/gpu-1", "gpu-01/gpu-2")}
    early = before_the_next([beside, excluding, last], lambda *devices: devices in pairs)
    assert early == [held("d", 0, 6, device="gpu-01/gpu-1")]
