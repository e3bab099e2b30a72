"""A virtual cluster installed by the real Flux: made, put to sleep, woken, and taken away in order.

Not real: the containers. The chart's control plane is a pod that kwok says runs, so no virtual API answers;
what its syncer would make is made here with its own account.
"""

import asyncio
import json
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any

import pytest
from django.utils import timezone
from pytest_django import Settings

from apps.accounts.actors import Credential
from apps.accounts.specs import Actor
from apps.cluster.errors import Rejected
from apps.cluster.gateway import executing
from apps.cluster.gateway.port import open_gateway, open_probe
from apps.cluster.models import WatchPosition
from apps.cluster.watching.services.watch import Watcher
from apps.errors import Conflict
from apps.quotas.allowances.services import quota_changes
from apps.quotas.catalogue.services import adoption as catalogue_adoption
from apps.quotas.models import Offer, TenantQueue
from apps.tenants import selectors
from apps.tenants.isolation import vcluster
from apps.tenants.isolation.vcluster import VClusterPhase
from apps.tenants.lifecycle.services import adoption, isolation_choice, tenancy
from apps.tenants.lifecycle.services.reconcile import reconcile_tenant
from apps.tenants.live.services import cluster_reads
from apps.tenants.models import Tenant
from apps.tenants.specs import ACCESS_NAMESPACE, QUEUE_NAME, Isolation, TenantPhase
from apps.workloads.models import Workload
from apps.workloads.opening.services import reaching, shells
from tests.cluster.reading import written
from tests.controlplane.flux import CHART_VERSION, Flux
from tests.controlplane.plane import ControlPlane
from tests.factories import begin_deletion
from tests.isolation.yard import Yard, yard_on

pytestmark = [pytest.mark.plane, pytest.mark.django_db, pytest.mark.timeout(400)]


@pytest.fixture(scope="module")
def flux(control_plane: ControlPlane) -> Iterator[Flux]:
    with Flux(control_plane) as running:
        yield running


@pytest.fixture
def yard(control_plane: ControlPlane, flux: Flux, settings: Settings) -> Iterator[Yard]:
    settings.CONFIG = settings.CONFIG.model_copy(update={"vcluster_chart_url": flux.chart_url})
    with yard_on(control_plane) as made:
        yield made


def standing(tenant: Tenant) -> VClusterPhase:
    found = selectors.vcluster_standing(Tenant.objects.get(pk=tenant.pk))
    assert found is not None
    return found.phase


def until_standing(yard: Yard, tenant: Tenant, phase: VClusterPhase) -> None:
    yard.until(lambda: standing(tenant) is phase, f"{tenant.slug} to be {phase}", 120)


def listed(yard: Yard, kind: str, namespace: str) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = json.loads(yard.plane.kubectl("get", kind, "-n", namespace, "-o", "json"))[
        "items"
    ]
    return items


def test_a_virtual_cluster_is_installed_sleeps_wakes_and_goes_in_order(
    yard: Yard, record_property: Callable[[str, Any], None]
) -> None:
    began = time.monotonic()
    tenant, _ = yard.tenant("lab", Isolation.VCLUSTER, {})
    until_standing(yard, tenant, VClusterPhase.READY)
    record_property("seconds until ready", round(time.monotonic() - began, 1))
    yard.until(lambda: Tenant.objects.get(pk=tenant.pk).phase == TenantPhase.READY, "the tenant to be ready")
    space = tenant.object_name

    release = yard.get("HelmRelease", vcluster.RELEASE, space) or {}
    assert release["status"]["history"][0]["chartVersion"] == CHART_VERSION
    (pod,) = listed(yard, "pods", space)
    assert (pod["metadata"]["name"], pod["status"]["phase"]) == ("virtual-0", "Running"), (
        "restricted takes it"
    )
    accounts = {each["metadata"]["name"] for each in listed(yard, "serviceaccounts", space)}
    assert vcluster.SYNCER_ACCOUNT in accounts
    bound = {each["subjects"][0]["name"].partition("-")[0] for each in listed(yard, "rolebindings", space)}
    assert bound == {"vc", "probe"}, "no member is bound beside the key to all of it"

    isolation_choice.rest(actor=yard.petra, tenant=tenant, asleep=True, now=timezone.now())
    until_standing(yard, tenant, VClusterPhase.ASLEEP)
    yard.until(lambda: not listed(yard, "pods", space), "its control plane to be off")
    assert [claim["metadata"]["name"] for claim in listed(yard, "pvc", space)] == ["data-virtual-0"]

    isolation_choice.rest(actor=yard.petra, tenant=tenant, asleep=False, now=timezone.now())
    until_standing(yard, tenant, VClusterPhase.READY)
    assert [each["metadata"]["name"] for each in listed(yard, "pods", space)] == ["virtual-0"]

    goes_before_its_namespace(yard, tenant)


