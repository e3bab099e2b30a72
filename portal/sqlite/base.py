"""Django's SQLite backend, which remembers the UUIDs that it has made of text.

SQLite has no type for them: of a page with hundreds of bill lines thousands are parsed, of the same few
tenants and offers over and over (7 % of such a page's time). They are immutable, so that one object serves
all who read it.
"""

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


class DatabaseWrapper(base.DatabaseWrapper):
    """A connection."""

    ops_class = DatabaseOperations
