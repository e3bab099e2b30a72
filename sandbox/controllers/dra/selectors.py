"""Device selectors: CEL over one device, as DeviceClasses and claims use it.

Rule: an attribute the device lacks is a runtime error and ends the allocation (test the type first, or use
`in`); an unknown domain is an empty map. Quantities compare by `compareTo(quantity('70Gi'))` and friends.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

import celpy
from celpy import celtypes
from celpy.celparser import CELParseError
from celpy.evaluation import CELEvalError

from sandbox.api.meta.objects import Obj
from sandbox.api.meta.quantity import parse

_NO_KEY = re.compile(r"no such (?:member in mapping|key)[:']*\s*'?([\w./-]*)'?")
_SCALE = 1000


class SelectorError(Exception):
    """A selector that does not compile, or fails on a device; the text is what the scheduler reports."""


class _Domains(celtypes.MapType):
    """Attribute domains: one nobody published is empty, not an error."""

    def __getitem__(self, key: Any) -> Any:
        return super().__getitem__(key) if key in self else celtypes.MapType({})

    def get(self, key: Any, default: Any = None) -> Any:
        return super().__getitem__(key) if super().__contains__(key) else default


def _quantity(text: Any) -> celtypes.IntType:
    return celtypes.IntType(int(parse(str(text)) * _SCALE))


def _is_quantity(text: Any) -> celtypes.BoolType:
    try:
        parse(str(text))
    except ValueError:
        return celtypes.BoolType(False)
    return celtypes.BoolType(True)


def _version(text: Any) -> celtypes.IntType:
    numbers = [int(part) for part in str(text).split("-", maxsplit=1)[0].split(".")]
    major, minor, patch = [*numbers, 0, 0][:3]
    return celtypes.IntType((major * 10**6 + minor) * 10**6 + patch)


def _compare(left: Any, right: Any) -> celtypes.IntType:
    return celtypes.IntType((left > right) - (left < right))


_FUNCTIONS: dict[str, Any] = {
    "quantity": _quantity,
    "isQuantity": _is_quantity,
    "semver": _version,
    "compareTo": _compare,
    "isGreaterThan": lambda left, right: celtypes.BoolType(left > right),
    "isLessThan": lambda left, right: celtypes.BoolType(left < right),
}


@lru_cache(maxsize=1)
def _environment() -> celpy.Environment:
    """Built at first use: its grammar takes a noticeable part of a second."""
    return celpy.Environment()


@lru_cache(maxsize=512)
def _program(expression: str) -> celpy.Runner:
    environment = _environment()
    try:
        return environment.program(environment.compile(expression), functions=_FUNCTIONS)
    except CELParseError as error:
        raise SelectorError(f"CEL compile error: {str(error.args[0]).splitlines()[0]}") from error


def matches(expression: str, driver: str, device: Obj) -> bool:
    """Whether the device satisfies the expression. Raises SelectorError on a compile or runtime error."""
    program = _program(expression)
    try:
        answer = program.evaluate({"device": device_value(driver, device)})
    except CELEvalError as error:
        raise SelectorError(f"CEL runtime error: {_words(error)}") from error
    if not isinstance(answer, celtypes.BoolType | bool):
        raise SelectorError("CEL compile error: must evaluate to bool or the unknown type")
    return bool(answer)


def _words(error: CELEvalError) -> str:
    text = str(error.args[0]) if error.args else "unknown error"
    found = _NO_KEY.search(" ".join(str(arg) for arg in error.args))
    return f"no such key: {found[1]}" if found and found[1] else text


def device_value(driver: str, device: Obj) -> Any:
    """The CEL variable `device`: names without a domain belong to the driver's."""
    return celtypes.MapType(
        {
            celtypes.StringType("driver"): celtypes.StringType(driver),
            celtypes.StringType("attributes"): _by_domain(driver, device.get("attributes") or {}, _attribute),
            celtypes.StringType("capacity"): _by_domain(driver, device.get("capacity") or {}, _capacity),
            celtypes.StringType("allowMultipleAllocations"): celtypes.BoolType(
                bool(device.get("allowMultipleAllocations"))
            ),
        }
    )


def _by_domain(driver: str, values: Obj, convert: Any) -> _Domains:
    domains: dict[str, dict[Any, Any]] = {}
    for name, value in values.items():
        domain, _, short = name.rpartition("/")
        domains.setdefault(domain or driver, {})[celtypes.StringType(short)] = convert(value)
    return _Domains({celtypes.StringType(d): celtypes.MapType(v) for d, v in domains.items()})


def _attribute(value: Obj) -> Any:
    if "bool" in value:
        return celtypes.BoolType(value["bool"])
    if "int" in value:
        return celtypes.IntType(value["int"])
    if "version" in value:
        return _version(value["version"])
    return celtypes.StringType(value["string"])


def _capacity(value: Obj) -> celtypes.IntType:
    return _quantity(value["value"])
