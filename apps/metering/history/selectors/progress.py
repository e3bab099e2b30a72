"""How much of a past has come in. Kept in Redis, because it is of no use a minute later."""

from django.core.cache import cache
from redis import RedisError

_KEY = "history.progress"
KEPT = 900
"""Seconds after which an import that says nothing more is taken for ended."""


def note(percent: int) -> None:
    """An import has come so far; 100 ends the telling."""
    try:
        if percent < 100:
            cache.set(_KEY, percent, KEPT)
        else:
            cache.delete(_KEY)
    except RedisError:
        # It is only told to those who look; the import goes on.
        return


def coming() -> int | None:
    """The percent of the import that is under way; None where there is none."""
    try:
        found = cache.get(_KEY)
    except RedisError:
        return None
    return None if found is None else int(found)
