"""A query that is built and compiled once and asked many times.

Django builds and compiles each query anew, at a millisecond of CPU for one with joins: more than PostgreSQL
needs to answer it. What every reconcile and every event of the watch asks is prepared instead, and the dear
queries of a benched request (docs/decisions/0036).
"""

import copy
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, Generic, Self, TypeVar

from django.db import connections, router
from django.db.models import Field, Model, QuerySet, Value
from django.db.models.sql import InsertQuery, UpdateQuery
from django.db.models.sql.constants import ROW_COUNT
from django.db.transaction import TransactionManagementError, mark_for_rollback_on_error

Row = TypeVar("Row")
Saved = TypeVar("Saved", bound=Model)
Kept = tuple[QuerySet[Any, Any], "_Compiled"]
Lengths = tuple[int | None, ...]


class Given(Value):
    """A place in a prepared query that each asking fills."""

    def __new__(cls, *_args: Any) -> Self:
        """Without the copy of its arguments that Django keeps of an expression: lists have hundreds."""
        return object.__new__(cls)

    def __init__(self, number: int, index: int | None, field: "Field[Any, Any]") -> None:
        super().__init__("given", output_field=field)
        self.place = number, index

    @property
    def identity(self) -> tuple[Any, ...]:
        """See Django, which reads it out of the arguments: a place is the same wherever it stands."""
        return Given, *self.place

    def as_sql(self, compiler: Any, connection: Any) -> tuple[str, list[Any]]:  # type: ignore[override]
        """See Django: here the parameter is this place itself."""
        _ = compiler, connection
        return "%s", [self]

    def filled(self, given: Sequence[Any], connection: Any) -> Any:
        """The parameter as the database takes it."""
        number, index = self.place
        value = given[number] if index is None else given[number][index]
        field = self.output_field
        is_stored = getattr(self, "for_save", False)
        return (field.get_db_prep_save if is_stored else field.get_db_prep_value)(value, connection)


class _Compiled:
    """The SQL of a query, and what Django knows besides to read its rows."""

    def __init__(self, query: Any, alias: str) -> None:
        self._compiler, self._alias = query.get_compiler(alias), alias
        self.sql, self._places = self._compiler.as_sql()
        read = (column for column, *_ in self._compiler.select or ())
        self._converters = self._compiler.get_converters(read)

    def values(self, given: Sequence[Any]) -> tuple[Any, ...]:
        """The parameters of `sql`."""
        connection = connections[self._alias]
        return tuple(p.filled(given, connection) if isinstance(p, Given) else p for p in self._places)

    def filled(self, given: Sequence[Any]) -> Any:
        """A compiler of this query with these values."""
        asked, values = copy.copy(self._compiler), self.values(given)
        asked.connection = connections[self._alias]
        asked.as_sql = lambda *_, **__: (self.sql, values)
        asked.get_converters = lambda _: self._converters
        return asked


class Prepared(Generic[Row]):
    """`Prepared(build, UUIDField(), ...)`: `build` makes the QuerySet out of as many places as there are
    fields; asking with values answers the rows, as a list.

    A list as value is for `__in`: its last element is repeated up to a power of two, so that few lengths
    occur, and each is compiled once.
    RULE: `build` depends on nothing but its places: not on time, settings or who asks. None is no value: SQL
    compares it otherwise.
    """

    def __init__(self, build: Callable[..., QuerySet[Any, Row]], *fields: "Field[Any, Any]") -> None:
        self._build, self._fields = build, fields
        self._kept: dict[Lengths, Kept] = {}

    def __call__(self, *given: Any) -> list[Row]:
        """The rows for these values, read now."""
        if [] in given:
            return []
        given = tuple(_padded(value) if isinstance(value, list) else value for value in given)
        lengths = tuple(len(value) if isinstance(value, list) else None for value in given)
        rows, compiled = self._compiled(lengths)
        if rows.query.select_for_update and not connections[rows.db].in_atomic_block:
            raise TransactionManagementError("select_for_update cannot be used outside of a transaction.")
        asked = compiled.filled(given)
        fresh = rows._chain()  # type: ignore[attr-defined]
        fresh.query.get_compiler = lambda *_, **__: asked
        return list(fresh)

    def first(self, *given: Any) -> Row | None:
        """The only row, or the first one: `build` says in which order, and cuts after it."""
        return next(iter(self(*given)), None)

    def _compiled(self, lengths: Lengths) -> Kept:
        if lengths not in self._kept:
            rows = self._build(*map(self._place, range(len(lengths)), lengths))
            self._kept[lengths] = rows, _Compiled(rows.query, rows.db)
        return self._kept[lengths]

    def _place(self, number: int, length: int | None) -> Given | list[Given]:
        field = self._fields[number]
        if length is None:
            return Given(number, None, field)
        return [Given(number, index, field) for index in range(length)]


