"""The end of a log in pieces, the cause of an end in words, and whose logs are kept. Pure."""

import tracemalloc
import zlib
from typing import Any

import pytest

from apps.workloads.lifecycle.rules import log_end
from apps.workloads.lifecycle.rules.log_end import LogEnd, last_lines
from apps.workloads.specs import Kind, Phase
from apps.workloads.status import derivation, last_run
from apps.workloads.status.last_run import Outcome
from tests.factories import NOW
from tests.workloads import bodies


def text_of(end: LogEnd) -> bytes:
    return b"".join(zlib.decompress(piece.data) for piece in end.pieces)


def read(chunks: list[bytes], most: int = log_end.MOST_BYTES) -> LogEnd:
    end = LogEnd(most)
    for chunk in chunks:
        end.add(chunk)
    return end.finish()


def test_a_short_log_is_kept_whole() -> None:
    end = read([b"one\nt", b"wo\nno end"])
    assert (text_of(end), end.size, end.is_cut) == (b"one\ntwo\nno end", 14, False)
    assert (text_of(read([])), read([]).is_cut) == (b"", False)


def test_of_a_long_log_the_end_is_kept_from_a_line_on_and_memory_stays_flat() -> None:
    line, many = b"x" * 99 + b"\n", 400_000
    tracemalloc.start()
    end = LogEnd()
    for _ in range(many // 1000):
        end.add(line * 1000)
    end.add(b"the last\n")
    end.finish()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    text = text_of(end)
    assert end.is_cut
    assert log_end.MOST_BYTES - 2 * log_end.PIECE < len(text) == end.size <= log_end.MOST_BYTES
    assert (text[:100], text[-9:]) == (line, b"the last\n")
    assert peak < 4 * log_end.LONGEST_LINE


def test_a_line_without_an_end_is_cut() -> None:
    end = read([b"x" * 64 * 1024] * 100, most=3 * 1024 * 1024)
    assert end.size <= 3 * 1024 * 1024
    assert end.is_cut


def test_the_last_lines_take_no_more_pieces_than_they_need() -> None:
    taken: list[int] = []

    def pieces() -> Any:
        for number in (3, 2, 1):
            taken.append(number)
            yield zlib.compress(f"a{number}\nb{number}\n".encode())

    assert last_lines(pieces(), 1) == "b3\n"
    assert taken == [3]
    assert last_lines(pieces(), 3) == "b2\na3\nb3\n"


def ended(code: int, **status: Any) -> dict[str, Any]:
    terminated = {"exitCode": code, "reason": "Error", "startedAt": bodies.AT, "finishedAt": bodies.AT}
    listed = [{"name": "main", "state": {"terminated": terminated}}]
    return bodies.pod(phase="Failed", containerStatuses=listed, **status)


def facts(phase: Phase, *conditions: dict[str, str]) -> derivation.Facts:
    return derivation.Facts(
        kind=Kind.JOB, generation=1, cluster="lab", flavor="h100", wanted=True, deleting=False, phase=phase,
        asked_at=NOW, conditions=conditions,
    )  # fmt: skip


EVICTED = {"reason": "Evicted", "message": "The node was low on resource: memory."}
STUCK = {"type": "Ready", "status": "False", "reason": "ErrImagePull", "message": "no such image"}
LOST = bodies.condition("DisruptionTarget", reason="DeletionByTaintManager", message="node unreachable")
FAILED = bodies.condition("Failed", reason="BackoffLimitExceeded", message="Job has failed.")


@pytest.mark.parametrize(
    ("pods", "before", "words"),
    [
        ([ended(3)], (), "It ended with exit code 3. Job has failed."),
        (
            [ended(137, **EVICTED)],
            (),
            "Its node ended it (Evicted): The node was low on resource: memory. Job has failed.",
        ),
        (
            [bodies.pod(LOST)],
            (),
            "The cluster ended its pod (DeletionByTaintManager): node unreachable. Job has failed.",
        ),
        ([], (STUCK,), "It could not start (ErrImagePull): no such image. Job has failed."),
        ([], (), "Job has failed."),
    ],
)
def test_the_cause_is_the_root_of_it(pods: list[Any], before: tuple[Any, ...], words: str) -> None:
    known = facts(Phase.STARTING, *before)
    seen = derivation.ObservedWorkload(controller=bodies.controller("Job", FAILED), pods=tuple(pods))
    derived = derivation.derive(seen, known, now=NOW)
    assert last_run.outcome_of(known, derived, seen, removes=False) is Outcome.FAILED
    assert last_run.cause_of(Outcome.FAILED, known, derived, seen) == words


def test_a_job_that_will_fail_is_read_while_its_pods_are_there() -> None:
    late = bodies.condition("FailureTarget", reason="DeadlineExceeded", message="Job was active too long.")
    seen = derivation.ObservedWorkload(
        controller=bodies.controller("Job", late), queued=bodies.admitted(), pods=(bodies.ready_pod(),)
    )
    known = facts(Phase.RUNNING)
    derived = derivation.derive(seen, known, now=NOW)
    assert derived.phase is Phase.RUNNING
    assert last_run.outcome_of(known, derived, seen, removes=False) is Outcome.FAILED
    assert last_run.cause_of(Outcome.FAILED, known, derived, seen) == "Job was active too long."
    run = last_run.LastRun(Outcome.FAILED, "", known.generation, NOW, NOW, NOW)
    assert last_run.of_this_run(run, Outcome.FAILED, known, seen) is run


def test_what_ended_it_is_still_said_once_its_pods_are_gone() -> None:
    job = bodies.controller("Job", FAILED)
    seen = derivation.ObservedWorkload(controller=job, pods=(ended(3),))
    said = derivation.derive(seen, facts(Phase.RUNNING), now=NOW).conditions
    gone = derivation.ObservedWorkload(controller=job)
    after = derivation.derive(gone, facts(Phase.FAILED, *said), now=NOW)
    assert after.conditions[-1]["message"] == "It ended with exit code 3. Job has failed."


def test_an_eviction_ends_a_run_too() -> None:
    preempted = bodies.condition("Evicted", reason="Preempted", message="for lab-b")
    seen = derivation.ObservedWorkload(
        controller=bodies.controller("Job"), queued=bodies.queued(preempted, bodies.condition("Admitted"))
    )
    known = facts(Phase.RUNNING)
    derived = derivation.derive(seen, known, now=NOW)
    assert last_run.outcome_of(known, derived, seen, removes=False) is Outcome.EVICTED
    assert last_run.cause_of(Outcome.EVICTED, known, derived, seen) == "Preempted: for lab-b"


def test_the_logs_of_what_failed_come_first_and_of_few_pods() -> None:
    good = [
        bodies.pod(uid=f"p{number}", containerStatuses=[{"name": "main", "state": {"running": {"at": 1}}}])
        for number in range(9)
    ]
    waiting = bodies.pod(uid="w", containerStatuses=[{"name": "main", "state": {"waiting": {}}}])
    chosen = last_run.sources([waiting, *good, ended(1, uid="bad")])
    assert chosen[0].uid == "bad"
    assert len(chosen) == last_run.MOST_PODS
    assert "w" not in {each.uid for each in chosen}


def beside(*inits: bodies.Body, main: bodies.Body) -> list[str]:
    pod = bodies.pod(
        phase="Failed", initContainerStatuses=list(inits), containerStatuses=[{"name": "main", **main}]
    )
    return [each.container for each in last_run.sources([pod])]


def test_of_a_pod_that_failed_before_its_main_container_the_init_containers_log_is_kept() -> None:
    waits: bodies.Body = {"state": {"waiting": {"reason": "PodInitializing"}}}
    done = {"name": "unpack", "state": {"terminated": {"exitCode": 0}}}
    failed = {"name": "fetch", "state": {"terminated": {"exitCode": 3}}}
    again = {"name": "fetch", "state": {"terminated": {"exitCode": 0}}, "lastState": failed["state"]}
    assert beside(done, failed, main=waits) == ["fetch"]
    assert beside(done, again, main=waits) == [], "it went on, and nothing else has run"
    assert beside(failed, main={"state": {"running": {}}, "lastState": failed["state"]}) == ["main"]
