"""Times of samples as numbers: of millions of rows, a datetime costs more than all the rest."""

from typing import Any

from django.db.models import BigIntegerField, Func


class Micros(Func):
    """Microseconds since 1970 of a moment, as the database counts them."""

    output_field = BigIntegerField()
    template = "CAST(EXTRACT(EPOCH FROM %(expressions)s) * 1000000 AS bigint)"

    def get_db_converters(self, connection: Any) -> list[Any]:
        """None: the database's number is an int already."""
        del connection
        return []

    def as_sqlite(self, compiler: Any, connection: Any, **extra: Any) -> Any:
        """Django's text there is 2026-11-28 03:36:00, with six digits behind a point where there are any."""
        new = connection.Database.sqlite_version_info >= (3, 38)
        asked = "unixepoch(substr(%(expressions)s, 1, 19))"
        older = "CAST(strftime('%%%%s', substr(%(expressions)s, 1, 19)) AS integer)"
        seconds = asked if new else older
        template = f"({seconds} * 1000000 + CAST(substr(%(expressions)s, 21) AS integer))"
        return super().as_sql(compiler, connection, template=template, **extra)
