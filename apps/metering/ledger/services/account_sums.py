"""Adds buckets up by account, where they are written: a page of a fleet reads forty rows, not a thousand.

Buckets that come are added, those that go are taken off, by the database and by one expression for both, so
that what was added is what is taken off, to the microsecond.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import chain
from typing import Any, NamedTuple

from django.db import connection, transaction

from apps.cluster.models import Cluster
from apps.metering.ledger.rules.buckets import LEVELS, floor
from apps.metering.models import AccountSum, Bucket, RollPosition

Window = tuple[datetime, datetime]
Holders = Collection[str] | None
"""Of some holders; None: of all, and of nobody."""
_TABLE, _BUCKETS = AccountSum._meta.db_table, Bucket._meta.db_table
_WEIGHT = "(CAST(share_us AS double precision) / (denominator * held_us))"
"""The part of a GPU that a bucket is of."""
_TIMES = ("seen_us", "smi_us", "sm_us", "tensor_us", "dram_us")
_WORKS = ("smi", "sm", "tensor", "dram")
_FIGURES = {
    "gpu_us": "CAST(share_us AS double precision) / denominator",
    **{name: f"{name} * {_WEIGHT}" for name in _TIMES},
    **{name: f"{name}_sum / 1000000.0 * {_WEIGHT}" for name in _WORKS},
    "beside": f"CASE WHEN smi_us > 0 THEN sm_sum / 1000000.0 * {_WEIGHT} ELSE 0 END",
}
"""Of one bucket that held any time, in SQL. What held none has a share of nothing."""
_KEYS = ("level", "starts_at", "cluster_id", "account", "reason")
_PLACES = ", ".join((*_KEYS, "owner", "tenant_id", *_FIGURES))
_SUMS = ", ".join(f"{{sign}}SUM(CAST(ROUND({sql}) AS bigint)) AS {name}" for name, sql in _FIGURES.items())
_WITHIN = "cluster_id = %s AND level = %s AND starts_at >= %s AND starts_at < %s"
_SUMMED = f"""
SELECT {", ".join(_KEYS)}, COALESCE(CAST(tenant_id AS varchar(36)), '') AS owner, tenant_id, {_SUMS}
FROM {_BUCKETS} WHERE held_us > 0 AND {_WITHIN} {{chosen}}
GROUP BY {", ".join(_KEYS)}, tenant_id
"""  # noqa: S608 - our own columns
_INSERT = f"""
INSERT INTO {_TABLE} ({_PLACES}) {_SUMMED}
ON CONFLICT (level, starts_at, cluster_id, account, reason, owner)
DO UPDATE SET {", ".join(f"{name} = {_TABLE}.{name} + EXCLUDED.{name}" for name in _FIGURES)}
"""
_STORED = f"SELECT {_PLACES} FROM {_TABLE} WHERE {_WITHIN}"  # noqa: S608 - our own columns
_NOTHING = (0,) * len(_FIGURES)


class Difference(NamedTuple):
    """A figure of an account in a span that is not the sum of its buckets."""

    level: int
    at: datetime
    what: str
    stored: int
    summed: int


def add(
    cluster: Cluster, level: int, gpus: Sequence[str], window: Window, *, holders: Holders = None
) -> None:
    """The buckets that these GPUs have in the window, of all holders or of some, just written."""
    _write(cluster, level, window, {"gpu": gpus, "holder": holders})


def take_off(
    cluster: Cluster, level: int, gpus: Sequence[str], window: Window, *, holders: Holders = None
) -> None:
    """The same that are about to go."""
    _write(cluster, level, window, {"gpu": gpus, "holder": holders}, sign="-")


def remake(cluster: Cluster, window: Window) -> None:
    """All sums that begin in the window, anew from its buckets."""
    inside = {"starts_at__gte": window[0], "starts_at__lt": window[1]}
    AccountSum.objects.filter(cluster=cluster, **inside).delete()
    for level in LEVELS:
        _write(cluster, level, window, {})


@transaction.atomic
def remake_all(cluster: Cluster) -> None:
    """All sums of a cluster, while nobody rolls it."""
    position = RollPosition.objects.select_for_update().filter(cluster=cluster).first()
    if position is not None:
        remake(cluster, (floor(position.since, LEVELS[-1]), position.until))


def differences(cluster: Cluster, window: Window) -> Iterator[Difference]:
    """The sums in the window that are not those of its buckets."""
    for level in LEVELS:
        stored = _read(_STORED, _given(cluster, level, window))
        buckets = _read(_SUMMED.format(sign="", chosen=""), _given(cluster, level, window))
        for key in sorted(stored.keys() | buckets.keys()):
            at, account, reason, owner = key
            for name, *both in zip(
                _FIGURES, stored.get(key, _NOTHING), buckets.get(key, _NOTHING), strict=True
            ):
                if both[0] != both[1]:
                    what = "/".join(part for part in (account, reason, owner) if part)
                    yield Difference(level, at, f"{what} {name}", *both)


def _read(sql: str, given: Sequence[Any]) -> dict[tuple[datetime, str, str, str], tuple[int, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql, given)
        return {
            (_moment(at), account, reason, owner): tuple(map(int, figures))
            for _, at, _, account, reason, owner, _, *figures in cursor.fetchall()
        }


def _moment(stored: datetime) -> datetime:
    """SQLite keeps no time zone: all is UTC."""
    return stored if stored.tzinfo else stored.replace(tzinfo=UTC)


def _given(cluster: Cluster, level: int, window: Window) -> list[Any]:
    """What the marks of `_WITHIN` stand for."""
    pk = cluster.pk if connection.features.has_native_uuid_field else cluster.pk.hex
    return [pk, level, *map(connection.ops.adapt_datetimefield_value, window)]


def _write(
    cluster: Cluster, level: int, window: Window, of: Mapping[str, Holders], *, sign: str = ""
) -> None:
    """`of`: the values of columns that count; None: all do."""
    chosen = {column: [*values] for column, values in of.items() if values is not None}
    if not all(chosen.values()):
        return
    within = " ".join(f"AND {column} IN ({', '.join(['%s'] * len(some))})" for column, some in chosen.items())
    with connection.cursor() as cursor:
        given = [*_given(cluster, level, window), *chain(*chosen.values())]
        cursor.execute(_INSERT.format(sign=sign, chosen=within), given)
