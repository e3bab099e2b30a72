"""A tenant's and a department's manifests, whole."""

from dataclasses import replace

from apps.tenants.isolation.manifests import render_department, render_tenant
from apps.tenants.specs import DepartmentSpec, MemberSpec, Role
from tests.golden import differs
from tests.tenants.example import TENANT

DEPARTMENT = DepartmentSpec(
    id="5b1f6a1e-2f64-4a39-8c7c-4b1d8d3f0001", object_name="research-eeeeeeeeee", generation=1
)


def test_a_department_is_a_cohort() -> None:
    assert not differs("tenants/department", render_department(DEPARTMENT))


def test_a_tenant_is_a_hardened_namespace_with_an_account_and_a_binding_per_member() -> None:
    assert not differs("tenants/tenant", render_tenant(TENANT))


def test_another_role_is_another_binding_because_a_role_reference_cannot_change() -> None:
    promoted = replace(TENANT, members=(MemberSpec("member-1111111111", Role.LEAD),))
    names = [m["metadata"]["name"] for m in render_tenant(promoted) if m["kind"] == "RoleBinding"]
    assert [name for name in names if name.startswith("member-")] == ["member-1111111111-lead"]


def test_no_account_of_a_member_lies_in_the_tenants_own_namespace() -> None:
    accounts = [m for m in render_tenant(TENANT) if m["kind"] == "ServiceAccount"]
    assert {m["metadata"]["namespace"] for m in accounts} == {"allotment-access"}
    assert len(accounts) == len(TENANT.members) + 1, "and the probe's"


def test_every_object_carries_the_labels_by_which_it_is_found_and_pruned() -> None:
    for manifest in render_tenant(TENANT):
        labels = manifest["metadata"]["labels"]
        assert (labels["allotment.dev/uid"], labels["allotment.dev/owner"]) == (TENANT.id, "tenant")
