"""The manifests before the judges: a real API server with Kueue's own webhooks, asked with the product's own
rights.
"""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from django.utils import timezone

from apps.cluster.gateway.port import Gateway
from apps.cluster.mirror.rules.mirror_columns import Sighting
from apps.cluster.mirror.services.mirror_table import bury_absent, record_seen
from apps.cluster.models import Cluster
from apps.cluster.objects.kinds import WATCHED
from apps.cluster.specs import ObjectRef
from apps.quotas.allowances.selectors import standing
from apps.quotas.allowances.services import quota_changes
from apps.quotas.allowances.services.queue_reconcile import reconcile_queue
from apps.quotas.allowances.services.quota_changes import Amounts
from apps.quotas.catalogue.services import adoption, offering
from apps.quotas.catalogue.services.offer_reconcile import reconcile_flavor, reconcile_offer
from apps.quotas.catalogue.services.offering import FlavorWish, OfferWish
from apps.quotas.models import Flavor, Offer, TenantQueue
from apps.tenants.lifecycle.services import tenancy
from apps.tenants.lifecycle.services.reconcile import reconcile_department, reconcile_tenant
from apps.tenants.models import Department, Tenant
from apps.tenants.specs import TrustLevel
from tests.conftest import as_actor
from tests.controlplane import state
from tests.controlplane.fixtures import as_admin
from tests.controlplane.plane import ControlPlane
from tests.controlplane.process import Record, is_running
from tests.factories import NOW, begin_deletion, make_user
from tests.golden import golden
from tests.patience import until

pytestmark = pytest.mark.plane

GIB = 1024**3
NAMESPACE = "vision-dddddddddd"
GOLDEN = ("tenants/department", "tenants/tenant", "quotas/flavor", "quotas/offers", "quotas/queue")


@pytest.fixture(scope="module")
def namespace(control_plane: ControlPlane) -> Iterator[str]:
    """The golden tenant's namespace, so that what lies in it can be judged."""
    wanted = next(m for m in golden("tenants/tenant") if m["kind"] == "Namespace")
    _apply(control_plane, wanted)
    yield NAMESPACE
    control_plane.kubectl("delete", "namespace", NAMESPACE, "--wait=false")


@pytest.mark.parametrize("name", GOLDEN)
def test_every_golden_manifest_is_taken_by_the_server(
    control_plane: ControlPlane, namespace: str, name: str
) -> None:
    for manifest in golden(name):
        told = _apply(control_plane, manifest, "--dry-run=server")
        assert manifest["metadata"]["name"] in told


@pytest.fixture
def plane_cluster(control_plane: ControlPlane, db: None) -> Cluster:
    return Cluster.objects.create(slug="plane", name="Plane", kubeconfig_path=str(control_plane.kubeconfig))


@pytest.mark.django_db(transaction=True)
def test_a_tenant_with_quota_is_admitted_by_kueue_and_leaves_nothing_behind(
    control_plane: ControlPlane, plane_cluster: Cluster
) -> None:
    gateway, petra = as_admin(control_plane), as_actor(make_user("platform", platform_role="platform"))
    _mirror(gateway, plane_cluster)
    adoption.adopt_inventory(actor=petra, cluster=plane_cluster, now=NOW)
    department = tenancy.create_department(
        actor=petra, slug="judged", name="Judged", cluster=plane_cluster, now=NOW
    )
    tenant = tenancy.create_tenant(
        actor=petra, slug="judged", name="", department=department, trust_level=TrustLevel.STANDARD, now=NOW
    )
    quota_changes.grant_everything(actor=petra, tenant=tenant, now=NOW)
    queue = TenantQueue.objects.get(tenant=tenant)
    _bring(department, tenant, queue)
    try:
        until(lambda: _is_active(gateway, tenant))
        _mirror(gateway, plane_cluster)
        assert {bar.offer.slug for bar in standing.quota_bars(petra, tenant, now=timezone.now())} == set(
            Offer.objects.values_list("slug", flat=True)
        )
        before = _version(gateway, tenant)
        reconcile_queue(queue.pk)
        assert _version(gateway, tenant) == before
    finally:
        begin_deletion(tenant, now=NOW)
        until(lambda: _is_gone(gateway, plane_cluster, tenant, queue))
        made = {
            "ResourceFlavor": Flavor.objects.values_list("object_name", flat=True),
            "DeviceClass": Offer.objects.values_list("object_name", flat=True),
            "Cohort": [department.object_name],
        }
        for kind, names in made.items():
            for name in names:
                _delete(gateway, ObjectRef(kind, "", name))
    assert gateway.get(ObjectRef("ClusterQueue", "", tenant.object_name)) is None
    assert gateway.get(ObjectRef("Namespace", "", tenant.object_name)) is None


def _bring(department: Department, tenant: Tenant, queue: TenantQueue) -> None:
    """Everything into the cluster, in the order in which one needs the other."""
    reconcile_department(department.pk)
    reconcile_tenant(tenant.pk)
    for flavor in Flavor.objects.all():
        reconcile_flavor(flavor.pk)
    for offer in Offer.objects.all():
        reconcile_offer(offer.pk)
    reconcile_queue(queue.pk)


def _apply(plane: ControlPlane, manifest: dict[str, Any], *options: str) -> str:
    arguments = (
        "apply",
        "--server-side",
        "--validate=strict",
        "--field-manager=allotment",
        "-f",
        "-",
        *options,
    )
    return plane.kubectl(*arguments, input=json.dumps(manifest), as_admin=False)


