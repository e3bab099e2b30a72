"""A database that goes away is waited for: tasks begin anew, and the log has one line for it."""

import threading
from collections.abc import Callable
from uuid import uuid4

import pytest
from celery import Celery
from celery.exceptions import Ignore
from django.db import OperationalError

from apps.metering.findings.services import lifecycle
from apps.web.stores import outage
from portal.operate.of_celery import PatientTask

AWAY = OperationalError("connection refused\nIs the server running?")


@pytest.fixture(autouse=True)
def database(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has answered so far."""
    monkeypatch.setattr(outage, "database", outage.Outages("the database"))


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Say what the database does from now on, each time it is asked; the last goes on."""

    def set_to(*wanted: bool) -> None:
        left = list(wanted)
        monkeypatch.setattr(outage, "_answers", lambda: left.pop(0) if len(left) > 1 else left[0])

    return set_to


@pytest.fixture
def runs() -> list[int]:
    return []


@pytest.fixture
def task(runs: list[int]) -> PatientTask:
    def hint(pk: int) -> str:
        runs.append(pk)
        if len(runs) == 1:
            raise AWAY
        return "done"

    made: PatientTask = Celery("of-a-test", task_cls=PatientTask, set_as_current=False).task(hint)
    return made


def test_a_task_begins_anew_once_the_database_answers(
    task: PatientTask, runs: list[int], answers: Callable[..., None], caplog: pytest.LogCaptureFixture
) -> None:
    answers(False, False, True)

    assert task(7) == "done"

    assert runs == [7, 7]
    said = [record.getMessage() for record in caplog.records]
    assert said[0] == "the database does not answer: connection refused"
    assert said[1].startswith("the database answers again after ")
    assert len(said) == 2


def test_a_task_is_let_go_of_where_the_database_stays_away(
    task: PatientTask, runs: list[int], answers: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    answers(False)
    outlive = outage.outlive
    monkeypatch.setattr(outage, "outlive", lambda error: outlive(error, seconds=0))

    with pytest.raises(Ignore):
        task(7)

    assert runs == [7]


def test_who_is_asked_to_stop_waits_no_longer(answers: Callable[..., None]) -> None:
    answers(False)
    stop = threading.Event()
    stop.set()

    assert not outage.outlive(AWAY, stop=stop)


def test_work_on_many_rows_ends_where_the_database_goes_away_and_logs_none_of_them(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def judge(_: object) -> None:
        raise AWAY

    with pytest.raises(OperationalError):
        lifecycle.each_due([uuid4(), uuid4()], judge, lambda _: None, budget=5)

    assert not caplog.records
