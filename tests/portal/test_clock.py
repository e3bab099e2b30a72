"""Of several clocks one sends; another goes on where it ends."""

import time
from datetime import timedelta
from pathlib import Path

import pytest
from django.conf import settings
from django.db import OperationalError, connection
from django.test.utils import CaptureQueriesContext
from kombu.exceptions import OperationalError as BrokerAway

from apps.cluster.models import Cluster
from apps.web import counters
from apps.web.stores import outage, telling
from portal import rounds
from portal.celery import app
from portal.clock import LedScheduler
from tests.conftest import BuiltFromNow

pytestmark = pytest.mark.django_db


class Counting(LedScheduler):
    """Counts what it would send; needs no Redis for that."""

    producer = None

    def __init__(self, file: Path) -> None:
        self.sent: list[str] = []
        super().__init__(app, schedule_filename=str(file), lazy=False)

    def apply_entry(self, entry, producer=None) -> None:  # type: ignore[no-untyped-def] # noqa: ARG002, ANN001
        self.sent.append(entry.name)


def due(clock: Counting) -> None:
    """Everything is due now."""
    for entry in clock.schedule.values():
        entry.last_run_at = entry.last_run_at.replace(year=2020)
    clock._heap = None


def turn(clock: Counting) -> None:
    for _ in range(2 * len(clock.schedule)):
        clock.tick()


def test_it_is_the_installations_clock() -> None:
    assert settings.CELERY_BEAT_SCHEDULER == "portal.clock:LedScheduler"


def test_one_of_two_clocks_sends_and_the_other_goes_on_when_it_closes(tmp_path: Path) -> None:
    first, second = Counting(tmp_path / "first"), Counting(tmp_path / "second")
    for clock in (first, second):
        due(clock)
        turn(clock)
    assert "clock.round" in first.sent
    assert second.sent == []
    first.close()
    second._leader._asked = float("-inf")
    turn(second)
    assert set(second.sent) == set(first.sent)


def test_a_clock_sleeps_until_something_is_due(tmp_path: Path) -> None:
    clock = Counting(tmp_path / "clock")
    for entry in clock.schedule.values():
        entry.last_run_at = entry.default_now()
    soon = clock.schedule["clock.round"]
    soon.last_run_at -= soon.schedule.run_every - timedelta(seconds=0.1)
    clock._heap, looks = None, 0
    while not clock.sent:
        time.sleep(max(0.0, clock.tick()))
        looks += 1
    assert clock.sent == ["clock.round"]
    assert looks <= 5


def test_a_part_of_a_round_that_fails_holds_up_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[str] = []
    monkeypatch.setattr(telling, "_ran", {})  # else what another test of this process ran is in it
    failed = counters.TASKS.labels(rounds.PARTS[1], "FAILURE")
    before = failed._value.get()
    app.loader.import_default_modules()
    for name in rounds.PARTS:
        monkeypatch.setattr(app.tasks[name], "run", lambda name=name: ran.append(name))
    monkeypatch.setattr(app.tasks[rounds.PARTS[1]], "run", lambda: 1 / 0)

    rounds.do_round()

    assert ran == [rounds.PARTS[0], *rounds.PARTS[2:]]
    assert failed._value.get() == before + 1
    assert rounds.PARTS[0] in telling._ran
    assert rounds.PARTS[1] not in telling._ran


def test_a_round_waits_whole_for_a_database_that_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    def away() -> None:
        raise OperationalError

    app.loader.import_default_modules()
    monkeypatch.setattr(app.tasks[rounds.PARTS[0]], "run", away)

    with pytest.raises(OperationalError):
        rounds.do_round.run()


def test_a_broker_that_is_away_is_one_line_of_the_clocks_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(outage, "redis", outage.Outages("Redis"))
    clock = LedScheduler(app, schedule_filename=str(tmp_path / "clock"), lazy=False)
    entry = next(iter(clock.schedule.values()))
    errors: list[Exception] = [BrokerAway("connection refused"), BrokerAway("again"), LookupError("no task")]
    monkeypatch.setattr(type(app.tasks[entry.task]), "apply_async", lambda *_, **__: fail(errors.pop(0)))

    for _ in range(2):
        clock.apply_entry(entry)
    assert [record.getMessage() for record in caplog.records] == ["Redis does not answer: connection refused"]
    clock.apply_entry(entry)
    assert "LookupError: no task" in caplog.text


def fail(error: Exception) -> None:
    raise error


@pytest.mark.parametrize(
    ("task", "most"),
    [
        ("clock.round", 40),  # some statements for each of seven kinds of rows
        ("metering.judge", 7),
        ("metering.roll", 4),
        ("workloads.foresee", 2),
        ("workloads.tell_waits", 1),
    ],
)
def test_a_tick_with_nothing_to_do_builds_no_statement_anew(
    cluster: Cluster, built_from_now: BuiltFromNow, task: str, most: int
) -> None:
    app.loader.import_default_modules()
    app.tasks[task].run()
    built = built_from_now()
    with CaptureQueriesContext(connection) as asked:
        app.tasks[task].run()
    assert built == []
    assert 0 < len(asked) <= most
