"""Django's SQLite backend, which makes UUIDs and times of text in less of a page's time.

SQLite has no type for either. Of a page with hundreds of bill lines thousands of UUIDs are parsed, of the
same few tenants and offers over and over (7 % of such a page's time): they are immutable, so that one object
serves all who read it. Its thousands of times are read by Python alone; Django first looks at each in several
ways.
"""

from datetime import datetime
from functools import lru_cache
from typing import Any
from uuid import UUID

from django.db.backends.sqlite3 import base
from django.db.backends.sqlite3.operations import DatabaseOperations as Operations

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
