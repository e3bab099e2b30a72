"""How samples get into the table: binary COPY on PostgreSQL, insert-or-ignore on SQLite. No ORM per row.

A row is `(device id, ts in µs since `EPOCH`, seconds it speaks of, *values in the order of reading.COLUMNS)`.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import groupby, repeat
from typing import Any, NamedTuple
from uuid import UUID

from django.db import connection

from apps.metering.ledger.services import invalidation
from apps.metering.models import Device, DirtySpan, Sample
from apps.metering.telemetry.rules import binary_copy
from apps.metering.telemetry.rules.sources.reading import COLUMNS, Block, moment

Row = tuple[int | None, ...]
_TABLE = Sample._meta.db_table
_DIRTY = DirtySpan._meta.db_table
_STORED = ("seconds", *COLUMNS)
_NAMES = ", ".join(("device_id", "ts", *_STORED))
_WIDTHS = {"SmallIntegerField": "int2", "IntegerField": "int4", "BigIntegerField": "int8"}
# A timestamp travels as PostgreSQL keeps it, 8 bytes of µs since 2000: no datetime is made for any row.
_TYPES = ("int8", "int8", *(_WIDTHS[Sample._meta.get_field(name).get_internal_type()] for name in _STORED))
EPOCH = int(datetime(2000, 1, 1, tzinfo=UTC).timestamp()) * 1_000_000
"""PostgreSQL counts time from 2000 on; µs since 1970."""
TOGETHER = 16
"""Stacks packed by one call: their rows fit into the processor's cache."""


class Stack(NamedTuple):
    """Many rows of one device, as columns."""

    device_id: int
    seconds: int
    block: Block

    def rows(self) -> Iterator[Row]:
        """The same one by one."""
        device_id, seconds, block = self
        return ((device_id, ts - EPOCH, seconds, *values) for _, ts, values in block.readings())


def lock(cluster_id: UUID) -> None:
    """One writer of samples per cluster until this transaction ends. SQLite has one writer anyway."""
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 7))", [f"samples {cluster_id}"])


def add(fresh: Sequence[Row], late: Sequence[Row], stacks: Sequence[Stack] = ()) -> tuple[int, int]:
    """Store rows; (stored of fresh and of stacks, stored of late). What is stored under (device, ts) stays.

    RULE: no row of `fresh` or of `stacks` is in the table, because all are younger than everything stored of
    their cluster, which the caller holds locked; so they need no second look.
    """
    if connection.vendor == "postgresql":
        return _copy_stacks(stacks) + _copy_fresh(fresh), _copy_late(late)
    return _insert_stacks(stacks) + _insert_or_ignore(fresh), _insert_or_ignore(late)


def mark_dirty(cluster_id: UUID, spans: Iterable[tuple[str, int]]) -> None:
    """Have the buckets made anew: (GPU, start of 300 s in seconds since 1970).

    RULE: a mark that is there is written again, see `dirty.mark`.
    """
    marks = sorted(spans)
    if connection.vendor == "postgresql" and marks:
        # Two texts, not two arrays: quoting thousands of items one by one costs more than storing them.
        with connection.cursor() as cursor:
            cursor.execute(
                f"INSERT INTO {_DIRTY} (cluster_id, gpu, starts_at)"  # noqa: S608 - our own table's name
                " SELECT %s, gpu, to_timestamp(start) FROM unnest("
                "string_to_array(%s, chr(10)), string_to_array(%s, ',')::bigint[]) AS new (gpu, start)"
                " ON CONFLICT (cluster_id, gpu, starts_at) DO UPDATE SET starts_at = EXCLUDED.starts_at",
                [
                    cluster_id,
                    "\n".join(gpu for gpu, _ in marks),
                    ",".join(str(start) for _, start in marks),
                ],
            )
        return
    invalidation.write(cluster_id, [(gpu, datetime.fromtimestamp(start, UTC)) for gpu, start in marks])


def touch_devices(ids: Sequence[int], at: datetime) -> None:
    """Devices were last seen at this time."""
    if connection.vendor != "postgresql":
        for begin in range(0, len(ids), 500):
            Device.objects.filter(pk__in=ids[begin : begin + 500]).update(last_seen_at=at)
        return
    with connection.cursor() as cursor:
        cursor.execute(
            f"UPDATE {Device._meta.db_table} SET last_seen_at = %s"  # noqa: S608 - as above
            " WHERE id = ANY (string_to_array(%s, ',')::bigint[])",
            [at, ",".join(map(str, ids))],
        )


