"""The 18 checks with the probe's own token against a real API server, and that they can fail."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import pytest
from django.utils import timezone

from apps.accounts.specs import system_actor
from apps.cluster.models import Cluster
from apps.tenants.attestation.services import attestation_requests, probing
from apps.tenants.isolation.manifests import probe_account
from apps.tenants.lifecycle.services import deletion, tenancy
from apps.tenants.lifecycle.services.reconcile import reconcile_department, reconcile_tenant
from apps.tenants.models import IsolationAttestation, Tenant
from apps.tenants.specs import ACCESS_NAMESPACE, Egress, EgressMode, Suspend, TrustLevel, Verdict
from tests.controlplane.plane import ControlPlane
from tests.patience import within

pytestmark = [pytest.mark.plane, pytest.mark.django_db(transaction=True), pytest.mark.timeout(240)]
ROOT = system_actor("test")


@pytest.fixture
def tenant(control_plane: ControlPlane) -> Iterator[Tenant]:
    now, tag = timezone.now(), uuid4().hex[:6]
    cluster = Cluster.objects.create(
        slug=f"c-{tag}", name="Plane", kubeconfig_path=str(control_plane.kubeconfig)
    )
    department = tenancy.create_department(
        actor=ROOT, slug=f"d-{tag}", name="Research", cluster=cluster, now=now
    )
    made = tenancy.create_tenant(
        actor=ROOT, slug=f"t-{tag}", name="", department=department, trust_level=TrustLevel.STANDARD, now=now
    )
    reconcile_department(department.pk)
    reconcile_tenant(made.pk)
    yield Tenant.objects.get(pk=made.pk)
    control_plane.kubectl("delete", "namespace", made.object_name, "--wait=false")
    control_plane.kubectl("delete", "cohort", department.object_name)
    probe = probe_account(made.object_name)
    control_plane.kubectl("delete", "serviceaccount", probe, f"--namespace={ACCESS_NAMESPACE}")


def test_all_18_pass_for_a_new_tenant(tenant: Tenant) -> None:
    assert tenant.attestation_due_at is not None, "a new tenant is checked without being asked"
    found = _attest(tenant)
    assert not [each for each in found.results if each["verdict"] != Verdict.PASSED]
    assert (found.passed, found.failed, found.not_checked) == (18, 0, 0)
    fresh = Tenant.objects.get(pk=tenant.pk)
    assert fresh.attestation_due_at is None
    assert (fresh.attested_generation, fresh.attested_at) == (tenant.generation, found.at)


def test_an_action_of_its_life_cycle_has_it_checked_again(tenant: Tenant) -> None:
    _attest(tenant)
    change = tenancy.TenantChange(trust_level=TrustLevel.TRUSTED)
    tenancy.update_tenant(actor=ROOT, tenant=tenant, change=change, now=timezone.now())
    reconcile_tenant(tenant.pk)
    assert Tenant.objects.get(pk=tenant.pk).attestation_due_at is not None
    assert _attest(tenant).passed == 18
    reconcile_tenant(tenant.pk)
    assert Tenant.objects.get(pk=tenant.pk).attestation_due_at is None, "nothing changed since"


def test_every_action_of_its_life_cycle_has_it_checked_again(tenant: Tenant) -> None:
    """One tenant through its whole life; each step is brought to the cluster and checked there."""
    _attest(tenant)
    for name, act in LIFE.items():
        act(Tenant.objects.select_related("department", "cluster").get(pk=tenant.pk))
        reconcile_tenant(tenant.pk)
        assert Tenant.objects.get(pk=tenant.pk).attestation_due_at is not None, name
        found = _attest(tenant)
        wrong = [each["key"] for each in found.results if each["verdict"] != Verdict.PASSED]
        assert (name, wrong) == (name, [])
        fresh = Tenant.objects.get(pk=tenant.pk)
        assert (fresh.attestation_due_at, fresh.attested_generation) == (None, fresh.generation), name


def _changed(**fields: Any) -> Callable[[Tenant], object]:
    change = tenancy.TenantChange(**fields)
    return lambda row: tenancy.update_tenant(actor=ROOT, tenant=row, change=change, now=timezone.now())


LIFE: dict[str, Callable[[Tenant], object]] = {
    "hold": _changed(suspend=Suspend.HOLD),
    "drain": _changed(suspend=Suspend.DRAIN),
    "resume": _changed(suspend=Suspend.NONE),
    "egress": _changed(egress=Egress(EgressMode.INTERNET)),
    "rename": _changed(name="Another name"),
    "archive": lambda row: deletion.archive_tenant(actor=ROOT, tenant=row, reason="", now=timezone.now()),
    "unarchive": lambda row: deletion.unarchive_tenant(actor=ROOT, tenant=row, reason="", now=timezone.now()),
    "deletion asked": lambda row: deletion.ask_deletion(
        actor=ROOT, tenant=row, reason="", now=timezone.now()
    ),
    "deletion withdrawn": lambda row: deletion.withdraw_deletion(
        actor=ROOT, tenant=row, reason="", now=timezone.now()
    ),
}


def test_who_asks_gets_a_new_one(tenant: Tenant) -> None:
    _attest(tenant)
    attestation_requests.ask(actor=ROOT, tenant=tenant, now=timezone.now())
    assert Tenant.objects.get(pk=tenant.pk).attestation_due_at is not None
    newest = _attest(tenant)
    assert attestation_requests.latest(tenant) == newest
    assert IsolationAttestation.objects.filter(tenant=tenant).count() == 2


def test_a_relaxed_namespace_fails_what_pod_security_held(
    control_plane: ControlPlane, tenant: Tenant
) -> None:
    label = "pod-security.kubernetes.io/enforce=privileged"
    control_plane.kubectl("label", "namespace", tenant.object_name, label, "--overwrite")
    failed = _until_failed(tenant, "host-path")
    assert failed == {
        "capabilities", "escalation", "privileged", "host-ipc", "host-pid", "host-network", "host-path",
        "non-root",
    }  # fmt: skip


def test_a_role_bound_by_hand_fails_what_it_gives(control_plane: ControlPlane, tenant: Tenant) -> None:
    account = f"{ACCESS_NAMESPACE}:{probe_account(tenant.object_name)}"
    arguments = ("--clusterrole=edit", f"--serviceaccount={account}", f"--namespace={tenant.object_name}")
    control_plane.kubectl("create", "rolebinding", "by-hand", *arguments)
    failed = _until_failed(tenant, "bindings")
    assert "shared-objects" in failed
    assert not failed & {"host-path", "other-tenants", "cluster-resources"}


def test_a_network_opened_by_hand_is_told(control_plane: ControlPlane, tenant: Tenant) -> None:
    control_plane.kubectl("delete", "networkpolicy", "default-deny", f"--namespace={tenant.object_name}")
    assert _until_failed(tenant, "network") == {"network"}


def _attest(tenant: Tenant) -> IsolationAttestation:
    found = probing.attest(tenant.pk, now=timezone.now())
    assert found is not None
    return found


def _until_failed(tenant: Tenant, key: str) -> set[str]:
    """The API server's own caches need a moment to see what was changed."""
    deadline = within(10)
    while True:
        failed = {each["key"] for each in _attest(tenant).results if each["verdict"] == Verdict.FAILED}
        if key in failed or time.monotonic() > deadline:
            return failed
        time.sleep(0.2)
