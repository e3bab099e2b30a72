"""Typed reading of a YAML document with line numbers: every complaint names the line and the rule.

Knows YAML nodes and scalar types. Knows nothing of fleets.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import StrEnum
from typing import TypeVar

import yaml

from sandbox.api.meta.quantity import BadQuantity, parse

Choice = TypeVar("Choice", bound=StrEnum)


class FleetError(ValueError):
    """A fleet file that breaks a rule; `line` counts from 1."""

    def __init__(self, line: int, rule: str) -> None:
        super().__init__(f"line {line}: {rule}")
        self.line = line
        self.rule = rule


class Section:
    """A mapping of the document. Each getter checks the type; `done` refuses keys nobody asked for."""

    def __init__(self, node: yaml.Node, name: str) -> None:
        if not isinstance(node, yaml.MappingNode):
            raise FleetError(node.start_mark.line + 1, f"{name} must be a mapping")
        self.name = name
        self.line = node.start_mark.line + 1
        self._values: dict[str, yaml.Node] = {}
        self._keys: dict[str, int] = {}
        self._asked: set[str] = set()
        for key, value in node.value:
            line = key.start_mark.line + 1
            if key.value in self._values:
                raise FleetError(line, f"{name} has {key.value!r} twice")
            self._values[key.value] = value
            self._keys[key.value] = line

    def has(self, key: str) -> bool:
        """Whether the key is there."""
        return key in self._values

    def keys(self) -> Iterator[str]:
        """The keys, in order."""
        return iter(self._values)

    def line_of(self, key: str) -> int:
        """The line of a key, or of the mapping."""
        return self._keys.get(key, self.line)

    def text(self, key: str, default: str | None = None) -> str:
        """A text value."""
        node = self._node(key, needed=default is None)
        if node is None:
            return default or ""
        if not isinstance(node, yaml.ScalarNode):
            raise FleetError(self.line_of(key), f"{self.name}.{key} must be text")
        return str(node.value)

    def number(self, key: str, default: int | None = None, *, least: int = 0, most: int = 10_000) -> int:
        """A whole number within [least, most]."""
        node = self._node(key, needed=default is None)
        if node is None:
            return int(default or 0)
        if not isinstance(node, yaml.ScalarNode) or not re.fullmatch(r"-?\d+", str(node.value)):
            raise FleetError(self.line_of(key), f"{self.name}.{key} must be a whole number")
        value = int(node.value)
        if not least <= value <= most:
            raise FleetError(
                self.line_of(key), f"{self.name}.{key} must be within {least} and {most}, not {value}"
            )
        return value

    def quantity(self, key: str, default: str | None = None) -> str:
        """A Kubernetes quantity, kept as written."""
        text = self.text(key, default)
        try:
            parse(text)
        except BadQuantity:
            raise FleetError(
                self.line_of(key), f"{self.name}.{key} must be a quantity such as 512Gi, not {text!r}"
            ) from None
        return text

    def choice(self, key: str, kind: type[Choice], default: Choice) -> Choice:
        """One of the words of an enumeration."""
        text = self.text(key, default.value)
        try:
            return kind(text)
        except ValueError:
            known = ", ".join(member.value for member in kind)
            raise FleetError(
                self.line_of(key), f"{self.name}.{key} must be one of {known}, not {text!r}"
            ) from None

    def section(self, key: str) -> Section | None:
        """The mapping under a key, if there."""
        node = self._node(key, needed=False)
        return None if node is None else Section(node, f"{self.name}.{key}")

    def items(self, key: str) -> list[Section]:
        """The mappings of a list."""
        return [Section(n, f"{self.name}.{key}[{i}]") for i, n in enumerate(self._sequence(key))]

    def numbers(self, key: str, *, most: int) -> list[int]:
        """A list of whole numbers from 0 to `most`."""
        found = []
        for node in self._sequence(key):
            if (
                not isinstance(node, yaml.ScalarNode)
                or not str(node.value).isdigit()
                or int(node.value) > most
            ):
                raise FleetError(
                    node.start_mark.line + 1, f"{self.name}.{key} must list whole numbers from 0 to {most}"
                )
            found.append(int(node.value))
        return found

    def done(self) -> None:
        """Refuse keys that nothing asked for."""
        unknown = sorted(set(self._values) - self._asked)
        if unknown:
            raise FleetError(self.line_of(unknown[0]), f"{self.name} has no field {unknown[0]!r}")

    def _sequence(self, key: str) -> list[yaml.Node]:
        node = self._node(key, needed=False)
        if node is None:
            return []
        if not isinstance(node, yaml.SequenceNode):
            raise FleetError(self.line_of(key), f"{self.name}.{key} must be a list")
        return list(node.value)

    def _node(self, key: str, *, needed: bool) -> yaml.Node | None:
        self._asked.add(key)
        if key not in self._values and needed:
            raise FleetError(self.line, f"{self.name} needs {key!r}")
        return self._values.get(key)


def read_document(text: str, name: str) -> Section:
    """The top mapping of the one document in `text`; broken YAML is a FleetError with its line."""
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise FleetError(line, f"not YAML: {error.problem}") from error
    if node is None:
        raise FleetError(1, f"{name} is empty")
    return Section(node, name)
