"""Objects in memory, mirrored into one SQLite file with an event log.

Gives versions and watches; knows no Kubernetes rule.

Every write is committed (WAL, no fsync) before it is acknowledged: a killed process loses nothing, a
lost power supply may.
"""

from __future__ import annotations

import sqlite3
from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import orjson

from sandbox.api.meta.objects import Obj, copy_of, namespace_of

KEEP_EVENTS = 20_000
_TRIM_EVERY = 1_000
_SCHEMA = """
CREATE TABLE IF NOT EXISTS objects (
    resource TEXT, namespace TEXT, name TEXT, body BLOB,
    PRIMARY KEY (resource, namespace, name)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS events (
    version INTEGER PRIMARY KEY, type TEXT, resource TEXT, namespace TEXT, name TEXT, body BLOB);
CREATE INDEX IF NOT EXISTS events_by_object ON events (resource, namespace, name, version);
CREATE TABLE IF NOT EXISTS facts (key TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID;
"""


class Place(NamedTuple):
    """Where an object lives inside its resource."""

    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class Entry:
    """A stored object and its JSON without apiVersion and kind (lists of built-in kinds leave them out)."""

    obj: Obj
    body: bytes

    def full(self) -> bytes:
        """The object's JSON with kind and apiVersion in front."""
        return whole(self.obj["kind"], self.obj["apiVersion"], self.body)


def whole(kind: str, api_version: str, body: bytes) -> bytes:
    """Put kind and apiVersion before a stored body."""
    return b'{"kind":"%s","apiVersion":"%s",' % (kind.encode(), api_version.encode()) + body[1:]


@dataclass(frozen=True, slots=True)
class Change:
    """One write: ADDED, MODIFIED or DELETED; `obj` is the new state, or for a deletion the last one with
    the deletion's version.
    """

    type: str
    resource: str
    obj: Obj
    old: Obj | None
    version: int
    body: bytes


class Compacted(Exception):
    """The asked-for version is older than the event log."""


