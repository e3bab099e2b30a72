"""Of several clocks one sends; another goes on where it ends."""

from pathlib import Path

import pytest
from django.conf import settings

from portal.celery import app
from portal.clock import LedScheduler

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
    assert "workloads.sweep" in first.sent
    assert second.sent == []
    first.close()
    second._leader._asked = float("-inf")
    turn(second)
    assert set(second.sent) == set(first.sent)
