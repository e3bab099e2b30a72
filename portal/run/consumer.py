"""How a worker waits for Redis: Celery's consumer, which would ask for it ever more rarely."""

from functools import partial
from typing import Any

from celery.worker.consumer import Consumer

LONGEST_SECONDS = 4.0
"""Between two attempts. Celery's own go up to 30: after a minute's outage work would wait for half of one."""


class SoonConsumer(Consumer):  # type: ignore[misc]
    """Celery's, but for that."""

    def ensure_connected(self, conn: Any) -> Any:
        """See Celery."""
        conn.ensure_connection = partial(conn.ensure_connection, interval_max=LONGEST_SECONDS)
        return super().ensure_connected(conn)
