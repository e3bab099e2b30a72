"""What the database answers, made into objects without what Django does for each of them.

Django calls a model's `__init__` with every column of every row: it asks each column's descriptor, and for a
query that leaves columns out it compares the names of all with those that were read, once for each row.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Self

from django.db import models
from django.db.models.base import ModelState


class Row(models.Model):
    """A model that lists show many of.

    RULE: it has no `__init__` of its own, and nobody listens to `pre_init` or `post_init`: neither is called
    for what is read. What is left out of a query is read when it is asked for, as with any model.
    """

    class Meta:
        abstract = True

    @classmethod
    def from_db(  # type: ignore[override]  # the stubs are those of a newer Django
        cls, db: str | None, field_names: Collection[str], values: Collection[Any]
    ) -> Self:
        """See Django: the columns that were read, as they are."""
        found, state = cls.__new__(cls), ModelState()
        state.adding, state.db = False, db
        found.__dict__.update(zip(field_names, values, strict=True))
        found._state = state
        return found

    @classmethod
    def join(cls, rows: Iterable[Self], **found: Mapping[Any, models.Model]) -> None:
        """Give rows the objects behind their foreign keys, as `select_related` does: `found` has them by key
        for each name. What is not among them is read when it is asked for.
        """
        for name, objects in found.items():
            field: Any = cls._meta.get_field(name)
            for row in rows:
                key = getattr(row, field.attname)
                behind = objects.get(key)
                if behind or key is None:
                    field.set_cached_value(row, behind)
