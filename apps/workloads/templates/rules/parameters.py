"""The parameters of a template: what each may be, the JSON Schema of all, and whether values fit. Pure.

The schema is the one source of the form, of REST and of the preview: all of them check with `checked`.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from apps.errors import FieldProblem, Invalid
from apps.ranges import Range
from apps.words import Word, nearest
from apps.workloads.spec.field_reader import escaped, wrong_text

POINTER = "/parameters"
NUMBERS = Range(-(2**31), 2**31 - 1)
"""What a number may be whose template says no less: the fields of a spec have bounds of their own."""
DIALECT = "https://json-schema.org/draft/2020-12/schema"
Value = str | int | float | bool


class ParameterType(Word):
    """JSON Schema's types that a parameter may have."""

    INTEGER = "integer", "whole number"
    NUMBER = "number", "number"
    TEXT = "string", "text"
    FLAG = "boolean", "yes or no"


class Unit(Word):
    """In what a number counts; in a workload's own fields it is written as the spec writes it."""

    HOURS = "hours", "hours"
    MINUTES = "minutes", "minutes"
    GIB = "GiB", "GiB"
    CORES = "cores", "CPU cores"
    DEVICES = "devices", "devices"
    ITEMS = "items", "items"
    EPOCHS = "epochs", "epochs"


SECONDS = {Unit.HOURS: 3600, Unit.MINUTES: 60}


class Format(Word):
    """What a text is: the form offers it as such."""

    OFFER = "offer", "an offer"
    IMAGE = "image", "an image"
    COMMAND = "command", "a command"


@dataclass(frozen=True)
class Parameter:
    """One parameter. Without a default it must be given; an empty text leaves out what it fills in.

    `least` and `most` bound numbers, `longest` the characters of a text; `choices` is all that may be taken.
    """

    name: str
    title: str
    type: ParameterType = ParameterType.TEXT
    description: str = ""
    default: Value | None = None
    unit: Unit | None = None
    format: Format | None = None
    least: float | None = None
    most: float | None = None
    longest: int = 255
    choices: tuple[Value, ...] = ()

    @property
    def is_number(self) -> bool:
        """Whether it has a range."""
        return self.type in (ParameterType.INTEGER, ParameterType.NUMBER)

    @property
    def lowest(self) -> float:
        """The least value that is taken."""
        return NUMBERS.least if self.least is None else self.least

    @property
    def highest(self) -> float:
        """The largest value that is taken."""
        return NUMBERS.most if self.most is None else self.most

    @property
    def sample(self) -> Value:
        """A value that fits, to try a template with."""
        if self.default is not None:
            return self.default
        if self.choices:
            return self.choices[0]
        if self.type is ParameterType.FLAG:
            return False
        if self.is_number:
            lowest = max(self.lowest, min(1, self.highest))
            return math.ceil(lowest) if self.type is ParameterType.INTEGER else lowest
        return _SAMPLES.get(self.format, "x")


_SAMPLES: Mapping[Format | None, str] = {
    Format.OFFER: "an-offer",
    Format.IMAGE: "registry.example/an-image:1",
}


def schema(parameters: Sequence[Parameter]) -> dict[str, Any]:
    """The JSON Schema of an object of values; `x-unit` says in what a number counts."""
    return {
        "$schema": DIALECT,
        "type": "object",
        "additionalProperties": False,
        "properties": {each.name: _schema(each) for each in parameters},
        "required": [each.name for each in parameters if each.default is None],
    }


def _schema(of: Parameter) -> dict[str, Any]:
    found: dict[str, Any] = {"type": str(of.type), "title": of.title}
    found |= {"description": of.description} if of.description else {}
    found |= {"default": of.default} if of.default is not None else {}
    found |= {"enum": list(of.choices)} if of.choices else {}
    found |= {"minimum": of.lowest, "maximum": of.highest} if of.is_number else {}
    found |= {"maxLength": of.longest} if of.type is ParameterType.TEXT else {}
    found |= {"format": str(of.format)} if of.format else {}
    return found | ({"x-unit": str(of.unit)} if of.unit else {})


def checked(
    parameters: Sequence[Parameter],
    given: Mapping[str, Any],
    *,
    at: str = POINTER,
    partial: bool = False,
) -> dict[str, Value]:
    """The value of every parameter: what was given, else its default. Raises Invalid with each wrong one.

    `partial`: only what was given, and nothing is missing. null is the same as left out.
    """
    problems = _strange(parameters, given, at)
    values: dict[str, Value] = {}
    for each in parameters:
        value = given.get(each.name)
        if value is None or (value == "" and each.default is None):
            value = None if partial else each.default
        elif words := wrong(each, value):
            code = "out_of_range" if words.startswith("From ") else "invalid_value"
            problems.append(FieldProblem(f"{at}/{each.name}", code, words))
        if value is not None:
            values[each.name] = value
        elif not partial:
            problems.append(FieldProblem(f"{at}/{each.name}", "required", f"{each.title} is required."))
    if problems:
        raise Invalid(problems)
    return values


def with_defaults(parameters: Sequence[Parameter], own: Mapping[str, Any]) -> tuple[Parameter, ...]:
    """The parameters with a tenant's own defaults. One that was set for another version and does not fit this
    one is left alone.
    """

    def default(of: Parameter) -> Value | None:
        value = own.get(of.name)
        return of.default if value is None or wrong(of, value) else value

    return tuple(replace(each, default=default(each)) for each in parameters)


def wrong(of: Parameter, value: object) -> str:
    """Why a value does not fit, or ""."""
    if words := _wrong_type(of, value):
        return words
    if of.choices and value not in of.choices:
        return f"One of {', '.join(map(str, of.choices))}."
    if of.is_number and isinstance(value, int | float) and not of.lowest <= value <= of.highest:
        unit = f" {of.unit.label}" if of.unit else ""
        return f"From {of.lowest:g} to {of.highest:g}{unit}."
    return ""


def _wrong_type(of: Parameter, value: object) -> str:
    if of.type is ParameterType.TEXT:
        return wrong_text(value, longest=of.longest)
    if of.type is ParameterType.FLAG:
        return "" if isinstance(value, bool) else "Must be true or false."
    if isinstance(value, bool) or not isinstance(value, int | float):
        return f"Must be a {of.type.label}."
    if of.type is ParameterType.INTEGER and not isinstance(value, int):
        return "Must be a whole number."
    is_endless = isinstance(value, float) and not math.isfinite(value)
    return "Must be a number." if is_endless else ""


def _strange(parameters: Sequence[Parameter], given: Mapping[str, Any], at: str) -> list[FieldProblem]:
    known = {each.name for each in parameters}
    found = []
    for name in (name for name in given if name not in known):
        near = nearest(str(name), known)
        words = f"Did you mean {near}?" if near else "This template has no such parameter."
        found.append(FieldProblem(f"{at}/{escaped(str(name))}", "unknown_field", words))
    return found
