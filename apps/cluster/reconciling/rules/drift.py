"""What of an object differs from what we apply, in words that people may read. Pure.

Compared are the object as it is and as our apply would leave it, which a dry run tells: so what the API
server fills in or writes in another form is no difference, nor is any field that we do not apply.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, TypedDict

from apps.accounts.scrub import Scrub
from apps.cluster.objects import fields
from apps.cluster.objects.fields import ABSENT, Difference
from apps.cluster.objects.names import LABEL_MANAGED_BY, MANAGER
from apps.cluster.specs import Body
from apps.words import Word

MOST_FIELDS = 30
"""Of one object; how many more there are is counted."""
LONGEST = 300
"""Characters of a value."""
UNSHOWN = "[not shown]"
"""Stands for a value that may be a secret."""
_SCRUB = Scrub(())
_SECRET = ("f:env", "f:data", "f:stringData")
"""Below these stand the values of variables, and the content of Secrets and ConfigMaps."""


class DriftKind(Word):
    """How an object differs."""

    CHANGED = "changed", "Changed"
    MISSING = "missing", "Missing"
    LEAVING = "leaving", "Being deleted"
    UNREAD = "unread", "Not read yet"


class FieldDrift(TypedDict):
    """One field, as it is kept: values as JSON. `theirs` is null where the field is gone; `manager` is null
    where the server keeps no writer.
    """

    path: str
    ours: str
    theirs: str | None
    manager: str | None
    operation: str | None
    at: str | None


def fields_of(kind: str, live: Body, wanted: Body) -> list[FieldDrift]:
    """All fields that differ, in the order of the object; empty where none does."""
    return [
        _field(each, fields.writer(live, each.path), hidden=kind == "Secret")
        for each in fields.differences(wanted, live)
    ]


def mark_taken() -> FieldDrift:
    """The label by which we find our objects is gone, so that the watch has lost sight of this one."""
    path = ("f:metadata", "f:labels", f"f:{LABEL_MANAGED_BY}")
    return _field(Difference(path, MANAGER, ABSENT), None, hidden=False)


def moment_of(field: FieldDrift) -> datetime | None:
    """When its writer last wrote, as the API server keeps it."""
    return datetime.fromisoformat(field["at"]) if field["at"] else None


def _field(found: Difference, writer: Mapping[str, Any] | None, *, hidden: bool) -> FieldDrift:
    by, hides = writer or {}, hidden or any(key in _SECRET for key in found.path)
    ours, theirs = (UNSHOWN if hides else _shown(value) for value in (found.ours, found.theirs))
    return {
        "path": fields.in_words(found.path),
        "ours": ours,
        "theirs": None if found.theirs is ABSENT else theirs,
        "manager": by.get("manager"),
        "operation": by.get("operation"),
        "at": by.get("time"),
    }


def _shown(value: Any) -> str:
    if value is ABSENT:
        return ""
    text = _SCRUB(json.dumps(_without_variables(value), sort_keys=True, ensure_ascii=False))
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."


def _without_variables(value: Any, under: str = "") -> Any:
    if isinstance(value, Mapping):
        hides = under == "env"
        return {
            name: UNSHOWN if hides and name == "value" else _without_variables(item, name)
            for name, item in value.items()
        }
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_without_variables(item, under) for item in value]
    return value
