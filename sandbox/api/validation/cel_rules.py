"""x-kubernetes-validations of custom resources: CEL over `self` and `oldSelf`.

Values that did not change are not judged again.
"""

from __future__ import annotations

import logging
from functools import lru_cache
from typing import Any

import orjson

from sandbox.api.managedfields.fieldsets import element_key
from sandbox.api.meta.errors import FieldError, invalid_value
from sandbox.api.meta.objects import Obj
from sandbox.api.schema.structural import Node

log = logging.getLogger("sandbox.cel")
_ABSENT = object()
# Errors that make an object too broken for rules.
BLOCKING = frozenset(
    {
        "FieldValueNotSupported",
        "FieldValueRequired",
        "FieldValueTooLong",
        "FieldValueTooMany",
        "FieldValueTypeInvalid",
    }
)
SKIPPED = (
    "some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation"
)


@lru_cache(maxsize=1024)
def _program(rule: str) -> Any:
    """A compiled rule, or None where it uses functions that the CEL library here does not have."""
    from celpy import Environment
    from celpy.celparser import CELParseError

    environment = Environment()
    try:
        return environment.program(environment.compile(rule))
    except CELParseError:
        # The real server has functions of its own; such a rule is left to it, and said once.
        log.warning("this validation rule is not evaluated here: %s", rule)
        return None


def _broken_rules(rules: list[Obj], value: Any, old: Any) -> list[Obj]:
    """Those that do not hold."""
    is_new = old is _ABSENT
    asked = [rule for rule in rules if not (is_new and "oldSelf" in rule["rule"])]
    if not asked:
        return []
    texts = tuple(rule["rule"] for rule in asked)
    answers = _answers(texts, orjson.dumps(value), None if is_new else orjson.dumps(old))
    return [rule for rule, holds in zip(asked, answers, strict=True) if not holds]


@lru_cache(maxsize=512)
def _answers(rules: tuple[str, ...], value: bytes, old: bytes | None) -> tuple[bool, ...]:
    """Whether each rule holds. Most values come again and again, and a rule knows nothing but them. The value
    is made CEL's once for all rules, which costs more than a rule.
    """
    from celpy.adapter import json_to_cel

    names = {"self": json_to_cel(orjson.loads(value))}
    if old is not None:
        names["oldSelf"] = json_to_cel(orjson.loads(old))
    return tuple(_holds(rule, names) for rule in rules)


def _holds(rule: str, names: dict[str, Any]) -> bool:
    from celpy.evaluation import CELEvalError

    program = _program(rule)
    if program is None:
        return True
    try:
        return bool(program.evaluate(names))
    except CELEvalError:
        # An error in a rule counts as broken, as on the real server.
        return False


def ruled(node: Node) -> bool:
    """Whether a schema has rules at all."""
    return bool(node.raw.get("x-kubernetes-validations")) or any(ruled(child) for child in _children(node))


def _children(node: Node) -> list[Node]:
    below = [*(node.properties or {}).values(), node.additional, node.items]
    return [child for child in below if child is not None and not child.name]


def check(value: Any, old: Any, node: Node, path: str = "") -> list[FieldError]:
    """Broken rules of a value and everything below it; `old` is None for a new object."""
    found: list[FieldError] = []
    _walk(value, _ABSENT if old is None else old, node, path, found=found)
    return found


def _walk(value: Any, old: Any, node: Node, path: str, *, found: list[FieldError]) -> None:
    if old is not _ABSENT and old == value:
        return
    rules = node.raw.get("x-kubernetes-validations") or []
    found += [_broken(rule, value, path) for rule in _broken_rules(rules, value, old)]
    for key, item, before, child in _below(value, old, node):
        place = f"{path}{key}" if key.startswith("[") else f"{path}.{key}" if path else key
        _walk(item, before, child, place, found=found)


def _below(value: Any, old: Any, node: Node) -> list[tuple[str, Any, Any, Node]]:
    """Everything one step down: its path step, the value, what it was, and its schema."""
    if isinstance(value, dict):
        fields = old if isinstance(old, dict) else {}
        steps = ((key, item, fields.get(key, _ABSENT), node.field(key)) for key, item in value.items())
        return [
            (key, item, before, child)
            for key, item, before, child in steps
            if child is not None and not child.name
        ]
    if not isinstance(value, list) or node.items is None:
        return []
    earlier = _by_key(old, node)
    return [
        (f"[{index}]", item, earlier.get(element_key(item, node), _ABSENT), node.items)
        for index, item in enumerate(value)
    ]


def _by_key(old: Any, node: Node) -> dict[str, Any]:
    """Only keyed lists tell which old item became which new one."""
    if not isinstance(old, list) or node.list_type != "map":
        return {}
    return {element_key(item, node): item for item in old}


def _broken(rule: Obj, value: Any, path: str) -> FieldError:
    message = rule.get("message") or f"failed rule: {rule['rule'].strip()}"
    field = path + rule.get("fieldPath", "") or "<nil>"
    if isinstance(value, dict | list):
        return FieldError("FieldValueInvalid", field, f"Invalid value: {message}")
    return invalid_value(field, value, message)