class Store:
    """The only place that assigns versions.

    Single threaded by design: every call comes from the server's loop.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._db = sqlite3.connect(
            str(path) if path else ":memory:", isolation_level=None, check_same_thread=False
        )
        self._db.executescript(
            "PRAGMA journal_mode=WAL; PRAGMA synchronous=OFF; PRAGMA cache_size=-8000;" + _SCHEMA
        )
        self._objects: dict[str, dict[Place, Entry]] = defaultdict(dict)
        self._order: dict[str, list[Place]] = defaultdict(list)
        self._owned: dict[str, set[tuple[str, Place]]] = defaultdict(set)
        self._listeners: list[Callable[[Change], None]] = []
        self._read()

    def _read(self) -> None:
        """Everything that the database holds."""
        self.version = int(self.fact("version") or 1)
        self.compacted = int(self.fact("compacted") or 0)
        for resource, namespace, name, body in self._db.execute(
            "SELECT resource, namespace, name, body FROM objects ORDER BY 1, 2, 3"
        ):
            obj = orjson.loads(body)
            self._keep(resource, Place(namespace, name), obj, self._tail(obj))
        newest = self._db.execute("SELECT max(version) FROM events").fetchone()[0]
        self.version = max(self.version, newest or 0)

    def copy(self) -> Store:
        """A store in memory that begins with the same objects, events and version; no listener goes along.

        RULE: stored objects are read only, so both stores share them.
        """
        self.remember("version", str(self.version))
        twin = Store()
        self._db.backup(twin._db)
        twin.version, twin.compacted = self.version, self.compacted
        for resource, entries in self._objects.items():
            twin._objects[resource] = dict(entries)
            twin._order[resource] = list(self._order[resource])
        for uid, dependents in self._owned.items():
            twin._owned[uid] = set(dependents)
        return twin

    @staticmethod
    def _tail(obj: Obj) -> bytes:
        return orjson.dumps({key: value for key, value in obj.items() if key not in ("apiVersion", "kind")})

    # -- facts -----------------------------------------------------------------------------------------------

    def fact(self, key: str) -> str | None:
        """A small remembered text (clock, seed, version)."""
        row = self._db.execute("SELECT value FROM facts WHERE key = ?", (key,)).fetchone()
        return None if row is None else str(row[0])

    def remember(self, key: str, value: str) -> None:
        """Keep a small text over restarts."""
        self._db.execute("INSERT OR REPLACE INTO facts VALUES (?, ?)", (key, value))

    # -- reading ---------------------------------------------------------------------------------------------

    def get(self, resource: str, place: Place) -> Entry | None:
        """One entry, or None."""
        return self._objects[resource].get(place)

    def entries(self, resource: str, namespace: str = "") -> Iterator[Entry]:
        """Entries ordered by namespace and name; an empty namespace means all of them."""
        entries, order = self._objects[resource], self._order[resource]
        start = bisect_left(order, Place(namespace, "")) if namespace else 0
        for place in order[start:]:
            if namespace and place.namespace != namespace:
                return
            yield entries[place]

    def entries_at(self, resource: str, version: int, namespace: str = "") -> list[Entry]:
        """The entries as they were at a version, from the event log; Compacted when it is too old."""
        found = {
            Place(namespace_of(entry.obj), entry.obj["metadata"]["name"]): entry
            for entry in self.entries(resource, namespace)
        }
        seen: set[Place] = set()
        for change in self.since(resource, version, namespace):
            place = Place(namespace_of(change.obj), change.obj["metadata"]["name"])
            if place in seen:
                continue
            seen.add(place)
            found.pop(place, None)
            if change.type != "ADDED" and change.old is not None:
                found[place] = Entry(change.old, self._tail(change.old))
        return [found[place] for place in sorted(found)]

    def resources(self) -> list[str]:
        """Resources that hold at least one object."""
        return sorted(resource for resource, entries in self._objects.items() if entries)

    def owned_by(self, uid: str) -> list[tuple[str, Entry]]:
        """Objects with an ownerReference to this uid, in a stable order."""
        found = ((resource, place) for resource, place in sorted(self._owned.get(uid, ())))
        return [(resource, self._objects[resource][place]) for resource, place in found]

    def count(self, resource: str, namespace: str = "") -> int:
        """How many objects there are."""
        return (
            sum(1 for _ in self.entries(resource, namespace)) if namespace else len(self._objects[resource])
        )

    # -- writing ---------------------------------------------------------------------------------------------

    def put(self, resource: str, obj: Obj) -> Entry:
        """Store an object under the next version (written into its metadata) and tell the listeners."""
        place = Place(namespace_of(obj), obj["metadata"]["name"])
        old = self._objects[resource].get(place)
        version = self._next()
        obj["metadata"]["resourceVersion"] = str(version)
        body = self._tail(obj)
        kind = "MODIFIED" if old else "ADDED"
        stored = whole(obj["kind"], obj["apiVersion"], body)
        self._db.execute("BEGIN")
        self._db.execute("INSERT OR REPLACE INTO objects VALUES (?, ?, ?, ?)", (resource, *place, stored))
        self._log(kind, resource, place, stored)
        entry = self._keep(resource, place, obj, body)
        self._tell(Change(kind, resource, obj, old.obj if old else None, version, stored))
        return entry

    def remove(self, resource: str, place: Place, final: Obj | None = None) -> Obj | None:
        """Drop an object; the deletion has its own version, as in etcd.

        `final` is its last state where the same write changed it.
        """
        old = self._objects[resource].get(place)
        if old is None:
            return None
        version = self._next()
        last: Obj = copy_of(final if final is not None else old.obj)
        last["metadata"]["resourceVersion"] = str(version)
        stored = whole(last["kind"], last["apiVersion"], self._tail(last))
        self._db.execute("BEGIN")
        self._db.execute(
            "DELETE FROM objects WHERE resource = ? AND namespace = ? AND name = ?", (resource, *place)
        )
        self._log("DELETED", resource, place, stored)
        self._forget(resource, place)
        self._tell(Change("DELETED", resource, last, old.obj, version, stored))
        return last

    def _next(self) -> int:
        self.version += 1
        return self.version

    def _log(self, kind: str, resource: str, place: Place, stored: bytes) -> None:
        self._db.execute(
            "INSERT INTO events VALUES (?, ?, ?, ?, ?, ?)", (self.version, kind, resource, *place, stored)
        )
        self._db.execute("COMMIT")
        if self.version % _TRIM_EVERY == 0:
            self.compact(self.version - KEEP_EVENTS)

    def _keep(self, resource: str, place: Place, obj: Obj, body: bytes) -> Entry:
        if place in self._objects[resource]:
            self._unown(resource, place)
        else:
            insort(self._order[resource], place)
        entry = Entry(obj, body)
        self._objects[resource][place] = entry
        for owner in obj["metadata"].get("ownerReferences") or ():
            self._owned[owner["uid"]].add((resource, place))
        return entry

    def _unown(self, resource: str, place: Place) -> None:
        for owner in self._objects[resource][place].obj["metadata"].get("ownerReferences") or ():
            self._owned[owner["uid"]].discard((resource, place))
            if not self._owned[owner["uid"]]:
                del self._owned[owner["uid"]]

    def _forget(self, resource: str, place: Place) -> None:
        self._unown(resource, place)
        del self._objects[resource][place]
        order = self._order[resource]
        del order[bisect_left(order, place)]

    # -- watching --------------------------------------------------------------------------------------------

    def listen(self, listener: Callable[[Change], None]) -> Callable[[], None]:
        """Call back on every write; returns the way to stop."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def _tell(self, change: Change) -> None:
        for listener in tuple(self._listeners):
            listener(change)

    def since(self, resource: str, version: int, namespace: str = "") -> list[Change]:
        """Every change of a resource after a version; Compacted when the log does not reach back so far."""
        if version < self.compacted:
            raise Compacted
        sql = "SELECT version, type, namespace, name, body FROM events WHERE resource = ? AND version > ?"
        rows = self._db.execute(
            sql + (" AND namespace = ?" if namespace else "") + " ORDER BY version",
            (resource, version, *((namespace,) if namespace else ())),
        ).fetchall()
        return [
            Change(
                kind, resource, orjson.loads(body), self._before(resource, Place(space, name), at), at, body
            )
            for at, kind, space, name, body in rows
        ]

    def _before(self, resource: str, place: Place, version: int) -> Obj | None:
        row = self._db.execute(
            "SELECT body FROM events WHERE resource = ? AND namespace = ? AND name = ? AND version < ? "
            "ORDER BY version DESC LIMIT 1",
            (resource, *place, version),
        ).fetchone()
        return None if row is None else orjson.loads(row[0])

    def compact(self, version: int) -> None:
        """Forget the events up to a version; older watches get Compacted."""
        if version <= self.compacted:
            return
        self.compacted = version
        self._db.execute("DELETE FROM events WHERE version <= ?", (version,))
        self.remember("compacted", str(version))

    def close(self) -> None:
        """Write the version down and close the file."""
        self.remember("version", str(self.version))
        self._db.close()
