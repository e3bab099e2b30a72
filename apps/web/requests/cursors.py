"""A cursor that stays right while rows come and go (keyset, never an offset)."""

import base64
import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypeVar

from django.core.exceptions import ValidationError
from django.db.models import Model, Q, QuerySet
from django.utils.dateparse import parse_datetime

from apps.web.problems.refusals import BadParameter

Row = TypeVar("Row", bound=Model)
LONGEST = 1024
"""Characters of a cursor; ours have a few hundred."""
LONGEST_ID = 36
"""Of a UUID; a number of so many digits is none that a column can be compared with."""


@dataclass(frozen=True)
class _Order:
    field: str
    is_descending: bool

    @property
    def name(self) -> str:
        return f"-{self.field}" if self.is_descending else self.field

    def after(self, value: str, row_id: str) -> Q:
        beyond = "lt" if self.is_descending else "gt"
        parsed = value if self.field == "slug" else instant(value)
        is_ours = all(isinstance(each, str) and "\0" not in each for each in (value, row_id))
        if not is_ours or parsed is None or len(row_id) > LONGEST_ID:
            raise ValueError("no place of ours")
        # The first condition follows from the others; it is the one that an index begins at.
        return Q(**{f"{self.field}__{beyond}e": parsed}) & (
            Q(**{f"{self.field}__{beyond}": parsed}) | Q(**{self.field: parsed, "pk__gt": row_id})
        )

    def place(self, row: Model) -> list[str]:
        value = getattr(row, self.field)
        return [self.name, value.isoformat() if isinstance(value, datetime) else str(value), str(row.pk)]


def page_of(rows: QuerySet[Row], sort: str, limit: int, cursor: str | None) -> tuple[list[Row], str | None]:
    """The rows that come after a cursor, and the cursor of the next page; None where there is none. Raises
    BadParameter for a cursor that is not one of ours.
    """
    order = _Order(sort.removeprefix("-"), sort.startswith("-"))
    after = _after(order, rows.model, cursor) if cursor else Q()
    found = list(rows.filter(after).order_by(order.name, "pk")[: limit + 1])
    more = _cursor(order.place(found[limit - 1])) if len(found) > limit else None
    return found[:limit], more


def _after(order: _Order, model: type[Model], cursor: str) -> Q:
    try:
        sort, value, row_id = json.loads(base64.urlsafe_b64decode(cursor.encode() + b"=="))
        if sort != order.name:
            raise BadParameter("cursor", f"The cursor is for sort={sort}.")
        model._meta.pk.to_python(row_id)
        return order.after(value, row_id)
    except (ValueError, TypeError, OverflowError, AttributeError, ValidationError, RecursionError):
        raise BadParameter("cursor", "The cursor is not one of ours; list again from the start.") from None


def _cursor(place: list[str]) -> str:
    return base64.urlsafe_b64encode(json.dumps(place).encode()).decode().rstrip("=")


def instant(text: str) -> datetime | None:
    """A time with its zone, in UTC; None for every other text, and for times before 1970."""
    try:
        found = parse_datetime(text)
        at = found.astimezone(UTC) if found and found.tzinfo else None
    except (ValueError, OverflowError):
        # No day of the calendar, or one that UTC's calendar does not reach.
        return None
    return at if at and at.year >= 1970 else None
