"""Celery's clock, of which any number may run: the one that leads sends, the others wait for their turn."""

import logging
from typing import Any

from celery.beat import PersistentScheduler, ScheduleEntry, SchedulingError
from django.db import close_old_connections
from kombu.exceptions import OperationalError

from apps.cluster.leading.services.leadership import Leader
from apps.web.stores import outage

_log = logging.getLogger(__name__)


class LedScheduler(PersistentScheduler):  # type: ignore[misc]
    """What `python -m portal.run.beat` runs, set for all by CELERY_BEAT_SCHEDULER.

    What was due while nobody led is sent by the next leader at once: each task finds its work in the
    database, so once too often changes nothing (docs/reliability.md).
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._leader = Leader("clock")
        super().__init__(*args, **kwargs)

    def tick(self, *args: Any, **kwargs: Any) -> float:
        """Send what is due, if this clock leads; answers in how many seconds to look again."""
        close_old_connections()
        if not self._leader.keep():
            return self._leader.pause
        wait: float = super().tick(*args, **kwargs)
        return min(self._leader.pause, wait)

    def adjust(self, n: float, drift: float = 0.0) -> float:
        """As it is. Celery's own wakes 10 ms early, and then asks without a pause until it is time: most of
        what the clock took at rest.
        """
        return n + drift

    def schedules_equal(self, *_: Any, **__: Any) -> bool:
        """Always: the settings' schedule is what there is until the process ends. Celery's own compares all
        entries at every look.
        """
        return True

    def apply_entry(self, entry: ScheduleEntry, producer: Any = None) -> None:
        """Send one. Redis that is away is a line of the log per outage, not a traceback for each."""
        try:
            self.apply_async(entry, producer=producer, advance=False)
        except SchedulingError as error:
            if isinstance(error.__context__, OperationalError):
                outage.redis.note(error.__context__)
            else:
                _log.exception("%s was not sent", entry.name)

    def close(self) -> None:
        """Another clock may go on at once."""
        self._leader.give_back()
        super().close()
