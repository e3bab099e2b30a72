"""What the suites of the operator's tools share."""

from tests.web.broker import broker, no_broker, redis_server

__all__ = ["broker", "no_broker", "redis_server"]
