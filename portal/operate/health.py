"""How the installation does: what is wrong and its cure, which processes live, how far behind each part is.

It is what the console's page and REST show; `manage.py doctor` looks deeper and beside the processes.
"""

import socket
import threading
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings
from django.db import DatabaseError
from redis.exceptions import RedisError

from apps.web.stores import telling
from apps.web.stores.telling import Part, Told
from portal.config import Config
from portal.operate import doctor, lags, queues, service_checks
from portal.operate.findings import NOTE, WRONG, Finding, in_order
from portal.operate.lags import Lag
from portal.operate.queues import Queue

FRESH = timedelta(seconds=5)
"""For how long a web process answers with the same report: looking costs some dozen statements."""


@dataclass(frozen=True)
class Kind:
    """The processes of a kind that live, by machine, and how one is started."""

    name: str
    how: str
    processes: tuple[Part, ...]


@dataclass(frozen=True)
class Report:
    """What was seen at `at` from the machine `host`. `kinds` and `queues` are None while Redis does not
    answer, `clusters` while their tables cannot be read: then nothing is known of them.
    """

    at: datetime
    host: str
    findings: tuple[Finding, ...]
    kinds: tuple[Kind, ...] | None
    queues: tuple[Queue, ...] | None
    clusters: tuple[Lag, ...] | None

    @property
    def wrong(self) -> int:
        """How many findings are wrong."""
        return sum(finding.state == WRONG for finding in self.findings)

    @property
    def notes(self) -> int:
        """How many are worth knowing."""
        return sum(finding.state == NOTE for finding in self.findings)


class Lookout:
    """Keeps the last report for `FRESH`. Of several who ask at once one looks; the others get the same."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last: Report | None = None

    def report(self, now: datetime) -> Report:
        """One that is not older than `FRESH`."""
        with self._lock:
            # Either way: a clock that was set back would keep a report of the future.
            if self._last is None or abs(now - self._last.at) >= FRESH:
                self._last = look(now)
            return self._last

    def forget(self) -> None:
        """The next who asks looks."""
        self._last = None


lookout = Lookout()
"""That of this process."""


def look(now: datetime) -> Report:
    """Look at every part, without what takes long where there is much."""
    findings = in_order(doctor.examine(now, whole=False))
    kinds, waiting = _by_redis(settings.CONFIG)
    try:
        clusters = tuple(lags.read(now))
    except DatabaseError:
        clusters = None
    return Report(now, socket.gethostname(), findings, kinds, waiting, clusters)


def _by_redis(config: Config) -> tuple[tuple[Kind, ...] | None, tuple[Queue, ...] | None]:
    try:
        told, waiting = telling.read(), queues.read()
    except RedisError:
        return None, None
    return kinds_of(told, config), tuple(waiting)


def kinds_of(told: Told, config: Config) -> tuple[Kind, ...]:
    """Every kind that is wanted, and any other that lives nevertheless."""
    wanted = service_checks.wanted(config)
    return tuple(
        Kind(name, how, _alive(told, name))
        for name, how in service_checks.KINDS.items()
        if name in wanted or told.alive(name)
    )


def _alive(told: Told, kind: str) -> tuple[Part, ...]:
    living = (part for part in told.parts if part.kind == kind)
    return tuple(sorted(living, key=lambda part: (part.host, part.since)))
