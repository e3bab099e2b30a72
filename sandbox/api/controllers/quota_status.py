"""The controller that keeps a ResourceQuota's status equal to what is used."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING

from sandbox.api.controllers.manager import Key, Mapper, own_key
from sandbox.api.meta.objects import dig, namespace_of
from sandbox.api.storage.store import Change

if TYPE_CHECKING:
    from sandbox.api.cluster.simulated import Cluster
from sandbox.api.admission.limits import used

_QUOTAS = "resourcequotas"


class QuotaStatus:
    """Keeps ResourceQuota status in step."""

    name = "resourcequota"

    def __init__(self, cluster: Cluster) -> None:
        self._client = cluster.client(
            "system:serviceaccount:kube-system:resourcequota-controller", "kube-controller-manager"
        )

    def watches(self) -> Mapping[str, Mapper]:
        """Quotas, and the kinds they count most."""
        follow = (
            "pods",
            "services",
            "configmaps",
            "secrets",
            "persistentvolumeclaims",
            "resourceclaims.resource.k8s.io",
            "jobs.batch",
            "statefulsets.apps",
            "workloads.kueue.x-k8s.io",
        )
        return {_QUOTAS: own_key, **dict.fromkeys(follow, self._in_namespace)}

    def _in_namespace(self, change: Change) -> list[Key]:
        space = namespace_of(change.obj)
        return [Key(space, quota["metadata"]["name"]) for quota in self._client.list(_QUOTAS, space)]

    def reconcile(self, key: Key, now: datetime) -> float | None:
        """Write hard and used."""
        del now
        quota = self._client.get(_QUOTAS, key.name, key.namespace)
        if quota is None or quota["metadata"].get("deletionTimestamp"):
            return None
        hard = dig(quota, "spec", "hard", default={})
        status = {"hard": hard, "used": used(hard, key.namespace, self._client)}
        if quota.get("status") != status:
            self._client.update(_QUOTAS, {**quota, "status": status}, subresource="status")
        return None
