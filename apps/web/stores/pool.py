"""Django's cache on Redis, with the connections of this process."""

from functools import cache, cached_property
from typing import Any, Self

import redis
from django.core.cache.backends.redis import RedisCache, RedisCacheClient


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


@cache
def _client(kind: type[redis.Redis], pool: SharedPool) -> Any:
    return kind(connection_pool=pool)


class _Client(RedisCacheClient):
    """Has one client per process, and counts a key that is not there from 0: one trip instead of two."""

    def get_client(self, key: Any = None, *, write: bool = False) -> Any:
        """See Django: there is one server, so one client for reads and writes."""
        _ = key, write
        return self._one

    @cached_property
    def _one(self) -> Any:
        return _client(self._client, self._get_connection_pool(write=True))  # type: ignore[attr-defined]

    def incr(self, key: Any, delta: int) -> int:
        """See Django; whoever counts gives a new key its end."""
        return int(self._one.incr(key, delta))


class Cache(RedisCache):
    """RULE: `incr` of a key that is not there makes it 1, without an end: `touch` it then."""

    def __init__(self, server: Any, params: dict[str, Any]) -> None:
        super().__init__(server, params)
        self._class = _Client
