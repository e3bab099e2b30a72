"""Sets of field paths, their FieldsV1 text, and comparing two objects by them (after structured-merge-diff).

Owners are kept elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import orjson

from sandbox.api.meta.objects import Obj
from sandbox.api.schema.structural import Node

Path = tuple[str, ...]
FieldSet = frozenset[Path]
EMPTY: FieldSet = frozenset()
_MISSING = object()
# What no manager ever owns: identity and what the server writes.
_STRIPPED = frozenset(
    {("f:apiVersion",), ("f:kind",), ("f:metadata",)}
    | {
        ("f:metadata", f"f:{name}")
        for name in (
            "name",
            "namespace",
            "creationTimestamp",
            "selfLink",
            "uid",
            "generation",
            "managedFields",
            "resourceVersion",
            "deletionTimestamp",
            "deletionGracePeriodSeconds",
        )
    }
)


def element_key(item: Any, node: Node) -> str:
    """The path element of a list item: its map keys, or its value in a set."""
    if node.list_type == "map" and isinstance(item, dict):
        keys = {}
        for name in node.list_keys:
            value = item.get(name)
            if (
                value is None
                and node.items is not None
                and node.items.properties
                and name in node.items.properties
            ):
                value = node.items.properties[name].default
            if value is not None:
                keys[name] = value
        return "k:" + orjson.dumps(keys, option=orjson.OPT_SORT_KEYS).decode()
    return "v:" + orjson.dumps(item).decode()


def _splits(value: Any, node: Node | None) -> bool:
    """Whether a value is owned in parts: a granular struct or map, or an associative list."""
    if node is None:
        return isinstance(value, dict)
    if isinstance(value, dict):
        return not (node.map_atomic or (node.free and bool(node.name) and node.properties is None))
    return isinstance(value, list) and node.list_type in ("map", "set")


def _child(node: Node | None, key: str) -> tuple[Node | None, bool]:
    """The node of a field, and whether the field belongs to a struct (a map's entries are always members of
    a set).
    """
    if node is None:
        return None, False
    known = bool(node.properties) and key in (node.properties or ())
    return node.field(key), known


def field_set(value: Any, node: Node | None) -> FieldSet:
    """All owned paths of an applied configuration."""
    found: set[Path] = set()
    _collect(value, node, (), found)
    return frozenset(found)


def _collect(value: Any, node: Node | None, path: Path, found: set[Path]) -> None:
    if not _splits(value, node):
        found.add(path)
    elif isinstance(value, dict):
        for key, item in value.items():
            child, known = _child(node, key)
            here = (*path, f"f:{key}")
            _collect(item, child, here, found)
            if not known or item in ({}, None):
                found.add(here)
    elif node is not None:
        for item in value:
            here = (*path, element_key(item, node))
            _collect(item, node.items, here, found)
            found.add(here)


@dataclass
class Comparison:
    """Which paths a write added, modified and removed."""

    added: set[Path] = field(default_factory=set)
    modified: set[Path] = field(default_factory=set)
    removed: set[Path] = field(default_factory=set)


def compare(old: Any, new: Any, node: Node | None) -> Comparison:
    """Compare two objects along their schema."""
    found = Comparison()
    _compare(old, new, node, (), found=found)
    return found


def _compare(old: Any, new: Any, node: Node | None, path: Path, *, found: Comparison) -> None:
    if old is _MISSING:
        found.added.add(path)
    elif new is _MISSING:
        found.removed.add(path)
    elif old is new:
        return
    splits_old, splits_new = _splits(old, node), _splits(new, node)
    both_empty = old in (_MISSING, None, {}, []) and new in (_MISSING, None, {}, [])
    if both_empty or not (splits_old or splits_new):
        if old is not _MISSING and new is not _MISSING and old != new:
            found.modified.add(path)
        return
    if isinstance(new if splits_new else old, dict):
        _compare_maps(old if splits_old else {}, new if splits_new else {}, node, path, found=found)
    elif node is not None:
        _compare_lists(old if splits_old else [], new if splits_new else [], node, path, found=found)


def _compare_maps(old: Obj, new: Obj, node: Node | None, path: Path, *, found: Comparison) -> None:
    for key in {**old, **new}:
        child, _ = _child(node, key)
        _compare(old.get(key, _MISSING), new.get(key, _MISSING), child, (*path, f"f:{key}"), found=found)


def _compare_lists(old: list[Any], new: list[Any], node: Node, path: Path, *, found: Comparison) -> None:
    before = {element_key(item, node): item for item in old}
    after = {element_key(item, node): item for item in new}
    for key in {**before, **after}:
        _compare(before.get(key, _MISSING), after.get(key, _MISSING), node.items, (*path, key), found=found)


def strip(paths: Iterable[Path], reset: str = "") -> FieldSet:
    """Leave out identity fields and what the endpoint resets ("status" or "spec" with everything but
    status).
    """
    return frozenset(path for path in paths if path and path not in _STRIPPED and not _reset(path, reset))


def _reset(path: Path, reset: str) -> bool:
    if reset == "status":
        return path[0] == "f:status"
    if reset == "spec":
        return path[0] != "f:status"
    return False


def to_fields_v1(paths: Iterable[Path]) -> Obj:
    """The nested FieldsV1 form."""
    root: Obj = {}
    members = sorted(paths)
    for path in members:
        here = root
        for element in path:
            here = here.setdefault(element, {})
    for path in members:
        here = root
        for element in path:
            here = here[element]
        if here:
            here["."] = {}
    return _ordered(root)


def _ordered(tree: Obj) -> Obj:
    return {key: _ordered(tree[key]) for key in sorted(tree)}


@lru_cache(maxsize=512)
def _parsed(text: bytes) -> FieldSet:
    found: set[Path] = set()

    def walk(tree: Obj, path: Path) -> None:
        if not tree and path:
            found.add(path)
        for key, below in tree.items():
            if key == ".":
                found.add(path)
            else:
                walk(below, (*path, key))

    walk(orjson.loads(text), ())
    return frozenset(found)


def from_fields_v1(tree: Obj) -> FieldSet:
    """Read FieldsV1."""
    return _parsed(orjson.dumps(tree))


def show_path(path: Path) -> str:
    """`.spec.containers[name="a"].image`, as conflicts print it."""
    parts = []
    for element in path:
        mark, text = element[:2], element[2:]
        if mark == "f:":
            parts.append(f".{text}")
        elif mark == "k:":
            keys = orjson.loads(text)
            parts.append(
                "["
                + ",".join(f"{key}={orjson.dumps(value).decode()}" for key, value in sorted(keys.items()))
                + "]"
            )
        else:
            parts.append(f"[={text}]" if mark == "v:" else f"[{text}]")
    return "".join(parts)


def empty_of(node: Node) -> Obj:
    """The object a typed client would send for nothing: structs without pointers exist, required fields are
    null.
    """
    learned = node.pool.defaults.get(node.name, {})
    found: Obj = {}
    for key, child in (node.properties or {}).items():
        if child.default == {} and key not in learned:
            found[key] = empty_of(child)
        elif key in node.required:
            found[key] = None
    return found
