"""`label_selector`: kubectl's syntax, read as Kubernetes reads it, and evaluated in the database.

    team=vision,stage in (train, eval),!draft

A comma is "and". `!=` and `notin` are also true of what does not have the key, as in Kubernetes. `<` and `>`,
which kubectl's manual does not name, are refused.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NoReturn

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import F, Func, Q, TextField, Value
from django.db.models.lookups import In, IsNull
from django.db.models.sql.compiler import SQLCompiler

from apps.cluster.names import is_label_value
from apps.workloads.labels import is_key

LONGEST, MOST = 1024, 32
_TOKEN = re.compile(r"==|!=|[=!(),<>]|[^ \t\r\n=!(),<>]+")
_SIGNS = ("", "==", "!=", *"=!(),<>")
Sql = tuple[str, tuple[Any, ...]]


class Operator(StrEnum):
    """How a requirement compares; equality is membership in a set of one."""

    IN = "in"
    NOT_IN = "notin"
    EXISTS = "exists"
    ABSENT = "!"


@dataclass(frozen=True)
class Requirement:
    """One condition on the labels of an object."""

    key: str
    operator: Operator
    values: frozenset[str] = frozenset()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether an object with these labels meets it."""
        is_there = self.key in labels
        if self.operator in (Operator.EXISTS, Operator.ABSENT):
            return is_there is (self.operator is Operator.EXISTS)
        is_one = is_there and labels[self.key] in self.values
        return is_one is (self.operator is Operator.IN)


class SelectorError(ValueError):
    """Not a selector; says what was found where."""


def parse(text: str) -> tuple[Requirement, ...]:
    """The requirements of a selector; an empty one has none. Raises SelectorError."""
    if len(text) > LONGEST:
        raise SelectorError(f"At most {LONGEST} characters.")
    reader = _Reader(text)
    if not reader.token:
        return ()
    found = [_requirement(reader)]
    while reader.token:
        reader.expect(",")
        found.append(_requirement(reader))
    if len(found) > MOST:
        raise SelectorError(f"At most {MOST} requirements.")
    return tuple(found)


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


class _Reader:
    """The tokens of a selector; one is looked at, "" at the end."""

    def __init__(self, text: str) -> None:
        self._left = _TOKEN.finditer(text)
        self._end = len(text)
        self.take()

    token = ""

    @property
    def word(self) -> str:
        """The token that is looked at if it is a key, a value or an operator in letters."""
        return "" if self.token in _SIGNS else self.token

    def take(self) -> str:
        """The token that is looked at; from now on the next one is."""
        taken, found = self.token, next(self._left, None)
        self.token = found[0] if found else ""
        self._place = found.start() if found else self._end
        return taken

    def expect(self, sign: str) -> None:
        """Take that token; raises SelectorError where another one stands."""
        if self.token != sign:
            self.refuse(f"{sign!r} is expected")
        self.take()

    def refuse(self, problem: str) -> NoReturn:
        """Say what is wrong, and where."""
        found = f"{self.token!r} stands there" if self.token else "the selector ends there"
        raise SelectorError(f"At character {self._place + 1}: {problem}, {found}.")


def _requirement(reader: _Reader) -> Requirement:
    is_absent = reader.token == "!" and bool(reader.take())
    if not is_key(reader.word):
        reader.refuse("a label's key is expected")
    key = reader.take()
    if is_absent or reader.token in ("", ","):
        return Requirement(key, Operator.ABSENT if is_absent else Operator.EXISTS)
    if reader.token in ("=", "==", "!="):
        operator = Operator.NOT_IN if reader.take() == "!=" else Operator.IN
        return Requirement(key, operator, frozenset({_value(reader)}))
    if reader.token in (Operator.IN, Operator.NOT_IN):
        return Requirement(key, Operator(reader.take()), _values(reader))
    return reader.refuse("one of = == != in notin is expected")


def _values(reader: _Reader) -> frozenset[str]:
    reader.expect("(")
    if reader.token == ")":
        reader.refuse("a value is expected")
    found = {_value(reader)}
    while reader.token == ",":
        reader.take()
        found.add(_value(reader))
    reader.expect(")")
    return frozenset(found)


def _value(reader: _Reader) -> str:
    """A value, which may be empty: then nothing stands there."""
    if not is_label_value(reader.word):
        reader.refuse("a label's value is expected")
    return reader.take() if reader.word else ""
