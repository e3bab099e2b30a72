"""What every process has counted and that it lives, told to Redis every few seconds; any of them can read the
whole.

RULE: counts are sums over all processes that ever ran: each adds what has grown since it last told, so a
process that ends takes nothing away. At most `TELL_SECONDS` of counts are lost with a process that is killed,
and all of them with Redis; whoever reads sees a counter that begins again. Nothing is decided by them.
"""

import json
import os
import socket
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import redis
from django.conf import settings
from prometheus_client import REGISTRY
from redis.exceptions import RedisError

from apps.web.stores import outage

TELL_SECONDS, LIFE_SECONDS = 10.0, 30
"""How often a process tells, and how long it counts as alive after it last did."""
TOTALS, RAN, PARTS = "allotment:totals", "allotment:ran", "allotment:parts"
"""Hashes of sample -> sum and of task -> when it last succeeded (since 1970), and the set of parts."""
OURS = "allotment_"
FULL = "full"
"""What each process tells of itself: whether it met a full disk of the database, and no room since."""
PATIENCE_SECONDS = 0.4
Gauges = Mapping[str, Callable[[], float]]


@dataclass(frozen=True)
class Part:
    """A process that lives: `kind` as in the Procfile, and what it measures of itself."""

    kind: str
    host: str
    pid: int
    since: float
    gauges: Mapping[str, float]


@dataclass(frozen=True)
class Told:
    """All that processes have told. A field of `totals` is `field_of` a sample."""

    totals: Mapping[str, float]
    ran: Mapping[str, float]
    parts: tuple[Part, ...]

    def alive(self, kind: str) -> int:
        """How many processes of a kind live."""
        return sum(part.kind == kind for part in self.parts)


@dataclass
class Teller:
    """What one process tells; of kind "" it only counts. `told` is what Redis has of it already."""

    kind: str
    gauges: Gauges = field(default_factory=dict)
    told: dict[str, float] = field(default_factory=dict)
    runs_told: dict[str, float] = field(default_factory=dict)
    since: float = field(default_factory=time.time)

    def tell(self) -> bool:
        """Adds what has grown; where Redis does not answer it is told the next time. So the log has when it
        answers again.
        """
        now, runs = counted(), dict(_ran)
        try:
            self._pipe(now, runs).execute()
        except RedisError as error:
            outage.redis.note(error)
            return False
        outage.redis.over()
        self.told, self.runs_told = now, runs
        return True

    def _pipe(self, now: Mapping[str, float], runs: Mapping[str, float]) -> Any:
        # All or nothing: what was half added would be added again.
        pipe = client().pipeline(transaction=True)
        for name, value in now.items():
            if more := value - self.told.get(name, 0.0):
                pipe.hincrbyfloat(TOTALS, name, more)
        # Once: told again, it would set a later run of another process back.
        if fresh := {task: at for task, at in runs.items() if self.runs_told.get(task) != at}:
            pipe.hset(RAN, mapping=fresh)
        if self.kind:
            name = f"{PARTS}:{self.kind}:{socket.gethostname()}:{os.getpid()}"
            body = Part(self.kind, socket.gethostname(), os.getpid(), self.since, self._measured())
            pipe.sadd(PARTS, name)
            pipe.set(name, json.dumps(body.__dict__), ex=LIFE_SECONDS)
        return pipe

    def _measured(self) -> dict[str, float]:
        return {FULL: float(outage.room.lasts)} | {name: measure() for name, measure in self.gauges.items()}


_ran: dict[str, float] = {}
_tellers: dict[int, Teller] = {}


def start(kind: str, gauges: Gauges | None = None, *, has_parent: bool = False) -> None:
    """Lets the process tell from now on; the first call does. `has_parent`: it was forked from one that tells
    as well, so what that one has counted is not its own.
    """
    if os.getpid() in _tellers:
        return
    if has_parent:
        _ran.clear()
    teller = Teller(kind, gauges or {}, counted() if has_parent else {})
    _tellers[os.getpid()] = teller
    threading.Thread(target=_go_on, args=(teller,), name="telling", daemon=True).start()


def _go_on(teller: Teller) -> None:
    while True:
        _touch(teller)
        teller.tell()
        outage.look()
        time.sleep(TELL_SECONDS)


def _touch(teller: Teller) -> None:
    """For a container's health check. RULE: before Redis is asked, so that its outage makes nobody unwell."""
    path = settings.CONFIG.alive_file
    if path and teller.kind:
        with suppress(OSError):
            Path(path).touch()


def note_run(task: str) -> None:
    """A task of the clock's, or a hint's, has succeeded just now."""
    _ran[task] = time.time()


def field_of(name: str, labels: Mapping[str, str]) -> str:
    """A sample as the hash names it."""
    return _field(name, *labels.items())


@cache
def _field(name: str, *labels: tuple[str, str]) -> str:
    """Written once: each process names all of its samples every few seconds."""
    return json.dumps([name, *sorted(labels)], separators=(",", ":"))


def sample_of(field: str) -> tuple[str, dict[str, str]]:
    """Name and labels of a sample, of its field."""
    name, *labels = json.loads(field)
    return str(name), dict(labels)


def counted() -> dict[str, float]:
    """Our counters and histograms in this process."""
    return {
        field_of(sample.name, sample.labels): sample.value
        for family in REGISTRY.collect()
        if family.name.startswith(OURS) and family.type in ("counter", "histogram")
        for sample in family.samples
        if not sample.name.endswith("_created")
    }


def read() -> Told:
    """What is told now, in two trips; raises RedisError."""
    pipe = client().pipeline(transaction=False)
    pipe.hgetall(TOTALS)
    pipe.hgetall(RAN)
    pipe.smembers(PARTS)
    totals, ran, names = pipe.execute()
    known = sorted(names)
    bodies = client().mget(known) if known else []
    gone = [name for name, body in zip(known, bodies, strict=True) if body is None]
    if gone:
        client().srem(PARTS, *gone)
    return Told(
        {name: float(value) for name, value in totals.items()},
        {name: float(value) for name, value in ran.items()},
        tuple(Part(**json.loads(body)) for body in bodies if body is not None),
    )


def client() -> Any:
    """Redis with little patience, as the settings name it."""
    return _client(settings.CONFIG.redis_url)


@cache
def _client(url: str) -> Any:
    return redis.Redis.from_url(
        url,
        socket_connect_timeout=PATIENCE_SECONDS,
        socket_timeout=PATIENCE_SECONDS,
        decode_responses=True,
    )
