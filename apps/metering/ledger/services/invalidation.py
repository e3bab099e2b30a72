"""Marks the buckets that must be made anew. Whoever writes a fact marks its time, in the same transaction."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import NamedTuple
from uuid import UUID

from django.db import connection
from django.db.models import QuerySet

from apps.cluster.models import Cluster
from apps.metering.ledger.rules.buckets import bucket_starts
from apps.metering.ledger.selectors.facts import gpu_of
from apps.metering.models import Allocation, DirtySpan

_TABLE = DirtySpan._meta.db_table


class Stretch(NamedTuple):
    """A GPU's time in which something changed: [begins, ends)."""

    gpu: str
    begins: datetime
    ends: datetime


def mark(cluster: Cluster, stretches: Iterable[tuple[str, datetime, datetime]]) -> int:
    """Every bucket of 300 s that one of the stretches (GPU, from, to) touches; how many. Without a GPU there
    is nothing to count anew.

    RULE: a row that is there already is written again, not skipped: that locks it until this transaction
    ends, so that a roll which takes it sees what was written with it.
    """
    wanted = {(gpu, at) for gpu, begins, ends in stretches if gpu for at in bucket_starts(begins, ends)}
    write(cluster.pk, sorted(wanted))
    return len(wanted)


def write(cluster_id: UUID, marks: Iterable[tuple[str, datetime]]) -> None:
    """One row per mark (GPU, start of its bucket of 300 s), as `mark` says."""
    cluster = cluster_id if connection.features.has_native_uuid_field else cluster_id.hex
    taken = list(marks)
    if not taken:
        return
    # A week has thousands of moments and a hundred thousand marks.
    times = {at: connection.ops.adapt_datetimefield_value(at) for _, at in taken}
    with connection.cursor() as cursor:
        cursor.executemany(
            f"INSERT INTO {_TABLE} (cluster_id, gpu, starts_at) VALUES (%s, %s, %s)"  # noqa: S608 - our own
            " ON CONFLICT (cluster_id, gpu, starts_at) DO UPDATE SET starts_at = EXCLUDED.starts_at",
            [(cluster, gpu, times[at]) for gpu, at in taken],
        )


def mark_findings(held: QuerySet[Allocation], spans: Iterable[tuple[float, float]]) -> int:
    """The time of idle spans [from, to), unix seconds, on all that a workload, or a claim or pod made with
    kubectl, held then: for those that a finding has now and for those that it had before.
    """
    times = [(datetime.fromtimestamp(a, tz=UTC), datetime.fromtimestamp(b, tz=UTC)) for a, b in spans]
    rows = list(held.select_related("cluster"))
    return (
        mark(
            rows[0].cluster,
            (
                (gpu_of(row), max(begins, row.started_at), min(ends, row.ended_at or ends))
                for row in rows
                for begins, ends in times
            ),
        )
        if rows
        else 0
    )
