"""How often one token may ask: 600 requests a minute, counted in Redis. Without Redis nobody is refused."""

from dataclasses import dataclass
from datetime import datetime

from django.core.cache import cache
from django.http.response import HttpResponseBase
from redis.exceptions import RedisError

from apps.web import counters, silence
from apps.web.refusals import RateLimited

QUOTA, WINDOW_SECONDS = 600, 60


@dataclass(frozen=True)
class Allowance:
    """What is left of a credential's requests in this window, which ends in `seconds`."""

    remaining: int
    seconds: int

    def describe(self, response: HttpResponseBase) -> None:
        """The headers that tell a program when to slow down."""
        response["RateLimit-Policy"] = f'"token";q={QUOTA};w={WINDOW_SECONDS}'
        response["RateLimit"] = f'"token";r={max(self.remaining, 0)};t={self.seconds}'


def count_hit(name: str, *, now: datetime, quota: int, seconds: int) -> Allowance | None:
    """Count one more in the current window of `name`; None where Redis does not answer (counted too)."""
    if silence.holds():
        counters.FAILED_OPEN.labels("rate limit").inc()
        return None
    instant = int(now.timestamp())
    key = f"hits:{name}:{instant // seconds}"
    try:
        hits = _hit(key, seconds)
    except (RedisError, ValueError) as error:
        # ValueError: a cache that keeps nothing.
        if isinstance(error, RedisError):
            silence.note()
        counters.FAILED_OPEN.labels("rate limit").inc()
        return None
    return Allowance(quota - hits, seconds - instant % seconds)


def _hit(key: str, seconds: int) -> int:
    """One trip to Redis, one more for the first of a window: `apps.web.pool.Cache` counts from nothing."""
    hits = cache.incr(key)
    if hits == 1:
        cache.touch(key, 2 * seconds)
    return hits


def spend(credential: str, now: datetime) -> Allowance | None:
    """One request of this credential; refuses the 601st within a minute."""
    allowance = count_hit(credential, now=now, quota=QUOTA, seconds=WINDOW_SECONDS)
    if allowance and allowance.remaining < 0:
        raise RateLimited(allowance.seconds)
    return allowance
