"""What a process of the workers does while its database does not answer: it waits, and says so once."""

import logging
import threading
import time

from django.db import InterfaceError, OperationalError, close_old_connections, connection

AWAY = OperationalError, InterfaceError
"""What the database raises that is away, and one that is locked for too long."""
LONGEST_SECONDS = 40.0
"""Two such waits fit into the time that a task has."""
_PAUSES = 0.1, 1.0
"""The first, and the longest; each is twice the one before."""

_log = logging.getLogger(__name__)


def outlive(
    error: Exception, *, seconds: float = LONGEST_SECONDS, stop: threading.Event | None = None
) -> bool:
    """Wait until the database answers, for so many seconds or until `stop`; whether it does."""
    began, (pause, longest) = time.monotonic(), _PAUSES
    stop = stop or threading.Event()
    _log.warning("the database does not answer, this waits for it: %s", _first_line(error))
    while not _answers():
        if time.monotonic() - began > seconds or stop.wait(pause):
            return False
        pause = min(2 * pause, longest)
    _log.warning("the database answers again after %.1f s", time.monotonic() - began)
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


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
