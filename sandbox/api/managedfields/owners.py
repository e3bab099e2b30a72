"""metadata.managedFields: who owns which field after an update or a server-side apply.

Follows the real server's updater.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import NamedTuple

from sandbox.api.managedfields.fieldsets import (
    EMPTY,
    FieldSet,
    Path,
    compare,
    field_set,
    from_fields_v1,
    show_path,
    strip,
    to_fields_v1,
)
from sandbox.api.managedfields.merging import merge, prune
from sandbox.api.meta.errors import ApiError
from sandbox.api.meta.objects import Obj, timestamp
from sandbox.api.schema.structural import Node


class Owner(NamedTuple):
    """The identity of an entry. Appliers are the same whatever version they apply."""

    manager: str
    operation: str
    api_version: str
    subresource: str


@dataclass(frozen=True)
class Entry:
    """What one owner holds, and since when."""

    paths: FieldSet
    time: str
    api_version: str


Owners = dict[Owner, Entry]


@dataclass(frozen=True)
class Writer:
    """Who writes, through which endpoint, when. `reset` names what that endpoint ignores."""

    manager: str
    api_version: str
    now: datetime
    subresource: str = ""
    reset: str = ""

    def owner(self, operation: str) -> Owner:
        """The identity under which fields are recorded."""
        return Owner(
            self.manager, operation, "" if operation == "Apply" else self.api_version, self.subresource
        )


def read(obj: Obj) -> Owners:
    """The owners recorded on an object."""
    owners: Owners = {}
    for item in obj.get("metadata", {}).get("managedFields") or ():
        operation, version = str(item.get("operation", "")), str(item.get("apiVersion", ""))
        owner = Owner(
            str(item.get("manager", "")),
            operation,
            "" if operation == "Apply" else version,
            str(item.get("subresource", "")),
        )
        owners[owner] = Entry(from_fields_v1(item.get("fieldsV1") or {}), str(item.get("time", "")), version)
    return owners


def write(owners: Owners) -> list[Obj]:
    """ManagedFields as stored: appliers first, then updaters by time and name."""
    items = []
    for owner, entry in sorted(
        owners.items(),
        key=lambda pair: (pair[0].operation, pair[1].time, pair[0].manager, pair[0].subresource),
    ):
        item: Obj = {"manager": owner.manager, "operation": owner.operation, "apiVersion": entry.api_version}
        if entry.time:
            item["time"] = entry.time
        item |= {"fieldsType": "FieldsV1", "fieldsV1": to_fields_v1(entry.paths)}
        if owner.subresource:
            item["subresource"] = owner.subresource
        items.append(item)
    return items


def _without_managed(obj: Obj) -> Obj:
    metadata = {key: value for key, value in obj.get("metadata", {}).items() if key != "managedFields"}
    return {**obj, "metadata": metadata}


def _settle(
    owners: Owners, live: Obj, new: Obj, node: Node, *, writer: Owner
) -> tuple[dict[Owner, FieldSet], set[Path], set[Path]]:
    """Conflicts of the write with other owners, what changed and what vanished."""
    found = compare(_without_managed(live), _without_managed(new), node)
    changed = found.added | found.modified
    conflicts = {
        owner: entry.paths & changed
        for owner, entry in owners.items()
        if owner != writer and entry.paths & changed
    }
    return conflicts, changed, found.removed


def _release(
    owners: Owners, conflicts: Mapping[Owner, FieldSet], removed: set[Path], writer: Owner
) -> Owners:
    kept: Owners = {}
    for owner, entry in owners.items():
        paths = entry.paths if owner == writer else entry.paths - conflicts.get(owner, EMPTY) - removed
        if paths:
            kept[owner] = replace(entry, paths=paths)
    return kept


def _record(owners: Owners, before: Owners, owner: Owner, paths: FieldSet, *, writer: Writer) -> list[Obj]:
    """The stored list; the writer's time moves only when its set did."""
    old = before.get(owner)
    time = old.time if old is not None and old.paths == paths else timestamp(writer.now)
    if paths:
        owners[owner] = Entry(paths, time, writer.api_version)
    else:
        owners.pop(owner, None)
    return write(owners)


