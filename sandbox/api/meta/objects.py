"""Plain-dict Kubernetes objects: copying, reading paths, time text. Holds no rule of any one kind."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, cast

import orjson

Obj = dict[str, Any]


def copy_of(value: Any) -> Any:
    """A deep copy of JSON-shaped data; stored objects are shared: copy before you edit."""
    return orjson.loads(orjson.dumps(value))


def dump(value: Any) -> bytes:
    """Compact JSON bytes."""
    return orjson.dumps(value)


def meta(obj: Obj) -> Obj:
    """The object's metadata, created when absent."""
    return cast("Obj", obj.setdefault("metadata", {}))


def name_of(obj: Obj) -> str:
    """metadata.name or the empty text."""
    return str(obj.get("metadata", {}).get("name", ""))


def namespace_of(obj: Obj) -> str:
    """metadata.namespace or the empty text (cluster scope)."""
    return str(obj.get("metadata", {}).get("namespace", ""))


def dig(obj: Any, *path: str | int, default: Any = None) -> Any:
    """The value under a path of keys and list positions, or the default where any step is missing."""
    here = obj
    for step in path:
        if isinstance(here, dict):
            here = here.get(step)
        elif isinstance(here, list) and isinstance(step, int) and -len(here) <= step < len(here):
            here = here[step]
        else:
            return default
    return default if here is None else here


def controller_of(obj: Obj) -> Obj | None:
    """The ownerReference marked controller, if any."""
    for owner in obj.get("metadata", {}).get("ownerReferences") or ():
        if owner.get("controller"):
            return cast("Obj", owner)
    return None


def timestamp(moment: datetime) -> str:
    """metav1.Time text: UTC, whole seconds."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def parse_time(text: str) -> datetime:
    """Read RFC 3339 text into an aware UTC datetime."""
    return datetime.fromisoformat(text).astimezone(UTC)