def _copy_stacks(stacks: Sequence[Stack]) -> int:
    """Packed as PostgreSQL's binary rows; a stack with a gap in a column goes row by row."""
    if not stacks:
        return 0
    rest: list[Row] = []
    with (
        connection.cursor() as cursor,
        cursor.copy(f"COPY {_TABLE} ({_NAMES}) FROM STDIN (FORMAT BINARY)") as copy,
    ):
        copy.write(binary_copy.BEGINS)
        pack = binary_copy.Packer(_TYPES[3:], EPOCH)
        for (seconds, *_), alike in groupby(stacks, _likeness):
            every = [(device_id, block) for device_id, _, block in alike]
            for begin in range(0, len(every), TOGETHER):
                blocks = every[begin : begin + TOGETHER]
                packed = pack.rows(seconds, blocks)
                if packed is None:
                    rest += [row for pk, block in blocks for row in Stack(pk, seconds, block).rows()]
                else:
                    copy.write(packed)
        copy.write(binary_copy.ENDS)
    return sum(len(stack.block.times) for stack in stacks) - len(rest) + _copy_fresh(rest)


def _likeness(stack: Stack) -> tuple[int, tuple[bool, ...], int]:
    """Equal for stacks that are packed together: one that may have gaps is so with no other."""
    device_id, seconds, block = stack
    return seconds, binary_copy.known(block), 0 if binary_copy.is_whole(block) else device_id


def _copy_fresh(rows: Sequence[Row]) -> int:
    if rows:
        _copy(_TABLE, rows)
    return len(rows)


def _copy_late(rows: Sequence[Row]) -> int:
    if not rows:
        return 0
    with connection.cursor() as cursor:
        cursor.execute(f"CREATE TEMP TABLE late_samples (LIKE {_TABLE}) ON COMMIT DROP")
        _copy("late_samples", rows)
        cursor.execute(
            f"INSERT INTO {_TABLE} ({_NAMES}) SELECT {_NAMES} FROM late_samples"  # noqa: S608 - as above
            " ON CONFLICT DO NOTHING"
        )
        stored = int(cursor.rowcount)
        cursor.execute("DROP TABLE late_samples")
    return stored


def _copy(table: str, rows: Sequence[Row]) -> None:
    with (
        connection.cursor() as cursor,
        cursor.copy(f"COPY {table} ({_NAMES}) FROM STDIN (FORMAT BINARY)") as copy,
    ):
        copy.set_types(_TYPES)
        write = copy.write_row
        for row in rows:
            write(row)


def _insert_stacks(stacks: Sequence[Stack]) -> int:
    """RULE: no tuple is made of a row but the one that SQLite takes."""
    times = _texts({ts for stack in stacks for ts in stack.block.times})
    return _ignoring(
        row
        for device_id, seconds, block in stacks
        for row in zip(
            repeat(device_id),
            [times[ts] for ts in block.times],
            repeat(seconds),
            *(repeat(None) if column is None else column for column in block.columns),
            strict=False,
        )
    )


def _insert_or_ignore(rows: Sequence[Row]) -> int:
    texts = _texts({(row[1] or 0) + EPOCH for row in rows})
    return _ignoring((row[0], texts[(row[1] or 0) + EPOCH], *row[2:]) for row in rows)


def _texts(times: Iterable[int]) -> dict[int, str]:
    """Moments, µs since 1970, as SQLite keeps them."""
    return {ts: str(connection.ops.adapt_datetimefield_value(moment(ts))) for ts in times}


def _ignoring(rows: Iterable[Sequence[Any]]) -> int:
    marks = ", ".join(["%s"] * (len(_STORED) + 2))
    with connection.cursor() as cursor:
        cursor.executemany(
            f"INSERT OR IGNORE INTO {_TABLE} ({_NAMES}) VALUES ({marks})",  # noqa: S608 - as above
            list(rows),
        )
        return max(0, int(cursor.rowcount))
