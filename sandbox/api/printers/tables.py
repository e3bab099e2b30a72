"""meta.k8s.io Table answers: kubectl's columns.

Definitions come from the kinds table or the CRD; cells of built-in kinds from `printers`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime
from functools import lru_cache
from typing import Any

from sandbox.api.meta.objects import Obj, parse_time
from sandbox.api.printers.ages import age
from sandbox.api.printers.printers import CELLS
from sandbox.kinds.table import Kind

NAME = {
    "name": "Name",
    "type": "string",
    "format": "name",
    "priority": 0,
    "description": (
        "Name must be unique within a namespace. Is required when creating resources, although some "
        "resources may allow a client to request the generation of an appropriate name automatically. "
        "Name is primarily intended for creation idempotence and configuration definition. Cannot be "
        "updated. More info: https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names"
    ),
}
_STEP = re.compile(
    r"\.((?:\\.|[^.\[\\])+)|\[\?\(@\.([\w.]+)\s*==\s*['\"]([^'\"]*)['\"]\)\]|\[(\d+|\*)\]|\['([^']+)'\]"
)
_EMPTY = "<none>"


@lru_cache(maxsize=512)
def _steps(path: str) -> tuple[tuple[str, str, str], ...]:
    found = []
    for key, test, wanted, index, quoted in _STEP.findall(path):
        if key or quoted:
            found.append(("key", (key or quoted).replace("\\", ""), ""))
        elif test:
            found.append(("test", test, wanted))
        else:
            found.append(("index", index, ""))
    return tuple(found)


def _follow(values: list[Any], step: tuple[str, str, str]) -> list[Any]:
    kind, key, wanted = step
    if kind == "key":
        return [value[key] for value in values if isinstance(value, dict) and key in value]
    lists = [value for value in values if isinstance(value, list)]
    if kind == "test":
        return [
            item
            for value in lists
            for item in value
            if isinstance(item, dict) and str(item.get(key)) == wanted
        ]
    return [item for value in lists for item in (value if key == "*" else value[int(key) : int(key) + 1])]


def json_path(obj: Obj, path: str) -> Any:
    """The first value under a printer column's JSONPath, or None."""
    values: list[Any] = [obj]
    for step in _steps(path):
        values = _follow(values, step)
    return values[0] if values else None


def _custom_cell(obj: Obj, column: Obj, now: datetime) -> Any:
    value = json_path(obj, column["jsonPath"])
    if value is None:
        return None
    if column["type"] == "date":
        return age(parse_time(value), now)
    if column["type"] in ("integer", "number", "boolean"):
        return value
    return value if isinstance(value, str) else str(value)


def definitions(kind: Kind) -> list[Obj]:
    """ColumnDefinitions."""
    if kind.native:
        return list(kind.columns)
    own = [
        {
            "name": column["name"],
            "type": column["type"],
            "format": column.get("format", ""),
            "priority": column.get("priority", 0),
            "description": column.get("description")
            or f"Custom resource definition column (in JSONPath format): {column['jsonPath']}",
        }
        for column in kind.columns
    ]
    return [NAME, *own]


def cells(kind: Kind, obj: Obj, now: datetime) -> list[Any]:
    """One row's cells."""
    metadata = obj["metadata"]
    if not kind.native:
        return [metadata.get("name"), *(_custom_cell(obj, column, now) for column in kind.columns)]
    printers = CELLS.get(kind.key, {})
    row: list[Any] = []
    for column in kind.columns:
        name = column["name"]
        if name in printers:
            row.append(printers[name](obj, now))
        elif name == "Name":
            row.append(metadata["name"])
        elif name == "Age":
            row.append(age(parse_time(metadata["creationTimestamp"]), now))
        else:
            row.append(metadata["creationTimestamp"] if name == "Created At" else _EMPTY)
    return row


def _row(kind: Kind, obj: Obj, include: str, now: datetime) -> Obj:
    row: Obj = {"cells": cells(kind, obj, now)}
    if include == "Object":
        row["object"] = obj
    elif include != "None":
        row["object"] = {
            "kind": "PartialObjectMetadata",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": obj["metadata"],
        }
    return row


def table(kind: Kind, objects: Iterable[Obj], *, metadata: Obj, include: str, now: datetime) -> Obj:
    """A Table of objects; `include` is the query's includeObject (Metadata by default)."""
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": metadata,
        "columnDefinitions": definitions(kind),
        "rows": [_row(kind, obj, include, now) for obj in objects],
    }
