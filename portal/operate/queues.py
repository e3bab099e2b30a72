"""How much waits for the workers, and for how long the oldest of it has: read off the broker's own lists.

Kombu keeps one list per priority, puts new messages in at the left and takes them at the right:
https://github.com/celery/kombu (kombu/transport/redis.py, `_q_for_pri`).
"""

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from celery import current_app

from apps.cluster.reconciling.services.wake import LATER, URGENT
from apps.web.stores import telling
from portal.operate.of_celery import SENT_AT

_SEPARATOR = "\x06\x16"
_OLDEST = -1
NAMES = {URGENT: "urgent", LATER: "later"}
"""What people ask for, and what the cluster tells."""


@dataclass(frozen=True)
class Queue:
    """A priority's messages; `lag` is how many seconds the oldest has waited, 0 where none waits."""

    name: str
    length: int
    lag: float


def read() -> list[Queue]:
    """Both queues, in one trip; raises RedisError."""
    base, pipe = str(current_app.conf.task_default_queue), telling.client().pipeline(transaction=False)
    for priority in NAMES:
        key = f"{base}{_SEPARATOR}{priority}" if priority else base
        pipe.llen(key)
        pipe.lindex(key, _OLDEST)
    told, now = pipe.execute(), time.time()
    return [
        Queue(name, int(told[2 * index]), _lag(told[2 * index + 1], now))
        for index, name in enumerate(NAMES.values())
    ]


def _lag(message: str | None, now: float) -> float:
    """A message without our header is another's: nothing is said of it."""
    try:
        headers: Mapping[str, Any] = json.loads(message or "{}").get("headers") or {}
    except ValueError:
        return 0.0
    sent_at = headers.get(SENT_AT)
    return max(0.0, now - sent_at) if isinstance(sent_at, int | float) else 0.0
