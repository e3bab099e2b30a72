"""The controllers every cluster has: namespaces, volume claim protection, definitions,
aggregated roles.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING

from sandbox.api.auth import rbac
from sandbox.api.controllers.collector import Collector
from sandbox.api.controllers.manager import Key, Manager, Mapper, own_key
from sandbox.api.meta.objects import Obj, copy_of, dig, name_of, namespace_of, timestamp
from sandbox.api.registry import crds, deletion
from sandbox.api.storage.store import Change, Place

if TYPE_CHECKING:
    from sandbox.api.cluster.simulated import Cluster

CLAIM_FINALIZER = "kubernetes.io/pvc-protection"
ROOT_CA = "kube-root-ca.crt"
# What never goes wrong here, in the namespace controller's words.
_FINE = (
    (
        "NamespaceDeletionDiscoveryFailure",
        "ResourcesDiscovered",
        "All resources successfully discovered",
        False,
    ),
    (
        "NamespaceDeletionGroupVersionParsingFailure",
        "ParsedGroupVersions",
        "All legacy kube types successfully parsed",
        False,
    ),
    (
        "NamespaceDeletionContentFailure",
        "ContentDeleted",
        "All content successfully deleted, may be waiting on finalization",
        False,
    ),
)


def install(cluster: Cluster, manager: Manager) -> None:
    """Run them all."""
    manager.add(Namespaces(cluster))
    manager.add(ClaimProtection(cluster))
    manager.add(Definitions(cluster))
    manager.add(RoleAggregation(cluster))
    Collector(cluster, manager)


class Namespaces:
    """Gives a namespace its account and its CA bundle; empties it when it is deleted."""

    name = "namespace"

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._client = cluster.client(
            "system:serviceaccount:kube-system:namespace-controller", "kube-controller-manager"
        )

    def watches(self) -> Mapping[str, Mapper]:
        """Namespaces, and the account that must always be there."""
        return {
            "namespaces": own_key,
            "serviceaccounts": lambda change: (
                (Key("", namespace_of(change.obj)),) if change.type == "DELETED" else ()
            ),
        }

    def reconcile(self, key: Key, now: datetime) -> float | None:
        """Fill or empty one namespace; a second between looks while something remains."""
        space = self._client.get("namespaces", key.name)
        if space is None:
            return None
        if not space["metadata"].get("deletionTimestamp"):
            self._furnish(key.name)
            return None
        left = self._clear(key.name)
        if left:
            self._report(space, left, now)
            return 1.0
        kind = self._cluster.kinds.named("namespaces")
        new = copy_of(space)
        new["spec"] = {**new.get("spec", {}), "finalizers": []}
        if not new["metadata"].get("finalizers"):
            self._cluster.store.remove("namespaces", Place("", key.name))
        elif deletion.finished(kind, new) is False and space["spec"].get("finalizers"):
            self._cluster.store.put("namespaces", new)
        return None

    def _furnish(self, name: str) -> None:
        if self._client.get("serviceaccounts", "default", name) is None:
            self._client.create("serviceaccounts", {"metadata": {"name": "default"}}, name)
        if self._client.get("configmaps", ROOT_CA, name) is None:
            self._client.create(
                "configmaps",
                {
                    "metadata": {"name": ROOT_CA},
                    "data": {"ca.crt": "# The sandbox's authority is in its kubeconfig.\n"},
                },
                name,
            )

    def _clear(self, name: str) -> dict[str, int]:
        """Delete everything inside; what is still there, by resource."""
        left: dict[str, int] = {}
        for resource in self._cluster.store.resources():
            if self._cluster.kinds.find(resource) is None:
                continue
            for entry in list(self._cluster.store.entries(resource, name)):
                metadata = entry.obj["metadata"]
                if not metadata.get("deletionTimestamp"):
                    self._client.delete(resource, metadata["name"], name)
            remaining = self._cluster.store.count(resource, name)
            if remaining:
                left[resource] = remaining
        return left

    def _report(self, space: Obj, left: dict[str, int], now: datetime) -> None:
        """Say in the status what is still there and what holds it."""
        old = {item["type"]: item for item in dig(space, "status", "conditions", default=[])}
        listed = [
            {
                "type": kind,
                "status": str(true),
                "reason": reason,
                "message": message,
                "lastTransitionTime": old.get(kind, {}).get("lastTransitionTime", timestamp(now)),
            }
            for kind, reason, message, true in (*_FINE, *self._remaining(name_of(space), left))
        ]
        if dig(space, "status", "conditions") != listed:
            new = copy_of(space)
            new["status"] = {"phase": "Terminating", "conditions": listed}
            self._cluster.store.put("namespaces", new)

    def _remaining(self, name: str, left: dict[str, int]) -> tuple[tuple[str, str, str, bool], ...]:
        entries = (entry for resource in left for entry in self._cluster.store.entries(resource, name))
        counts = Counter(name for entry in entries for name in entry.obj["metadata"].get("finalizers") or ())
        words = ", ".join(
            f"{resource} has {count} resource instances" for resource, count in sorted(left.items())
        )
        held = ", ".join(f"{name} in {count} resource instances" for name, count in sorted(counts.items()))
        reason, text = "ContentHasNoFinalizers", "All content-preserving finalizers finished"
        if held:
            reason = "SomeFinalizersRemain"
            text = f"Some content in the namespace has finalizers remaining: {held}"
        return (
            (
                "NamespaceContentRemaining",
                "SomeResourcesRemain",
                f"Some resources are remaining: {words}",
                True,
            ),
            ("NamespaceFinalizersRemaining", reason, text, bool(held)),
        )


class ClaimProtection:
    """Lets a deleted volume claim go once no pod uses it."""

    name = "pvc-protection"

    def __init__(self, cluster: Cluster) -> None:
        self._client = cluster.client(
            "system:serviceaccount:kube-system:pvc-protection-controller", "kube-controller-manager"
        )

    def watches(self) -> Mapping[str, Mapper]:
        """Claims, and pods that end."""
        return {"persistentvolumeclaims": own_key, "pods": self._claims_of}

    @staticmethod
    def _claims_of(change: Change) -> list[Key]:
        names = [
            dig(volume, "persistentVolumeClaim", "claimName")
            for volume in dig(change.obj, "spec", "volumes", default=[])
        ]
        return [Key(namespace_of(change.obj), name) for name in names if name]

    def reconcile(self, key: Key, now: datetime) -> float | None:
        """Take the finalizer off when the last user is gone."""
        del now
        claim = self._client.get("persistentvolumeclaims", key.name, key.namespace)
        if claim is None or not claim["metadata"].get("deletionTimestamp"):
            return None
        users = [
            pod
            for pod in self._client.list("pods", key.namespace)
            if dig(pod, "status", "phase") not in ("Succeeded", "Failed")
            and any(
                dig(volume, "persistentVolumeClaim", "claimName") == key.name
                for volume in dig(pod, "spec", "volumes", default=[])
            )
        ]
        finalizers = claim["metadata"].get("finalizers") or []
        if not users and CLAIM_FINALIZER in finalizers:
            rest = [name for name in finalizers if name != CLAIM_FINALIZER]
            self._client.patch(
                "persistentvolumeclaims",
                key.name,
                {"metadata": {"finalizers": rest or None}},
                namespace=key.namespace,
            )
        return None


class Definitions:
    """Establishes custom resource definitions, and removes their objects before they go."""

    name = "definitions"

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._client = cluster.client("system:apiserver", "kube-apiserver")

    def watches(self) -> Mapping[str, Mapper]:
        """Definitions."""
        return {crds.RESOURCE: own_key}

    def reconcile(self, key: Key, now: datetime) -> float | None:
        """Set the conditions once; empty and release a definition that is deleted."""
        del now
        definition = self._client.get(crds.RESOURCE, key.name)
        if definition is None:
            return None
        if definition["metadata"].get("deletionTimestamp"):
            if crds.remove_instances(self._cluster, definition):
                return 1.0
            rest = [name for name in definition["metadata"].get("finalizers") or () if name != crds.CLEANUP]
            self._client.patch(crds.RESOURCE, key.name, {"metadata": {"finalizers": rest or None}})
            return None
        if not dig(definition, "status", "conditions"):
            self._client.update(
                crds.RESOURCE, crds.establish(self._cluster, definition), subresource="status"
            )
        return None


class RoleAggregation:
    """Writes the union of the selected roles into an aggregating cluster role."""

    name = "role-aggregation"

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._client = cluster.client(
            "system:serviceaccount:kube-system:clusterrole-aggregation-controller",
            "clusterrole-aggregation-controller",
        )

    def watches(self) -> Mapping[str, Mapper]:
        """Any cluster role may feed any aggregating one."""
        return {rbac.CLUSTER_ROLES: self._aggregating}

    def _aggregating(self, change: Change) -> list[Key]:
        del change
        return [
            Key("", name_of(entry.obj))
            for entry in self._cluster.store.entries(rbac.CLUSTER_ROLES)
            if entry.obj.get("aggregationRule")
        ]

    def reconcile(self, key: Key, now: datetime) -> float | None:
        """Write only a difference."""
        del now
        role = self._client.get(rbac.CLUSTER_ROLES, key.name)
        if role is None or not role.get("aggregationRule"):
            return None
        rules = rbac.aggregated(self._cluster.store, role)
        if rules != (role.get("rules") or []):
            self._client.patch(rbac.CLUSTER_ROLES, key.name, {"rules": rules})
        return None