def _mirror(gateway: Gateway, cluster: Cluster) -> None:
    for kind in WATCHED:
        items, version = gateway.list(kind)
        record_seen(cluster, [Sighting(kind, item) for item in items], now=NOW)
        bury_absent(cluster, kind, items, resource_version=int(version), now=NOW)


def _is_active(gateway: Gateway, tenant: Tenant) -> bool:
    body = gateway.get(ObjectRef("ClusterQueue", "", tenant.object_name)) or {}
    conditions = body.get("status", {}).get("conditions", [])
    return any(c["type"] == "Active" and c["status"] == "True" for c in conditions)


def _version(gateway: Gateway, tenant: Tenant) -> str:
    body = gateway.get(ObjectRef("ClusterQueue", "", tenant.object_name))
    assert body is not None
    return str(body["metadata"]["resourceVersion"])


def _is_gone(gateway: Gateway, cluster: Cluster, tenant: Tenant, queue: TenantQueue) -> bool:
    _mirror(gateway, cluster)
    reconcile_tenant(tenant.pk)
    reconcile_queue(queue.pk)
    return TenantQueue.objects.get(pk=queue.pk).deleted_at is not None


def _delete(gateway: Gateway, ref: ObjectRef) -> None:
    body = gateway.get(ref)
    if body is not None:
        gateway.delete(ref, uid=body["metadata"]["uid"])


@pytest.mark.timeout(400)
@pytest.mark.django_db(transaction=True)
def test_a_new_offer_is_charged_by_the_kueue_that_runs_already(
    control_plane: ControlPlane, plane_cluster: Cluster
) -> None:
    gateway, petra = as_admin(control_plane), as_actor(make_user("platform", platform_role="platform"))
    _mirror(gateway, plane_cluster)
    department = tenancy.create_department(
        actor=petra, slug="late", name="Late", cluster=plane_cluster, now=NOW
    )
    tenant = tenancy.create_tenant(
        actor=petra, slug="late", name="", department=department, trust_level=TrustLevel.STANDARD, now=NOW
    )
    started = _kueue_of(control_plane)
    kind = FlavorWish(slug="late-l4", name="L4", model="NVIDIA L4")
    flavor = offering.create_flavor(actor=petra, cluster=plane_cluster, wish=kind, now=NOW)
    wish = OfferWish(flavor, "late-l4-whole", "L4 whole", "", "", 22 * GIB, 4000, 16 * GIB)
    offer = offering.create_offer(actor=petra, wish=wish, now=NOW)
    quota_changes.set_quota(actor=petra, tenant=tenant, offer=offer, amounts=Amounts(1, 0), now=NOW)
    queue = TenantQueue.objects.get(tenant=tenant)
    try:
        until(lambda: _is_brought(gateway, department, queue))
        control_plane.kubectl("apply", "-f", "-", input=json.dumps(_job(tenant, offer.resource_name)))
        until(lambda: _is_admitted(gateway, tenant, offer.resource_name))
        assert _kueue_of(control_plane) == started
    finally:
        control_plane.kubectl("delete", "jobs", "--all", "-n", tenant.object_name, "--wait=false")
        begin_deletion(tenant, now=NOW)
        until(lambda: _is_gone(gateway, plane_cluster, tenant, queue))
        for ref in (
            ObjectRef("ResourceFlavor", "", flavor.object_name),
            ObjectRef("DeviceClass", "", offer.object_name),
            ObjectRef("Cohort", "", department.object_name),
        ):
            _delete(gateway, ref)


def _is_brought(gateway: Gateway, department: Department, queue: TenantQueue) -> bool:
    """As the workers do: again and again, as the queue waits for the namespace that the mirror has to see."""
    _bring(department, queue.tenant, queue)
    _mirror(gateway, queue.cluster)
    local = gateway.get(ObjectRef("LocalQueue", queue.tenant.object_name, "gpu"))
    return local is not None and _is_active(gateway, queue.tenant)


def _kueue_of(plane: ControlPlane) -> Record:
    """Its process, alive: a restart would be another one."""
    found = state.load(plane.folder)
    assert found is not None
    assert is_running(found.processes["kueue"])
    return found.processes["kueue"]


def _job(tenant: Tenant, resource_name: str) -> dict[str, Any]:
    resources = {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {resource_name: "1"}}
    pod = {
        "restartPolicy": "Never",
        "containers": [{"name": "main", "image": "none", "resources": resources}],
    }
    labels = {"kueue.x-k8s.io/queue-name": "gpu", "kueue.x-k8s.io/priority-class": "batch"}
    metadata = {"name": "late", "namespace": tenant.object_name, "labels": labels}
    spec = {"managedBy": "allotment.dev/nobody", "suspend": True, "template": {"spec": pod}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}


def _is_admitted(gateway: Gateway, tenant: Tenant, resource_name: str) -> bool:
    bodies = [b for b in gateway.list("Workload")[0] if b["metadata"]["namespace"] == tenant.object_name]
    charged = [
        assigned["resourceUsage"]
        for body in bodies
        for assigned in body.get("status", {}).get("admission", {}).get("podSetAssignments", [])
    ]
    return [usage.get(resource_name) for usage in charged] == ["1"]
