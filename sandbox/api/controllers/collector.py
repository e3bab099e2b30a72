"""Garbage collection by ownerReferences: background, foreground and orphan.

Follows every kind, also those added later.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING

from sandbox.api.controllers.manager import Key, Manager, Mapper
from sandbox.api.meta.objects import Obj, name_of, namespace_of
from sandbox.api.registry.deletion import FOREGROUND, ORPHAN
from sandbox.api.storage.store import Change, Place

if TYPE_CHECKING:
    from sandbox.api.cluster.simulated import Cluster


class Collector:
    """Garbage collection by ownerReferences: background, foreground and orphan.

    Follows every kind, also those added later.
    """

    name = "garbage-collector"

    def __init__(self, cluster: Cluster, manager: Manager) -> None:
        self._cluster = cluster
        self._client = cluster.client(
            "system:serviceaccount:kube-system:generic-garbage-collector", "kube-controller-manager"
        )
        self._manager = manager
        manager.add(self)
        for resource in cluster.store.resources():
            for entry in list(cluster.store.entries(resource)):
                self._look(Change("ADDED", resource, entry.obj, None, 0, b""))
        cluster.store.listen(self._look)

    def watches(self) -> Mapping[str, Mapper]:
        """Nothing by resource: the store is followed as a whole."""
        return {}

    def _look(self, change: Change) -> None:
        metadata = change.obj["metadata"]
        if change.type == "DELETED" and self._cluster.store.owned_by(metadata["uid"]):
            self._manager.enqueue(self.name, Key("owner", metadata["uid"]))
        elif (
            change.type != "DELETED"
            and metadata.get("deletionTimestamp")
            and {FOREGROUND, ORPHAN} & set(metadata.get("finalizers") or ())
        ):
            self._manager.enqueue(
                self.name, Key(change.resource, f"{namespace_of(change.obj)}/{name_of(change.obj)}")
            )
        if metadata.get("ownerReferences"):
            self._owned(change)

    def _owned(self, change: Change) -> None:
        """A dependent appeared (its owner may be gone already) or left (its owner may wait for that)."""
        for owner in change.obj["metadata"]["ownerReferences"]:
            kind = self._cluster.kinds.of_kind(owner["apiVersion"].rpartition("/")[0], owner["kind"])
            if kind is None:
                continue
            space = namespace_of(change.obj) if kind.namespaced else ""
            found = self._cluster.store.get(kind.key, Place(space, owner["name"]))
            if found is None or found.obj["metadata"]["uid"] != owner["uid"]:
                if change.type == "ADDED":
                    self._manager.enqueue(self.name, Key("owner", owner["uid"]))
            elif found.obj["metadata"].get("deletionTimestamp"):
                self._manager.enqueue(self.name, Key(kind.key, f"{space}/{owner['name']}"))

    def reconcile(self, key: Key, now: datetime) -> float | None:
        """Either the dependents of a vanished owner, or an owner that waits for its dependents."""
        del now
        if key.namespace == "owner":
            self._orphaned(key.name)
            return None
        space, _, name = key.name.partition("/")
        found = self._cluster.store.get(key.namespace, Place(space, name))
        if found is not None and found.obj["metadata"].get("deletionTimestamp"):
            self._waiting(key.namespace, found.obj)
        return None

    def _orphaned(self, uid: str) -> None:
        for resource, entry in self._cluster.store.owned_by(uid):
            owners = entry.obj["metadata"]["ownerReferences"]
            rest = [
                owner
                for owner in owners
                if owner["uid"] != uid and self._lives(owner, namespace_of(entry.obj))
            ]
            if rest:
                self._client.patch(
                    resource,
                    name_of(entry.obj),
                    {"metadata": {"ownerReferences": rest}},
                    namespace=namespace_of(entry.obj),
                )
            elif not entry.obj["metadata"].get("deletionTimestamp"):
                self._client.delete(
                    resource, name_of(entry.obj), namespace_of(entry.obj), uid=entry.obj["metadata"]["uid"]
                )

    def _lives(self, owner: Obj, namespace: str) -> bool:
        kind = self._cluster.kinds.of_kind(owner["apiVersion"].rpartition("/")[0], owner["kind"])
        found = (
            self._cluster.store.get(kind.key, Place(namespace if kind.namespaced else "", owner["name"]))
            if kind
            else None
        )
        return found is not None and found.obj["metadata"]["uid"] == owner["uid"]

    def _waiting(self, resource: str, obj: Obj) -> None:
        finalizers, uid = obj["metadata"].get("finalizers") or [], obj["metadata"]["uid"]
        owned = self._cluster.store.owned_by(uid)
        if ORPHAN in finalizers:
            for other, entry in owned:
                rest = [owner for owner in entry.obj["metadata"]["ownerReferences"] if owner["uid"] != uid]
                self._client.patch(
                    other,
                    name_of(entry.obj),
                    {"metadata": {"ownerReferences": rest or None}},
                    namespace=namespace_of(entry.obj),
                )
            self._release(resource, obj, ORPHAN)
        elif FOREGROUND in finalizers:
            blocking = False
            for other, entry in owned:
                if not entry.obj["metadata"].get("deletionTimestamp"):
                    self._client.delete(
                        other, name_of(entry.obj), namespace_of(entry.obj), propagation="Foreground"
                    )
                mine = next(
                    owner for owner in entry.obj["metadata"]["ownerReferences"] if owner["uid"] == uid
                )
                still = self._cluster.store.get(other, Place(namespace_of(entry.obj), name_of(entry.obj)))
                blocking = blocking or (still is not None and bool(mine.get("blockOwnerDeletion")))
            if not blocking:
                self._release(resource, obj, FOREGROUND)

    def _release(self, resource: str, obj: Obj, finalizer: str) -> None:
        rest = [name for name in obj["metadata"].get("finalizers") or () if name != finalizer]
        self._client.patch(
            resource, name_of(obj), {"metadata": {"finalizers": rest or None}}, namespace=namespace_of(obj)
        )