def update(live: Obj, new: Obj, node: Node, writer: Writer) -> list[Obj]:
    """ManagedFields after a create, PUT or patch: the writer takes over what it changed."""
    claimed = new.get("metadata", {}).get("managedFields")
    if claimed is not None and len(claimed) == 0 and live.get("metadata", {}).get("managedFields"):
        return []
    owner = writer.owner("Update")
    # A request may edit managedFields itself (kubectl moves ownership that way), but not through a
    # subresource.
    before = read(new) if claimed and not writer.subresource else read(live)
    conflicts, changed, removed = _settle(before, live, new, node, writer=owner)
    owners = _release(before, conflicts, removed, owner)
    held = before[owner].paths if owner in before else EMPTY
    paths = strip((held - removed) | changed, writer.reset)
    return _record(owners, before, owner, paths, writer=writer)


def apply(live: Obj, applied: Obj, node: Node, writer: Writer, *, force: bool) -> Obj:
    """The object after a server-side apply, managedFields included; ApiError 409 lists the conflicts when
    not forced.
    """
    owner = writer.owner("Apply")
    before = read(live) or _unowned(live, node, writer)
    bare = _without_managed(live)
    applied = _writable(applied, writer.reset)
    mine = strip(field_set(applied, node), writer.reset)
    last = before[owner].paths if owner in before else EMPTY
    merged = merge(bare, applied, node)
    others = frozenset().union(*(entry.paths for other, entry in before.items() if other != owner), mine)
    merged = prune(merged, node, last - mine, others)
    conflicts, _, removed = _settle(before, bare, merged, node, writer=owner)
    if conflicts and not force:
        raise conflict_error(conflicts)
    owners = _release(before, conflicts, removed, owner)
    merged.setdefault("metadata", {})["managedFields"] = _record(owners, before, owner, mine, writer=writer)
    return merged


def _writable(applied: Obj, reset: str) -> Obj:
    """What the endpoint takes from a configuration: the rest is as if it had not been sent."""
    if reset == "status":
        return {key: value for key, value in applied.items() if key != "status"}
    kept = ("apiVersion", "kind", "metadata", "status")
    return {key: value for key, value in applied.items() if key in kept} if reset == "spec" else applied


def _unowned(live: Obj, node: Node, writer: Writer) -> Owners:
    """What stood there before anybody was recorded belongs to a manager of its own."""
    paths = strip(field_set(live, node), writer.reset) if live.get("metadata", {}).get("uid") else EMPTY
    first = Owner("before-first-apply", "Update", writer.api_version, "")
    return {first: Entry(paths, timestamp(writer.now), writer.api_version)} if paths else {}


def _label(owner: Owner) -> str:
    text = f'"{owner.manager}"' + (f' with subresource "{owner.subresource}"' if owner.subresource else "")
    return f"{text} using {owner.api_version}" if owner.operation == "Update" else text


def conflict_error(conflicts: Mapping[Owner, FieldSet]) -> ApiError:
    """The 409 of an apply."""
    pairs = [
        (_label(owner), show_path(path))
        for owner, paths in sorted(conflicts.items())
        for path in sorted(paths)
    ]
    if len(pairs) == 1:
        text = f"Apply failed with 1 conflict: conflict with {pairs[0][0]}: {pairs[0][1]}"
    else:
        lines = []
        for label in dict.fromkeys(label for label, _ in pairs):
            lines += [f"conflicts with {label}:", *(f"- {path}" for other, path in pairs if other == label)]
        text = f"Apply failed with {len(pairs)} conflicts: " + "\n".join(lines)
    causes = [
        {"reason": "FieldManagerConflict", "message": f"conflict with {label}", "field": path}
        for label, path in pairs
    ]
    return ApiError(409, text, details={"causes": causes})
