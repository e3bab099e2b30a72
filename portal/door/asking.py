"""The database, asked from the event loop: in a thread, whose connection is looked at before and after."""

import logging
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from asgiref.sync import sync_to_async
from django.db import Error as DatabaseError
from django.db import close_old_connections

from apps.web.stores import outage

Answer = TypeVar("Answer")
log = logging.getLogger(__name__)
_NOTES = ThreadPoolExecutor(1, "noting")
"""A thread of its own: what waits for the database's writers holds nobody else up."""


def in_thread(of: Callable[..., Answer], *given: Any, **named: Any) -> Awaitable[Answer]:
    """What the function answers to this; raises as it does."""

    def asked() -> Answer:
        close_old_connections()
        try:
            return of(*given, **named)
        except outage.AWAY as error:
            outage.noted(error)
            raise
        finally:
            close_old_connections()

    return sync_to_async(asked, thread_sensitive=False)()


def note(of: Callable[..., object], *given: Any) -> None:
    """Have it written down soon. RULE: as well as it can be done. Nobody's way in hangs on a note."""

    def noted() -> None:
        close_old_connections()
        try:
            of(*given)
        except DatabaseError as error:
            if not outage.noted(error):
                log.info("not noted: %s", error)
        finally:
            close_old_connections()

    _NOTES.submit(noted)
