"""The suites of the cluster app use the Redis and the people of the suites of HTTP."""

from tests.accounts.conftest import actor, ada, bearer, make_token
from tests.web.broker import broker, no_broker, redis_server

__all__ = ["actor", "ada", "bearer", "broker", "make_token", "no_broker", "redis_server"]
