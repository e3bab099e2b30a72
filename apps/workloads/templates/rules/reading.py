"""Reads what somebody sends as a template's version, and writes it again. Pure.

`definition_of` raises Invalid with every wrong field, or answers a version of which a workload can be made:
it is tried with values that fit.
"""

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from apps.errors import FieldProblem, Invalid
from apps.ranges import PARAMETER_CHARACTERS
from apps.workloads.spec import parsing
from apps.workloads.spec.field_reader import Reader
from apps.workloads.specs import Kind
from apps.workloads.templates.rules import parameters as rules
from apps.workloads.templates.rules.parameters import NUMBERS, Format, Parameter, ParameterType, Unit
from apps.workloads.templates.rules.rendering import Definition

NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
MOST_PARAMETERS = 20
MOST_CHOICES = 50
LONGEST_WORKLOAD = 32 * 1024
DEEPEST = 12
"""Of lists and objects in each other: a spec has four."""
LONGEST_TITLE, LONGEST_WORDS = 60, 300
FIELDS = (
    "name", "title", "description", "type", "default", "unit", "format", "minimum", "maximum", "max_length",
    "choices",
)  # fmt: skip


def definition_of(parameters: object, workload: object, *, at: str = "") -> Definition:
    """A version out of its JSON: the list of parameters, and the `spec` with places such as `{{hours}}`."""
    problems: list[FieldProblem] = []
    read = Reader({"parameters": parameters, "workload": workload}, at=at, problems=problems)
    found = []
    for index, document in enumerate(read.items("parameters", most=MOST_PARAMETERS)):
        found.append(_parameter(read.part_at("parameters", index, document)))
        if found[-1].name in {each.name for each in found[:-1]}:
            read.part_at("parameters", index, document).refuse("name", "Give each its own name.")
    kept = read.part("workload").fields
    if not problems:
        _require_modest(read, kept)
    definition = Definition(tuple(found), kept)
    if not problems:
        _match(read, definition)
    if not problems:
        problems += _tried(definition, at)
    if problems:
        raise Invalid(problems)
    return definition


def stored(parameters: Sequence[Mapping[str, Any]], workload: Mapping[str, Any]) -> Definition:
    """A version that was read before."""
    problems: list[FieldProblem] = []
    return Definition(
        tuple(_parameter(Reader(each, at="", problems=problems)) for each in parameters), workload
    )


def as_json(of: Parameter) -> dict[str, Any]:
    """A parameter as it is sent and kept; no field is left out."""
    return {
        "name": of.name,
        "title": of.title,
        "description": of.description,
        "type": str(of.type),
        "default": of.default,
        "unit": str(of.unit) if of.unit else None,
        "format": str(of.format) if of.format else None,
        "minimum": of.least,
        "maximum": of.most,
        "max_length": of.longest if of.type is ParameterType.TEXT else None,
        "choices": list(of.choices),
    }


def _parameter(read: Reader) -> Parameter:
    read.only(FIELDS)
    name = read.text("name", longest=40)
    if name and not NAME.fullmatch(name):
        read.refuse("name", "Up to 40 of a-z, 0-9 and _, starting with a letter.")
    kind = _word(read, "type", ParameterType, ParameterType.TEXT) or ParameterType.TEXT
    found = Parameter(
        name=name,
        title=read.text("title", default=name.replace("_", " ").capitalize() or "x", longest=LONGEST_TITLE),
        type=kind,
        description=read.optional_text("description", longest=LONGEST_WORDS),
        unit=_word(read, "unit", Unit, None),
        format=_word(read, "format", Format, None),
        least=_number(read, "minimum"),
        most=_number(read, "maximum"),
        longest=read.whole("max_length", default=255, within=PARAMETER_CHARACTERS),
        choices=tuple(read.items("choices", most=MOST_CHOICES)),
        default=read.fields.get("default"),
    )
    _require_sense(read, found)
    return found


