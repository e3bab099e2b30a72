"""Brings a submitted object into the stored form: unknown fields out, quantities canonical, defaults in.

Judges no rule.
"""

from __future__ import annotations

from typing import Any

from sandbox.api.meta import quantity
from sandbox.api.meta.objects import Obj, copy_of
from sandbox.api.schema.structural import Node

_GO = {
    "string": "string",
    "integer": "int32",
    "boolean": "bool",
    "number": "float64",
    "object": "map",
    "array": "slice",
}
_JSON = (
    (bool, "bool"),
    (str, "string"),
    (int, "number"),
    (float, "number"),
    (list, "array"),
    (dict, "object"),
)
_PYTHON: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "boolean": (bool,),
    "number": (int, float),
    "object": (dict,),
    "array": (list,),
}


def fits(value: Any, node: Node) -> bool:
    """Whether a value has the JSON type of its node."""
    if node.quantity or node.int_or_string:
        return isinstance(value, int | float | str) and not isinstance(value, bool)
    wanted = _PYTHON.get(node.type)
    if wanted is None:
        return True
    if isinstance(value, bool):
        return node.type == "boolean"
    return isinstance(value, wanted) or (
        node.type == "integer" and isinstance(value, float) and value.is_integer()
    )


def go_name(value: Any) -> str:
    """How Go's JSON decoder calls a value."""
    return next((name for kind, name in _JSON if isinstance(value, kind)), "null")


class Shaper:
    """One pass over an object.

    `unknown` collects dropped fields, `mistyped` values that do not decode (path, value, node).
    """

    def __init__(self, *, native: bool, keep_empty: bool = False) -> None:
        self.native, self._keep_empty = native, keep_empty
        self.unknown: list[str] = []
        self.mistyped: list[tuple[str, Any, Node]] = []
        self._struct = self.wrong_struct = ""

    def shape(self, value: Any, node: Node, path: str = "") -> Any:
        """The value as it is kept; the given value is not changed."""
        if node.free and node.properties is None:
            return value
        if not fits(value, node):
            self._mistyped(path, value, node)
            return value
        if isinstance(value, dict):
            return self._object(value, node, path)
        if isinstance(value, list):
            return self._array(value, node, path)
        return self._scalar(value, node, path)

    def _mistyped(self, path: str, value: Any, node: Node) -> None:
        self.mistyped.append((path, value, node))
        self.wrong_struct = self.wrong_struct or self._struct

    def _scalar(self, value: Any, node: Node, path: str) -> Any:
        if node.quantity:
            try:
                return quantity.canonical(str(value))
            except quantity.BadQuantity:
                self._mistyped(path, value, node)
        return int(value) if node.type == "integer" and isinstance(value, float) else value

    def _object(self, value: Obj, node: Node, path: str) -> Obj:
        properties, additional, kept = node.properties, node.additional, {}
        if properties is None and additional is None:
            return value
        outer, self._struct = self._struct, node.name.rpartition(".")[2] or self._struct
        for key, item in value.items():
            where = f"{path}.{key}" if path else key
            child = properties.get(key) if properties is not None else None
            child = child if child is not None else additional
            if child is None:
                if node.free:
                    kept[key] = item
                else:
                    self.unknown.append(where)
                continue
            if item is None:
                self._null(kept, key, child)
                continue
            shaped = self.shape(item, child, where)
            if not (self.native and self._drops(shaped, child, needed=key in node.required)):
                kept[key] = shaped
        self._struct = outer
        return kept

    def _null(self, kept: Obj, key: str, child: Node) -> None:
        # Go decodes null as "absent"; a custom resource keeps it only where its schema allows it.
        if not self.native and child.nullable:
            kept[key] = None

    def _drops(self, value: Any, child: Node, *, needed: bool) -> bool:
        """omitempty: Go prints neither empty lists nor empty maps."""
        if needed or self._keep_empty or value not in ([], {}):
            return False
        return isinstance(value, list) or (child.additional is not None and not child.properties)

    def _array(self, value: list[Any], node: Node, path: str) -> list[Any]:
        child = node.items
        if child is None:
            return value
        return [
            item if item is None else self.shape(item, child, f"{path}[{i}]") for i, item in enumerate(value)
        ]

    def decode_error(self, kind: str, version: str) -> str:
        """The decoder's message for the first mistyped value."""
        path, value, node = self.mistyped[0]
        if node.quantity and isinstance(value, str):
            return f'{kind} in version "{version}" cannot be handled as a {kind}: {quantity.MALFORMED}'
        wanted = (
            str(node.raw.get("format") or _GO.get(node.type, node.type))
            if node.type == "integer"
            else _GO.get(node.type, node.type)
        )
        place = ".".join(part.split("[")[0] for part in path.split("."))
        return (
            f'{kind} in version "{version}" cannot be handled as a {kind}: json: cannot unmarshal '
            f"{go_name(value)} "
            f"into Go struct field {self.wrong_struct or kind}.{place} of type {wanted}"
        )


def fill(value: Obj | list[Any], node: Node) -> None:
    """Add the schema's defaults in place, top down, so that a default may itself be completed."""
    if isinstance(value, dict):
        for key, default in node.defaulted:
            if key not in value:
                value[key] = copy_of(default)
        inner = [(item, node.field(key)) for key, item in value.items() if isinstance(item, dict | list)]
    else:
        inner = [(item, node.items) for item in value if isinstance(item, dict | list)]
    for item, child in inner:
        if child is not None:
            fill(item, child)
