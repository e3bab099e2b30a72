"""A tenant on the real plane, with the product's workers by hand."""

import html
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from queue import SimpleQueue
from threading import Thread
from typing import Any
from uuid import uuid4

import pytest
from django.test import Client
from django.utils import timezone

from apps.accounts.models import User
from apps.accounts.specs import Actor, system_actor
from apps.cluster.gateway.port import open_gateway
from apps.cluster.mirror.rules.mirror_columns import Sighting, version_number
from apps.cluster.mirror.services import mirror_table
from apps.cluster.models import MirrorObject
from apps.cluster.objects.kinds import WATCHED
from apps.cluster.reconciling.services import sweep
from apps.cluster.registration.services import clusters
from apps.cluster.specs import EventType, ObjectRef, WatchEvent
from apps.notices.models import Notice
from apps.quotas.allowances.services import queue_reconcile, quota_changes
from apps.quotas.catalogue.services import adoption, offer_reconcile
from apps.quotas.models import Flavor, Offer, TenantQueue
from apps.tenants.lifecycle.services import reconcile as tenant_reconcile
from apps.tenants.lifecycle.services import tenancy as tenants
from apps.tenants.models import Department, Tenant
from apps.tenants.specs import Role, TrustLevel
from apps.workloads.lifecycle.services import verbs
from apps.workloads.lifecycle.services.reconcile import reconcile
from apps.workloads.models import Workload
from apps.workloads.spec import parsing
from apps.workloads.specs import Phase, WorkloadRequest
from apps.workloads.waiting.rules.situation import Cause, Explanation
from apps.workloads.waiting.selectors import waiting
from apps.workloads.waiting.services import announcing
from tests.conftest import as_actor
from tests.controlplane.fixtures import as_admin
from tests.controlplane.plane import ControlPlane
from tests.factories import begin_deletion, make_user
from tests.patience import until

ROOT = system_actor("test")


RECONCILES: tuple[tuple[Any, Callable[[Any], None]], ...] = (
    (Department, tenant_reconcile.reconcile_department),
    (Tenant, tenant_reconcile.reconcile_tenant),
    (Flavor, offer_reconcile.reconcile_flavor),
    (Offer, offer_reconcile.reconcile_offer),
    (TenantQueue, queue_reconcile.reconcile_queue),
    (Workload, reconcile),
)


