"""CustomResourceDefinitions become served kinds: schema, columns, scope, subresources, and the conditions
that say so. No conversion.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sandbox.api.meta.objects import Obj, copy_of, dig, name_of, timestamp
from sandbox.api.schema.structural import SchemaPool
from sandbox.api.storage.store import Change
from sandbox.kinds.table import DEFAULT_FIELDS, Kind

if TYPE_CHECKING:
    from sandbox.api.cluster.simulated import Cluster

RESOURCE = "customresourcedefinitions.apiextensions.k8s.io"
# In the order in which the real server lists them.
_VERBS = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")
CLEANUP = "customresourcecleanup.apiextensions.k8s.io"
_AGE = {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}


def serve_stored(cluster: Cluster) -> None:
    """Serve every stored definition."""
    for entry in cluster.store.entries(RESOURCE):
        _serve(cluster, entry.obj)


def follow(cluster: Cluster) -> None:
    """Serve what becomes of definitions from now on."""

    def hear(change: Change) -> None:
        if change.resource != RESOURCE:
            return
        if change.type == "DELETED":
            _withdraw(cluster, change.obj)
        else:
            _serve(cluster, change.obj)

    cluster.store.listen(hear)


def kinds_of(definition: Obj, pool: SchemaPool) -> list[Kind]:
    """A Kind for each served version.

    Only the stored form exists: versions share it, as with conversion strategy None.
    """
    spec = definition["spec"]
    names = spec["names"]
    found = []
    for version in spec["versions"]:
        if not version.get("served"):
            continue
        subresources = {
            name: {"kind": {"kind": names["kind"]}, "verbs": ["get", "patch", "update"], **(settings or {})}
            for name, settings in (version.get("subresources") or {}).items()
        }
        selectable = {field["jsonPath"].lstrip(".") for field in version.get("selectableFields") or ()}
        found.append(
            Kind(
                group=spec["group"],
                version=version["name"],
                plural=names["plural"],
                singular=names.get("singular", names["kind"].lower()),
                kind=names["kind"],
                namespaced=spec["scope"] == "Namespaced",
                schema=pool.node(_structural(version)),
                short_names=tuple(names.get("shortNames", ())),
                categories=tuple(names.get("categories", ())),
                subresources=subresources,
                columns=tuple(version.get("additionalPrinterColumns") or (_AGE,)),
                fields=DEFAULT_FIELDS | selectable,
                native=False,
                verbs=_VERBS,
                generation=True,
                definition=definition,
            )
        )
    return found


def _structural(version: Obj) -> Obj:
    raw = dig(
        version,
        "schema",
        "openAPIV3Schema",
        default={"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    )
    reference = {"$ref": "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"}
    text = {"type": "string"}
    properties = {"apiVersion": text, "kind": text, **raw.get("properties", {}), "metadata": reference}
    return {**raw, "properties": properties}


def _serve(cluster: Cluster, definition: Obj) -> None:
    if not definition["metadata"].get("deletionTimestamp"):
        for kind in kinds_of(definition, cluster.kinds.pool):
            cluster.kinds.add(kind)


def _withdraw(cluster: Cluster, definition: Obj) -> None:
    for kind in kinds_of(definition, cluster.kinds.pool):
        cluster.kinds.remove(kind)


def establish(cluster: Cluster, definition: Obj) -> Obj:
    """The definition with names accepted, conditions set and stored versions listed."""
    now = timestamp(cluster.clock.now())
    new: Obj = copy_of(definition)
    names = {
        "singular": new["spec"]["names"]["kind"].lower(),
        "listKind": f"{new['spec']['names']['kind']}List",
        **new["spec"]["names"],
    }
    stored = [version["name"] for version in new["spec"]["versions"] if version.get("storage")]
    conditions = [
        {
            "type": "NamesAccepted",
            "status": "True",
            "lastTransitionTime": now,
            "reason": "NoConflicts",
            "message": "no conflicts found",
        },
        {
            "type": "Established",
            "status": "True",
            "lastTransitionTime": now,
            "reason": "InitialNamesAccepted",
            "message": "the initial names have been accepted",
        },
    ]
    new["status"] = {"conditions": conditions, "acceptedNames": names, "storedVersions": stored}
    return new


def remove_instances(cluster: Cluster, definition: Obj) -> int:
    """Deleting a definition deletes its objects; how many are still there."""
    left = 0
    for kind in kinds_of(definition, cluster.kinds.pool):
        for entry in list(cluster.store.entries(kind.key)):
            cluster.system.delete(kind.key, name_of(entry.obj), entry.obj["metadata"].get("namespace", ""))
        left += cluster.store.count(kind.key)
    return left
