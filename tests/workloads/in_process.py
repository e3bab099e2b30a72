"""A workload in a double of the cluster, and what a watcher would tell of what others make there."""

from collections.abc import Mapping
from typing import Any

from django.utils import timezone

from apps.cluster.mirror.rules.mirror_columns import Sighting
from apps.cluster.mirror.services import mirror_table
from apps.cluster.models import MirrorObject
from apps.cluster.objects.names import owner_labels
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
        found = [body for ref, body in self.cluster.objects.items() if ref.kind in ("StatefulSet", "Job")]
        metadata: Mapping[str, Any] = found[0]["metadata"]
        return metadata

    def tell(self, body: dict[str, Any], *, labelled: bool = False) -> None:
        self.version += 1
        labels = owner_labels(owner="workload", uid=self.row.pk)
        place = {"resourceVersion": str(self.version), "namespace": self.row.tenant.object_name}
        meta = body["metadata"] | place | ({} if labelled or body["kind"] != "Pod" else {"labels": labels})
        sighting = Sighting(body["kind"], {**body, "metadata": meta})
        mirror_table.record_seen(self.row.cluster, [sighting], now=timezone.now())

    def forget(self, *kinds: str) -> None:
        """The watcher saw that these are gone."""
        MirrorObject.objects.filter(kind__in=kinds, gone_at=None).update(gone_at=timezone.now())

    def start(self) -> Workload:
        self.turn()
        uid = self.controller["uid"]
        self.tell(bodies.admitted() | {"metadata": bodies.queued(owner=uid)["metadata"]})
        self.tell(bodies.ready_pod(owner=uid))
        self.tell(bodies.claim("gpu-01/gpu-0-mig-1"))
        return self.turn()
