"""The runs of a container from what its pods say: exit code and length, of a crash loop the last two."""

from typing import Any

from apps.workloads.status.runs import runs_of

Body = dict[str, Any]


def pod(name: str, **states: Body) -> Body:
    status = {"name": "main", **states}
    other = {"name": "sidecar", "state": {"terminated": {"exitCode": 9, "startedAt": "2026-11-20T08:00:00Z"}}}
    return {
        "metadata": {"name": name},
        "spec": {"nodeName": "gpu-01"},
        "status": {"containerStatuses": [other, status]},
    }


def ended(code: int, begins: str, ends: str, reason: str = "Error") -> Body:
    return {"terminated": {"exitCode": code, "startedAt": begins, "finishedAt": ends, "reason": reason}}


def test_a_job_that_failed_and_was_tried_again_has_both_runs_newest_first() -> None:
    first = pod("train-a", state=ended(137, "2026-11-20T10:00:00Z", "2026-11-20T10:02:30Z", "OOMKilled"))
    second = pod("train-b", state=ended(0, "2026-11-20T10:03:00Z", "2026-11-20T12:03:00Z", "Completed"))
    newest, oldest = runs_of([first, second], "main")
    assert (newest.pod, newest.words, newest.seconds) == ("train-b", "0", 7200)
    assert (oldest.pod, oldest.words, oldest.seconds, oldest.node) == (
        "train-a",
        "137 OOMKilled",
        150,
        "gpu-01",
    )


def test_what_runs_has_no_exit_code_and_what_it_did_before_stays() -> None:
    looping = pod(
        "note-0",
        state={"running": {"startedAt": "2026-11-20T10:05:00Z"}},
        lastState=ended(1, "2026-11-20T10:00:00Z", "2026-11-20T10:04:00Z"),
    )
    now, before = runs_of([looping], "main")
    assert (now.words, now.seconds, now.ended_at) == ("-", None, None)
    assert (before.words, before.seconds) == ("1 Error", 240)


def test_a_pod_that_never_began_is_no_run() -> None:
    waiting = pod("train-a", state={"waiting": {"reason": "ContainerCreating"}})
    assert runs_of([waiting, {"metadata": {"name": "x"}, "status": {}}], "main") == ()
