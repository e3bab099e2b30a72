"""JSON read strictly: one object of at most 1 MiB, no duplicate keys, no NaN, no text that no database keeps.

It knows no fields; `portal.api.base.serializers` does. Every step is linear in the body, and the number of
values and their depth are bounded, so that later code may walk the document without care.
"""

import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import IO, Any, NoReturn

from rest_framework.parsers import BaseParser

from apps.errors import clipped
from apps.web.problems.refusals import BodyTooLarge, MalformedRequest

LIMIT_BYTES = 1024 * 1024
MOST_VALUES = 20_000
DEEPEST = 32
_TEXT = re.compile(r'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)', re.DOTALL)
"""A JSON text, also one that never ends: so no place of a hostile body is looked at twice."""
_NO_BRACKET = re.compile(r"[^][{}]+")
_INNERMOST = re.compile(r"\[\]|\{\}")


def _no_constant(name: str) -> NoReturn:
    raise MalformedRequest(f"{name} is not JSON.")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise MalformedRequest(f"{clipped(text)} is too large a number.")
    return number


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        counts = Counter(name for name, _ in pairs)
        twice = next(name for name, count in counts.items() if count > 1)
        raise MalformedRequest(f"The key {clipped(twice)!r} is there twice.")
    return found


def _require_modest(text: str) -> None:
    """Refuses a document that is within 1 MiB but would cost seconds: too many values, or too deep."""
    bare = _TEXT.sub("", text)
    if bare.count(",") + bare.count("[") + bare.count("{") > MOST_VALUES:
        raise MalformedRequest(f"The document holds more than {MOST_VALUES} values.")
    brackets = _NO_BRACKET.sub("", bare)
    if brackets.count("[") + brackets.count("{") <= DEEPEST:
        return
    for _ in range(DEEPEST):
        brackets = _INNERMOST.sub("", brackets)
    if brackets:
        raise MalformedRequest(
            f"The document is nested deeper than {DEEPEST} levels, or its brackets do not match."
        )


def _texts(value: Any) -> Iterator[str]:
    left = [value]
    while left:
        item = left.pop()
        if isinstance(item, str):
            yield item
        elif isinstance(item, dict):
            left += item
            left += item.values()
        elif isinstance(item, list):
            left += item


def strict_json(body: bytes) -> Any:
    """One JSON document; raises `MalformedRequest` with what is wrong and where."""
    try:
        text = body.decode("utf-8")
        _require_modest(text)
        value = json.loads(text, parse_constant=_no_constant, parse_float=_finite, object_pairs_hook=_unique)
        # Lone surrogates and NUL pass the JSON grammar and then fail in the database.
        storable = all(b"\0" not in item.encode() for item in _texts(value))
    except UnicodeError:
        raise MalformedRequest("The body is not UTF-8 text.") from None
    except ValueError as error:
        raise MalformedRequest(f"Not JSON: {error}.") from None
    if not storable:
        raise MalformedRequest("The document holds the character U+0000.")
    return value


class StrictJSONParser(BaseParser):
    """application/json; the document must be an object."""

    media_type = "application/json"

    def parse(
        self,
        stream: IO[Any],
        media_type: str | None = None,  # noqa: ARG002 the framework's signature
        parser_context: Mapping[str, Any] | None = None,  # noqa: ARG002 as above
    ) -> dict[str, Any]:
        """The object; refuses by length before reading more than allowed."""
        body = stream.read(LIMIT_BYTES + 1)
        if len(body) > LIMIT_BYTES:
            raise BodyTooLarge("The body is larger than 1 MiB.")
        value = strict_json(body)
        if not isinstance(value, dict):
            raise MalformedRequest("The document must be an object: {...}.")
        return value


class MergePatchParser(StrictJSONParser):
    """RFC 7396's own media type, for PATCH."""

    media_type = "application/merge-patch+json"
