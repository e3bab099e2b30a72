"""A virtual cluster: what is asked, what is rendered of it, and what the release says about it."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from apps.cluster.models import Cluster
from apps.cluster.watching.services.capabilities import Capability
from apps.errors import Conflict, Invalid, NotAllowed
from apps.tenants import selectors
from apps.tenants.isolation import vcluster
from apps.tenants.isolation.manifests import render_tenant
from apps.tenants.isolation.vcluster import HostQuota, Synced, VClusterPhase, VClusterSpec
from apps.tenants.lifecycle.services import isolation_choice, tenancy
from apps.tenants.models import Tenant
from apps.tenants.specs import Egress, EgressMode, Isolation, Role, Suspend, TenantSpec, TrustLevel
from tests.conftest import Cast, as_actor
from tests.factories import NOW, join, make_department, make_user
from tests.golden import differs

SPEC = TenantSpec(
    id="5b1f6a1e-2f64-4a39-8c7c-4b1d8d3f0002", slug="lab", object_name="lab-dddddddddd",
    cohort="research-eeeeeeeeee", generation=3, suspend=Suspend.NONE, members=(),
)  # fmt: skip
URL = "https://charts.example.org"


def release(spec: VClusterSpec, tenant: TenantSpec = SPEC) -> dict[str, Any]:
    return next(m for m in vcluster.render(tenant, spec, chart_url=URL) if m["kind"] == "HelmRelease")


def test_a_virtual_cluster_is_a_pinned_chart_a_source_and_a_quota_in_the_tenants_namespace() -> None:
    assert not differs("tenants/vcluster", vcluster.render(SPEC, VClusterSpec(), chart_url=URL))


def test_an_oci_registry_is_a_source_too() -> None:
    rendered = vcluster.render(SPEC, VClusterSpec(), chart_url="oci://registry.example.org/charts")

    (source,) = [m for m in rendered if m["kind"] == "HelmRepository"]
    assert source["spec"]["type"] == "oci"


def test_asleep_the_control_plane_is_off_and_nothing_else_changes() -> None:
    awake, asleep = release(VClusterSpec()), release(VClusterSpec(asleep=True))

    sets = [m["spec"]["values"]["controlPlane"]["statefulSet"] for m in (awake, asleep)]
    assert [s["highAvailability"]["replicas"] for s in sets] == [1, 0]
    sets[1]["highAvailability"] = sets[0]["highAvailability"]
    assert awake == asleep


def test_the_chart_opens_no_more_of_the_network_than_the_tenants_egress() -> None:
    shut = release(VClusterSpec())["spec"]["values"]["policies"]["networkPolicy"]["workload"]["publicEgress"]
    reach = replace(SPEC, egress=Egress(EgressMode.INTERNET))
    open_ = release(VClusterSpec(), reach)["spec"]["values"]["policies"]["networkPolicy"]["workload"]

    assert shut == {"enabled": False}
    assert "169.254.0.0/16" in open_["publicEgress"]["except"]


def reached_from(spec: VClusterSpec, ingress: str) -> list[str]:
    (manifest,) = [
        m for m in vcluster.render(SPEC, spec, chart_url=URL, ingress=ingress) if m["kind"] == "HelmRelease"
    ]
    (rule,) = manifest["spec"]["values"]["policies"]["networkPolicy"]["controlPlane"]["ingress"]
    assert [port["port"] for port in rule["ports"]] == [8443]
    return [each["namespaceSelector"]["matchLabels"]["kubernetes.io/metadata.name"] for each in rule["from"]]


def test_its_api_is_reached_by_the_product_and_with_an_address_outside_by_the_ingress() -> None:
    outside = VClusterSpec(api_host="lab.example.org:8443")

    assert reached_from(VClusterSpec(), "ingress") == ["allotment-system"]
    assert reached_from(outside, "ingress") == ["allotment-system", "ingress"]
    assert reached_from(outside, "") == ["allotment-system"]
    proxy = release(outside)["spec"]["values"]["controlPlane"]["proxy"]
    assert proxy == {"extraSANs": ["virtual.lab-dddddddddd.svc", "lab.example.org"]}


def test_its_pods_stand_the_restricted_profile_and_it_has_no_right_beyond_its_namespace() -> None:
    values = release(VClusterSpec())["spec"]["values"]

    assert values["controlPlane"]["statefulSet"]["security"]["containerSecurityContext"]["runAsNonRoot"]
    assert values["rbac"] == {"clusterRole": {"enabled": False}}


@pytest.mark.parametrize(
    ("document", "pointers"),
    [
        ({"chart_version": "0.1.0"}, ["/spec/vcluster/chart_version"]),
        ({"version": "0.36.1"}, ["/spec/vcluster/version"]),
        ({"sync": ["secrets"]}, ["/spec/vcluster/sync"]),
        ({"sync": "ingresses"}, ["/spec/vcluster/sync"]),
        ({"asleep": "yes"}, ["/spec/vcluster/asleep"]),
        ({"quota": {"cpu": "-1", "gpus": 3}}, ["/spec/vcluster/quota/gpus", "/spec/vcluster/quota/cpu"]),
        (
            {"quota": {"pods": 0, "memory": "lots"}},
            ["/spec/vcluster/quota/memory", "/spec/vcluster/quota/pods"],
        ),
        ({"quota": [1]}, ["/spec/vcluster/quota"]),
        ({"api_host": "https://lab.example.org"}, ["/spec/vcluster/api_host"]),
        ({"api_host": "lab.example.org/path"}, ["/spec/vcluster/api_host"]),
        ({"api_host": "lab.example.org:70000"}, ["/spec/vcluster/api_host"]),
        ({"api_host": "user@lab.example.org"}, ["/spec/vcluster/api_host"]),
        ({"api_host": "lab.example.org\n"}, ["/spec/vcluster/api_host"]),
        ({"api_host": 6443}, ["/spec/vcluster/api_host"]),
    ],
)
def test_everything_wrong_with_a_wish_is_named(document: Mapping[str, Any], pointers: list[str]) -> None:
    _, problems = vcluster.parse(document)

    assert [problem.pointer for problem in problems] == pointers


def test_what_is_stored_reads_back_as_it_was() -> None:
    spec = VClusterSpec(
        sync=(Synced.INGRESSES,), quota=HostQuota(cpu="8", pods=10), asleep=True, api_host="lab.example.org"
    )

    assert vcluster.parse(vcluster.as_json(spec)) == (spec, [])


@pytest.mark.parametrize(
    ("conditions", "observed", "asleep", "phase"),
    [
        ([], 0, False, VClusterPhase.INSTALLING),
        ([{"type": "Ready", "status": "True", "reason": "InstallSucceeded"}], 2, False, VClusterPhase.READY),
        ([{"type": "Ready", "status": "True", "reason": "UpgradeSucceeded"}], 2, True, VClusterPhase.ASLEEP),
        (
            [{"type": "Ready", "status": "True", "reason": "InstallSucceeded"}],
            1,
            False,
            VClusterPhase.INSTALLING,
        ),
        ([{"type": "Ready", "status": "False", "reason": "InstallFailed"}], 2, False, VClusterPhase.FAILED),
        (
            [{"type": "Ready", "status": "Unknown", "reason": "Progressing"}],
            2,
            False,
            VClusterPhase.INSTALLING,
        ),
    ],
)
def test_the_phase_follows_the_release(
    conditions: list[dict[str, str]],
    observed: int,
    asleep: bool,  # noqa: FBT001
    phase: VClusterPhase,
) -> None:
    body = {
        "metadata": {"generation": 2},
        "status": {"conditions": conditions, "observedGeneration": observed},
    }

    assert vcluster.standing(body, VClusterSpec(asleep=asleep)).phase is phase


def with_flux(cluster: Cluster, *, available: bool = True, enforces: bool = False) -> None:
    flux = Capability(
        name="flux", available=available, version=None, message="Flux is not installed.", missing=[]
    )
    policies = Capability(name="policies", available=enforces, version=None, message="", missing=[])
    cluster.capabilities = [flux, policies]
    cluster.save()


def make(cast: Cast, isolation: Isolation, virtual: Mapping[str, Any] | None = None) -> Tenant:
    petra = as_actor(cast.petra)
    tenant = tenancy.create_tenant(
        actor=petra, slug="lab", name="", department=cast.vision.department,
        trust_level=TrustLevel.STANDARD, now=NOW,
    )  # fmt: skip
    return isolation_choice.fence(actor=petra, tenant=tenant, isolation=isolation, virtual=virtual, now=NOW)


def test_where_flux_is_missing_there_is_no_such_choice_and_asking_says_why(cast: Cast) -> None:
    with_flux(cast.vision.cluster, available=False)

    offered = {choice.isolation: choice for choice in isolation_choice.choices(cast.vision.cluster)}
    assert not offered[Isolation.VCLUSTER].available
    assert offered[Isolation.VCLUSTER].reason == "Flux is not installed."
    assert offered[Isolation.DEDICATED_NODES].available
    with pytest.raises(Conflict, match="Flux is not installed") as refused:
        make(cast, Isolation.VCLUSTER)
    assert refused.value.code == "capability_missing"


def test_a_virtual_cluster_is_asked_for_with_the_tenant_and_gets_defaults(cast: Cast) -> None:
    with_flux(cast.vision.cluster)

    tenant = make(cast, Isolation.VCLUSTER, {"quota": {"cpu": "8"}})

    assert selectors.vcluster_of(tenant) == VClusterSpec(quota=HostQuota(cpu="8"))


def test_a_virtual_cluster_for_another_isolation_is_wrong(cast: Cast) -> None:
    with pytest.raises(Invalid, match="isolation vcluster"):
        make(cast, Isolation.NAMESPACE, {"asleep": True})


def test_members_of_a_virtual_cluster_have_no_account_beside_its_key(cast: Cast) -> None:
    with_flux(cast.vision.cluster)
    tenant = make(cast, Isolation.VCLUSTER)
    join(tenant, cast.rosa)

    spec = selectors.tenant_spec(tenant)

    assert spec.members == ()
    (namespace,) = [m for m in render_tenant(spec) if m["kind"] == "Namespace"]
    assert vcluster.syncer(tenant.object_name) in namespace["metadata"]["annotations"].values()


@pytest.mark.parametrize(
    ("is_on", "enforces", "lets_in"), [(False, True, False), (True, False, False), (True, True, True)]
)
def test_beside_it_members_may_run_commands_while_shell_access_is_on_and_policies_fence_the_key(
    cast: Cast, *, is_on: bool, enforces: bool, lets_in: bool
) -> None:
    with_flux(cast.vision.cluster, enforces=enforces)
    tenant = make(cast, Isolation.VCLUSTER)
    join(tenant, cast.rosa)
    tenant.has_shell = is_on

    rendered = render_tenant(selectors.tenant_spec(tenant))

    rosa = selectors.account_name(tenant, cast.rosa.pk)
    bound = {
        m["roleRef"]["name"]
        for m in rendered
        if m["kind"] == "RoleBinding" and m["subjects"][0]["name"] == rosa
    }
    assert bound == ({"allotment-tenant-shell"} if lets_in else set())
    accounts = {m["metadata"]["name"] for m in rendered if m["kind"] == "ServiceAccount"}
    assert (rosa in accounts) is lets_in


def test_asleep_its_queue_is_drained(cast: Cast) -> None:
    with_flux(cast.vision.cluster)
    tenant = make(cast, Isolation.VCLUSTER)

    tenant = isolation_choice.rest(actor=as_actor(cast.petra), tenant=tenant, asleep=True, now=NOW)

    assert selectors.suspension_of(tenant) is Suspend.DRAIN
    awake = isolation_choice.rest(actor=as_actor(cast.petra), tenant=tenant, asleep=False, now=NOW)
    assert selectors.suspension_of(awake) is Suspend.NONE


def test_a_lead_sends_it_to_sleep_but_changes_nothing_else(cast: Cast) -> None:
    with_flux(cast.vision.cluster)
    tenant = make(cast, Isolation.VCLUSTER)
    join(tenant, cast.leon, Role.LEAD)
    join(tenant, cast.rosa)
    leon = as_actor(cast.leon)

    assert isolation_choice.rest(actor=leon, tenant=tenant, asleep=True, now=NOW).vcluster["asleep"] is True
    with pytest.raises(NotAllowed):
        isolation_choice.rest(actor=as_actor(cast.rosa), tenant=tenant, asleep=False, now=NOW)
    wish = {**tenant.vcluster, "quota": {"cpu": "64"}}
    with pytest.raises(NotAllowed):
        isolation_choice.change_vcluster(actor=leon, tenant=tenant, virtual=wish, now=NOW)


def test_a_tenant_without_one_neither_sleeps_nor_changes_isolation_later(cast: Cast) -> None:
    petra = as_actor(cast.petra)
    with pytest.raises(Conflict, match="no virtual cluster"):
        isolation_choice.rest(actor=petra, tenant=cast.vision, asleep=True, now=NOW)
    Tenant.objects.filter(pk=cast.vision.pk).update(observed_generation=1)
    with pytest.raises(Conflict, match="when a tenant is made"):
        isolation_choice.fence(
            actor=petra, tenant=cast.vision, isolation=Isolation.DEDICATED_NODES, virtual=None, now=NOW
        )


def test_only_platform_engineers_choose_more_than_a_namespace(cluster: Cluster) -> None:
    petra = as_actor(make_user("platform", platform_role="platform"))
    tenant = tenancy.create_tenant(
        actor=petra, slug="lab", name="", department=make_department(cluster, "research"),
        trust_level=TrustLevel.STANDARD, now=NOW,
    )  # fmt: skip

    with pytest.raises(NotAllowed):
        isolation_choice.fence(
            actor=as_actor(make_user("rosa")), tenant=tenant, isolation=Isolation.DEDICATED_NODES,
            virtual=None, now=NOW,
        )  # fmt: skip
