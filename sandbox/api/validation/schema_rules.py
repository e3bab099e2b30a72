"""Schema rules as field errors: required, enumerations, bounds, patterns, list keys.

Words follow the real server's two dialects.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

import jsonschema  # type: ignore[import-untyped]

from sandbox.api.meta.errors import FieldError, invalid_value, required, show, unsupported
from sandbox.api.meta.objects import Obj
from sandbox.api.schema.shaping import fits
from sandbox.api.schema.structural import Node

Errors = list[FieldError]


@lru_cache(maxsize=1024)
def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(text)


def validate(value: Any, node: Node, path: str, *, native: bool) -> Errors:
    """Every broken schema rule below a value.

    `native` picks the words of built-in kinds over those of custom resources.
    """
    found: Errors = []
    _walk(value, node, path, native=native, found=found)
    return found


def _walk(value: Any, node: Node, path: str, *, native: bool, found: Errors) -> None:
    if not native and not _typed(value, node, path, found):
        return
    if isinstance(value, dict):
        _object(value, node, path, native=native, found=found)
    elif isinstance(value, list):
        _array(value, node, path, native=native, found=found)
    else:
        _scalar(value, node, path, native=native, found=found)
    if not native:
        _composed(value, node, path, found)


def _typed(value: Any, node: Node, path: str, found: Errors) -> bool:
    if value is None and node.nullable:
        return False
    if value is not None and fits(value, node):
        return True
    if value is None and not node.type:
        return True
    shown = _kind(value)
    found.append(
        FieldError(
            "FieldValueTypeInvalid",
            path,
            f'Invalid value: {show(shown)}: {path} in body must be of type {node.type}: "{shown}"',
        )
    )
    return False


def _kind(value: Any) -> str:
    """How OpenAPI calls a value's type."""
    kinds = (
        (bool, "boolean"),
        (str, "string"),
        (int, "integer"),
        (float, "number"),
        (dict, "object"),
        (list, "array"),
    )
    return next((name for kind, name in kinds if isinstance(value, kind)), "null")


def _object(value: Obj, node: Node, path: str, *, native: bool, found: Errors) -> None:
    for key in node.required:
        if key == "metadata" and not path:
            continue
        if key not in value or (native and value[key] in ("", [], None)):
            found.append(required(f"{path}.{key}" if path else key))
    _bounds(len(value), node, path, words=("minProperties", "maxProperties", "properties"), found=found)
    for key, item in value.items():
        child = node.field(key)
        if child is not None and not (native and item is None):
            is_map = node.properties is None or key not in node.properties
            where = f"{path}[{key}]" if is_map and native else f"{path}.{key}" if path else key
            _walk(item, child, where, native=native, found=found)


def _array(value: list[Any], node: Node, path: str, *, native: bool, found: Errors) -> None:
    _bounds(len(value), node, path, words=("minItems", "maxItems", "items"), found=found)
    if node.list_type in ("map", "set"):
        _unique(value, node, path, native=native, found=found)
    if node.items is not None:
        for index, item in enumerate(value):
            _walk(item, node.items, f"{path}[{index}]", native=native, found=found)


def _unique(value: list[Any], node: Node, path: str, *, native: bool, found: Errors) -> None:
    seen: list[Any] = []
    for index, item in enumerate(value):
        keyed = isinstance(item, dict)
        key = (
            {name: item.get(name) for name in node.list_keys if name in item}
            if keyed and node.list_type == "map"
            else item
        )
        if key in seen:
            one = len(key) == 1 and native and isinstance(key, dict)
            where, value_shown = (
                (f"{path}[{index}].{next(iter(key))}", next(iter(key.values())))
                if one
                else (f"{path}[{index}]", key)
            )
            found.append(FieldError("FieldValueDuplicate", where, f"Duplicate value: {show(value_shown)}"))
        seen.append(key)


def _bounds(size: int, node: Node, path: str, *, words: tuple[str, str, str], found: Errors) -> None:
    low, high = node.raw.get(words[0]), node.raw.get(words[1])
    if low is not None and size < low:
        found.append(invalid_value(path, size, f"{path} in body should have at least {low} {words[2]}"))
    if high is not None and size > high:
        found.append(
            FieldError("FieldValueTooMany", path, f"Too many: {size}: must have at most {high} items")
        )


def _scalar(value: Any, node: Node, path: str, *, native: bool, found: Errors) -> None:
    choices = node.raw.get("enum")
    if choices and value not in choices and not (native and value == ""):
        found.append(unsupported(path, value, _in_order(path, choices) if native else choices))
    if isinstance(value, str):
        _text(value, node, path, found)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        _number(value, node, path, found)


def _in_order(path: str, choices: list[Any]) -> list[Any]:
    """Enumerations are listed by name, but for restart policies: there the server has its own order."""
    own = ("Always", "OnFailure", "Never") if path.endswith("restartPolicy") else ()
    return sorted(choices, key=lambda choice: (own.index(choice) if choice in own else 0, str(choice)))


def _text(value: str, node: Node, path: str, found: Errors) -> None:
    low, high, pattern = node.raw.get("minLength"), node.raw.get("maxLength"), node.raw.get("pattern")
    if low is not None and len(value) < low:
        found.append(invalid_value(path, value, f"{path} in body should be at least {low} chars long"))
    if high is not None and len(value) > high:
        found.append(FieldError("FieldValueTooLong", path, f"Too long: may not be more than {high} bytes"))
    if pattern and not _pattern(pattern).search(value):
        found.append(invalid_value(path, value, f"{path} in body should match '{pattern}'"))


def _number(value: float, node: Node, path: str, found: Errors) -> None:
    low, high = node.raw.get("minimum"), node.raw.get("maximum")
    if low is not None and value < low:
        found.append(invalid_value(path, value, f"{path} in body should be greater than or equal to {low}"))
    if high is not None and value > high:
        found.append(invalid_value(path, value, f"{path} in body should be less than or equal to {high}"))


def _composed(value: Any, node: Node, path: str, found: Errors) -> None:
    rules = {key: node.raw[key] for key in ("allOf", "anyOf", "oneOf", "not") if key in node.raw}
    if not rules or node.int_or_string:
        return
    for problem in jsonschema.Draft7Validator(rules).iter_errors(value):
        words = {
            "oneOf": "must validate one and only one schema (oneOf)",
            "anyOf": "must validate at least one schema (anyOf)",
            "not": "must not validate the schema (not)",
        }.get(str(problem.validator), problem.message)
        found.append(invalid_value(path, value, f"{path} in body {words}" if path else words))
