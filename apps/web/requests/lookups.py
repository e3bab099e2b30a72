"""Finding the one row that an address names, among those that the caller sees."""

from typing import TypeVar
from uuid import UUID

from django.db.models import Model, Q, QuerySet

from apps.errors import NotFound

Row = TypeVar("Row", bound=Model)


def one(rows: QuerySet[Row], *, lock: bool = False) -> Row:
    """The first row; raises NotFound. `lock` keeps others from writing it."""
    row = (rows.select_for_update(of=("self",)) if lock else rows).first()
    if row is None:
        raise NotFound
    return row


def by_id(rows: QuerySet[Row], key: str | UUID, *, lock: bool = False) -> Row:
    """The row with that id; raises NotFound, also for what is no id."""
    return one(rows.filter(pk=id_of(key)), lock=lock)


def id_of(key: str | UUID) -> UUID:
    """An id as it stands in an address; raises NotFound for what is none."""
    try:
        return UUID(str(key))
    except ValueError:
        raise NotFound from None


def slug_or_id(key: str | UUID) -> Q:
    """The condition that finds a row by its id or, if it is none, by its slug."""
    try:
        return Q(pk=UUID(str(key)))
    except ValueError:
        return Q(slug=str(key))
