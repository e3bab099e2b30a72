"""From a template and values to the `spec` of a workload, and from a problem there back to the value. Pure.

A text that is nothing but `{{name}}` becomes the value of that parameter; inside a longer text nothing is
replaced, so no value is ever read as part of a command. A command takes values from its environment.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from apps.errors import FieldProblem
from apps.workloads.spec.field_reader import escaped
from apps.workloads.templates.rules.parameters import SECONDS, Parameter, Unit, Value

PLACE = re.compile(r"\{\{ *([a-z][a-z0-9_]{0,39}) *\}\}")
_LEFT_OUT = object()


@dataclass(frozen=True)
class Definition:
    """What one version of a template says: its parameters, and the `spec` with their places."""

    parameters: tuple[Parameter, ...]
    workload: Mapping[str, Any]

    @property
    def places(self) -> dict[str, str]:
        """JSON pointer -> the parameter that is filled in there."""
        return dict(_places(self.workload, "/spec"))

    def spec(self, values: Mapping[str, Value]) -> dict[str, Any]:
        """The `spec` as REST would be sent it."""
        known = {each.name: each for each in self.parameters}
        filled = _filled(self.workload, known, values, is_text=False)
        return dict(filled) if isinstance(filled, Mapping) else {}

    def back(self, problem: FieldProblem) -> FieldProblem:
        """The problem at the parameter that caused it; as it is where none did."""
        at = problem.pointer
        near = {
            name
            for pointer, name in self.places.items()
            if at == pointer or at.startswith(f"{pointer}/") or pointer.startswith(f"{at}/")
        }
        if len(near) != 1:
            return problem
        return FieldProblem(f"/parameters/{near.pop()}", problem.code, problem.detail)


def named(text: object) -> str:
    """The parameter whose place this is; "" for any other value."""
    found = PLACE.fullmatch(text) if isinstance(text, str) else None
    return found[1] if found else ""


def _places(value: Any, at: str) -> Iterator[tuple[str, str]]:
    if name := named(value):
        yield at, name
    elif isinstance(value, Mapping):
        for key, each in value.items():
            yield from _places(each, f"{at}/{escaped(str(key))}")
    elif isinstance(value, list):
        for index, each in enumerate(value):
            yield from _places(each, f"{at}/{index}")


def _filled(value: Any, known: Mapping[str, Parameter], values: Mapping[str, Value], *, is_text: bool) -> Any:
    if name := named(value):
        of, given = known[name], values[name]
        if given == "" and not is_text:
            return _LEFT_OUT
        return as_text(given) if is_text else as_field(of, given)
    if isinstance(value, Mapping):
        pairs = {
            key: _filled(each, known, values, is_text=is_text or key == "env") for key, each in value.items()
        }
        return {key: each for key, each in pairs.items() if each is not _LEFT_OUT}
    if isinstance(value, list):
        entries = [_filled(each, known, values, is_text=is_text) for each in value]
        return [each for each in entries if each is not _LEFT_OUT]
    return value


def as_text(value: Value) -> str:
    """A value as an environment has it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def as_field(of: Parameter, value: Value) -> Value:
    """A value as a field of a spec has it: hours and minutes in seconds, GiB and cores as quantities."""
    if of.unit in SECONDS and isinstance(value, int | float):
        return round(value * SECONDS[of.unit])
    if of.unit is Unit.GIB:
        return f"{value}Gi"
    if of.unit is Unit.CORES:
        return str(value)
    return value