def goes_before_its_namespace(yard: Yard, tenant: Tenant) -> None:
    space = tenant.object_name
    begin_deletion(Tenant.objects.get(pk=tenant.pk), now=timezone.now())
    seen: list[tuple[bool, bool]] = []

    def gone() -> bool:
        seen.append(
            (bool(yard.get("HelmRelease", vcluster.RELEASE, space)), bool(yard.get("Namespace", space)))
        )
        return Tenant.objects.get(pk=tenant.pk).deleted_at is not None

    yard.until(gone, "the tenant to be gone", 120)
    assert (True, False) not in seen, "the namespace never goes before the release"
    assert (False, True) in seen, "the release was uninstalled while the namespace was there"


def test_pods_that_its_syncer_makes_take_quota_of_the_host(yard: Yard) -> None:
    tenant, _ = yard.tenant("lab", Isolation.VCLUSTER, {})
    yard.look()
    catalogue_adoption.adopt_inventory(actor=yard.petra, cluster=yard.cluster, now=timezone.now())
    offer = Offer.objects.get(profile="1g.10gb")
    quota_changes.set_quota(
        actor=yard.petra, tenant=tenant, offer=offer, amounts=quota_changes.Amounts(1), now=timezone.now()
    )
    until_standing(yard, tenant, VClusterPhase.READY)
    space = tenant.object_name
    yard.until(lambda: yard.get("LocalQueue", QUEUE_NAME, space), "the queue")
    service = next(each for each in listed(yard, "services", space) if each["metadata"]["name"] == "virtual")

    for name in ("first", "second"):
        as_syncer(yard, space, synced_pod(name, space, service, offer.resource_name))

    def statuses() -> dict[str, bool]:
        pods = [pod for pod in listed(yard, "pods", space) if pod["metadata"]["name"] in ("first", "second")]
        return {pod["metadata"]["name"]: pod["status"]["phase"] == "Running" for pod in pods}

    yard.until(lambda: sum(statuses().values()) == 1, "one of the two to run")
    waiting = next(name for name, runs in statuses().items() if not runs)
    (held,) = [pod for pod in listed(yard, "pods", space) if pod["metadata"]["name"] == waiting]
    assert "kueue.x-k8s.io/admission" in [gate["name"] for gate in held["spec"]["schedulingGates"]]

    isolation_choice.rest(actor=yard.petra, tenant=tenant, asleep=True, now=timezone.now())
    yard.until(lambda: not sum(statuses().values()), "its pods to be evicted as it falls asleep", 90)
    queue = TenantQueue.objects.get(tenant=tenant)
    live = yard.get("ClusterQueue", queue.tenant.object_name) or {}
    assert live["spec"]["stopPolicy"] == "HoldAndDrain"


