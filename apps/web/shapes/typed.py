"""A `TypedDict` as JSON Schema: the same declaration that mypy holds a body's builder to describes it.

Takes what a JSON body is made of: other TypedDicts, lists, mappings, text, numbers, times, enums, literals,
unions with None. `Annotated[X, "words"]` adds a description, `Annotated[X, keywords(format="uri")]` keywords.
"""

import inspect
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Literal, NotRequired, Required, Union, get_args, get_origin
from uuid import UUID

Schema = dict[str, Any]

PLAIN: Mapping[Any, Schema] = {
    Any: {},
    object: {},
    None: {"type": "null"},
    type(None): {"type": "null"},
    str: {"type": "string"},
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    datetime: {"type": "string", "format": "date-time"},
    date: {"type": "string", "format": "date"},
    UUID: {"type": "string", "format": "uuid"},
    Decimal: {"type": "string", "format": "decimal"},
}


@dataclass(frozen=True)
class Keywords:
    """Keywords of JSON Schema that the type alone does not say."""

    words: tuple[tuple[str, Any], ...]


def keywords(**words: Any) -> Keywords:
    """For `Annotated`: `keywords(format="uri")`."""
    return Keywords(tuple(words.items()))


LISTS = (list, Sequence, Iterable, tuple)


def name_of(shape: type) -> str:
    """The component's name: that of the class, without Body.

    One that is named like a member of its own keeps it: generated code calls both by the same variable.
    """
    short = shape.__name__.removesuffix("Body")
    members = getattr(shape, "__required_keys__", frozenset()) | getattr(
        shape, "__optional_keys__", frozenset()
    )
    return shape.__name__ if short.lower() in members else short


def doc_of(thing: Any) -> str:
    """A docstring of its own, in one paragraph per paragraph."""
    text = inspect.cleandoc(getattr(thing, "__doc__", None) or "")
    return "\n\n".join(" ".join(part.split()) for part in text.split("\n\n")) if text else ""


@dataclass(frozen=True)
class Shapes:
    """Makes schemas; every TypedDict that it meets goes to `keep` once, as a component of its name."""

    keep: Callable[[str, type, Callable[[], Schema]], Schema]

    def of(self, hint: Any) -> Schema:
        """The schema of a type; LookupError for what no JSON body is made of."""
        if get_origin(hint) is None and hint in PLAIN:
            return dict(PLAIN[hint])
        if typing.is_typeddict(hint):
            return self.keep(name_of(hint), hint, lambda: self.members(hint))
        if isinstance(hint, type) and issubclass(hint, Enum):
            return _open_enum(hint)
        return self._made(get_origin(hint), get_args(hint), hint)

    def _made(self, origin: Any, args: tuple[Any, ...], hint: Any) -> Schema:
        if origin in (Required, NotRequired):
            return self.of(args[0])
        if origin is Annotated:
            return self._annotated(args[0], args[1:])
        if origin in (Union, types.UnionType):
            return self._union(args)
        if origin is Literal:
            return _literal(args)
        if origin in LISTS:
            return {"type": "array", "items": self.of(args[0])}
        if origin in (dict, Mapping):
            return {"type": "object", "additionalProperties": self.of(args[1])}
        raise LookupError(f"{hint} is not part of a JSON body")

    def members(self, shape: Any) -> Schema:
        """An object; every key is required unless it is NotRequired."""
        hints = typing.get_type_hints(shape, include_extras=True)
        found: Schema = {
            "type": "object",
            "properties": {name: self.of(hint) for name, hint in hints.items()},
        }
        required = [name for name in hints if name in shape.__required_keys__]
        return {**({"description": doc_of(shape)} if doc_of(shape) else {}), **found, "required": required}

    def _annotated(self, hint: Any, notes: tuple[Any, ...]) -> Schema:
        schema = self.of(hint)
        for note in notes:
            schema |= {"description": note} if isinstance(note, str) else dict(note.words)
        return schema

    def _union(self, args: tuple[Any, ...]) -> Schema:
        kinds = [self.of(each) for each in args if each is not type(None)]
        if len(kinds) == len(args):
            return {"anyOf": kinds}
        if len(kinds) == 1 and isinstance(kinds[0].get("type"), str) and "const" not in kinds[0]:
            return {**kinds[0], "type": [kinds[0]["type"], "null"]}
        if len(kinds) == 1 and kinds[0] == {}:
            return {}
        return {"oneOf": [*kinds, {"type": "null"}]}


def _literal(args: tuple[Any, ...]) -> Schema:
    kind = PLAIN[type(args[0])]
    return {**kind, "const": args[0]} if len(args) == 1 else {**kind, "enum": list(args)}


def _open_enum(known: type[Enum]) -> Schema:
    """The words of today; v1 may add some, so a client must not refuse others."""
    words = [str(member.value) for member in known]
    listed = ", ".join(f"`{word}`" for word in words)
    return {
        "type": "string",
        "description": f"{doc_of(known)} One of {listed}; v1 may add more.".strip(),
        "x-extensible-enum": words,
    }
