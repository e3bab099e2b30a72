"""How often one may ask, counted in Redis by the calendar's windows. Without Redis nobody is refused."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from django.core.cache import cache
from django.http.response import HttpResponseBase
from redis.exceptions import RedisError

from apps.web import counters
from apps.web.problems.refusals import RateLimited
from apps.web.stores import silence


@dataclass(frozen=True)
class Policy:
    """At most `quota` hits within `seconds`; `name` is what the RateLimit headers call it."""

    name: str
    quota: int
    seconds: int = 60


TOKEN, SESSION = Policy("token", 600), Policy("session", 600)
STRANGER = Policy("address", 60)
"""REST without a credential that opens anything, per client address."""


@dataclass(frozen=True)
class Allowance:
    """What is left under a policy in this window, which ends in `seconds`; below 0 it is used up."""

    policy: Policy
    remaining: int
    seconds: int

    def require(self) -> None:
        """Raises RateLimited when nothing was left for this one."""
        if self.remaining < 0:
            raise RateLimited(self.seconds)

    def describe(self, response: HttpResponseBase) -> None:
        """The headers that tell a program when to slow down."""
        policy = self.policy
        response["RateLimit-Policy"] = f'"{policy.name}";q={policy.quota};w={policy.seconds}'
        response["RateLimit"] = f'"{policy.name}";r={max(self.remaining, 0)};t={self.seconds}'


def spend(policy: Policy, who: str, now: datetime) -> Allowance | None:
    """Count one more of `who` in the current window; None where Redis does not answer (counted too)."""
    return _allowance(policy, who, now, _hit)


def left(policy: Policy, who: str, now: datetime) -> Allowance | None:
    """What one more would find, without counting it."""
    return _allowance(policy, who, now, lambda key, _: int(cache.get(key, 0)) + 1)


def give_back(policy: Policy, who: str, now: datetime) -> None:
    """Takes one hit back that the policy was not meant for."""
    _allowance(policy, who, now, lambda key, seconds: _hit(key, seconds, -1))


def _allowance(policy: Policy, who: str, now: datetime, ask: Callable[[str, int], int]) -> Allowance | None:
    if silence.holds():
        counters.FAILED_OPEN.labels("rate limit").inc()
        return None
    instant = int(now.timestamp())
    try:
        hits = ask(f"hits:{policy.name}:{who}:{instant // policy.seconds}", policy.seconds)
    except (RedisError, ValueError) as error:
        # ValueError: a cache that keeps nothing.
        if isinstance(error, RedisError):
            silence.note(error)
        counters.FAILED_OPEN.labels("rate limit").inc()
        return None
    return Allowance(policy, policy.quota - hits, policy.seconds - instant % policy.seconds)


def _hit(key: str, seconds: int, more: int = 1) -> int:
    """One trip to Redis, one more for the first of a window: `pool.Cache` counts from nothing."""
    hits = cache.incr(key, more)
    if hits == more:
        cache.touch(key, 2 * seconds)
    return hits
