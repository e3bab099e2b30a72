"""Celery's clock, of which any number may run: the one that leads sends, the others wait for their turn."""

from typing import Any

from celery.beat import PersistentScheduler
from django.db import close_old_connections

from apps.cluster.leading.services.leadership import Leader


class LedScheduler(PersistentScheduler):  # type: ignore[misc]
    """`celery beat -S portal.clock:LedScheduler`, set for all by CELERY_BEAT_SCHEDULER.

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

    def close(self) -> None:
        """Another clock may go on at once."""
        self._leader.give_back()
        super().close()
