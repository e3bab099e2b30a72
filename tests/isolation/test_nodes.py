"""Dedicated nodes before the real scheduler and the real Kueue: who runs where is counted, not assumed."""

import json
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from apps.cluster.objects.names import LABEL_TENANT
from apps.quotas.models import Offer, Quota
from apps.quotas.specs import SharingMode
from apps.tenants.isolation import node_patch
from apps.tenants.models import NodeAssignment, Tenant
from apps.tenants.nodes.services.assigning import Handover
from apps.tenants.specs import Isolation, NodePhase
from apps.workloads.models import Workload, WorkloadEvent
from apps.workloads.nodes.services import node_drain
from apps.workloads.specs import Phase
from tests.controlplane.plane import ControlPlane
from tests.isolation.yard import Yard, yard_on

pytestmark = [pytest.mark.plane, pytest.mark.django_db, pytest.mark.timeout(400)]

AT_ONCE = Handover(timedelta(0), "test")
SHARES = 8
SHARED = ("share-01", "share-02", "share-03")
LABELS = {
    "nvidia.com/gpu.product": "Tesla-T4",
    "nvidia.com/gpu.count": "2",
    "nvidia.com/gpu.memory": "15360",
    "nvidia.com/gpu.replicas": "4",
    "nvidia.com/gpu.sharing-strategy": "time-slicing",
}


@pytest.fixture
def shared_nodes(control_plane: ControlPlane) -> Iterator[None]:
    """Three nodes whose device plugin cuts two T4 into four time slices each."""
    for name in SHARED:
        labels = {**LABELS, "kubernetes.io/hostname": name}
        annotations = {"kwok.x-k8s.io/node": "fake"}
        metadata = {"name": name, "labels": labels, "annotations": annotations}
        body = {"apiVersion": "v1", "kind": "Node", "metadata": metadata}
        control_plane.kubectl("apply", "--server-side", "-f", "-", input=json.dumps(body))
        room = {"cpu": "32", "memory": "128Gi", "pods": "110", "ephemeral-storage": "1Ti"}
        room["nvidia.com/gpu.shared"] = str(SHARES)
        patch = json.dumps({"status": {"capacity": room, "allocatable": room}})
        control_plane.kubectl("patch", "node", name, "--subresource=status", "--type=merge", "-p", patch)
    control_plane.kubectl("wait", "--for=condition=Ready", "nodes", *SHARED, "--timeout=30s")
    yield
    control_plane.kubectl("delete", "node", *SHARED)


@pytest.fixture
def yard(control_plane: ControlPlane, shared_nodes: None) -> Iterator[Yard]:
    with yard_on(control_plane) as made:
        yield made


def serve(yard: Yard, tenant: Tenant, *names: str) -> None:
    """Hand the nodes over and wait until they serve the tenant and its quota says so."""
    yard.look()
    for name in names:
        node_drain.assign(actor=yard.petra, tenant=tenant, node=name, handover=AT_ONCE, now=timezone.now())
    yard.until(lambda: _serving(tenant) >= set(names), f"{names} to serve {tenant.slug}")


def _serving(tenant: Tenant) -> set[str]:
    rows = NodeAssignment.objects.filter(tenant=tenant, phase=NodePhase.ASSIGNED, deleted_at=None)
    return set(rows.values_list("node", flat=True))


def own_offer(yard: Yard, tenant: Tenant, mode: SharingMode) -> Offer:
    """The offer of that mode on the tenant's own nodes, once its quota is in the queue."""

    def found() -> Offer | None:
        rows = Quota.objects.filter(tenant=tenant, offer__flavor__tenant=tenant, offer__sharing_mode=mode)
        quota = rows.select_related("offer__flavor").first()
        queue = yard.get("ClusterQueue", tenant.object_name)
        names = json.dumps((queue or {}).get("spec", {}).get("resourceGroups", []))
        return quota.offer if quota and quota.nominal_quota and quota.offer.resource_name in names else None

    offer: Offer = yard.until(found, f"the quota of {tenant.slug}")
    return offer


def pairs(yard: Yard) -> dict[str, set[str]]:
    """The tenants' namespaces by the node that their pods are on."""
    found: dict[str, set[str]] = defaultdict(set)
    for namespace, node in yard.pods():
        if node:
            found[node].add(namespace)
    return found


def running(rows: list[Workload]) -> Callable[[], bool]:
    def all_run() -> bool:
        return all(Workload.objects.get(pk=row.pk).phase == Phase.RUNNING for row in rows)

    return all_run


def waiting_for_quota(row: Workload) -> Callable[[], bool]:
    def waits() -> bool:
        row.refresh_from_db()
        return any("insufficient unused quota" in condition["message"] for condition in row.conditions)

    return waits


