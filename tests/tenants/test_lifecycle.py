"""Tenants archived, brought back and deleted: who may, in which order, and what goes."""

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.conf import settings

from apps.accounts.models import User
from apps.audit.models import AuditEvent
from apps.cluster.models import MirrorObject
from apps.cluster.objects.conditions import find
from apps.errors import Conflict, DomainError, Invalid, NotAllowed
from apps.quotas.allowances.selectors.entitlements import queue_spec
from apps.quotas.allowances.services import weighing
from apps.quotas.allowances.services.weighing import DepartmentShare
from apps.quotas.models import TenantQueue
from apps.tenants import selectors
from apps.tenants.lifecycle.selectors.removal import removal_of
from apps.tenants.lifecycle.services import deletion, tenancy
from apps.tenants.lifecycle.services.reconcile import reconcile_tenant
from apps.tenants.lifecycle.services.tenancy import TenantChange
from apps.tenants.models import Tenant
from apps.tenants.specs import Role, Suspend, TenantPhase, TrustLevel
from apps.workloads.models import Workload
from apps.workloads.tenants.services.leaving import delete_left_behind
from tests import factories
from tests.conftest import Cast, as_actor
from tests.factories import NOW, begin_deletion
from tests.tenants.in_process import InProcess

pytestmark = pytest.mark.both_databases


@pytest.fixture
def paul(cast: Cast) -> User:
    return factories.make_user("paul", platform_role="platform")


def fresh(tenant: Tenant) -> Tenant:
    return Tenant.objects.select_related("department", "cluster").get(pk=tenant.pk)


def members(gateway: InProcess, kind: str) -> list[str]:
    """What people have of that kind; the probe has some too."""
    names = [body["metadata"]["name"] for body in gateway.list(kind)[0]]
    return sorted(name for name in names if name.startswith("member-"))


def test_a_deletion_begins_only_after_a_second_yes_and_the_grace(cast: Cast, paul: User) -> None:
    petra, second = as_actor(cast.petra), as_actor(paul)
    deletion.ask_deletion(actor=petra, tenant=cast.speech, reason="merged", now=NOW)
    assert deletion.begin_due(now=NOW + timedelta(days=365)) == 0
    with pytest.raises(NotAllowed, match="platform asked for it") as refusal:
        deletion.approve_deletion(actor=petra, tenant=cast.speech, now=NOW)
    assert refusal.value.code == "own_request"
    deletion.approve_deletion(actor=second, tenant=cast.speech, now=NOW)
    grace = settings.CONFIG.deletion_grace
    assert deletion.begin_due(now=NOW + grace - timedelta(seconds=1)) == 0
    assert deletion.begin_due(now=NOW + grace) == 1
    assert deletion.begin_due(now=NOW + grace) == 0
    gone = fresh(cast.speech)
    assert (gone.deleting_at, gone.phase) == (NOW + grace, TenantPhase.DELETING)
    told = AuditEvent.objects.filter(target_id=str(gone.pk)).order_by("sequence")
    assert [event.action.removeprefix("tenant.") for event in told] == [
        "ask-deletion",
        "approve-deletion",
        "delete",
    ]


def test_a_deletion_is_taken_back_until_it_begins(cast: Cast, paul: User) -> None:
    petra = as_actor(cast.petra)
    deletion.ask_deletion(actor=petra, tenant=cast.speech, now=NOW)
    deletion.approve_deletion(actor=as_actor(paul), tenant=cast.speech, now=NOW)
    deletion.withdraw_deletion(actor=petra, tenant=cast.speech, now=NOW)
    assert deletion.begin_due(now=NOW + timedelta(days=365)) == 0
    begin_deletion(cast.speech, now=NOW)
    with pytest.raises(Conflict, match="being deleted"):
        deletion.withdraw_deletion(actor=petra, tenant=cast.speech, now=NOW)


