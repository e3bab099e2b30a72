"""Sums of a roll-up's figures, each weighed by the part of a GPU that its row is of. Reads only.

PostgreSQL makes an expression anew wherever it is written: a weight written in ten sums is most of such a
query. Django has no query within FROM, so the sums are put around the SQL that it makes of the rows.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from django.db import connection
from django.db.models import F, FloatField, QuerySet
from django.db.models.expressions import Combinable
from django.db.models.functions import Cast

from apps.metering.models import Bucket


def weighed(
    rows: QuerySet[Bucket], keys: Sequence[str], figures: Mapping[str, tuple[Combinable, int]]
) -> Iterator[tuple[Any, ...]]:
    """Per group the values of `keys` (columns or annotations), and the sum of each figure x share of the GPU,
    in whole units: each figure is an expression, and how many of it are a unit. Rows that held no time are
    passed over.

    Whole, because numbers with decimals take both sides three times as long to write and to read.
    """
    told = {f"told_{name}": what for name, (what, _) in figures.items()}
    weight = Cast("share_us", FloatField()) / (F("denominator") * F("held_us"))
    inner = rows.filter(held_us__gt=0).annotate(weight=weight, **told).order_by()
    compiler = inner.values_list(*keys, "weight", *told).query.get_compiler(connection=connection)
    sql, given = compiler.as_sql()
    sums = [
        f'CAST(ROUND(SUM("told_{name}" * "weight") / {unit}.0) AS bigint)'
        for name, (_, unit) in figures.items()
    ]
    chosen = ", ".join([*(f'"{key}"' for key in keys), *sums])
    places = ", ".join(str(place + 1) for place in range(len(keys)))
    # Without it PostgreSQL would dissolve the query within, and write the weight ten times after all.
    fence = " OFFSET 0" if connection.vendor == "postgresql" else ""
    converters = compiler.get_converters([each[0] for each in compiler.select[: len(keys)]])
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT {chosen} FROM ({sql}{fence}) AS told GROUP BY {places}",  # noqa: S608 - names of our own
            given,
        )
        rows_told = cursor.fetchall()
    return map(tuple, compiler.apply_converters(rows_told, converters)) if converters else iter(rows_told)
