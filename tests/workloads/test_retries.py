"""The pause before a pod that failed is made anew: how it grows, and what ends it."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from apps.workloads.status import last_run, retries
from apps.workloads.status.last_run import LastRun, Outcome

NOW = datetime(2026, 11, 20, 13, tzinfo=UTC)
SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)


def failed(times: int, **more: Any) -> LastRun:
    known: dict[str, Any] = {"generation": 3, "seen_at": NOW, "started_at": None, "ended_at": NOW}
    return LastRun(Outcome.FAILED, "Its node refused it.", failures=times, pod="p", **known | more)


def pod(ran: timedelta | None) -> dict[str, Any]:
    return {"status": {"startTime": (NOW - ran).isoformat()} if ran is not None else {}}


def ready(status: str, since: datetime) -> list[dict[str, str]]:
    return [{"type": "Ready", "status": status, "since": since.isoformat()}]


@pytest.mark.parametrize(("times", "seconds"), [(1, 1), (2, 2), (3, 4), (6, 32), (7, 60), (5000, 60)])
def test_the_pause_doubles_up_to_a_minute(times: int, seconds: int) -> None:
    assert retries.tried_again_at(failed(times)) - NOW == timedelta(seconds=seconds)


def test_failures_count_in_a_row_alone() -> None:
    short, long = pod(retries.STEADY - SECOND), pod(retries.STEADY)
    assert retries.failures(None, short, 3, NOW) == 1
    assert retries.failures(failed(4), short, 3, NOW) == 5
    assert retries.failures(failed(4), pod(None), 3, NOW) == 5, "its node never started it"
    assert retries.failures(failed(4), long, 3, NOW) == 1, "it ran for a while"
    assert retries.failures(failed(4), short, 4, NOW) == 1, "it was asked for anew"
    assert retries.failures(failed(0), short, 3, NOW) == 1, "the run before ended otherwise"


def test_what_runs_again_or_asks_for_something_else_is_not_tried_again() -> None:
    run, before = failed(2), ready("False", NOW - MINUTE)
    assert retries.failed_last(run, before, 3) is run
    assert retries.failed_last(run, ready("True", NOW + MINUTE), 3) is None
    assert retries.failed_last(run, ready("False", NOW + MINUTE), 3) is None, "it has run since"
    assert retries.failed_last(run, before, 4) is None
    assert retries.failed_last(failed(0), before, 3) is None


def test_what_a_row_kept_before_failures_were_counted_is_read() -> None:
    assert last_run.stored(failed(2).as_json()) == failed(2)
    older = {
        key: each for key, each in failed(2).as_json().items() if key not in ("pod", "reason", "failures")
    }
    run = last_run.stored(older)
    assert run is not None
    assert (run.failures, run.pod) == (0, "")
