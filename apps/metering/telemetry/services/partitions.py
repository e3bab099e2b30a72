"""Samples by day on PostgreSQL: made ahead, dropped whole when they are no longer kept.

Days are numbers since 1970-01-01, UTC. On SQLite there is one table, and old rows are deleted.
"""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from django.db import connection, transaction

from apps.metering.models import Sample

AHEAD = 3
_TABLE = Sample._meta.db_table
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def ensure(days: Iterable[int]) -> None:
    """Have a partition for each of these days."""
    wanted = set(days)
    if not wanted or connection.vendor != "postgresql":
        return
    for day in sorted(wanted - set(existing())):
        _make(day)


def existing() -> list[int]:
    """The days that have a partition, oldest first."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid"
            " WHERE i.inhparent = %s::regclass",
            [_TABLE],
        )
        return sorted(_day(name) for (name,) in cursor.fetchall())


def keep(now: datetime, kept: timedelta) -> int:
    """Make the partitions of the next days and drop those that ended before `now - kept`; how many went."""
    today, oldest = _number(now), _number(now - kept)
    if connection.vendor != "postgresql":
        return Sample.objects.filter(ts__lt=now - kept).delete()[0]
    with transaction.atomic(), connection.cursor() as cursor:
        ensure(range(today, today + AHEAD + 1))
        over = [day for day in existing() if day < oldest]
        for day in over:
            cursor.execute(f"DROP TABLE {_name(day)}")
    return len(over)


def _make(day: int) -> None:
    """RULE: attached, not created in place: that would stop readers of every other day meanwhile."""
    begins, ends = _EPOCH + timedelta(days=day), _EPOCH + timedelta(days=day + 1)
    with connection.cursor() as cursor:
        # Two clusters may meet at midnight.
        cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended('sample partitions', 7))")
        cursor.execute("SELECT to_regclass(%s)", [_name(day)])
        if cursor.fetchone()[0] is not None:
            return
        cursor.execute(f"CREATE TABLE {_name(day)} (LIKE {_TABLE} INCLUDING ALL)")
        cursor.execute(
            f"ALTER TABLE {_TABLE} ATTACH PARTITION {_name(day)}"
            f" FOR VALUES FROM ('{begins.isoformat()}') TO ('{ends.isoformat()}')"
        )


def _name(day: int) -> str:
    return f"{_TABLE}_{_EPOCH + timedelta(days=day):%Y%m%d}"


def _day(name: str) -> int:
    return _number(datetime.strptime(name[-8:], "%Y%m%d").replace(tzinfo=UTC))


def _number(at: datetime) -> int:
    return (at - _EPOCH).days
