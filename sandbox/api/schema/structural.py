"""Structural schemas compiled for speed: one Node per field, references resolved lazily.

Checks nothing by itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from sandbox.api.meta.objects import Obj

_PREFIX = "#/components/schemas/"
_QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
_FREE = frozenset(
    {
        "io.k8s.apimachinery.pkg.runtime.RawExtension",
        "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1",
        "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSON",
        "io.k8s.apimachinery.pkg.apis.meta.v1.Patch",
        "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrBool",
        "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrArray",
        "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrStringArray",
    }
)


class SchemaPool:
    """Named schemas with the defaults the server adds in code (by schema name), and the nodes compiled from
    them.
    """

    def __init__(self, schemas: Mapping[str, Obj], defaults: Mapping[str, Obj] | None = None) -> None:
        self.schemas = schemas
        self.defaults = defaults or {}
        self._nodes: dict[str, Node] = {}

    def named(self, name: str) -> Node:
        """The node of one named schema, compiled once."""
        node = self._nodes.get(name)
        if node is None:
            node = self._nodes[name] = Node(self.schemas[name], self, name=name)
        return node

    def node(self, raw: Obj) -> Node:
        """The node of a property; a reference may be wrapped in allOf with a default and extensions beside
        it.
        """
        ref = raw.get("$ref") or next((part["$ref"] for part in raw.get("allOf", ()) if "$ref" in part), "")
        if not ref:
            return Node(raw, self)
        base = self.named(ref.removeprefix(_PREFIX))
        beside = {key: value for key, value in raw.items() if key not in ("$ref", "allOf", "description")}
        return Node({**base.raw, **beside}, self, name=base.name, base=base) if beside else base


class Node:
    """One field's schema. `properties` is None for maps, scalars and free-form values."""

    def __init__(self, raw: Obj, pool: SchemaPool, *, name: str = "", base: Node | None = None) -> None:
        self.raw, self.pool, self.name, self._base = raw, pool, name, base
        self.quantity = name == _QUANTITY
        self.int_or_string = raw.get("format") == "int-or-string" or bool(
            raw.get("x-kubernetes-int-or-string")
        )
        self.free = name in _FREE or bool(raw.get("x-kubernetes-preserve-unknown-fields"))
        self.type = "string" if self.quantity else str(raw.get("type", ""))
        self.required: tuple[str, ...] = tuple(raw.get("required", ()))
        self.has_default = raw.get("default") not in (None, "")
        self.default = raw.get("default")
        self.nullable = bool(raw.get("nullable"))
        self.map_atomic = raw.get("x-kubernetes-map-type") == "atomic"
        self.list_type = str(raw.get("x-kubernetes-list-type", "atomic"))
        self.list_keys: tuple[str, ...] = tuple(raw.get("x-kubernetes-list-map-keys", ()))
        self.patch_key = str(raw.get("x-kubernetes-patch-merge-key", ""))
        self.patch_strategy: tuple[str, ...] = tuple(
            str(raw.get("x-kubernetes-patch-strategy", "")).split(",")
        )

    @cached_property
    def properties(self) -> dict[str, Node] | None:
        """Child nodes by field name, or None where the value is not a struct."""
        if self._base is not None:
            return self._base.properties
        found = self.raw.get("properties")
        if found is None:
            return (
                {}
                if self.raw.get("type") == "object"
                and self.additional is None
                and not self.free
                and self.name
                else None
            )
        extra = self.pool.defaults.get(self.name, {})
        return {
            key: self.pool.node({**raw, "default": extra[key]} if key in extra else raw)
            for key, raw in found.items()
        }

    @cached_property
    def additional(self) -> Node | None:
        """The node of a map's values."""
        if self._base is not None:
            return self._base.additional
        raw = self.raw.get("additionalProperties")
        return self.pool.node(raw) if isinstance(raw, dict) else None

    @cached_property
    def items(self) -> Node | None:
        """The node of a list's items."""
        if self._base is not None:
            return self._base.items
        raw = self.raw.get("items")
        return self.pool.node(raw) if isinstance(raw, dict) else None

    @cached_property
    def defaulted(self) -> tuple[tuple[str, Any], ...]:
        """Fields with a default, in schema order."""
        return tuple(
            (key, child.default) for key, child in (self.properties or {}).items() if child.has_default
        )

    @property
    def atomic_list(self) -> bool:
        """A list replaced as a whole."""
        return self.type == "array" and self.list_type == "atomic"

    def field(self, key: str) -> Node | None:
        """The node of a struct field or a map value."""
        properties = self.properties
        if properties is not None and key in properties:
            return properties[key]
        return self.additional
