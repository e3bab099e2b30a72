"""Which fields of an object are ours, and one hash over their values. Pure.

Source: Kubernetes server-side apply, `metadata.managedFields` with `fieldsType: FieldsV1`. A key `f:x` is a
field, `k:{...}` a list item by its keys, `v:...` a set member, `i:n` a position; `.` is the thing itself. An
empty set of keys owns the whole value.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from apps.cluster.objects.names import MANAGER

_ABSENT = object()


def digest(value: Any) -> str:
    """SHA-256 of the canonical JSON: equal values, equal hash, whatever the order of keys."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def owned_hash(body: Mapping[str, Any], manager: str = MANAGER) -> str:
    """The hash over the values of exactly those fields that `manager` applied; empty where it applied none.

    It moves when somebody else changes or takes such a field, and stays when anybody writes any other field.
    """
    entries = [
        entry
        for entry in body.get("metadata", {}).get("managedFields", [])
        if entry.get("manager") == manager
        and entry.get("operation") == "Apply"
        and not entry.get("subresource")
    ]
    if not entries:
        return ""
    return digest([_owned(entry.get("fieldsV1", {}), body) for entry in entries])


def _owned(fields: Mapping[str, Any], value: Any) -> Any:
    keys = [key for key in fields if key != "."]
    if not keys:
        return value
    found = {key: (fields[key], _step(key, value)) for key in keys}
    return {key: _owned(inner, part) for key, (inner, part) in found.items() if part is not _ABSENT}


def _step(key: str, value: Any) -> Any:
    """The part of `value` that one key of FieldsV1 names."""
    form, _, name = key.partition(":")
    if form == "f":
        return value.get(name, _ABSENT) if isinstance(value, Mapping) else _ABSENT
    if not isinstance(value, Sequence) or isinstance(value, str):
        return _ABSENT
    if form == "i":
        return value[int(name)] if int(name) < len(value) else _ABSENT
    return _item(value, form, json.loads(name))


def _item(items: Sequence[Any], form: str, wanted: Any) -> Any:
    for item in items:
        if form == "v" and item == wanted:
            return item
        if form == "k" and isinstance(item, Mapping) and all(item.get(k) == v for k, v in wanted.items()):
            return item
    return _ABSENT
