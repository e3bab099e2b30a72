"""Tenants on a real control plane, brought there by their own reconciles; a list stands for the watcher.

One thread: `turn` lists, then reconciles every row that is due, as the workers would.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

from django.utils import timezone

from apps.accounts.specs import Actor
from apps.cluster.gateway.port import open_gateway
from apps.cluster.mirror.rules.mirror_columns import Sighting, version_number
from apps.cluster.mirror.services import mirror_table
from apps.cluster.models import Cluster
from apps.cluster.objects.kinds import OPTIONAL, WATCHED
from apps.cluster.reconciling.services import sweep
from apps.cluster.specs import Body, ObjectRef
from apps.cluster.watching.services.capabilities import facts, judge
from apps.quotas.allowances.services import pools, queue_reconcile
from apps.quotas.catalogue.services import offer_reconcile
from apps.quotas.models import Flavor, Offer, TenantQueue
from apps.tenants.lifecycle.services import reconcile as tenant_reconcile
from apps.tenants.lifecycle.services import tenancy as tenants
from apps.tenants.lifecycle.services.isolation_choice import fence
from apps.tenants.models import Department, NodeAssignment, Tenant
from apps.tenants.nodes.services import dedication
from apps.tenants.specs import Isolation, Role, TrustLevel
from apps.workloads.lifecycle.services import verbs
from apps.workloads.lifecycle.services.reconcile import reconcile
from apps.workloads.models import Workload
from apps.workloads.nodes.services import node_drain
from apps.workloads.spec import parsing
from apps.workloads.specs import WorkloadRequest
from tests.conftest import as_actor
from tests.controlplane.fixtures import as_admin
from tests.controlplane.plane import ControlPlane
from tests.factories import begin_deletion, make_user
from tests.patience import until

RECONCILES: tuple[tuple[Any, str, Callable[[Any], None]], ...] = (
    (Department, "department", tenant_reconcile.reconcile_department),
    (Tenant, "tenant", tenant_reconcile.reconcile_tenant),
    (NodeAssignment, "node", dedication.reconcile_node),
    (Flavor, "flavor", offer_reconcile.reconcile_flavor),
    (Offer, "offer", offer_reconcile.reconcile_offer),
    (TenantQueue, "queue", queue_reconcile.reconcile_queue),
    (Workload, "workload", reconcile),
)
NOT_THERE = 404


class Yard:
    """One department on the plane; tenants are made as a test needs them."""

    def __init__(self, plane: ControlPlane) -> None:
        self.plane, self.tag = plane, uuid4().hex[:6]
        self.cluster = Cluster.objects.create(
            slug=f"c-{self.tag}", name="Plane", kubeconfig_path=str(plane.kubeconfig)
        )
        self.gateway, self.admin = open_gateway(self.cluster), as_admin(plane)
        self.kinds = (*WATCHED, *(kind for kind in OPTIONAL if self._serves(kind)))
        self.cluster.capabilities = judge(facts(self.gateway))
        self.cluster.save()
        self.petra: Actor = as_actor(make_user(f"platform-{self.tag}", platform_role="platform"))
        self.department = tenants.create_department(
            actor=self.petra, slug=f"d-{self.tag}", name="", cluster=self.cluster, now=timezone.now()
        )

    def tenant(
        self, slug: str, isolation: Isolation, virtual: Mapping[str, Any] | None = None
    ) -> tuple[Tenant, Actor]:
        """A tenant of that isolation, and a member of it."""
        now = timezone.now()
        tenant = tenants.create_tenant(
            actor=self.petra, slug=f"{slug}-{self.tag}", name="", department=self.department,
            trust_level=TrustLevel.STANDARD, now=now,
        )  # fmt: skip
        tenant = fence(actor=self.petra, tenant=tenant, isolation=isolation, virtual=virtual, now=now)
        user = make_user(f"{slug}-user-{self.tag}")
        tenants.set_member(actor=self.petra, tenant=tenant, username=user.username, role=Role.MEMBER, now=now)
        return tenant, as_actor(user)

    def notebook(self, tenant: Tenant, actor: Actor, offer: Offer, slug: str) -> Workload:
        body = {"kind": "notebook", "offer": offer.slug, "cpu": "500m", "memory": "1Gi"}
        request = WorkloadRequest(spec=parsing.parse(body), slug=slug)
        return verbs.submit_workload(actor=actor, tenant=tenant, request=request, now=timezone.now())

    def look(self) -> None:
        """What the watcher would have told by now."""
        for kind in self.kinds:
            items, version = self.gateway.list(kind)
            now = timezone.now()
            mirror_table.record_seen(self.cluster, [Sighting(kind, item) for item in items], now=now)
            mirror_table.bury_absent(
                self.cluster, kind, items, resource_version=version_number(version), now=now
            )

    def turn(self) -> None:
        """Everything that the workers and the clock do, once."""
        self.look()
        now = timezone.now()
        node_drain.stop_due(now=now)
        pools.settle_all(now=now)
        for model, _, bring in RECONCILES:
            model.objects.filter(deleted_at=None).update(due_at=now)
            for pk in sweep.due(model, timezone.now()):
                bring(pk)

    def until(self, is_so: Callable[[], Any], what: str, seconds: float = 60) -> Any:
        """Turn until it is so."""
        return until(is_so, what, seconds, between=self.turn, told=self.told)

    def told(self) -> list[Any]:
        """What every row says of itself."""
        models = (Tenant, NodeAssignment, Workload)
        rows: list[Any] = [row for model in models for row in model._default_manager.all()]
        return [(str(row), row.phase, [c["message"] for c in row.conditions]) for row in rows]

    def get(self, kind: str, name: str, namespace: str = "") -> Body | None:
        """The object as it is now."""
        return self.admin.get(ObjectRef(kind, namespace, name))

    def pods(self) -> list[tuple[str, str]]:
        """(namespace, node) of every live pod of the department's tenants, asked of the server itself."""
        mine = set(Tenant.objects.values_list("object_name", flat=True))
        items = json.loads(self.plane.kubectl("get", "pods", "-A", "-o", "json"))["items"]
        return [
            (pod["metadata"]["namespace"], pod["spec"].get("nodeName", ""))
            for pod in items
            if pod["metadata"]["namespace"] in mine and pod["status"]["phase"] not in ("Succeeded", "Failed")
        ]

    def remove(self) -> None:
        """Everything off the plane again, so that the next test finds it as it was."""
        now = timezone.now()
        for row in Workload.objects.filter(deleted_at=None):
            verbs.delete_workload(actor=self.petra, workload=row, keep_volumes=False, now=now)
        for tenant in Tenant.objects.filter(deleted_at=None, deleting_at=None):
            begin_deletion(tenant, now=now)
        alive = (Workload, NodeAssignment, Tenant, TenantQueue)
        self.until(
            lambda: not any(model.objects.filter(deleted_at=None).exists() for model in alive),
            "everything to be gone",
            60,
        )
        catalogue = (Offer, Flavor, Department)
        for model in catalogue:
            model.objects.filter(deleting_at=None).update(deleting_at=now)
        self.until(
            lambda: not any(model.objects.filter(deleted_at=None).exists() for model in catalogue),
            "the catalogue to be gone",
        )

    def _serves(self, kind: str) -> bool:
        from apps.cluster.objects.kinds import KINDS

        return KINDS[kind].plural in self.gateway.api_resources(KINDS[kind].api_version)


@contextmanager
def yard_on(plane: ControlPlane) -> Iterator[Yard]:
    """A yard that is removed even when the test fails."""
    yard = Yard(plane)
    try:
        yield yard
    finally:
        yard.remove()