def _require_sense(read: Reader, of: Parameter) -> None:
    if of.unit and not of.is_number:
        read.refuse("unit", "Only a number has a unit.")
    if of.format and of.type is not ParameterType.TEXT:
        read.refuse("format", "Only a text has a format.")
    if of.lowest > of.highest:
        read.refuse("maximum", "Less than the minimum.", code="out_of_range")
        return
    bare = Parameter(**{**vars(of), "choices": (), "default": None})
    for index, choice in enumerate(of.choices):
        if words := rules.wrong(bare, choice):
            read.problems.append(FieldProblem(f"{read.at}/choices/{index}", "invalid_value", words))
            return
    if of.default is not None and (words := rules.wrong(of, of.default)):
        read.refuse("default", words)


def _word(read: Reader, key: str, known: Any, usual: Any) -> Any:
    if not read.has(key):
        return usual
    value = read.text(key, longest=16)
    if value in set(known):
        return known(value)
    if value:
        read.refuse(key, f"One of {', '.join(known)}.")
    return usual


def _number(read: Reader, key: str) -> float | None:
    value = read.fields.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        read.refuse(key, "Must be a number.")
        return None
    if not NUMBERS.least <= value <= NUMBERS.most:
        read.refuse(key, f"Must be from {NUMBERS.least} to {NUMBERS.most}.", code="out_of_range")
        return None
    return value


def _require_modest(read: Reader, workload: Mapping[str, Any]) -> None:
    """Refuses what is no JSON (YAML has dates and other keys than texts), and what is far too much of it."""
    if not _is_json(workload, DEEPEST):
        words = f"Only texts, numbers, true, false, null, lists and objects, at most {DEEPEST} deep."
        read.refuse("workload", words)
        return
    if len(json.dumps(workload)) > LONGEST_WORKLOAD:
        read.refuse("workload", f"At most {LONGEST_WORKLOAD} characters as JSON.", code="out_of_range")
    if workload.get("kind") not in list(Kind):
        part = read.part("workload")
        part.refuse("kind", f"One of {', '.join(Kind)}: no parameter.")


def _is_json(value: object, depth: int) -> bool:
    """Keys may also be numbers or nothing: the spec's own reading refuses each at its place."""
    if isinstance(value, Mapping):
        keys = all(isinstance(key, str | int | None) for key in value)
        return depth > 0 and keys and all(_is_json(each, depth - 1) for each in value.values())
    if isinstance(value, list):
        return depth > 0 and all(_is_json(each, depth - 1) for each in value)
    if isinstance(value, float):
        return math.isfinite(value)
    return value is None or isinstance(value, str | int)


def _match(read: Reader, of: Definition) -> None:
    """Every place has its parameter, and every parameter its place."""
    known, used = {each.name for each in of.parameters}, of.places
    for pointer, name in used.items():
        if name not in known:
            where = f"{read.at}/workload{pointer.removeprefix('/spec')}"
            read.problems.append(FieldProblem(where, "reference_not_found", f"There is no parameter {name}."))
    for index, each in enumerate(of.parameters):
        if each.name not in used.values():
            part = read.part_at("parameters", index, {})
            part.refuse("name", f"It is used nowhere: write {{{{{each.name}}}}} into the workload.")


def _tried(of: Definition, at: str) -> list[FieldProblem]:
    try:
        parsing.parse(of.spec({each.name: each.sample for each in of.parameters}))
    except Invalid as refusal:
        return [_placed(of, problem, at) for problem in refusal.problems]
    return []


def _placed(of: Definition, problem: FieldProblem, at: str) -> FieldProblem:
    """At the parameter that caused it, else at its place in the workload."""
    by_place = of.back(problem).pointer
    for index, each in enumerate(of.parameters):
        if by_place == f"{rules.POINTER}/{each.name}":
            return FieldProblem(f"{at}/parameters/{index}", problem.code, problem.detail)
    where = f"{at}/workload{problem.pointer.removeprefix('/spec')}"
    return FieldProblem(where, problem.code, problem.detail)