def test_a_pod_of_its_syncer_is_put_into_the_queue(yard: Yard) -> None:
    """Who writes pods inside knows nothing of the queue out here; without quota it waits."""
    tenant, _ = yard.tenant("lab", Isolation.VCLUSTER, {})
    until_standing(yard, tenant, VClusterPhase.READY)
    space = tenant.object_name
    service = next(each for each in listed(yard, "services", space) if each["metadata"]["name"] == "virtual")
    pod = synced_pod("stray", space, service, "allotment.dev/h100-1g-10gb")
    del pod["metadata"]["labels"]["kueue.x-k8s.io/queue-name"]

    as_syncer(yard, space, pod)

    (held,) = [each for each in listed(yard, "pods", space) if each["metadata"]["name"] == "stray"]
    assert held["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == QUEUE_NAME
    assert "kueue.x-k8s.io/admission" in [gate["name"] for gate in held["spec"]["schedulingGates"]]


def test_its_members_enter_the_portals_pods_beside_it_while_shell_access_is_on_and_never_its_control_plane(
    yard: Yard,
) -> None:
    """The exec is the API server's own; what runs, kwok runs on this machine, for any pod. RULE: the account
    is for that alone.
    """
    tenant, member = yard.tenant("lab", Isolation.VCLUSTER, {})
    row = running_notebook(yard, tenant, member)
    until_standing(yard, tenant, VClusterPhase.READY)
    inside = shells.Inside(row, Credential(row.owner_id))
    with pytest.raises(Conflict, match="not set up"):
        shells.account_in(inside, 0)
    switched(yard, tenant, on=True)
    account = yard.until(partial(entered, inside), "the member's account beside the virtual cluster")
    space = tenant.object_name

    assert account.pod == reaching.pod_at(row, 0)
    assert ran(account, account.pod) == (b"inside\n", "")
    for name in ("virtual-0", "virtual-1"):
        written, refused = ran(account, name)
        assert (written, "allotment-shells" in refused) == (b"", True)
    probe = open_probe(yard.cluster, cluster_reads.shell_credential(member, tenant, seconds=600)[0])
    rights = [
        (verb, resource)
        for verb in ("get", "create", "list", "delete")
        for resource in ("pods/exec", "pods/portforward", "pods/attach", "pods", "pods/log", "secrets")
        if probe.may(verb, resource, group="", namespace=space)
    ]
    expected = [(verb, f"pods/{way}") for verb in ("get", "create") for way in ("exec", "portforward")]
    assert rights == expected

    other, stranger = yard.tenant("far", Isolation.NAMESPACE)
    yard.until(lambda: Tenant.objects.get(pk=other.pk).phase == TenantPhase.READY, "another tenant")
    theirs = open_probe(yard.cluster, cluster_reads.shell_credential(stranger, other, seconds=600)[0])
    assert not theirs.may("create", "pods/exec", group="", namespace=space)
    assert not probe.may("create", "pods/exec", group="", namespace=other.object_name)

    switched(yard, tenant, on=False)
    yard.until(lambda: not probe.may("create", "pods/exec", group="", namespace=space), "its right to end")
    accounts = {each["metadata"]["name"] for each in listed(yard, "serviceaccounts", ACCESS_NAMESPACE)}
    assert selectors.account_name(tenant, row.owner_id) not in accounts


def running_notebook(yard: Yard, tenant: Tenant, member: Actor) -> Workload:
    """One of the portal's own, beside the virtual cluster."""
    yard.look()
    catalogue_adoption.adopt_inventory(actor=yard.petra, cluster=yard.cluster, now=timezone.now())
    offer = Offer.objects.get(profile="1g.10gb")
    quota_changes.set_quota(
        actor=yard.petra, tenant=tenant, offer=offer, amounts=quota_changes.Amounts(1), now=timezone.now()
    )
    row = yard.notebook(tenant, member, offer, "nb")
    yard.until(lambda: reaching.running_pods(row), "its pod to run", 120)
    return Workload.objects.get(pk=row.pk)


def switched(yard: Yard, tenant: Tenant, *, on: bool) -> None:
    tenancy.update_tenant(
        actor=yard.petra, tenant=tenant, change=tenancy.TenantChange(has_shell=on), now=timezone.now()
    )


def entered(inside: shells.Inside) -> shells.Account | None:
    inside.row.tenant.refresh_from_db()
    with suppress(Conflict):
        return shells.account_in(inside, 0)
    return None


def ran(account: shells.Account, pod: str) -> tuple[bytes, str]:
    """What a command there writes, and what the cluster says where it does not run it."""

    async def running() -> tuple[bytes, str]:
        way = account.pods.run_command(account.namespace, pod, ["echo", "inside"], is_terminal=False)
        try:
            async with executing.running(way) as command:
                written = b"".join([content async for _, content in command])
                return written, command.exit.words
        except Rejected as refused:
            return b"", str(refused)

    return asyncio.run(running())


def test_the_watcher_tells_what_flux_did(yard: Yard) -> None:
    """Everywhere else here a list stands for it."""
    tenant, _ = yard.tenant("lab", Isolation.VCLUSTER, {})
    until_standing(yard, tenant, VClusterPhase.READY)
    watcher = Watcher(yard.cluster, partial(open_gateway, yard.cluster))
    watcher.start()
    try:
        followed = WatchPosition.objects.filter(kind__in=["HelmRelease", "HelmRepository"])
        written(watcher, lambda: followed.count() == 2)
        isolation_choice.rest(actor=yard.petra, tenant=tenant, asleep=True, now=timezone.now())
        reconcile_tenant(tenant.pk)
        assert standing(tenant) is VClusterPhase.INSTALLING, "what was applied, Flux has not done yet"
        written(watcher, lambda: standing(tenant) is VClusterPhase.ASLEEP)
    finally:
        watcher.shut_down()


def test_one_in_a_namespace_that_was_there_goes_and_the_namespace_stays(yard: Yard) -> None:
    space = f"legacy-{yard.tag}"
    yard.plane.kubectl("create", "namespace", space)
    try:
        tenant, _ = yard.tenant("lab", Isolation.VCLUSTER, {})
        content = cluster_reads.content_of(yard.cluster, space)
        adoption.take_over(
            actor=yard.petra, tenant=tenant, content=content, seen=content.seen, now=timezone.now()
        )
        until_standing(yard, tenant, VClusterPhase.READY)
        assert listed(yard, "helmrepositories", space)

        begin_deletion(Tenant.objects.get(pk=tenant.pk), now=timezone.now())
        yard.until(lambda: Tenant.objects.get(pk=tenant.pk).deleted_at, "the tenant to be gone", 120)
        assert not listed(yard, "helmrepositories,helmreleases", space)
        left = yard.get("Namespace", space) or {}
        assert not [name for name in left["metadata"]["labels"] if "allotment" in name]
    finally:
        yard.plane.kubectl("delete", "namespace", space, "--wait=false")


def synced_pod(name: str, namespace: str, service: dict[str, Any], resource: str) -> dict[str, Any]:
    """A pod as vCluster's syncer writes it: in the one namespace, owned by the virtual cluster's Service."""
    owner = {"apiVersion": "v1", "kind": "Service", "name": "virtual", "uid": service["metadata"]["uid"]}
    labels = {"vcluster.loft.sh/managed-by": "virtual", "kueue.x-k8s.io/queue-name": QUEUE_NAME}
    security = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    room = {"cpu": "500m", "memory": "1Gi", resource: "1"}
    container = {
        "name": "main", "image": "python:3.13", "securityContext": security, "imagePullPolicy": "Always",
        "resources": {"requests": room, "limits": {"memory": "1Gi", resource: "1"}},
    }  # fmt: skip
    spec = {
        "containers": [container],
        "automountServiceAccountToken": False,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 1000,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
    }
    metadata = {"name": name, "namespace": namespace, "labels": labels, "ownerReferences": [owner]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def as_syncer(yard: Yard, namespace: str, body: dict[str, Any]) -> None:
    """Make it with the rights of the account that the chart made."""
    account = vcluster.syncer(namespace)
    group = f"system:serviceaccounts:{namespace}"
    yard.plane.kubectl("create", "-f", "-", f"--as={account}", f"--as-group={group}", input=json.dumps(body))
