"""Cores of nodes without a GPU: when they are adopted, which of them there are to sell, and when they go."""

from typing import Any

import pytest

from apps.accounts.specs import system_actor
from apps.cluster import request_cache
from apps.cluster.mirror.rules.mirror_columns import Sighting
from apps.cluster.mirror.services import mirror_table
from apps.cluster.models import Cluster, MirrorObject
from apps.errors import Conflict
from apps.quotas.allowances.services import pools
from apps.quotas.catalogue.selectors import stock
from apps.quotas.catalogue.services import adoption, offering
from apps.quotas.models import Flavor, Offer
from apps.tenants.models import NodeAssignment, Tenant
from apps.tenants.specs import Isolation, NodePhase
from tests import factories
from tests.conftest import SignedIn
from tests.controlplane.fleet import nodes, resource_slices
from tests.factories import NOW
from tests.quotas.fleet import READY, STORY

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]
SEED = system_actor("seed")


def see(cluster: Cluster, kind: str, body: dict[str, Any]) -> None:
    """What the watcher saw of an object."""
    body["metadata"] |= {"uid": f"uid-{body['metadata']['name']}", "resourceVersion": "1"}
    mirror_table.record_seen(cluster, [Sighting(kind, body)], now=NOW)


def bare(cluster: Cluster, name: str, *, labels: dict[str, str] | None = None, **spec: Any) -> None:
    """A node of 8 cores and 32 GiB without a GPU."""
    room = {"cpu": "8", "memory": "32Gi"}
    status = {"capacity": room, "allocatable": room, "conditions": READY}
    metadata = {"name": name, "labels": labels or {}}
    see(cluster, "Node", {"metadata": metadata, "spec": spec, "status": status})


def unlabelled_gpu(cluster: Cluster) -> None:
    """An L4 on a node that GPU feature discovery has not labelled."""
    story = STORY[2:]
    (node,) = nodes(story)
    node["metadata"]["labels"] = {}
    see(cluster, "Node", {**node, "status": {**node["status"], "conditions": READY}})
    (published,) = resource_slices(story, {story[0].name: "uid"})
    see(cluster, "ResourceSlice", published)


def test_cores_that_would_mix_with_a_flavor_of_gpus_are_left_out_and_the_page_says_why(
    cluster: Cluster, signed_in: SignedIn
) -> None:
    flavor = factories.make_flavor(cluster)
    Flavor.objects.filter(pk=flavor.pk).update(node_labels={"pool": "gpu"})
    bare(cluster, "cpu-01")
    assert adoption.adopt_inventory(actor=SEED, cluster=cluster, now=NOW) == []
    petra = signed_in(factories.make_user("platform", platform_role="platform"))
    page = petra.get("/console/offers/").content.decode()
    assert "Left out: Work without a GPU could not be kept apart from h100." in page
    Flavor.objects.filter(pk=flavor.pk).update(node_labels={"nvidia.com/gpu.present": "true"})
    assert "Left out" not in petra.get("/console/offers/").content.decode()
    (offer,) = adoption.adopt_inventory(actor=SEED, cluster=cluster, now=NOW)
    assert offer.slug == "cpu-cores"


def test_a_second_flavor_of_cores_and_gpus_that_would_mix_with_the_first_are_left_out(
    cluster: Cluster,
) -> None:
    bare(cluster, "cpu-01")
    (offer,) = adoption.adopt_inventory(actor=SEED, cluster=cluster, now=NOW)
    cores = Flavor.objects.filter(pk=offer.flavor_id)
    cores.update(node_labels={"pool": "cpu"})
    assert adoption.adopt_inventory(actor=SEED, cluster=cluster, now=NOW) == []
    cores.update(node_labels={})
    unlabelled_gpu(cluster)
    assert adoption.adopt_inventory(actor=SEED, cluster=cluster, now=NOW) == []
    assert Flavor.objects.count() == 1


def kept(key: str, effect: str = "NoSchedule") -> dict[str, str]:
    return {"key": key, "value": "", "effect": effect}


def test_only_nodes_on_which_the_work_may_run_are_cores_to_sell(cluster: Cluster) -> None:
    bare(cluster, "cpu-01", taints=[kept("ours"), kept("soft", "PreferNoSchedule")])
    (offer,) = adoption.adopt_inventory(actor=SEED, cluster=cluster, now=NOW)
    bare(cluster, "cpu-02", taints=[kept("node.kubernetes.io/unschedulable")], unschedulable=True)
    bare(cluster, "cp", taints=[kept("node-role.kubernetes.io/control-plane")])
    bare(cluster, "db", taints=[kept("database", "NoExecute")])
    bare(cluster, "v1", labels={"allotment.dev/tenant": "vision"})
    bare(cluster, "s1", labels={"karpenter.sh/capacity-type": "spot"})
    assert stock.supply(cluster)[offer.pk] == stock.Supply(capacity=16, allocated=0, free=8, most=8)
    with request_cache.scope():
        assert stock.cores_by_node(cluster, offer) is stock.cores_by_node(cluster, offer)


def test_cores_can_be_deleted_though_other_pods_run_on_their_nodes(cluster: Cluster) -> None:
    bare(cluster, "cpu-01")
    (offer,) = adoption.adopt_inventory(actor=SEED, cluster=cluster, now=NOW)
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "100m"}}}
    spec = {"nodeName": "cpu-01", "containers": [container]}
    agent = {"metadata": {"name": "agent", "namespace": "kube-system"}, "spec": spec}
    see(cluster, "Pod", agent | {"status": {"phase": "Running"}})
    assert stock.supply(cluster)[offer.pk].allocated == 1
    held = {"name": "main", "flavors": {"cpu": offer.flavor.object_name}, "resourceUsage": {"cpu": "4"}}
    reserved = {"type": "QuotaReserved", "status": "True"}
    status = {"conditions": [reserved], "admission": {"podSetAssignments": [held]}}
    see(cluster, "Workload", {"metadata": {"name": "w", "namespace": "vision"}, "spec": {}, "status": status})
    with pytest.raises(Conflict, match="4 cores of cpu-cores are in use"):
        offering.delete_offer(actor=SEED, offer=offer, now=NOW)
    MirrorObject.objects.filter(kind="Workload").update(gone_at=NOW)
    assert offering.delete_offer(actor=SEED, offer=offer, now=NOW).deleting_at == NOW


def test_nobody_gets_cores_unasked_when_a_tenants_nodes_are_settled(cluster: Cluster) -> None:
    vision: Tenant = factories.make_tenant(factories.make_department(cluster, "research"), "vision")
    Tenant.objects.filter(pk=vision.pk).update(isolation=Isolation.DEDICATED_NODES)
    NodeAssignment.objects.create(tenant=vision, cluster=cluster, node="v1", phase=NodePhase.ASSIGNED)
    bare(cluster, "v1", labels={"allotment.dev/tenant": "vision"})
    bare(cluster, "cpu-01")
    pools.settle_all(now=NOW)
    assert not Offer.objects.exists()
