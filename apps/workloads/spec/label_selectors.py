"""`label_selector`: kubectl's syntax, read as Kubernetes reads it. Pure; the database's reading of it is in
`apps.workloads.selectors.label_conditions`.

    team=vision,stage in (train, eval),!draft

A comma is "and". `!=` and `notin` are also true of what does not have the key, as in Kubernetes. `<` and `>`,
which kubectl's manual does not name, are refused.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NoReturn

from apps.cluster.objects.names import is_label_value
from apps.workloads.spec.labels import is_key

LONGEST, MOST = 1024, 32
_TOKEN = re.compile(r"==|!=|[=!(),<>]|[^ \t\r\n=!(),<>]+")
_SIGNS = ("", "==", "!=", *"=!(),<>")


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
    if not reader.seen:
        return ()
    found = [_requirement(reader)]
    while reader.seen:
        reader.expect(",")
        found.append(_requirement(reader))
    if len(found) > MOST:
        raise SelectorError(f"At most {MOST} requirements.")
    return tuple(found)


class _Reader:
    """The tokens of a selector; one is looked at, "" at the end."""

    def __init__(self, text: str) -> None:
        self._left = _TOKEN.finditer(text)
        self._end = len(text)
        self.take()

    seen = ""

    @property
    def word(self) -> str:
        """The token that is looked at if it is a key, a value or an operator in letters."""
        return "" if self.seen in _SIGNS else self.seen

    def take(self) -> str:
        """The token that is looked at; from now on the next one is."""
        taken, found = self.seen, next(self._left, None)
        self.seen = found[0] if found else ""
        self._place = found.start() if found else self._end
        return taken

    def expect(self, sign: str) -> None:
        """Take that token; raises SelectorError where another one stands."""
        if self.seen != sign:
            self.refuse(f"{sign!r} is expected")
        self.take()

    def refuse(self, problem: str) -> NoReturn:
        """Say what is wrong, and where."""
        found = f"{self.seen!r} stands there" if self.seen else "the selector ends there"
        raise SelectorError(f"At character {self._place + 1}: {problem}, {found}.")


def _requirement(reader: _Reader) -> Requirement:
    is_absent = reader.seen == "!" and bool(reader.take())
    if not is_key(reader.word):
        reader.refuse("a label's key is expected")
    key = reader.take()
    if is_absent or reader.seen in ("", ","):
        return Requirement(key, Operator.ABSENT if is_absent else Operator.EXISTS)
    if reader.seen in ("=", "==", "!="):
        operator = Operator.NOT_IN if reader.take() == "!=" else Operator.IN
        return Requirement(key, operator, frozenset({_value(reader)}))
    if reader.seen in (Operator.IN, Operator.NOT_IN):
        return Requirement(key, Operator(reader.take()), _values(reader))
    return reader.refuse("one of = == != in notin is expected")


def _values(reader: _Reader) -> frozenset[str]:
    reader.expect("(")
    if reader.seen == ")":
        reader.refuse("a value is expected")
    found = {_value(reader)}
    while reader.seen == ",":
        reader.take()
        found.add(_value(reader))
    reader.expect(")")
    return frozenset(found)


def _value(reader: _Reader) -> str:
    """A value, which may be empty: then nothing stands there."""
    if not is_label_value(reader.word):
        reader.refuse("a label's value is expected")
    return reader.take() if reader.word else ""
