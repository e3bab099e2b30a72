"""How much of a past has come in. Kept in Redis until all of it is in: what came in half is never all."""

import time
from typing import NamedTuple

from django.core.cache import cache
from redis import RedisError

_KEY = "history.progress"
QUIET = 300
"""Seconds after which an import that says nothing more is taken for ended before its time."""


class Coming(NamedTuple):
    """The percent of an import that is in; `is_ended`: nobody brings in the rest."""

    percent: int
    is_ended: bool


def note(percent: int) -> None:
    """An import has come so far; 100 ends the telling."""
    try:
        if percent < 100:
            cache.set(_KEY, (percent, time.time()), None)
        else:
            cache.delete(_KEY)
    except RedisError:
        # It is only told to those who look; the import goes on.
        return


def coming() -> Coming | None:
    """The import that is not over; None where there is none."""
    try:
        noted = cache.get(_KEY)
    except RedisError:
        return None
    return None if noted is None else Coming(noted[0], time.time() - noted[1] > QUIET)


def is_coming_in() -> bool:
    """Whether somebody brings a past in now."""
    found = coming()
    return found is not None and not found.is_ended
