"""JSON patch, JSON merge patch and strategic merge patch on plain objects.

Server-side apply lives in `managed`.
"""

from __future__ import annotations

from typing import Any

import jsonpatch
import jsonpointer

from sandbox.api.meta.errors import ApiError, bad_request
from sandbox.api.meta.objects import Obj, copy_of
from sandbox.api.schema.structural import Node

_DELETE_LIST = "$deleteFromPrimitiveList/"
_ORDER_LIST = "$setElementOrder/"


def json_patch(obj: Obj, operations: Any) -> Obj:
    """RFC 6902; a failing test or path is a 422, a broken document a 400."""
    if not isinstance(operations, list):
        raise bad_request(
            "error decoding patch: json: cannot unmarshal object into Go value of type jsonpatch.Patch"
        )
    try:
        patched: Obj = jsonpatch.JsonPatch(operations).apply(obj)
    except jsonpatch.InvalidJsonPatch as problem:
        raise bad_request(f"error decoding patch: {problem}") from problem
    except (jsonpatch.JsonPatchException, jsonpointer.JsonPointerException) as problem:
        raise ApiError(
            422, "the server rejected our request due to an error in our request", details={}
        ) from problem
    return patched


def merge_patch(obj: Any, patch: Any) -> Any:
    """RFC 7386: null removes, objects merge, everything else replaces."""
    if not isinstance(patch, dict):
        return copy_of(patch)
    result = dict(obj) if isinstance(obj, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge_patch(result.get(key), value)
    return result


def strategic(obj: Any, patch: Obj, node: Node | None) -> Any:
    """Kubectl's default for built-in kinds: lists merge by the schema's merge key, with $patch directives."""
    directive = patch.get("$patch")
    if directive == "replace":
        return {key: copy_of(value) for key, value in patch.items() if key != "$patch"}
    if directive == "delete":
        return {}
    result = dict(obj) if isinstance(obj, dict) else {}
    if "$retainKeys" in patch:
        result = {key: value for key, value in result.items() if key in patch["$retainKeys"]}
    for key, value in patch.items():
        if key.startswith(_DELETE_LIST):
            name = key.removeprefix(_DELETE_LIST)
            result[name] = [item for item in result.get(name, []) if item not in value]
        elif not key.startswith("$"):
            _strategic_field(result, key, value, node)
    _reorder(result, patch, node)
    return result


def _strategic_field(result: Obj, key: str, value: Any, node: Node | None) -> None:
    child = node.field(key) if node is not None else None
    if value is None:
        result.pop(key, None)
    elif isinstance(value, dict) and "$patch" in value and key not in result:
        # A directive for something that is not there does nothing.
        return
    elif isinstance(value, dict):
        result[key] = strategic(result.get(key), value, child)
    elif isinstance(value, list) and child is not None and "merge" in child.patch_strategy:
        result[key] = _strategic_list(result.get(key) or [], value, child)
    else:
        result[key] = (
            [item for item in copy_of(value) if item != {"$patch": "replace"}]
            if isinstance(value, list)
            else value
        )


def _strategic_list(live: list[Any], patch: list[Any], node: Node) -> list[Any]:
    if any(isinstance(item, dict) and item.get("$patch") == "replace" for item in patch):
        return [
            {key: value for key, value in item.items() if key != "$patch"}
            for item in patch
            if item != {"$patch": "replace"}
        ]
    key = node.patch_key
    if not key or not all(isinstance(item, dict) for item in patch):
        return live + [item for item in patch if item not in live]
    result = list(live)
    for item in patch:
        if key not in item:
            raise bad_request(f"map: {item} does not contain declared merge key: {key}")
        at = next((index for index, old in enumerate(result) if old.get(key) == item[key]), None)
        if item.get("$patch") == "delete":
            result = [old for old in result if old.get(key) != item[key]]
        elif at is None:
            result.append(strategic({}, item, node.items))
        else:
            result[at] = strategic(result[at], item, node.items)
    return result


def _reorder(result: Obj, patch: Obj, node: Node | None) -> None:
    for directive, order in patch.items():
        if not directive.startswith(_ORDER_LIST):
            continue
        name = directive.removeprefix(_ORDER_LIST)
        child = node.field(name) if node is not None else None
        key = child.patch_key if child is not None else ""
        wanted = [item.get(key) if isinstance(item, dict) else item for item in order]
        place = {str(value): index for index, value in enumerate(wanted)}
        result[name] = sorted(
            result.get(name, []),
            key=lambda item: place.get(str(item.get(key) if isinstance(item, dict) else item), len(place)),
        )
