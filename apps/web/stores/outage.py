"""What a process does while its database or Redis does not answer: it says so once, and its work waits.

RULE: one line at the beginning of an outage and one at its end, however many meet it, and no traceback.
"""

import logging
import threading
import time
from http import HTTPStatus

from django.db import InterfaceError, OperationalError, close_old_connections, connection

AWAY = OperationalError, InterfaceError
"""What the database raises that is away, and one that is locked for too long."""
LONGEST_SECONDS = 40.0
"""Two such waits fit into the time that a task has."""
LATE_SECONDS = 10.0
"""What fails so soon after an outage met it: on a connection from before, or at the end of a wait."""
POOL = "psycopg.pool"
"""Its logger."""
_PAUSES = 0.1, 1.0
"""The first, and the longest; each is twice the one before."""
_STATES = "08", "57P"
"""How SQLSTATEs begin by which PostgreSQL says that it goes, or is not there yet."""

_log = logging.getLogger(__name__)


class Outages:
    """Those of one thing that this process needs."""

    def __init__(self, name: str) -> None:
        self._name, self._lock = name, threading.Lock()
        self._began: float | None = None
        self._ended = float("-inf")

    def note(self, error: BaseException) -> None:
        """It does not answer: logged unless that is known."""
        with self._lock:
            if self.explains_failures():
                return
            self._began = time.monotonic()
        _log.warning("%s does not answer: %s", self._name, str(error).partition("\n")[0])

    def over(self) -> None:
        """It answers: logged if it did not before."""
        if self._began is None:
            return
        with self._lock:
            began, self._began = self._began, None
            self._ended = time.monotonic()
        if began is not None:
            _log.warning("%s answers again after %.1f s", self._name, self._ended - began)

    def explains_failures(self) -> bool:
        """Whether one lasts or ended just now."""
        return self._began is not None or time.monotonic() < self._ended + LATE_SECONDS


database, redis = Outages("the database"), Outages("Redis")


def is_away(error: BaseException | None) -> bool:
    """Whether the database was not there, or went. A statement that it refused or ended is another matter, as
    is whatever SQLite raises.
    """
    if not isinstance(error, AWAY):
        return False
    if error.__cause__ is None:
        return True  # Django's own: it has no connection
    state = getattr(error.__cause__, "sqlstate", "")
    return state is None or state.startswith(_STATES)


def noted(error: BaseException | None) -> bool:
    """Whether the database is away; the log has that from here."""
    if error is None or not is_away(error):
        return False
    database.note(error)
    return True


def is_news(record: logging.LogRecord) -> bool:
    """A filter for what Django, its server and the pool of connections log of their own: of an outage they
    would say something for every request.
    """
    if record.exc_info and noted(record.exc_info[1]):
        return False
    is_of_pool = record.name == POOL
    if is_of_pool and isinstance(record.args, tuple):
        for error in (each for each in record.args if isinstance(each, Exception)):
            database.note(error)
    is_consequence = is_of_pool or getattr(record, "status_code", 0) == HTTPStatus.SERVICE_UNAVAILABLE
    return not (is_consequence and database.explains_failures())


def outlive(
    error: Exception, *, seconds: float = LONGEST_SECONDS, stop: threading.Event | None = None
) -> bool:
    """Wait until the database answers, for so many seconds or until `stop`; whether it does."""
    began, (pause, longest) = time.monotonic(), _PAUSES
    stop = stop or threading.Event()
    database.note(error)
    while not _answers():
        if time.monotonic() - began > seconds or stop.wait(pause):
            return False
        pause = min(2 * pause, longest)
    database.over()
    return True


def _answers() -> bool:
    close_old_connections()
    try:
        connection.ensure_connection()
    except AWAY:
        return False
    if connection.is_usable():
        return True
    connection.close()
    return False
