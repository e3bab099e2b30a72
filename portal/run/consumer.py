"""What a worker does while Redis is away: Celery's consumer, but for two things."""

from functools import partial
from typing import Any

from celery.utils.threads import bound_open_broker_sockets
from celery.worker.consumer import Consumer
from celery.worker.consumer.consumer import COLLECT_SOCKET_TIMEOUT

LONGEST_SECONDS = 4.0
"""Between two attempts. Celery's own go up to 30: after a minute's outage work would wait for half of one."""


class SoonConsumer(Consumer):  # type: ignore[misc]
    """Connects soon, and lets go of a broken connection whatever was on its way."""

    def ensure_connected(self, conn: Any) -> Any:
        """See Celery."""
        conn.ensure_connection = partial(conn.ensure_connection, interval_max=LONGEST_SECONDS)
        return super().ensure_connected(conn)

    def on_connection_error_after_connected(self, exc: Exception) -> None:
        """See Celery. The channel that waits for the next task takes two tries to close. Celery's second
        comes when the connection has forgotten its address, which ended the worker if a task was not yet
        acknowledged (`AttributeError`, kombu 5.7). So the first try is here.
        """
        bound_open_broker_sockets(self.connection, COLLECT_SOCKET_TIMEOUT)
        if self.task_consumer:
            self.connection.maybe_close_channel(self.task_consumer.channel)
        super().on_connection_error_after_connected(exc)
