"""Status conditions and references: the small shapes every controller writes the same way.

Edits plain dicts handed to it. Reads no store.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sandbox.api.meta.objects import Obj, timestamp


def find(conditions: list[Obj] | None, kind: str) -> Obj | None:
    """The condition of that type."""
    return next((c for c in conditions or () if c["type"] == kind), None)


def is_true(obj: Obj, kind: str) -> bool:
    """Whether the object's status has that condition at "True"."""
    condition = find(obj.get("status", {}).get("conditions"), kind)
    return condition is not None and condition["status"] == "True"


def set_condition(conditions: list[Obj], condition: Obj, now: datetime) -> bool:
    """Write one condition; lastTransitionTime moves only with `status`. Returns whether anything changed."""
    known = find(conditions, condition["type"])
    if known is None:
        conditions.append({**condition, "lastTransitionTime": timestamp(now)})
        return True
    if all(known.get(key) == value for key, value in condition.items()):
        return False
    moved = known["status"] != condition["status"]
    known.update(condition)
    if moved:
        known["lastTransitionTime"] = timestamp(now)
    return True


def controller_reference(owner: Obj) -> Obj:
    """The ownerReference that makes `owner` the controller of an object."""
    return {**owner_reference(owner), "controller": True, "blockOwnerDeletion": True}


def owner_reference(owner: Obj) -> Obj:
    """A plain ownerReference."""
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
    }


def write_status(client: Any, resource: str, obj: Obj, status: Obj) -> bool:
    """Replace the status of a stored object where it differs. Returns whether it was written."""
    if obj.get("status", {}) == status:
        return False
    client.update(resource, {**obj, "status": status}, subresource="status")
    return True
