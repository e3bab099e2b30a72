"""A label selector as a condition on rows: on SQLite and PostgreSQL what `Requirement.matches` says."""

from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import F, Func, Q, TextField, Value
from django.db.models.lookups import In, IsNull
from django.db.models.sql.compiler import SQLCompiler

from apps.workloads.spec.label_selectors import Operator, Requirement

Sql = tuple[str, tuple[Any, ...]]


def condition(requirements: tuple[Requirement, ...], column: str = "labels") -> Q:
    """`Requirement.matches` of each, of a JSON column of labels, for the database."""
    wanted = Q()
    for each in requirements:
        wanted &= _condition(each, LabelValue(column, each.key))
    return wanted


class LabelValue(Func):
    """The value of one key in a JSON column of texts, NULL where it has none.

    The key is a parameter and compared as a whole. Django's own key lookups are paths: they take a key of
    digits for an index.
    """

    output_field = TextField()

    def __init__(self, column: str, key: str) -> None:
        super().__init__(F(column), Value(key, TextField()))

    def as_sql(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, **_: Any) -> Sql:  # type: ignore[override]  # noqa: ARG002 - Django's signature
        """For SQLite: an object is a table of its keys."""
        return self._filled("(SELECT value FROM json_each({}) WHERE key = {})", compiler)

    def as_postgresql(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, **_: Any) -> Sql:  # noqa: ARG002 - Django's signature
        """For PostgreSQL: with a text the operator never takes an index."""
        return self._filled("({} ->> ({})::text)", compiler)

    def _filled(self, template: str, compiler: SQLCompiler) -> Sql:
        (column, before), (key, after) = (compiler.compile(each) for each in self.get_source_expressions())
        return template.format(column, key), (*before, *after)


def _condition(wanted: Requirement, value: LabelValue) -> Q:
    if wanted.operator in (Operator.EXISTS, Operator.ABSENT):
        return Q(IsNull(value, wanted.operator is Operator.ABSENT))
    is_one = Q(In(value, sorted(wanted.values)))
    return is_one if wanted.operator is Operator.IN else Q(IsNull(value, rhs=True)) | ~is_one