class House:
    """One tenant of its own on the plane, with the whole fleet as its quota."""

    def __init__(self, plane: ControlPlane, *, is_simulated: bool = True) -> None:
        now, tag = timezone.now(), uuid4().hex[:6]
        self.plane = plane
        self.cluster = clusters.register_cluster(
            actor=ROOT, slug=f"c-{tag}", name="Plane", kubeconfig_path=str(plane.kubeconfig),
            is_simulated=is_simulated, now=now,
        )  # fmt: skip
        self.gateway, self.admin = open_gateway(self.cluster), as_admin(plane)
        self.heard: dict[str, SimpleQueue[WatchEvent]] = {}
        self.look()
        department = tenants.create_department(
            actor=ROOT, slug=f"d-{tag}", name="Research", cluster=self.cluster, now=now
        )
        self.tenant = tenants.create_tenant(
            actor=ROOT, slug=f"t-{tag}", name="Vision", department=department,
            trust_level=TrustLevel.STANDARD, now=now,
        )  # fmt: skip
        user = make_user(f"u-{tag}")
        tenants.set_member(actor=ROOT, tenant=self.tenant, username=user.username, role=Role.MEMBER, now=now)
        self.rosa: Actor = as_actor(user)
        adoption.adopt_inventory(actor=ROOT, cluster=self.cluster, now=now)
        quota_changes.grant_everything(actor=ROOT, tenant=self.tenant, now=now)
        self.offer = Offer.objects.get(cluster=self.cluster, profile="1g.10gb")
        self.until(self._has_queue, "the tenant's queue")

    def look(self) -> None:
        for kind in WATCHED:
            if kind in self.heard:
                self._hear(kind)
                continue
            items, version = self.gateway.list(kind)
            now, taken = timezone.now(), version_number(version)
            mirror_table.record_seen(self.cluster, [Sighting(kind, item) for item in items], now=now)
            mirror_table.bury_absent(self.cluster, kind, items, resource_version=taken, now=now)

    @contextmanager
    def following(self, kind: str) -> Iterator[None]:
        """Within, this kind comes by its watch: a list knows nothing of what came and went between two."""
        _, version = self.gateway.list(kind)
        stream = self.gateway.watch(kind, version, 180)
        heard = self.heard[kind] = SimpleQueue[WatchEvent]()
        reader = Thread(target=deque, args=(map(heard.put, stream), 0), daemon=True)
        reader.start()
        try:
            yield
        finally:
            del self.heard[kind]
            stream.close()
            reader.join(10)

    def _hear(self, kind: str) -> None:
        while not self.heard[kind].empty():
            event = self.heard[kind].get()
            if event.type is not EventType.BOOKMARK:
                seen = Sighting(kind, event.object, event.type is EventType.DELETED)
                mirror_table.record_seen(self.cluster, [seen], now=timezone.now())

    def turn(self) -> None:
        self.look()
        for model in (Tenant, TenantQueue, Workload):
            model.objects.filter(deleted_at=None).update(due_at=timezone.now())
        for model, bring in RECONCILES:
            for pk in sweep.due(model, timezone.now()):
                bring(pk)

    def until(self, is_so: Callable[[], Any], what: str, seconds: float = 60) -> Any:
        return until(is_so, what, seconds, between=self.turn, told=self.told)

    def told(self) -> list[Any]:
        return list(Workload.objects.values_list("slug", "phase", "conditions"))

    def submit(self, slug: str, labels: dict[str, str] | None = None, **spec: Any) -> Workload:
        body = {"kind": "notebook", "offer": self.offer.slug, "cpu": "500m", "memory": "1Gi", **spec}
        request = WorkloadRequest(spec=parsing.parse(body), slug=slug, labels=labels or {})
        return verbs.submit_workload(actor=self.rosa, tenant=self.tenant, request=request, now=timezone.now())

    def job(self, slug: str, **spec: Any) -> Workload:
        return self.submit(slug, kind="job", **{"image": "python:3.13", "command": ["sleep", "6"], **spec})

    def act(self, verb: str, row: Workload, **given: Any) -> None:
        getattr(verbs, f"{verb}_workload")(actor=self.rosa, workload=row, now=timezone.now(), **given)

    def reaches(self, row: Workload, phase: Phase, seconds: float = 60) -> None:
        self.until(lambda: self.phase(row) == phase, f"{row.slug} {phase}", seconds)

    def phase(self, row: Workload) -> str:
        row.refresh_from_db()
        return row.phase

    def left(self, row: Workload) -> list[str]:
        kinds = "deployment,statefulset,replicaset,job,service,pvc,pod,httproute,referencegrant"
        found = self.plane.kubectl("get", kinds, "-A", "-l", f"allotment.dev/uid={row.pk}", "-o", "name")
        return found.split()

    def clear_workloads(self) -> None:
        for row in Workload.objects.filter(deleted_at=None, tenant=self.tenant):
            self.act("delete", row, keep_volumes=False)
        alive = Workload.objects.filter(deleted_at=None, tenant=self.tenant)
        self.until(lambda: not alive.exists(), "everything to be gone")

    def clear(self) -> None:
        self.clear_workloads()
        begin_deletion(self.tenant, now=timezone.now())
        queue = TenantQueue.objects.filter(tenant=self.tenant, deleted_at=None)
        self.until(lambda: not queue.exists(), "the tenant to be gone")
        made = {
            "ResourceFlavor": Flavor.objects.values_list("object_name", flat=True),
            "DeviceClass": Offer.objects.values_list("object_name", flat=True),
            "Cohort": Department.objects.values_list("object_name", flat=True),
        }
        for kind, names in made.items():
            for name in names:
                ref = ObjectRef(kind, "", name)
                body = self.admin.get(ref)
                assert body is None or self.admin.delete(ref, uid=body["metadata"]["uid"])

    def _has_queue(self) -> bool:
        return MirrorObject.objects.filter(
            cluster=self.cluster, kind="LocalQueue", namespace=self.tenant.object_name, gone_at=None
        ).exists()


@pytest.fixture
def house(control_plane: ControlPlane, db: None) -> Iterator[House]:
    made = House(control_plane)
    yield made
    made.clear()


def why(house: House, row: Workload) -> Explanation | None:
    row.refresh_from_db()
    return waiting.explanation_for(house.rosa, row, timezone.now())


def told_alike(house: House, row: Workload, cause: Cause) -> str:
    """Wait for the cause; its sentences as the page and REST tell them, which are the same."""

    def is_cause() -> bool:
        found = why(house, row)
        return found is not None and found.cause is cause

    house.until(is_cause, f"{cause}", 90)
    return on_every_surface(house, row, cause)


def on_every_surface(house: House, row: Workload, cause: Cause) -> str:
    found = why(house, row)
    assert found is not None
    assert found.cause is cause
    client = Client()
    client.force_login(User.objects.get(username=house.rosa.username))
    page = html.unescape(client.get(f"/t/{row.tenant.slug}/workloads/{row.pk}/").content.decode())
    answer = client.get(f"/api/v1/workloads/{row.pk}").json()["status"]["queue"]
    assert answer["cause"] == str(cause)
    assert answer["message"] == " ".join((found.headline, *found.sentences))
    for sentence in found.sentences:
        assert f"<p>{sentence}</p>" in page
    if cause in announcing.TOLD:
        later = announcing.FOR_A_WHILE if cause in announcing.MAY_PASS else timedelta()
        announcing.tell_waits(now=timezone.now() + later)
        told = Notice.objects.get(user__username=house.rosa.username, url__contains=str(row.pk))
        assert told.message == f"{row.name}: {answer['message']}"
    return " ".join(found.sentences)
