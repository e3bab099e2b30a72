"""What a process does while its database or Redis does not answer, or the database's disk is full: it says so
once, and its work waits.

RULE: one line at the beginning of an outage and one at its end, however many meet it, and no traceback.
"""

import logging
import shutil
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path

from django.db import InterfaceError, OperationalError, close_old_connections, connection, transaction

AWAY = OperationalError, InterfaceError
"""What the database raises that is away, whose disk is full, and one that is locked for too long."""
LONGEST_SECONDS = 40.0
"""Two such waits fit into the time that a task has."""
LATE_SECONDS = 10.0
"""What fails so soon after an outage met it: on a connection from before, or at the end of a wait."""
POOL = "psycopg.pool"
"""Its logger."""
_PAUSES = 0.1, 1.0
"""The first, and the longest; each is twice the one before."""
_PAUSE_WHILE_FULL = 5.0
"""The longest where it is to be tried whether there is room: that writes 1 MiB."""
_STATES = "08", "57P"
"""How SQLSTATEs begin by which PostgreSQL says that it goes, or is not there yet."""
_FULL = "53100"
"""disk_full. Source: PostgreSQL, appendix A."""
ROOM_BYTES = 1024 * 1024
"""So much must be free for work to go on."""
_TRY = """
    SELECT count(*) FROM (
        SELECT repeat(md5(n::text), 32) FROM generate_series(1, %s) n ORDER BY 1 OFFSET 0
    ) sorted
"""
"""With little memory this sorts in files, which lie where tables lie. It changes nothing, catalogs included:
a temporary table would, and PostgreSQL then takes no connection before it has written a file anew.
"""

_log = logging.getLogger(__name__)


class Outages:
    """Those of one thing that this process needs; `begins` and `ends` are what the log says of one."""

    def __init__(self, name: str, begins: str = "does not answer", ends: str = "answers again") -> None:
        self._name, self._lock = name, threading.Lock()
        self._begins, self._ends = begins, ends
        self._began: float | None = None
        self._ended = float("-inf")

    def note(self, error: BaseException) -> None:
        """One is met: logged unless it is known."""
        with self._lock:
            if self.explains_failures():
                return
            self._began = time.monotonic()
        _log.warning("%s %s: %s", self._name, self._begins, str(error).partition("\n")[0])

    def over(self) -> None:
        """It is as it should be: logged if it was not before."""
        if self._began is None:
            return
        with self._lock:
            began, self._began = self._began, None
            self._ended = time.monotonic()
        if began is not None:
            _log.warning("%s %s after %.1f s", self._name, self._ends, self._ended - began)

    @property
    def lasts(self) -> bool:
        """Whether this process met one that is not over."""
        return self._began is not None

    def explains_failures(self) -> bool:
        """Whether one lasts or ended just now."""
        return self.lasts or time.monotonic() < self._ended + LATE_SECONDS


database, redis = Outages("the database"), Outages("Redis")
room = Outages("the database", "cannot write, because its disk is full", "has room again")


def is_full(error: BaseException | None) -> bool:
    """Whether the database could not write this, because its disk is full. It can still be read then."""
    cause = error.__cause__ if isinstance(error, OperationalError) else None
    code = getattr(cause, "sqlite_errorcode", None)
    return getattr(cause, "sqlstate", None) == _FULL or code == sqlite3.SQLITE_FULL


def is_away(error: BaseException | None) -> bool:
    """Whether the database was not there, went, or has no room to write. A statement that it refused or ended
    is another matter, as is whatever else SQLite raises.
    """
    if not isinstance(error, AWAY):
        return False
    if error.__cause__ is None or is_full(error):
        return True  # Django's own: it has no connection
    state = getattr(error.__cause__, "sqlstate", "")
    return state is None or state.startswith(_STATES)


def noted(error: BaseException | None) -> bool:
    """Whether the database is away or full; the log has that from here."""
    if error is None or not is_away(error):
        return False
    _of(error).note(error)
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
    return not (is_consequence and (database.explains_failures() or room.explains_failures()))


def outlive(
    error: Exception, *, seconds: float = LONGEST_SECONDS, stop: threading.Event | None = None
) -> bool:
    """Wait until the database answers, or has room where that was missing, for so many seconds or until
    `stop`; whether it does.
    """
    began, (pause, longest) = time.monotonic(), _PAUSES
    is_so = _answers
    if is_full(error):
        pause, longest, is_so = 1.0, _PAUSE_WHILE_FULL, has_room
    stop = stop or threading.Event()
    _of(error).note(error)
    while not is_so():
        if time.monotonic() - began > seconds or stop.wait(pause):
            return False
        pause = min(2 * pause, longest)
    _of(error).over()
    return True


@contextmanager
def dispensable() -> Iterator[None]:
    """What is written here is left out where the disk is full: who may read is not refused for a note of it.

    RULE: one statement. Inside a transaction, which has failed with it, the error goes on.
    """
    try:
        yield
    except OperationalError as error:
        if connection.in_atomic_block or not is_full(error):
            raise
        room.note(error)


def look() -> None:
    """Note that there is room again, where this process met that there was none. For a thread of its own."""
    if room.lasts:
        if has_room():
            room.over()
        connection.close()


def has_room() -> bool:
    """Whether the database can write `ROOM_BYTES`, which is tried; nothing is left of it."""
    if connection.vendor == "sqlite":
        folder = Path(str(connection.settings_dict["NAME"])).absolute().parent
        return shutil.disk_usage(folder).free >= ROOM_BYTES
    if not connection.in_atomic_block:  # Django would close that connection, whatever state it is in
        close_old_connections()
    try:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SET LOCAL work_mem = '64kB'; SET LOCAL temp_tablespaces = ''")
            cursor.execute(_TRY, [ROOM_BYTES // 1024])
    except AWAY:
        return False
    return True


def _of(error: BaseException) -> Outages:
    return room if is_full(error) else database


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
