"""Combining objects along a schema: the merge and the pruning of server-side apply.

Owners are decided by the caller.
"""

from __future__ import annotations

from typing import Any

from sandbox.api.managedfields.fieldsets import FieldSet, Path, element_key
from sandbox.api.meta.objects import Obj, copy_of
from sandbox.api.schema.structural import Node


def merge(live: Any, applied: Any, node: Node | None) -> Any:
    """The live value with an applied one laid over it; associative lists by key, atomic values as a whole."""
    if isinstance(live, dict) and isinstance(applied, dict) and not (node is not None and _whole(node)):
        result = dict(live)
        for key, item in applied.items():
            result[key] = (
                merge(live[key], item, node.field(key) if node is not None else None)
                if key in live
                else copy_of(item)
            )
        return result
    if (
        isinstance(live, list)
        and isinstance(applied, list)
        and node is not None
        and node.list_type in ("map", "set")
    ):
        return _merge_lists(live, applied, node)
    return copy_of(applied)


def _whole(node: Node) -> bool:
    return node.map_atomic or (node.free and bool(node.name) and node.properties is None)


def _merge_lists(live: list[Any], applied: list[Any], node: Node) -> list[Any]:
    """Applied items in their order; a live-only item stays behind the live item that stood before it."""
    old = {element_key(item, node): item for item in live}
    new = {element_key(item, node): item for item in applied}
    order, waiting = list(new), [key for key in old if key not in new]
    keys = list(old)
    for key in waiting:
        before = next((other for other in reversed(keys[: keys.index(key)]) if other in order), None)
        order.insert(order.index(before) + 1 if before is not None else 0, key)
    return [
        merge(old[key], new[key], node.items)
        if key in old and key in new
        else copy_of(new.get(key, old.get(key)))
        for key in order
    ]


def prune(merged: Obj, node: Node, dropped: FieldSet, owned: FieldSet) -> Obj:
    """Take away what a manager no longer applies and nobody else owns.

    Containers that others still use stay.
    """
    kept = {path[:size] for path in owned for size in range(1, len(path) + 1)}
    gone = frozenset(path for path in dropped if path not in kept)
    if not gone:
        return merged
    prefixes = {path[:size] for path in gone for size in range(1, len(path) + 1)}
    pruned = _prune(merged, node, (), gone=gone, prefixes=prefixes)
    return pruned if isinstance(pruned, dict) else {}


def _prune(value: Any, node: Node | None, path: Path, *, gone: FieldSet, prefixes: set[Path]) -> Any:
    if isinstance(value, dict):
        result = {}
        for key, item in value.items():
            here = (*path, f"f:{key}")
            if here in gone:
                continue
            child = node.field(key) if node is not None else None
            below = _prune(item, child, here, gone=gone, prefixes=prefixes) if here in prefixes else item
            if below not in ({}, []) or item in ({}, []):
                result[key] = below
        return result
    if isinstance(value, list) and node is not None and node.list_type in ("map", "set"):
        pairs = ((item, (*path, element_key(item, node))) for item in value)
        return [
            _prune(item, node.items, here, gone=gone, prefixes=prefixes) if here in prefixes else item
            for item, here in pairs
            if here not in gone
        ]
    return value
