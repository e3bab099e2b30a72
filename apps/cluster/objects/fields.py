"""Which fields of an object are ours, and one hash over their values. Pure.

Source: Kubernetes server-side apply, `metadata.managedFields` with `fieldsType: FieldsV1`. A key `f:x` is a
field, `k:{...}` a list item by its keys, `v:...` a set member, `i:n` a position; `.` is the thing itself. An
empty set of keys owns the whole value.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from apps.cluster.objects.names import MANAGER

ABSENT: Final = object()
"""Stands for a value that is not there."""

Path = tuple[str, ...]
"""A field by the keys of FieldsV1 that lead to it."""


class Difference(NamedTuple):
    """A field of ours that reads otherwise; `theirs` may be `ABSENT`."""

    path: Path
    ours: Any
    theirs: Any


def digest(value: Any) -> str:
    """SHA-256 of the canonical JSON: equal values, equal hash, whatever the order of keys."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def owned_hash(body: Mapping[str, Any], manager: str = MANAGER) -> str:
    """The hash over the values of exactly those fields that `manager` applied; empty where it applied none.

    It moves when somebody else changes or takes such a field, and stays when anybody writes any other field.
    """
    entries = _applied(body, manager)
    if not entries:
        return ""
    return digest([_owned(entry.get("fieldsV1", {}), body) for entry in entries])


def differences(wanted: Mapping[str, Any], live: Mapping[str, Any]) -> list[Difference]:
    """The fields that we own in `wanted` and that have another value, or none, in `live`. What is missing
    with all that is below it is one difference.
    """
    entries = _applied(wanted, MANAGER)
    return [each for entry in entries for each in _compared(entry.get("fieldsV1", {}), wanted, live)]


def writer(body: Mapping[str, Any], path: Path) -> Mapping[str, Any] | None:
    """The newest entry of `managedFields`, ours left out, that owns a field; None where nobody does: of a
    field that was taken away the server keeps no writer.
    """
    entries = body.get("metadata", {}).get("managedFields", [])
    owning = [e for e in entries if e.get("manager") != MANAGER and _owns(e.get("fieldsV1", {}), path)]
    return max(owning, key=lambda entry: str(entry.get("time", "")), default=None)


def in_words(path: Path) -> str:
    """As the API server writes it in a conflict, such as `spec.ports[port=8888].targetPort`."""
    return "".join(map(_word, path)).removeprefix(".")


def _word(key: str) -> str:
    form, _, name = key.partition(":")
    if form == "f":
        return f'["{name}"]' if "." in name or "/" in name else f".{name}"
    if form != "k":
        return f"[{name}]" if form == "i" else f"[={name}]"
    keys = json.loads(name)
    return "[" + ",".join(f"{one}={json.dumps(keys[one])}" for one in sorted(keys)) + "]"


def _applied(body: Mapping[str, Any], manager: str) -> list[Mapping[str, Any]]:
    return [
        entry
        for entry in body.get("metadata", {}).get("managedFields", [])
        if entry.get("manager") == manager
        and entry.get("operation") == "Apply"
        and not entry.get("subresource")
    ]


def _compared(fields: Mapping[str, Any], ours: Any, theirs: Any, path: Path = ()) -> Iterator[Difference]:
    keys = [key for key in fields if key != "."]
    if not keys and ours != theirs:
        yield Difference(path, ours, theirs)
    for key in keys:
        mine, other = _step(key, ours), _step(key, theirs)
        if mine is not ABSENT and other is ABSENT:
            yield Difference((*path, key), mine, ABSENT)
        elif mine is not ABSENT:
            yield from _compared(fields[key], mine, other, (*path, key))


def _owns(fields: Mapping[str, Any], path: Path) -> bool:
    for key in path:
        if not fields:
            return True
        if key not in fields:
            return False
        fields = fields[key]
    return True


def _owned(fields: Mapping[str, Any], value: Any) -> Any:
    keys = [key for key in fields if key != "."]
    if not keys:
        return value
    found = {key: (fields[key], _step(key, value)) for key in keys}
    return {key: _owned(inner, part) for key, (inner, part) in found.items() if part is not ABSENT}


def _step(key: str, value: Any) -> Any:
    """The part of `value` that one key of FieldsV1 names."""
    form, _, name = key.partition(":")
    if form == "f":
        return value.get(name, ABSENT) if isinstance(value, Mapping) else ABSENT
    if not isinstance(value, Sequence) or isinstance(value, str):
        return ABSENT
    if form == "i":
        return value[int(name)] if int(name) < len(value) else ABSENT
    return _item(value, form, json.loads(name))


def _item(items: Sequence[Any], form: str, wanted: Any) -> Any:
    for item in items:
        if form == "v" and item == wanted:
            return item
        if form == "k" and isinstance(item, Mapping) and all(item.get(k) == v for k, v in wanted.items()):
            return item
    return ABSENT
