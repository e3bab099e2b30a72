"""The connections of this process to Redis that Django's cache uses."""

from functools import cache
from typing import Any, Self

import redis


class SharedPool(redis.ConnectionPool):
    """One pool per address: Django's cache lives as long as a request, and would connect anew in each."""

    @classmethod
    def from_url(cls, url: str, **options: Any) -> Self:
        """See redis: the same address and options are the same pool."""
        pool: Self = _pool(cls, url, tuple(sorted(options.items(), key=lambda option: option[0])))
        return pool


@cache
def _pool(cls: type[SharedPool], url: str, options: tuple[tuple[str, Any], ...]) -> Any:
    return super(SharedPool, cls).from_url(url, **dict(options))
