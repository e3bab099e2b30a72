"""Tenants and departments on their way into a cluster and out again, against a real API server's rules."""

from datetime import timedelta

import pytest
from django.utils import timezone

from apps.cluster.models import Cluster, MirrorObject
from apps.cluster.objects.conditions import find
from apps.tenants.lifecycle.services import tenancy
from apps.tenants.lifecycle.services.reconcile import reconcile_department, reconcile_tenant
from apps.tenants.models import Tenant
from apps.tenants.specs import Role, TenantPhase
from tests.conftest import Cast, as_actor
from tests.factories import NOW, begin_deletion
from tests.tenants.in_process import InProcess


@pytest.fixture
def gateway() -> InProcess:
    made = InProcess()
    made.client.create(
        "namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "allotment-access"}}
    )
    return made


def fresh(tenant: Tenant) -> Tenant:
    return Tenant.objects.get(pk=tenant.pk)


def names(gateway: InProcess, kind: str) -> list[str]:
    ours = "app.kubernetes.io/managed-by=allotment"
    return sorted(body["metadata"]["name"] for body in gateway.list(kind, label_selector=ours)[0])


def of_members(gateway: InProcess, kind: str) -> set[str]:
    """Without the probe's, which every tenant has."""
    return {name for name in names(gateway, kind) if name.startswith("member-")}


def test_a_tenant_becomes_ready_once_the_cluster_holds_it(cast: Cast, gateway: InProcess) -> None:
    Tenant.objects.filter(pk=cast.vision.pk).update(phase=TenantPhase.PENDING)
    reconcile_tenant(cast.vision.pk, gateway=gateway)
    tenant = fresh(cast.vision)
    assert (tenant.phase, tenant.observed_generation) == (TenantPhase.READY, 1)
    assert names(gateway, "Namespace") == [tenant.object_name]
    assert len(of_members(gateway, "ServiceAccount")) == len(of_members(gateway, "RoleBinding")) == 2


def test_a_second_look_makes_no_call(cast: Cast, gateway: InProcess) -> None:
    reconcile_tenant(cast.vision.pk, gateway=gateway)
    gateway.mirror(cast.vision.cluster)
    gateway.calls.clear()
    reconcile_tenant(cast.vision.pk, gateway=gateway)
    assert gateway.calls == []


def test_a_removed_member_loses_binding_and_account(cast: Cast, gateway: InProcess) -> None:
    reconcile_tenant(cast.vision.pk, gateway=gateway)
    tenancy.remove_member(actor=as_actor(cast.leon), tenant=cast.vision, username="researcher", now=NOW)
    gateway.calls.clear()
    reconcile_tenant(cast.vision.pk, gateway=gateway)
    assert len(of_members(gateway, "RoleBinding")) == len(of_members(gateway, "ServiceAccount")) == 1
    deleted = [ref.kind for verb, ref in gateway.calls if verb == "delete"]
    assert sorted(deleted) == ["RoleBinding", "ServiceAccount"]


def test_a_new_role_is_a_new_binding(cast: Cast, gateway: InProcess) -> None:
    reconcile_tenant(cast.vision.pk, gateway=gateway)
    before = of_members(gateway, "RoleBinding")
    tenancy.set_member(
        actor=as_actor(cast.leon), tenant=cast.vision, username="researcher", role=Role.LEAD, now=NOW
    )
    reconcile_tenant(cast.vision.pk, gateway=gateway)
    after = of_members(gateway, "RoleBinding")
    assert len(after) == 2
    assert {name.rsplit("-", 1)[1] for name in after} == {"lead"}
    assert len(before & after) == 1


def test_a_refusal_is_shown_in_the_servers_words(cast: Cast) -> None:
    without_access = InProcess()
    reconcile_tenant(cast.vision.pk, gateway=without_access)
    tenant = fresh(cast.vision)
    synced = find(tenant.conditions, "Synced")
    assert synced is not None
    assert synced["status"] == "False"
    assert "allotment-access" in synced["message"]
    assert (tenant.observed_generation, tenant.attempts) == (0, 1)
    assert tenant.due_at is not None


def test_a_silent_cluster_delays_and_loses_nothing(cast: Cast, gateway: InProcess) -> None:
    gateway.silent = True
    reconcile_tenant(cast.vision.pk, gateway=gateway)
    synced = find(fresh(cast.vision).conditions, "Synced")
    assert synced is not None
    assert synced["reason"] == "ClusterUnavailable"
    gateway.silent = False
    reconcile_tenant(cast.vision.pk, gateway=gateway)
    assert fresh(cast.vision).observed_generation == 1


def test_what_somebody_changed_by_hand_is_put_back(cast: Cast, gateway: InProcess) -> None:
    reconcile_tenant(cast.vision.pk, gateway=gateway)
    name = cast.vision.object_name
    patch = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "privileged"}}}
    gateway.simulated.client(manager="kubectl").patch("namespaces", name, patch)
    gateway.mirror(cast.vision.cluster)
    reconcile_tenant(cast.vision.pk, gateway=gateway)
    labels = (gateway.client.get("namespaces", name) or {})["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == "restricted"


def test_deleting_takes_the_namespace_and_ends_when_the_mirror_shows_nothing(
    cast: Cast, gateway: InProcess
) -> None:
    reconcile_tenant(cast.speech.pk, gateway=gateway)
    gateway.mirror(cast.speech.cluster)
    begin_deletion(cast.speech, now=NOW)
    reconcile_tenant(cast.speech.pk, gateway=gateway)
    waiting = fresh(cast.speech)
    ready = find(waiting.conditions, "Ready")
    assert ready is not None
    assert f"Namespace {waiting.object_name}" in ready["message"]
    assert waiting.deleted_at is None
    assert waiting.due_at is not None
    MirrorObject.objects.filter(owner_id=str(waiting.pk)).update(gone_at=NOW)
    reconcile_tenant(waiting.pk, gateway=gateway)
    assert fresh(cast.speech).deleted_at is not None


def test_a_deletion_stuck_for_ten_minutes_names_what_holds_it(
    cast: Cast, gateway: InProcess, cluster: Cluster
) -> None:
    reconcile_tenant(cast.speech.pk, gateway=gateway)
    gateway.mirror(cluster)
    MirrorObject.objects.create(
        cluster=cluster,
        kind="PersistentVolumeClaim",
        namespace=cast.speech.object_name,
        name="data",
        uid="u1",
        deleting=True,
        body={"metadata": {"finalizers": ["kubernetes.io/pvc-protection"]}},
    )
    Tenant.objects.filter(pk=cast.speech.pk).update(deleting_at=timezone.now() - timedelta(minutes=11))
    reconcile_tenant(cast.speech.pk, gateway=gateway)
    ready = find(fresh(cast.speech).conditions, "Ready")
    assert ready is not None
    assert "stuck for 10 minutes" in ready["message"]
    assert (
        "PersistentVolumeClaim data is held by the finalizer kubernetes.io/pvc-protection" in ready["message"]
    )


def test_a_department_is_a_cohort(cast: Cast, gateway: InProcess) -> None:
    reconcile_department(cast.vision.department_id, gateway=gateway)
    cast.vision.department.refresh_from_db()
    assert names(gateway, "Cohort") == [cast.vision.department.object_name]
    assert cast.vision.department.observed_generation == 1