def test_asking_twice_changes_nothing(cast: Cast) -> None:
    petra = as_actor(cast.petra)
    first = deletion.ask_deletion(actor=petra, tenant=cast.speech, now=NOW)
    again = deletion.ask_deletion(actor=petra, tenant=cast.speech, now=NOW + timedelta(hours=1))
    assert (again.deletion_asked_at, again.generation) == (NOW, first.generation)


def test_nobody_approves_what_nobody_asked(cast: Cast) -> None:
    with pytest.raises(Conflict, match="Nobody asked"):
        deletion.approve_deletion(actor=as_actor(cast.petra), tenant=cast.speech, now=NOW)


def test_workloads_go_before_the_namespace(cast: Cast, access: InProcess) -> None:
    workload = factories.make_workload(cast.vision, cast.rosa, cast.offer)
    reconcile_tenant(cast.vision.pk, gateway=access)
    begin_deletion(cast.vision, now=NOW)
    access.calls.clear()
    reconcile_tenant(cast.vision.pk, gateway=access)
    ready = find(fresh(cast.vision).conditions, "Ready")
    assert ready is not None
    assert ready["message"] == "Waits until 1 workload is gone."
    assert access.calls == []
    assert delete_left_behind(now=NOW) == 1
    assert delete_left_behind(now=NOW) == 0
    Workload.objects.filter(pk=workload.pk).update(deleted_at=NOW)
    reconcile_tenant(cast.vision.pk, gateway=access)
    kinds = [ref.kind for verb, ref in access.calls if verb == "delete"]
    assert list(dict.fromkeys(kinds)) == ["RoleBinding", "ServiceAccount", "Namespace"]
    assert kinds == sorted(kinds, key=["RoleBinding", "ServiceAccount", "Namespace"].index)


def test_an_archived_tenant_keeps_everything_but_work_and_access(cast: Cast, access: InProcess) -> None:
    TenantQueue.objects.get_or_create(tenant=cast.vision, defaults={"cluster": cast.vision.cluster})
    reconcile_tenant(cast.vision.pk, gateway=access)
    petra = as_actor(cast.petra)
    deletion.archive_tenant(actor=petra, tenant=cast.vision, reason="over", now=NOW)
    reconcile_tenant(cast.vision.pk, gateway=access)
    put_away = fresh(cast.vision)
    assert put_away.phase == TenantPhase.ARCHIVED
    assert members(access, "RoleBinding") == members(access, "ServiceAccount") == []
    assert access.client.get("namespaces", put_away.object_name)
    queue = TenantQueue.objects.get(tenant=cast.vision)
    assert queue_spec(queue, namespace_is_there=True).suspend is Suspend.DRAIN
    access.mirror(cast.vision.cluster)
    deletion.unarchive_tenant(actor=petra, tenant=cast.vision, reason="", now=NOW)
    reconcile_tenant(cast.vision.pk, gateway=access)
    assert fresh(cast.vision).phase == TenantPhase.READY
    assert len(members(access, "RoleBinding")) == 2


@pytest.mark.parametrize(
    "act",
    [
        lambda cast, petra: tenancy.update_tenant(
            actor=petra, tenant=cast.vision, change=TenantChange(name="New"), now=NOW
        ),
        lambda cast, petra: tenancy.set_member(
            actor=petra, tenant=cast.vision, username="auditor", role=Role.MEMBER, now=NOW
        ),
    ],
)
def test_nothing_of_an_archived_tenant_is_changed(cast: Cast, act: Callable[[Cast, object], object]) -> None:
    petra = as_actor(cast.petra)
    deletion.archive_tenant(actor=petra, tenant=cast.vision, reason="", now=NOW)
    with pytest.raises(Conflict, match="archived"):
        act(cast, petra)


