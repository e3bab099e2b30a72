"""The API without HTTP, for controllers and the fleet: same rules, same refusals.

Objects it returns are shared: read only.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from sandbox.api.auth.users import SYSTEM, User
from sandbox.api.managedfields import patches
from sandbox.api.meta import selectors as meta_selectors
from sandbox.api.meta.errors import ApiError
from sandbox.api.meta.objects import Obj, copy_of, name_of, namespace_of, timestamp
from sandbox.api.registry import deletion
from sandbox.api.registry.generic import Options
from sandbox.api.storage.store import Place

if TYPE_CHECKING:
    from sandbox.api.cluster.simulated import Cluster


class Client:
    """One component's way to read and write."""

    def __init__(
        self, cluster: Cluster, user: User = SYSTEM, manager: str = "kube-controller-manager"
    ) -> None:
        self._cluster = cluster
        self._user, self._manager = user, manager

    def _options(self, subresource: str = "", *, force: bool = False) -> Options:
        return Options(
            self._user, self._manager, subresource=subresource, force=force, trusted=self._user.is_admin()
        )

    def now(self) -> datetime:
        """Simulated time."""
        return self._cluster.clock.now()

    def get(self, resource: str, name: str, namespace: str = "") -> Obj | None:
        """The object, or None when absent."""
        found = self._cluster.store.get(resource, Place(namespace, name))
        return found.obj if found else None

    def list(
        self, resource: str, namespace: str = "", *, labels: str = "", fields: str = "", owner_uid: str = ""
    ) -> list[Obj]:
        """Objects by selector text; `owner_uid` is an indexed look-up of dependents."""
        if owner_uid:
            found = [entry.obj for kind, entry in self._cluster.store.owned_by(owner_uid) if kind == resource]
        else:
            found = [entry.obj for entry in self._cluster.store.entries(resource, namespace)]
        if labels:
            wanted = meta_selectors.labels(labels)
            found = [obj for obj in found if wanted(obj["metadata"].get("labels") or {})]
        if fields:
            kind = self._cluster.kinds.named(resource)
            test = meta_selectors.fields(fields, kind.fields)
            found = [obj for obj in found if test(obj)]
        return found

    def create(self, resource: str, body: Obj, namespace: str = "") -> Obj:
        """Create; ApiError on refusal."""
        kind = self._cluster.kinds.named(resource)
        return self._cluster.registry.create(kind, namespace or namespace_of(body), body, self._options())

    def update(self, resource: str, body: Obj, *, subresource: str = "") -> Obj:
        """Replace; a stale metadata.resourceVersion is a 409 Conflict."""
        kind = self._cluster.kinds.named(resource)
        return self._cluster.registry.update(
            kind,
            Place(namespace_of(body), name_of(body)),
            lambda _: copy_of(body),
            self._options(subresource),
        )

    def patch(
        self, resource: str, name: str, patch: Obj, *, namespace: str = "", subresource: str = ""
    ) -> Obj:
        """JSON merge patch."""
        kind = self._cluster.kinds.named(resource)
        merged = lambda live: copy_of(patches.merge_patch(live, patch))  # noqa: E731 - a one-use transform
        return self._cluster.registry.update(kind, Place(namespace, name), merged, self._options(subresource))

    def apply(self, resource: str, body: Obj, *, force: bool = True, subresource: str = "") -> Obj:
        """Server-side apply as this client's manager."""
        kind = self._cluster.kinds.named(resource)
        place = Place(namespace_of(body), name_of(body))
        return self._cluster.registry.apply(
            kind, place, copy_of(body), self._options(subresource, force=force)
        )[0]

    def delete(
        self,
        resource: str,
        name: str,
        namespace: str = "",
        *,
        uid: str = "",
        grace: int | None = None,
        propagation: str = "Background",
    ) -> None:
        """Delete; an absent object is no error."""
        kind = self._cluster.kinds.named(resource)
        asked = deletion.Deletion(propagation, grace, uid)
        try:
            deletion.delete(
                self._cluster.registry, kind, Place(namespace, name), asked=asked, options=self._options()
            )
        except ApiError as problem:
            if problem.code != 404:
                raise

    def event(
        self,
        involved: Obj,
        reason: str,
        message: str,
        *,
        type: str = "Normal",  # noqa: A002 - the API's word
        component: str = "",
        field: str = "",
    ) -> None:
        """A core/v1 Event about an object, or the part of it at `field`; the same one again counts up."""
        source, now = component or self._manager, timestamp(self.now())
        space, about = namespace_of(involved) or "default", _reference(involved)
        about |= {"fieldPath": field} if field else {}
        told = (about["uid"], reason, message, source, *([field] if field else []))
        salt = self._cluster.ids.random(*told).getrandbits(64)
        name = f"{about['name'][:200]}.{salt:016x}"
        old = self.get("events", name, space)
        if old is not None:
            again = {"count": int(old.get("count", 1)) + 1, "lastTimestamp": now}
            self.patch("events", name, again, namespace=space)
            return
        body = {
            "metadata": {"name": name, "namespace": space},
            "involvedObject": about,
            "reason": reason,
            "message": message,
            "type": type,
            "count": 1,
            "firstTimestamp": now,
            "lastTimestamp": now,
            "source": {"component": source},
            "reportingComponent": source,
        }
        try:
            self.create("events", body, space)
        except ApiError as problem:
            # A namespace on its way out takes no events any more; the real recorder drops them too.
            if problem.code not in (403, 404):
                raise


def _reference(involved: Obj) -> Obj:
    """An ObjectReference to an object as it is now."""
    metadata = involved["metadata"]
    about = {"apiVersion": involved["apiVersion"], "kind": involved["kind"], "name": metadata["name"]}
    about |= {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
    return about | ({"namespace": metadata["namespace"]} if metadata.get("namespace") else {})
