"""A workload in a double of the cluster, and what a watcher would tell of what others make there."""

from collections.abc import Mapping
from typing import Any

from django.utils import timezone

from apps.cluster.mirror.rules.mirror_columns import Sighting
from apps.cluster.mirror.services import mirror_table
from apps.cluster.models import MirrorObject
from apps.cluster.objects.names import owner_labels
from apps.cluster.specs import ref_of
from apps.workloads.lifecycle.services.reconcile import reconcile
from apps.workloads.models import Workload
from tests.cluster.doubles import FakeCluster
from tests.workloads import bodies


class House:
    """One workload, the double, and what a watcher would tell of the objects that others make."""

    def __init__(self, row: Workload) -> None:
        self.row, self.cluster, self.version = row, FakeCluster(), 1000

    def turn(self) -> Workload:
        reconcile(self.row.pk, gateway=self.cluster)
        self.row.refresh_from_db()
        return self.row

    def kinds(self) -> list[str]:
        return sorted(ref.kind for ref in self.cluster.objects)

    @property
    def controller(self) -> Mapping[str, Any]:
        metadata: Mapping[str, Any] = self.queued["metadata"]
        return metadata

    @property
    def queued(self) -> dict[str, Any]:
        """What Kueue queues: the notebook's pod, or what makes pods."""
        kinds = ("StatefulSet", "Pod", "Job")
        return next(dict(body) for ref, body in self.cluster.objects.items() if ref.kind in kinds)

    def tell(self, body: dict[str, Any], *, labelled: bool = False, is_gone: bool = False) -> None:
        self.version += 1
        labels = owner_labels(owner="workload", uid=self.row.pk)
        place = {"resourceVersion": str(self.version), "namespace": self.row.tenant.object_name}
        meta = body["metadata"] | place | ({} if labelled or body["kind"] != "Pod" else {"labels": labels})
        sighting = Sighting(body["kind"], {**body, "metadata": meta}, is_gone)
        mirror_table.record_seen(self.row.cluster, [sighting], now=timezone.now())

    def forget(self, *kinds: str) -> None:
        """The watcher saw that these are gone."""
        MirrorObject.objects.filter(kind__in=kinds, gone_at=None).update(gone_at=timezone.now())

    def start(self, **status: Any) -> Workload:
        self.turn()
        uid, made = self.controller["uid"], self.queued
        self.tell(bodies.admitted() | {"metadata": bodies.queued(owner=uid)["metadata"]})
        runs = bodies.ready_pod(owner=uid, **status)
        if made["kind"] == "Pod":
            runs = {**made, "spec": {**made["spec"], **runs["spec"]}, "status": runs["status"]}
            self.cluster.objects[ref_of(made)]["status"] = runs["status"]
        self.tell(runs, labelled=made["kind"] == "Pod")
        self.tell(bodies.claim("gpu-01/gpu-0-mig-1", owner=runs["metadata"]["uid"]))
        return self.turn()
