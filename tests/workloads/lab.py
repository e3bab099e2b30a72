"""The sandbox in this process under one tenant's work, with all its controllers: what a person would see."""

from typing import Any

from django.utils import timezone

from apps.cluster.mirror.rules.mirror_columns import Sighting
from apps.cluster.mirror.services import mirror_table
from apps.quotas.specs import Priority
from apps.workloads.lifecycle.services.reconcile import reconcile
from apps.workloads.models import Workload
from sandbox import controllers, fleet
from sandbox.api.controllers import lifecycle
from sandbox.api.controllers.manager import Manager
from sandbox.api.meta.objects import copy_of
from sandbox.api.storage.store import Change
from sandbox.controllers.kueue.names import WORKLOADS
from tests.conftest import Cast
from tests.sandbox.controllers.bodies import ATTRIBUTES, cluster_queue, device_class, kueue
from tests.tenants.in_process import InProcess


class Lab:
    """The sandbox in this process with all its controllers, and a queue for one tenant."""

    def __init__(self, cast: Cast) -> None:
        self.gateway, self.cast = InProcess(start=timezone.now().replace(microsecond=0)), cast
        cluster = self.gateway.simulated
        self.ended: list[Sighting] = []
        cluster.store.listen(self._hear)
        self.manager = Manager(cluster)
        lifecycle.install(cluster, self.manager)
        controllers.install(cluster, self.manager)
        fleet.install(cluster, self.manager, "laptop", 7)
        self.admin, self.space = cluster.client("admin", "admin"), cast.vision.object_name
        slices = f"{ATTRIBUTES}.type == 'mig' && {ATTRIBUTES}.profile == '1g.10gb'"
        offered = cast.offer.resource_name
        queue = cluster_queue(self.space, {"cpu": "64", "memory": "512Gi", offered: 1})
        labels = {"allotment.dev/managed": "true", "allotment.dev/tenant": "vision"}
        meta = {"name": self.space, "labels": labels}
        space: Any = {"apiVersion": "v1", "kind": "Namespace", "metadata": meta}
        for resource, body, namespace in (
            ("namespaces", space, ""),
            ("deviceclasses.resource.k8s.io", device_class("slice", offered, slices), ""),
            ("resourceflavors.kueue.x-k8s.io", kueue("ResourceFlavor", "h100", {}), ""),
            *(("workloadpriorityclasses.kueue.x-k8s.io", _priority(name), "") for name in Priority),
            ("clusterqueues.kueue.x-k8s.io", queue, ""),
            (
                "localqueues.kueue.x-k8s.io",
                kueue("LocalQueue", "gpu", {"clusterQueue": self.space}),
                self.space,
            ),
        ):
            self.admin.create(resource, body, namespace)

    def turn(self, row: Workload, seconds: float = 0) -> Workload:
        """Time passes in the cluster, the watcher looks, and the row is reconciled."""
        self.manager.advance(seconds)
        mirror_table.record_seen(row.cluster, self.ended, now=timezone.now())
        self.ended.clear()
        self.gateway.mirror(row.cluster, now=timezone.now())
        reconcile(row.pk, gateway=self.gateway)
        row.refresh_from_db()
        return row

    def _hear(self, change: Change) -> None:
        """A watch tells of each end with the last state; a list knows nothing of what went between two."""
        kinds = {"pods": "Pod", WORKLOADS: "Workload"}
        if change.type == "DELETED" and change.resource in kinds:
            self.ended.append(Sighting(kinds[change.resource], copy_of(change.obj), is_gone=True))

    def lose(self, row: Workload) -> None:
        """Job, pods and events go, as they do sooner or later in every cluster."""
        for resource in ("jobs.batch", "pods", "events"):
            for body in self.admin.list(resource, self.space):
                self.admin.delete(resource, body["metadata"]["name"], self.space, grace=0)
        self.manager.advance(40)
        self.gateway.mirror(row.cluster, now=timezone.now())


def _priority(name: str) -> Any:
    body = kueue("WorkloadPriorityClass", name, {})
    del body["spec"]
    return {**body, "value": 100}
