"""A namespace that was there before: what is found in it, and that it is given back without our fence."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import uuid4

import pytest
from django.utils import timezone

from apps.accounts.specs import system_actor
from apps.cluster.gateway.port import open_gateway
from apps.cluster.mirror.rules.mirror_columns import Sighting
from apps.cluster.mirror.services import mirror_table
from apps.cluster.models import Cluster
from apps.tenants.attestation.services import probing
from apps.tenants.isolation.content import Content
from apps.tenants.lifecycle.services import adoption, tenancy
from apps.tenants.lifecycle.services.reconcile import reconcile_department, reconcile_tenant
from apps.tenants.models import Tenant
from apps.tenants.specs import TrustLevel
from tests.controlplane.plane import ControlPlane
from tests.factories import begin_deletion
from tests.patience import until

pytestmark = [pytest.mark.plane, pytest.mark.django_db(transaction=True), pytest.mark.timeout(240)]
ROOT = system_actor("test")
FENCE = ("networkpolicies", "limitranges", "resourcequotas", "rolebindings", "services")


@pytest.fixture
def tenant(control_plane: ControlPlane) -> Iterator[Tenant]:
    now, tag = timezone.now(), uuid4().hex[:6]
    space = f"old-{tag}"
    control_plane.kubectl("create", "namespace", space)
    control_plane.kubectl("create", "configmap", "theirs", f"--namespace={space}")
    control_plane.kubectl(
        "create", "rolebinding", "theirs", "--clusterrole=edit", "--user=old-hand", f"--namespace={space}"
    )
    cluster = Cluster.objects.create(
        slug=f"c-{tag}", name="Plane", kubeconfig_path=str(control_plane.kubeconfig)
    )
    department = tenancy.create_department(
        actor=ROOT, slug=f"d-{tag}", name="Research", cluster=cluster, now=now
    )
    made = tenancy.create_tenant(
        actor=ROOT, slug=f"t-{tag}", name="", department=department, trust_level=TrustLevel.STANDARD, now=now
    )
    content = Content(space, {}, {})
    adoption.take_over(actor=ROOT, tenant=made, content=content, seen=content.seen, now=now)
    reconcile_department(department.pk)
    reconcile_tenant(made.pk)
    yield Tenant.objects.get(pk=made.pk)
    control_plane.kubectl("delete", "namespace", space, "--wait=false")
    control_plane.kubectl("delete", "cohort", department.object_name)


def test_a_binding_from_before_is_told(tenant: Tenant) -> None:
    found = probing.attest(tenant.pk, now=timezone.now())
    assert found is not None
    failed = {each["key"]: each["words"] for each in found.results if each["verdict"] == "failed"}
    assert failed == {"bindings": "Somebody else bound theirs (to edit)."}


def test_it_is_given_back_with_what_was_in_it_and_without_the_fence(
    control_plane: ControlPlane, tenant: Tenant
) -> None:
    space = tenant.object_name
    assert _ours(control_plane, space)
    begin_deletion(tenant, now=timezone.now())

    def row() -> Tenant:
        return Tenant.objects.get(pk=tenant.pk)

    def turn() -> None:
        _look(tenant.cluster)
        reconcile_tenant(tenant.pk)

    until(lambda: row().deleted_at, "it to be given back", 30, between=turn, told=lambda: row().conditions)
    assert not _ours(control_plane, space)
    kept = control_plane.kubectl("get", "configmap,rolebinding", "theirs", f"-n={space}", "-oname").split()
    assert len(kept) == 2
    labels = control_plane.kubectl("get", "namespace", space, "-o", "jsonpath={.metadata.labels}")
    assert "allotment" not in labels


def _ours(plane: ControlPlane, space: str) -> str:
    managed = "-lapp.kubernetes.io/managed-by=allotment"
    return plane.kubectl("get", ",".join(FENCE), f"-n={space}", managed, "-oname").strip()


def _look(cluster: Cluster) -> None:
    """What the watcher would tell of the tenant's fence."""
    gateway = open_gateway(cluster)
    for kind in (
        "Namespace",
        "NetworkPolicy",
        "LimitRange",
        "ResourceQuota",
        "RoleBinding",
        "ServiceAccount",
        "Service",
    ):
        items, version = gateway.list(kind)
        now = timezone.now()
        mirror_table.record_seen(cluster, [Sighting(kind, item) for item in items], now=now)
        mirror_table.bury_absent(cluster, kind, items, resource_version=int(version), now=now)
