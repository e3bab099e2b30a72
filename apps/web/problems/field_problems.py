"""REST framework's errors as field problems with JSON pointers."""

from collections.abc import Iterator, Mapping
from typing import Any

from rest_framework.settings import api_settings

from apps.errors import FieldProblem

OUT_OF_RANGE = frozenset(
    {"max_value", "min_value", "max_length", "min_length", "max_digits", "max_whole_digits"}
)
OWN_CODES = frozenset(
    {"required", "unknown_field", "read_only_field", "out_of_range", "reserved_name", "reference_not_found"}
)


def field_problems(detail: Any) -> tuple[FieldProblem, ...]:
    """The framework's nested errors as field problems with JSON pointers (RFC 6901)."""
    return tuple(_walk(detail, ""))


def _walk(detail: Any, pointer: str) -> Iterator[FieldProblem]:
    if isinstance(detail, Mapping):
        for name, inner in detail.items():
            here = (
                ""
                if name == api_settings.NON_FIELD_ERRORS_KEY
                else "/" + str(name).replace("~", "~0").replace("/", "~1")
            )
            yield from _walk(inner, pointer + here)
    elif isinstance(detail, list | tuple):
        for place, inner in enumerate(detail):
            # A list of messages belongs to the field; a list of mappings is one per element of the field.
            yield from _walk(inner, pointer if isinstance(inner, str) else f"{pointer}/{place}")
    else:
        yield FieldProblem(pointer, _code(detail), str(detail))


def _code(detail: Any) -> str:
    code = str(getattr(detail, "code", "invalid"))
    if code in OUT_OF_RANGE:
        return "out_of_range"
    return code if code in OWN_CODES else "invalid_value"
