"""Django's SQLite backend, which makes UUIDs and times of text in less of a page's time.

SQLite has no type for either. Of a page with hundreds of bill lines thousands of UUIDs are parsed, of the
same few tenants and offers over and over (7 % of such a page's time): they are immutable, so that one object
serves all who read it. Its thousands of times are read by Python alone; Django first looks at each in several
ways. A month's spend is a sum of thousands of spans between times: half of it was their texts.
"""

from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any
from uuid import UUID

from django.db.backends.sqlite3 import base
from django.db.backends.sqlite3.operations import DatabaseOperations as Operations
from django.db.backends.utils import typecast_timestamp

_MICROSECOND = timedelta(microseconds=1)
_uuid_of = lru_cache(maxsize=8192)(UUID)


class DatabaseOperations(Operations):
    """What is read out of SQLite."""

    def convert_uuidfield_value(self, value: str | None, *_: Any) -> UUID | None:
        """The UUID of a column's text; None of NULL."""
        return None if value is None else _uuid_of(value)

    def convert_datetimefield_value(self, value: Any, expression: Any, connection: Any) -> datetime | None:
        """The time of a column's text, which is in the connection's time zone; None of NULL."""
        try:
            found = datetime.fromisoformat(value)
        except (TypeError, ValueError):
            known: datetime | None = super().convert_datetimefield_value(value, expression, connection)
            return known
        return found if found.tzinfo else found.replace(tzinfo=self.connection.timezone)


class DatabaseWrapper(base.DatabaseWrapper):
    """A connection."""

    ops_class = DatabaseOperations

    def get_new_connection(self, conn_params: Any) -> Any:
        """With a function of ours in the place of Django's."""
        made = super().get_new_connection(conn_params)
        made.create_function("django_timestamp_diff", 2, _span_between, deterministic=True)
        return made


def _span_between(later: str | None, earlier: str | None) -> int | None:
    """The microseconds between two times."""
    if later is None or earlier is None:
        return None
    try:
        span = datetime.fromisoformat(later) - datetime.fromisoformat(earlier)
    except (TypeError, ValueError):
        span = typecast_timestamp(later) - typecast_timestamp(earlier)
    return span // _MICROSECOND