class PreparedUpdate:
    """As `Prepared`: `build` makes the rows and what to write into them (column: place or expression) out of
    its places; asking with values writes and answers how many rows it were. Without lists; None is NULL.
    """

    def __init__(
        self, build: Callable[..., tuple[QuerySet[Any, Any], dict[str, Any]]], *fields: "Field[Any, Any]"
    ) -> None:
        self._build, self._fields = build, fields
        self._kept: tuple[str, _Compiled] | None = None

    def __call__(self, *given: Any) -> int:
        """Write these values now."""
        alias, compiled = self._kept = self._kept or self._made()
        with mark_for_rollback_on_error(using=alias):
            return int(compiled.filled(given).execute_sql(ROW_COUNT))

    def write_all(self, given: Sequence[Sequence[Any]]) -> None:
        """Write all of these, one row of values after the other, in one trip to the database."""
        if not given:
            return
        alias, compiled = self._kept = self._kept or self._made()
        with mark_for_rollback_on_error(using=alias), connections[alias].cursor() as cursor:
            cursor.executemany(compiled.sql, [compiled.values(row) for row in given])

    def _made(self) -> tuple[str, _Compiled]:
        rows, values = self._build(*(Given(n, None, field) for n, field in enumerate(self._fields)))
        query = rows.query.chain(UpdateQuery)
        query.add_update_values(values)  # type: ignore[attr-defined]
        return rows.db, _Compiled(query, rows.db)


class PreparedInsert(Generic[Saved]):
    """As `Prepared`: `PreparedInsert(Model)` stores new rows of a model; a key that the database gives is set
    on the row.

    RULE: no column's value is an expression, and nobody listens to the model's signals.
    """

    def __init__(self, model: type[Saved]) -> None:
        self._model = model

    @cached_property
    def _compiled(self) -> tuple[str, list[Any], str, list[Any]]:
        """Database, columns, SQL, and the columns that come back."""
        alias, meta = router.db_for_write(self._model), self._model._meta
        returned = [meta.auto_field] if meta.auto_field else []
        fields = [field for field in meta.local_concrete_fields if field not in returned]
        query = InsertQuery(self._model)
        query.insert_values(fields, [self._model()])
        compiler: Any = query.get_compiler(alias)
        compiler.returning_fields = returned
        ((sql, _),) = compiler.as_sql()
        return alias, fields, sql, returned

    def __call__(self, row: Saved) -> Saved:
        """Store this one now."""
        alias, fields, sql, returned = self._compiled
        connection = connections[alias]
        values = [field.get_db_prep_save(field.pre_save(row, add=True), connection) for field in fields]
        with mark_for_rollback_on_error(using=alias), connection.cursor() as cursor:
            cursor.execute(sql, values)
            for field, value in zip(returned, cursor.fetchone() if returned else (), strict=True):
                setattr(row, field.attname, value)
        row._state.adding, row._state.db = False, alias
        return row


def _padded(values: list[Any]) -> list[Any]:
    return values + values[-1:] * ((1 << (len(values) - 1).bit_length()) - len(values))
