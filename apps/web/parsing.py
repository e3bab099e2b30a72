"""JSON read strictly: one object of at most 1 MiB, no duplicate keys, no NaN, no text that no database keeps.

It knows no fields; `apps.web.serializers` does.
"""

import json
import math
from collections.abc import Iterator, Mapping
from typing import IO, Any, NoReturn

from rest_framework.parsers import BaseParser

from apps.web.refusals import BodyTooLarge, MalformedRequest

LIMIT_BYTES = 1024 * 1024


def _no_constant(name: str) -> NoReturn:
    raise MalformedRequest(f"{name} is not JSON.")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise MalformedRequest(f"{text} is too large a number.")
    return number


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise MalformedRequest(f"The key {twice!r} is there twice.")
    return found


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield key
            yield from _texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)


def strict_json(body: bytes) -> Any:
    """One JSON document; raises `MalformedRequest` with what is wrong and where."""
    try:
        text = body.decode("utf-8")
        value = json.loads(text, parse_constant=_no_constant, parse_float=_finite, object_pairs_hook=_unique)
        # Lone surrogates and NUL pass the JSON grammar and then fail in the database.
        storable = all("\0" not in item.encode().decode() for item in _texts(value))
    except RecursionError:
        raise MalformedRequest("The document is nested too deeply.") from None
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
