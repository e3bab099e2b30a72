"""The database, asked from the event loop: in a thread, whose connection is looked at before and after."""

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from asgiref.sync import sync_to_async
from django.db import close_old_connections

Answer = TypeVar("Answer")


def in_thread(of: Callable[..., Answer], *given: Any, **named: Any) -> Awaitable[Answer]:
    """What the function answers to this; raises as it does."""

    def asked() -> Answer:
        close_old_connections()
        try:
            return of(*given, **named)
        finally:
            close_old_connections()

    return sync_to_async(asked, thread_sensitive=False)()
