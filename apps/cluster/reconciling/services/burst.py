"""Takes along, with the row of a hint, others that people wait for, and reconciles several at a time.

A reconcile waits for the API server longer than it computes. In a burst that waiting is the row's time in the
queue. A thread that waits costs next to nothing, another process 50 MB.
"""

import logging
import random
import time
from collections import deque
from collections.abc import Callable
from contextvars import copy_context
from dataclasses import dataclass, field
from threading import Thread
from uuid import UUID

from django.db import connection, connections
from structlog.contextvars import bound_contextvars

from apps.cluster.models import Reconciled
from apps.cluster.reconciling.services import sweep
from apps.cluster.reconciling.services.sweep import News
from apps.web.stores import outage

AT_ONCE = 4
"""Rows that one task reconciles at a time, the hinted one among them."""
MOST = 63
"""Rows that it takes along: each thread opens a connection to the database, which then serves many."""
LONGEST_SECONDS = 5.0
"""After that it begins no row: other kinds of rows wait for this worker as well."""

_log = logging.getLogger(__name__)
Reconcile = Callable[[UUID | str], None]


def follow(model: type[Reconciled], pk: UUID | str, reconcile: Reconcile, *, owner: str) -> None:
    """Reconcile a hinted row unless the hint tells nothing new. If a wish waits there, other rows' wishes go
    along, each under its own lease; what fails of one is its own matter. Their own hints then tell nothing.

    RULE: only on PostgreSQL. Threads that write into SQLite wait for each other.
    """
    news = sweep.news(model, pk)
    is_burst = news is News.WISH and connection.vendor == "postgresql"
    others = sweep.untried(model, pk, MOST) if is_burst else []
    if others:
        # Another worker may have the same list.
        random.shuffle(others)
        _Burst(model, reconcile, owner, deque(others)).run(pk)
    elif news is not News.NONE:
        reconcile(pk)


@dataclass
class _Burst:
    model: type[Reconciled]
    reconcile: Reconcile
    owner: str
    rows: deque[UUID]
    ends: float = field(default_factory=lambda: time.monotonic() + LONGEST_SECONDS)
    away: list[Exception] = field(default_factory=list)

    def run(self, pk: UUID | str) -> None:
        """The hinted row's error is raised as if it were alone, and so is one that says that the database is
        away. No thread is left at work.
        """
        count = min(AT_ONCE - 1, len(self.rows))
        # The context: what the log says of this task.
        threads = [Thread(target=copy_context().run, args=(self._aside,), daemon=True) for _ in range(count)]
        for thread in threads:
            thread.start()
        try:
            self.reconcile(pk)
            self._go_on()
        finally:
            self.rows.clear()
            for thread in threads:
                thread.join()
        if self.away:
            raise self.away[0]

    def _aside(self) -> None:
        try:
            self._go_on()
        finally:
            connections.close_all()

    def _go_on(self) -> None:
        while self.rows and time.monotonic() < self.ends:
            try:
                row = self.rows.popleft()
            except IndexError:
                return
            with bound_contextvars(**{f"{self.owner}_id": str(row)}):
                self._take(row)

    def _take(self, row: UUID) -> None:
        try:
            if sweep.news(self.model, row) is not News.NONE:
                self.reconcile(row)
        except outage.AWAY as error:
            self.away.append(error)
            self.rows.clear()
        except Exception:  # noqa: BLE001 - not this task's row: its own hint, or the sweep, comes back to it
            _log.exception("reconcile of %s %s, taken along", self.model._meta.label, row)
