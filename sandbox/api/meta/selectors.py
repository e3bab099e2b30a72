"""Label and field selectors as text, compiled to predicates. Field selectors know dotted paths only."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from sandbox.api.meta.errors import bad_request
from sandbox.api.meta.objects import Obj, dig

Labels = Mapping[str, str]
Test = Callable[[Labels], bool]
_SET = re.compile(r"^([^\s!=,()]+)\s+(in|notin)\s*\(([^()]*)\)$")
_EQUAL = re.compile(r"^([^\s!=,()<>]+)\s*(==|=|!=)\s*([^\s,()!=]*)$")
_EXISTS = re.compile(r"^(!?)\s*([^\s!=,()<>]+)$")
_ORDER = re.compile(r"^([^\s!=,()<>]+)\s*([<>])\s*(-?\d+)$")


def _split(text: str) -> list[str]:
    parts, depth, here = [], 0, ""
    for char in text:
        depth += (char == "(") - (char == ")")
        if char == "," and depth == 0:
            parts.append(here.strip())
            here = ""
        else:
            here += char
    return [part for part in [*parts, here.strip()] if part]


def _equality(match: re.Match[str]) -> Test:
    key, operator, value = match.groups()
    if operator == "!=":
        return lambda labels: labels.get(key) != value
    return lambda labels: labels.get(key) == value


def _membership(match: re.Match[str]) -> Test:
    key, operator, raw = match.groups()
    values = {value.strip() for value in raw.split(",")}
    if operator == "in":
        return lambda labels: key in labels and labels[key] in values
    return lambda labels: labels.get(key) not in values


def _existence(match: re.Match[str]) -> Test:
    negated, key = match.groups()
    if negated:
        return lambda labels: key not in labels
    return lambda labels: key in labels


def _order(match: re.Match[str]) -> Test:
    key, operator, raw = match.groups()
    bound = int(raw)

    def test(labels: Labels) -> bool:
        value = labels.get(key, "")
        number = int(value) if re.fullmatch(r"-?\d+", value) else None
        return number is not None and (number > bound if operator == ">" else number < bound)

    return test


_FORMS: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], Test]], ...] = (
    (_SET, _membership),
    (_ORDER, _order),
    (_EQUAL, _equality),
    (_EXISTS, _existence),
)


def _term(text: str) -> Test:
    for pattern, build in _FORMS:
        match = pattern.match(text)
        if match:
            return build(match)
    raise bad_request(
        f"unable to parse requirement: found '{text}', expected: !, identifier, or 'end of string'"
    )


@lru_cache(maxsize=512)
def labels(text: str) -> Test:
    """Compile kubectl's label selector text; every term must hold. 400 when it cannot be read."""
    tests = [_term(part) for part in _split(text)]
    return lambda found: all(test(found) for test in tests)


def matches_selector(selector: Obj | None, found: Labels) -> bool:
    """A metav1.LabelSelector object: absent matches nothing, empty matches everything."""
    if selector is None:
        return False
    if any(found.get(key) != value for key, value in (selector.get("matchLabels") or {}).items()):
        return False
    return all(_expression(item, found) for item in selector.get("matchExpressions") or ())


def _expression(item: Obj, found: Labels) -> bool:
    key, values = item["key"], item.get("values") or []
    tests: dict[str, bool] = {
        "In": found.get(key) in values,
        "NotIn": found.get(key) not in values,
        "Exists": key in found,
        "DoesNotExist": key not in found,
    }
    return tests.get(item["operator"], False)


def _as_text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)


def fields(text: str, allowed: frozenset[str], *, converts: bool = False) -> Callable[[Obj], bool]:
    """Compile a field selector over dotted paths; a path the kind does not index is a 400, as on the real
    server.
    """
    tests: list[tuple[tuple[str, ...], bool, str]] = []
    for part in _split(text):
        match = re.match(r"^([^=!]+)(==|=|!=)(.*)$", part)
        if match is None:
            raise bad_request(f"invalid selector: '{part}'; can't understand '{part}'")
        path, operator, value = match.groups()
        if path not in allowed:
            plain = f'"{path}" is not a known field selector: only {_known(allowed)}'
            raise bad_request(f"field label not supported: {path}" if converts else plain)
        tests.append((tuple(path.split(".")), operator == "!=", value))
    return lambda obj: all(
        (_as_text(dig(obj, *path)) == value) is not negated for path, negated, value in tests
    )


def _known(allowed: frozenset[str]) -> str:
    return ", ".join(f'"{name}"' for name in sorted(allowed))