def test_time_slices_of_two_tenants_never_meet_on_a_node(
    yard: Yard, record_property: Callable[[str, Any], None]
) -> None:
    vision, rosa = yard.tenant("vision", Isolation.DEDICATED_NODES)
    speech, leon = yard.tenant("speech", Isolation.DEDICATED_NODES)
    serve(yard, vision, "share-01", "share-02")
    serve(yard, speech, "share-03")
    of_vision, of_speech = (own_offer(yard, t, SharingMode.TIME_SLICING) for t in (vision, speech))
    assert of_vision.resource_name == of_speech.resource_name == "nvidia.com/gpu.shared"
    assert Quota.objects.get(tenant=vision, offer=of_vision).nominal_quota == 2 * SHARES

    rows = [yard.notebook(vision, rosa, of_vision, f"v-{n}") for n in range(10)]
    rows += [yard.notebook(speech, leon, of_speech, f"s-{n}") for n in range(SHARES)]
    yard.until(running(rows), "18 notebooks to run", 120)
    # Not with them: of those that are asked for within a second Kueue takes any first.
    one_more = yard.notebook(speech, leon, of_speech, "one-more")
    yard.until(waiting_for_quota(one_more), "one more to wait for quota")

    where = pairs(yard)
    assert where["share-03"] == {speech.object_name}
    assert where["share-01"] | where["share-02"] == {vision.object_name}
    assert all(len(tenants) == 1 for tenants in where.values())
    assert one_more.phase == Phase.PENDING, "its nodes are full, and no other node takes it"
    record_property("pairs", {node: len(tenants) for node, tenants in where.items()})
    record_property("notebooks", len(rows))


def test_whole_gpus_on_a_tenants_node_are_its_own_by_kueue_and_the_scheduler(yard: Yard) -> None:
    vision, rosa = yard.tenant("vision", Isolation.DEDICATED_NODES)
    serve(yard, vision, "gpu-02")
    offer = own_offer(yard, vision, SharingMode.EXCLUSIVE)

    rows = [yard.notebook(vision, rosa, offer, f"v-{n}") for n in range(2)]
    yard.until(running(rows), "two notebooks to run", 90)

    assert pairs(yard)["gpu-02"] == {vision.object_name}
    (pod, *_) = json.loads(yard.plane.kubectl("get", "pods", "-n", vision.object_name, "-o", "json"))["items"]
    assert pod["spec"]["nodeSelector"][LABEL_TENANT] == vision.slug, "Kueue put the flavor's labels there"
    assert LABEL_TENANT in {toleration["key"] for toleration in pod["spec"]["tolerations"]}


def test_a_pod_of_nobody_is_kept_off_a_tenants_node_by_the_scheduler(yard: Yard) -> None:
    vision, _ = yard.tenant("vision", Isolation.DEDICATED_NODES)
    serve(yard, vision, "share-01")
    selector = {"kubernetes.io/hostname": "share-01"}
    spec = {"nodeSelector": selector, "containers": [{"name": "c", "image": "i"}]}
    metadata = {"name": f"stray-{yard.tag}", "namespace": "default"}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    yard.plane.kubectl("apply", "-f", "-", input=json.dumps(pod))
    try:
        path = "{.status.conditions[?(@.type=='PodScheduled')].message}"
        said = ""
        for _ in range(50):
            said = yard.plane.kubectl("get", "pod", metadata["name"], "-ndefault", "-o", f"jsonpath={path}")
            if said:
                break
            time.sleep(0.2)
        assert "untolerated taint" in said, said
    finally:
        yard.plane.kubectl("delete", "pod", metadata["name"], "-ndefault", "--wait=false")


def test_a_node_moves_after_its_notice_and_the_work_on_it_is_stopped_not_killed(yard: Yard) -> None:
    vision, rosa = yard.tenant("vision", Isolation.DEDICATED_NODES)
    speech, leon = yard.tenant("speech", Isolation.DEDICATED_NODES)
    serve(yard, vision, "share-01")
    row = yard.notebook(vision, rosa, own_offer(yard, vision, SharingMode.TIME_SLICING), "stays-a-while")
    yard.until(running([row]), "the notebook to run")
    yard.look()

    # Longer than three turns take on a busy machine: what is looked at is that the notice is kept.
    soon = Handover(timedelta(seconds=30), "speech needs it")
    seen = node_drain.preview(yard.cluster, "share-01", keeps=speech, handover=soon, now=timezone.now())
    assert [each.pk for each in seen.leaves] == [row.pk]
    node_drain.assign(actor=yard.petra, tenant=speech, node="share-01", handover=soon, now=timezone.now())
    for _ in range(3):
        yard.turn()
    row.refresh_from_db()
    assert row.phase == Phase.RUNNING, "its notice is not over"
    assert WorkloadEvent.objects.filter(workload=row, reason="NodeHandover").count() == 1

    yard.until(lambda: _serving(speech) == {"share-01"}, "the node to serve speech", 120)

    row.refresh_from_db()
    assert (row.phase, row.suspended) == (Phase.STOPPED, True)
    live = yard.get("Node", "share-01") or {}
    assert live["spec"]["taints"] == [node_patch.taint(speech.slug)]
    offer = own_offer(yard, speech, SharingMode.TIME_SLICING)
    after = yard.notebook(speech, leon, offer, "next")
    yard.until(running([after]), "speech's notebook to run")
    assert pairs(yard)["share-01"] == {speech.object_name}


def test_a_node_that_is_given_back_serves_everybody_again(yard: Yard) -> None:
    vision, _ = yard.tenant("vision", Isolation.DEDICATED_NODES)
    serve(yard, vision, "share-02")
    row = NodeAssignment.objects.get(node="share-02", deleted_at=None)

    node_drain.release(actor=yard.petra, assignment=row, handover=AT_ONCE, now=timezone.now())
    yard.until(lambda: NodeAssignment.objects.get(pk=row.pk).deleted_at, "the node to be given back")

    live = yard.get("Node", "share-02") or {}
    assert LABEL_TENANT not in live["metadata"]["labels"]
    assert "taints" not in live["spec"]
    assert not live["spec"].get("unschedulable")