def test_a_manager_looks_after_the_tenants_of_the_own_department_alone(cast: Cast) -> None:
    research = cast.vision.department
    tenancy.set_managers(actor=as_actor(cast.petra), department=research, usernames=["outsider"], now=NOW)
    otto = as_actor(cast.otto)
    assert sorted(t.slug for t in selectors.tenants_for(otto)) == ["genomics", "speech", "vision"]
    tenancy.update_tenant(actor=otto, tenant=cast.vision, change=TenantChange(name="Eyes"), now=NOW)
    tenancy.set_member(actor=otto, tenant=cast.vision, username="auditor", role=Role.LEAD, now=NOW)
    change = TenantChange(trust_level=TrustLevel.TRUSTED)
    with pytest.raises(NotAllowed, match="trust_level"):
        tenancy.update_tenant(actor=otto, tenant=cast.vision, change=change, now=NOW)
    with pytest.raises(NotAllowed):
        tenancy.update_tenant(actor=otto, tenant=cast.genomics, change=TenantChange(name="x"), now=NOW)
    with pytest.raises(NotAllowed, match="platform engineer approves"):
        deletion.approve_deletion(actor=otto, tenant=cast.vision, now=NOW)
    tenancy.set_managers(actor=as_actor(cast.petra), department=research, usernames=[], now=NOW)
    assert [t.slug for t in selectors.tenants_for(otto)] == ["genomics"]


def test_a_department_above_another_one_is_not_deleted(cast: Cast) -> None:
    """Its budget would go on binding the teams below, and nobody could see or change it."""
    petra, below = as_actor(cast.petra), cast.genomics.department
    above = factories.make_department(below.cluster, "science")
    weighing.set_share(actor=petra, department=below, share=DepartmentShare(above), now=NOW)
    with pytest.raises(Conflict, match="Departments below science: bio") as refusal:
        tenancy.delete_department(actor=petra, department=above, now=NOW)
    assert (refusal.value.code, "elsewhere" in refusal.value.hint) == ("has_dependents", True)
    weighing.set_share(actor=petra, department=below, share=DepartmentShare(None), now=NOW)
    gone = tenancy.delete_department(actor=petra, department=above, now=NOW)
    with pytest.raises(Invalid) as refused:
        weighing.set_share(actor=petra, department=below, share=DepartmentShare(gone), now=NOW)
    assert [each.pointer for each in refused.value.problems] == ["/spec/parent"]


def test_only_an_empty_department_is_deleted(cast: Cast) -> None:
    petra = as_actor(cast.petra)
    with pytest.raises(Conflict, match="still has 2 tenants") as refusal:
        tenancy.delete_department(actor=petra, department=cast.vision.department, now=NOW)
    assert refusal.value.code == "has_dependents"
    Tenant.objects.filter(department=cast.genomics.department).update(deleted_at=NOW)
    gone = tenancy.delete_department(actor=petra, department=cast.genomics.department, now=NOW)
    assert gone.deleting_at == NOW
    with pytest.raises(DomainError, match="being deleted"):
        tenancy.create_tenant(
            actor=petra,
            slug="late",
            name="",
            department=cast.genomics.department,
            trust_level=TrustLevel.STANDARD,
            now=NOW,
        )


def test_the_preview_names_every_object_and_sums_the_volumes(cast: Cast, access: InProcess) -> None:
    reconcile_tenant(cast.vision.pk, gateway=access)
    access.mirror(cast.vision.cluster)
    MirrorObject.objects.create(
        cluster=cast.vision.cluster,
        kind="PersistentVolumeClaim",
        namespace=cast.vision.object_name,
        name="data",
        uid="u1",
        body={"spec": {"resources": {"requests": {"storage": "20Gi"}}}},
    )
    factories.make_workload(cast.vision, cast.rosa, cast.offer)
    going = removal_of(fresh(cast.vision))
    kinds = {each.kind: each.names for each in going.objects}
    assert kinds["Namespace"] == (cast.vision.object_name,)
    for kind in ("ServiceAccount", "RoleBinding"):
        assert len([name for name in kinds[kind] if "/member-" in name]) == 2
    assert [(v.name, v.size_bytes) for v in going.volumes] == [("data", 20 * 2**30)]
    assert going.rows == {"workload": 1}
    assert not [name for names in kinds.values() for name in names if cast.speech.object_name in name]
