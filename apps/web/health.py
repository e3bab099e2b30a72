"""What this process needs, asked now.

Redis is reported but does not decide: without it pages poll and nothing is lost.
"""

from collections.abc import Mapping

from django.core.cache import cache
from django.db import Error as DatabaseError
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from redis.exceptions import RedisError

from apps.web.stores import outage

OK = "ok"
NEEDED = ("database", "migrations")


def checks() -> dict[str, str]:
    """Each need with "ok" or what is wrong, in words without addresses or secrets."""
    database = _database()
    return {
        "database": database,
        "migrations": _migrations() if database == OK else "unknown while the database does not answer",
        "redis": _redis(),
    }


def is_ready(found: Mapping[str, str]) -> bool:
    """Whether requests should come here."""
    return all(found[need] == OK for need in NEEDED)


def _database() -> str:
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
            cursor.fetchone()
    except DatabaseError as error:
        outage.noted(error)
        return "does not answer"
    return OK


def _migrations() -> str:
    executor = MigrationExecutor(connection)
    waiting = executor.migration_plan(executor.loader.graph.leaf_nodes())
    return f"{len(waiting)} not applied" if waiting else OK


def _redis() -> str:
    try:
        cache.get("health")
    except RedisError:
        return "does not answer: pages poll, limits are off"
    return OK
