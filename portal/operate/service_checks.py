"""Whether what the product stands on is there: database, clock, Redis, its own processes, disk."""

import shutil
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime

from django.conf import settings
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder
from django.db.models.functions import Now
from redis.exceptions import RedisError, ResponseError

from apps.web import health
from apps.web.stores import outage, telling
from portal.config import Config
from portal.operate import queues
from portal.operate.findings import Finding, note, ok, wrong

MOST_SKEW, MOST_LAG = 2.0, 30.0
"""Seconds between the clocks of database and process, and for which a task may wait for a worker."""
LEAST_FREE_SHARE, LEAST_FREE_BYTES = 0.1, 2 * 1024**3
KINDS = {
    "web": "uvicorn portal.asgi:application",
    "worker": "python -m portal.run.worker",
    "beat": "python -m portal.run.beat",
    "watcher": "manage.py watch_cluster",
    "door": "python -m portal.door",
}
"""Every process of the Procfile, and how it is started."""
CLOCKED = "workloads.sweep"
"""The task whose last success tells that clock, broker and workers go together."""


def database() -> Iterator[Finding]:
    """Reachable, migrated, and by the same clock."""
    found = health.checks()
    if found["database"] != health.OK:
        yield wrong("database", found["database"], "See ALLOTMENT_DATABASE_URL, the server and the network")
        return
    yield ok("database", f"{connection.vendor} answers")
    if found["migrations"] != health.OK:
        yield wrong("migrations", found["migrations"], "Run `manage.py migrate`")
        return
    yield ok("migrations", "all are applied")
    yield _clock()


def room(*, whole: bool) -> Iterator[Finding]:
    """Whether the database can write: tried if `whole`, else what this process has met."""
    if not (whole or outage.room.lasts):
        return
    if outage.has_room():
        yield ok("database disk", "has room for what is written")
    else:
        seen = "full: what is there can be read, and nothing can be changed"
        yield wrong("database disk", seen, "Make room; what was asked for before goes on by itself")


def _clock() -> Finding:
    rows = MigrationRecorder(connection).migration_qs.annotate(at=Now()).values_list("at", flat=True)
    skew = abs((datetime.now(UTC) - rows[0]).total_seconds())
    if skew > MOST_SKEW:
        cure = "Let both keep time by NTP: leases go by the database's clock, dates by the process's"
        return replace(wrong("clock", f"{skew:.0f} s apart from the database's", cure), local=True)
    return replace(ok("clock", "that of the database"), local=True)


def redis(config: Config) -> Iterator[Finding]:
    """Reachable, and of a policy that drops no message."""
    try:
        facts = telling.client().info()
    except RedisError as error:
        yield wrong("redis", "does not answer", "See ALLOTMENT_REDIS_URL, the server and the network",
                    told=type(error).__name__)  # fmt: skip
        return
    yield ok("redis", f"{facts.get('redis_version', '')} answers")
    policy = str(facts.get("maxmemory_policy", "noeviction"))
    if policy != "noeviction" and facts.get("maxmemory", 0):
        seen = f"{policy}: messages and limits may be dropped when memory is short"
        yield wrong("redis policy", seen, "Set maxmemory-policy noeviction")
    else:
        yield ok("redis policy", "nothing is evicted")
    yield _persistence(facts, config)


def _persistence(facts: dict[str, object], config: Config) -> Finding:
    if facts.get("rdb_last_bgsave_status") not in (None, "ok") or facts.get("aof_last_write_status") not in (
        None,
        "ok",
    ):
        return wrong("redis on disk", "the last save failed", "See the disk and the log of Redis")
    try:
        saves = bool(facts.get("aof_enabled")) or bool(telling.client().config_get("save").get("save"))
    except ResponseError:
        return note("redis on disk", "it may not be asked whether it saves", "See your provider's settings")
    if not saves and config.mode == "production":
        cure = "Set `save` or `appendonly`: nothing is lost without it, but all counts begin again"
        return note("redis on disk", "keeps nothing over a restart", cure)
    return ok("redis on disk", "saves" if saves else "keeps nothing, as in development")


def processes(config: Config) -> Iterator[Finding]:
    """Which processes live, whether the clock's work is done, and whether tasks wait for workers."""
    try:
        told, waiting = telling.read(), queues.read()
    except RedisError:
        seen = "unknown while Redis does not answer"
        yield wrong("processes", seen, "Mend Redis first; the processes tell through it that they live")
        return
    for kind, how in wanted(config).items():
        count = told.alive(kind)
        if count:
            yield ok(kind, f"{count} alive")
        else:
            seen = f"none has told within {telling.LIFE_SECONDS} s that it lives"
            yield wrong(kind, seen, f"Start `{how}` (see the Procfile), or see its log")
    yield _clocked(told, config)
    for queue in waiting:
        yield _queue(queue)


def wanted(config: Config) -> dict[str, str]:
    """The kinds that the installation needs, and how each is started. Without addresses for apps no door."""
    return {kind: how for kind, how in KINDS.items() if kind != "door" or config.apps is not None}


def _clocked(told: telling.Told, config: Config) -> Finding:
    most = max(60.0, 12.0 * config.sweep_seconds)
    at = told.ran.get(CLOCKED)
    if at is not None and time.time() - at <= most:
        return ok("clock's work", f"{CLOCKED} ran {time.time() - at:.0f} s ago")
    began = _both_since(told)
    if began is not None and time.time() - began <= most:
        seen = f"{CLOCKED} has not run in the {time.time() - began:.0f} s since beat and worker began"
        return note("clock's work", seen, "Ask again in a minute")
    seen = f"{CLOCKED} has not run for {most:.0f} s" if at else f"{CLOCKED} has never run"
    return wrong("clock's work", seen, "See that beat and a worker live, and their logs")


def _both_since(told: telling.Told) -> float | None:
    """Since when a beat and a worker live beside each other; None where one is missing."""
    began = {kind: [part.since for part in told.parts if part.kind == kind] for kind in ("beat", "worker")}
    return max(map(min, began.values())) if all(began.values()) else None


def _queue(queue: queues.Queue) -> Finding:
    seen = f"{queue.length} wait, the oldest for {queue.lag:.0f} s"
    if queue.lag > MOST_LAG:
        return wrong(f"queue {queue.name}", seen, "Start more workers, or see why they are slow")
    return ok(f"queue {queue.name}", seen)


def disk() -> Iterator[Finding]:
    """Of the machine that asks. What PostgreSQL and Redis have left is theirs to tell."""
    free = shutil.disk_usage(settings.CONFIG.home if settings.CONFIG.home.exists() else "/")
    seen = f"{free.free / 1024**3:.0f} GiB of {free.total / 1024**3:.0f} GiB are free here"
    if free.free < LEAST_FREE_BYTES or free.free < LEAST_FREE_SHARE * free.total:
        cure = "Make room; and see the disks of PostgreSQL and Redis"
        yield replace(wrong("disk", seen, cure), local=True)
    else:
        yield replace(ok("disk", seen), local=True)
