"""PostgreSQL's times in UTC, read by Python's own parser: Django's loader takes ten times as long for each.

See https://www.psycopg.org/psycopg3/docs/advanced/adapt.html
"""

from datetime import UTC, datetime
from typing import Any

from django.db.backends.postgresql.psycopg_any import BaseTzLoader


class UtcLoader(BaseTzLoader):  # type: ignore[misc]
    """RULE: it reads what Django's loader reads, and leaves to it whatever is not plain ISO 8601."""

    timezone = UTC

    def load(self, data: Any) -> datetime:
        """A time of the wire as text, such as `2026-11-23 14:39:39.5+00`."""
        try:
            found = datetime.fromisoformat(str(data, "ascii"))
        except ValueError:
            told: datetime = super().load(data)
            return told
        # Of a session in UTC, which is every one of ours, it is there already.
        return found if found.tzinfo is UTC else found.astimezone(UTC)
