"""A node that serves one tenant: what is patched and what is left alone, and the hand-over step by step."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from apps.accounts.specs import Actor
from apps.audit.models import AuditEvent
from apps.cluster.models import Cluster
from apps.cluster.objects.names import ANNOTATION_CORDONED, LABEL_TENANT
from apps.cluster.specs import Body, ObjectRef
from apps.errors import Conflict, Invalid, NotAllowed
from apps.tenants.isolation import node_patch
from apps.tenants.isolation.node_patch import NodeWish
from apps.tenants.models import NodeAssignment, Tenant
from apps.tenants.nodes.services import assigning
from apps.tenants.nodes.services.assigning import Handover
from apps.tenants.nodes.services.dedication import reconcile_node
from apps.tenants.specs import Isolation, NodePhase
from tests.conftest import as_actor
from tests.factories import NOW, make_department, make_tenant, make_user
from tests.tenants.in_process import InProcess

pytestmark = pytest.mark.both_databases

FOREIGN = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
HOUR = Handover(timedelta(hours=1), "they asked for it")


def node(**spec: Any) -> Body:
    return {"metadata": {"name": "gpu-01", "labels": {"zone": "a"}}, "spec": spec}


def test_a_node_gets_label_and_taint_and_keeps_everybody_elses_taints() -> None:
    changed = node_patch.change(node(taints=[FOREIGN]), NodeWish("vision"))

    assert changed == {
        "metadata": {"labels": {LABEL_TENANT: "vision"}},
        "spec": {"taints": [FOREIGN, {"key": LABEL_TENANT, "value": "vision", "effect": "NoSchedule"}]},
    }


def test_a_node_that_is_as_wished_is_not_touched() -> None:
    body = node(taints=[FOREIGN, node_patch.taint("vision")])
    body["metadata"]["labels"][LABEL_TENANT] = "vision"

    assert node_patch.change(body, NodeWish("vision")) == {}


def test_moving_a_node_replaces_the_taint_of_the_tenant_before() -> None:
    body = node(taints=[node_patch.taint("speech"), FOREIGN])

    assert node_patch.change(body, NodeWish("vision"))["spec"]["taints"] == [
        FOREIGN,
        node_patch.taint("vision"),
    ]


def test_a_node_that_is_given_back_loses_exactly_what_was_put_on_it() -> None:
    body = node(taints=[FOREIGN, node_patch.taint("vision")], unschedulable=True)
    body["metadata"] |= {
        "labels": {LABEL_TENANT: "vision"},
        "annotations": {ANNOTATION_CORDONED: "x", "a": "b"},
    }

    assert node_patch.change(body, NodeWish()) == {
        "metadata": {"labels": {LABEL_TENANT: None}, "annotations": {ANNOTATION_CORDONED: None}},
        "spec": {"taints": [FOREIGN], "unschedulable": None},
    }


def test_an_operators_cordon_is_never_lifted() -> None:
    assert "unschedulable" not in node_patch.change(node(unschedulable=True), NodeWish("vision"))["spec"]


@dataclass
class House:
    """A node gpu-01 with a pod of speech on it; vision is the tenant that is to get the node."""

    cluster: Cluster
    gateway: InProcess
    vision: Tenant
    speech: Tenant
    petra: Actor

    def live(self) -> Body:
        found = self.gateway.get(ObjectRef("Node", "", "gpu-01"))
        assert found is not None
        return found

    def bring(self, row: NodeAssignment) -> NodeAssignment:
        self.gateway.mirror(self.cluster)
        reconcile_node(row.pk, gateway=self.gateway)
        return NodeAssignment.objects.get(pk=row.pk)

    def pod(self, tenant: Tenant, name: str = "p") -> None:
        admin = self.gateway.simulated.client()
        place = tenant.object_name
        if admin.get("namespaces", place) is None:
            admin.create("namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": place}})
        spec = {"containers": [{"name": "c", "image": "i"}], "nodeName": "gpu-01"}
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": place},
            "spec": spec,
        }
        admin.create("pods", body, place)

    def end(self, tenant: Tenant, name: str = "p") -> None:
        admin = self.gateway.simulated.client()
        status = {"status": {"phase": "Succeeded"}}
        admin.patch("pods", name, status, namespace=tenant.object_name, subresource="status")


@pytest.fixture
def house(cluster: Cluster) -> House:
    gateway = InProcess()
    gateway.simulated.client().create(
        "nodes",
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "gpu-01"}, "spec": {"taints": [FOREIGN]}},
    )
    research = make_department(cluster, "research")
    vision, speech = (make_tenant(research, slug) for slug in ("vision", "speech"))
    Tenant.objects.update(isolation=Isolation.DEDICATED_NODES)
    vision.refresh_from_db()
    speech.refresh_from_db()
    petra = as_actor(make_user("platform", platform_role="platform"))
    gateway.mirror(cluster)
    return House(cluster, gateway, vision, speech, petra)


def test_a_free_node_is_shut_first_and_then_serves_its_tenant(house: House) -> None:
    row = assigning.assign_node(actor=house.petra, tenant=house.vision, node="gpu-01", handover=HOUR, now=NOW)

    row = house.bring(row)
    assert (row.phase, house.live()["spec"]["unschedulable"]) == (NodePhase.CLEARING, True)
    row = house.bring(row)

    live = house.live()
    assert row.phase == NodePhase.ASSIGNED
    assert live["metadata"]["labels"][LABEL_TENANT] == "vision"
    assert live["spec"]["taints"] == [FOREIGN, node_patch.taint("vision")]
    assert not live["spec"].get("unschedulable")
    calls = len(house.gateway.calls)
    house.bring(row)
    assert len(house.gateway.calls) == calls, "a node as it should be costs no write"
    assert AuditEvent.objects.filter(action="node.assign", target_name="gpu-01").count() == 1


def test_a_node_with_others_work_waits_cordoned_until_it_has_left(house: House) -> None:
    house.pod(house.speech)
    row = assigning.assign_node(actor=house.petra, tenant=house.vision, node="gpu-01", handover=HOUR, now=NOW)

    row = house.bring(house.bring(row))
    assert row.phase == NodePhase.CLEARING
    assert row.stop_at == NOW + timedelta(hours=1)
    (ready,) = [c for c in row.conditions if c["type"] == "Ready"]
    assert house.speech.object_name in ready["message"]
    house.end(house.speech)

    assert house.bring(row).phase == NodePhase.ASSIGNED


def test_a_node_goes_back_only_once_its_tenants_work_has_left(house: House) -> None:
    row = assigning.assign_node(actor=house.petra, tenant=house.vision, node="gpu-01", handover=HOUR, now=NOW)
    row = house.bring(house.bring(row))
    house.pod(house.vision)
    row = assigning.release_node(actor=house.petra, assignment=row, handover=HOUR, now=NOW)

    row = house.bring(row)
    assert row.phase == NodePhase.RELEASING
    assert house.live()["metadata"]["labels"][LABEL_TENANT] == "vision"
    assert house.live()["spec"]["unschedulable"] is True
    house.end(house.vision)
    row = house.bring(row)

    live = house.live()
    assert row.deleted_at is not None
    assert LABEL_TENANT not in live["metadata"].get("labels", {})
    assert live["spec"]["taints"] == [FOREIGN]
    assert not live["spec"].get("unschedulable")


def test_a_taint_that_somebody_removes_comes_back(house: House) -> None:
    row = assigning.assign_node(actor=house.petra, tenant=house.vision, node="gpu-01", handover=HOUR, now=NOW)
    row = house.bring(house.bring(row))
    house.gateway.simulated.client().patch("nodes", "gpu-01", {"spec": {"taints": [FOREIGN]}})

    house.bring(row)

    assert node_patch.taint("vision") in house.live()["spec"]["taints"]


def test_a_node_moves_from_one_tenant_to_another_and_serves_one_at_a_time(house: House) -> None:
    row = assigning.assign_node(actor=house.petra, tenant=house.speech, node="gpu-01", handover=HOUR, now=NOW)
    row = house.bring(house.bring(row))
    house.pod(house.speech)
    moved = assigning.assign_node(
        actor=house.petra, tenant=house.vision, node="gpu-01", handover=HOUR, now=NOW
    )

    assert moved.pk == row.pk
    assert house.bring(house.bring(moved)).phase == NodePhase.CLEARING
    assert house.live()["spec"]["taints"] == [FOREIGN, node_patch.taint("vision")]
    house.end(house.speech)
    assert house.bring(moved).phase == NodePhase.ASSIGNED


def test_whose_nodes_change_has_its_isolation_attested_anew(house: House) -> None:
    def due() -> set[str]:
        return set(Tenant.objects.filter(attestation_due_at=NOW).values_list("slug", flat=True))

    row = assigning.assign_node(actor=house.petra, tenant=house.vision, node="gpu-01", handover=HOUR, now=NOW)
    assert due() == {"vision"}
    Tenant.objects.update(attestation_due_at=None)
    assigning.assign_node(actor=house.petra, tenant=house.speech, node="gpu-01", handover=HOUR, now=NOW)
    assert due() == {"vision", "speech"}
    Tenant.objects.update(attestation_due_at=None)
    row.refresh_from_db()
    assigning.release_node(actor=house.petra, assignment=row, handover=HOUR, now=NOW)
    assert due() == {"speech"}


def test_a_tenant_on_its_way_out_lets_its_nodes_go(house: House) -> None:
    row = assigning.assign_node(actor=house.petra, tenant=house.vision, node="gpu-01", handover=HOUR, now=NOW)
    row = house.bring(house.bring(row))
    Tenant.objects.filter(pk=house.vision.pk).update(deleting_at=NOW)

    row = house.bring(house.bring(row))

    assert row.deleted_at is not None
    assert house.live()["spec"]["taints"] == [FOREIGN]


def test_only_platform_engineers_hand_nodes_over(house: House) -> None:
    rosa = as_actor(make_user("rosa"))

    with pytest.raises(NotAllowed):
        assigning.assign_node(actor=rosa, tenant=house.vision, node="gpu-01", handover=HOUR, now=NOW)


def test_a_tenant_without_that_isolation_gets_no_node(house: House) -> None:
    Tenant.objects.filter(pk=house.vision.pk).update(isolation=Isolation.NAMESPACE)
    house.vision.refresh_from_db()

    with pytest.raises(Invalid, match="dedicated-nodes"):
        assigning.assign_node(actor=house.petra, tenant=house.vision, node="gpu-01", handover=HOUR, now=NOW)


def test_an_unknown_node_and_an_endless_notice_are_wrong(house: House) -> None:
    with pytest.raises(Invalid, match="no node gpu-99"):
        assigning.assign_node(actor=house.petra, tenant=house.vision, node="gpu-99", handover=HOUR, now=NOW)
    late = Handover(timedelta(days=8))
    with pytest.raises(Invalid, match="7 days"):
        assigning.assign_node(actor=house.petra, tenant=house.vision, node="gpu-01", handover=late, now=NOW)


def test_a_tenant_that_goes_gets_no_node(house: House) -> None:
    Tenant.objects.filter(pk=house.vision.pk).update(deleting_at=NOW)
    house.vision.refresh_from_db()

    with pytest.raises(Conflict):
        assigning.assign_node(actor=house.petra, tenant=house.vision, node="gpu-01", handover=HOUR, now=NOW)
