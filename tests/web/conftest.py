"""The suites of HTTP use the people of the accounts' suites."""

from tests.accounts.conftest import actor, ada, bearer, make_token
from tests.web.broker import broker, no_broker, redis_server

__all__ = ["actor", "ada", "bearer", "broker", "make_token", "no_broker", "redis_server"]
