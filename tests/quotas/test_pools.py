"""A tenant's own nodes as offers and quota: what is found on them, who sees it, and shares sold so."""

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import pytest

from apps.accounts.models import User
from apps.cluster.mirror.rules.hardware import NodeView
from apps.cluster.objects.names import LABEL_TENANT
from apps.errors import FieldProblem, Invalid
from apps.quotas.allowances.services import granting, pools, quota_changes
from apps.quotas.allowances.services.granting import GrantWish
from apps.quotas.catalogue.rules import inventory_plan
from apps.quotas.catalogue.selectors import offers, stock
from apps.quotas.models import Grant, Offer, Quota
from apps.quotas.specs import Mechanism, SharingMode
from apps.tenants.models import NodeAssignment, Tenant
from apps.tenants.nodes.services.assigning import Handover
from apps.tenants.nodes.services.dedication import reconcile_node
from apps.tenants.specs import Isolation, TrustLevel
from tests.factories import NOW
from tests.quotas.conftest import Story
from tests.tenants.rest import Rest

GIB = 1024**3
SOON = Handover(timedelta(0))
SHARED = NodeView(
    name="t4-01",
    labels={
        LABEL_TENANT: "vision",
        "nvidia.com/gpu.product": "Tesla-T4",
        "nvidia.com/gpu.count": "4",
        "nvidia.com/gpu.memory": "15360",
        "nvidia.com/gpu.replicas": "4",
        "nvidia.com/gpu.sharing-strategy": "time-slicing",
    },
    taints=({"key": LABEL_TENANT, "value": "vision", "effect": "NoSchedule"},),
    cpu_millis=32_000,
    memory_bytes=128 * GIB,
    ready=True,
    schedulable=True,
    resources={"nvidia.com/gpu.shared": "16"},
)


def test_time_slices_of_a_tenants_node_are_an_offer_of_that_tenant() -> None:
    (flavor,) = inventory_plan.plan([], [SHARED])

    (offer,) = flavor.offers
    assert flavor.tenant == "vision"
    assert flavor.tolerations == (
        {"key": LABEL_TENANT, "operator": "Equal", "value": "vision", "effect": "NoSchedule"},
    )
    assert (offer.sharing_mode, offer.mechanism) == (SharingMode.TIME_SLICING, Mechanism.DEVICE_PLUGIN)
    assert offer.resource_name == "nvidia.com/gpu.shared"
    assert (offer.share_numerator, offer.share_denominator) == (1, 4)
    assert offer.gpu_memory_bytes == 15360 * 1024**2, "nothing keeps anybody from all of it"
    assert (offer.cpu_millis, offer.memory_bytes) == (2000, 8 * GIB)
    assert str(offer.hourly) == "0.0875"


def test_mps_limits_memory_to_a_share() -> None:
    labels = {**SHARED.labels, "nvidia.com/gpu.sharing-strategy": "mps"}
    node = replace(SHARED, labels=labels, resources={"nvidia.com/gpu": "16"})

    ((offer,),) = [flavor.offers for flavor in inventory_plan.plan([], [node])]

    assert offer.sharing_mode is SharingMode.MPS
    assert offer.resource_name == "nvidia.com/gpu"
    assert offer.gpu_memory_bytes == 15360 * 1024**2 // 4


@pytest.mark.parametrize(
    "changed",
    [{LABEL_TENANT: ""}, {"nvidia.com/gpu.sharing-strategy": "none"}],
    ids=["everybody's", "unshared"],
)
def test_shares_are_offered_on_a_tenants_own_nodes_only(changed: dict[str, str]) -> None:
    node = replace(SHARED, labels={**SHARED.labels, **changed})

    assert inventory_plan.plan([], [node]) == ()


@dataclass
class Pool:
    story: Story
    row: NodeAssignment

    def bring(self) -> None:
        for _ in range(2):
            self.story.gateway.mirror(self.story.cluster)
            reconcile_node(self.row.pk, gateway=self.story.gateway)
        self.story.gateway.mirror(self.story.cluster)


@pytest.fixture
def pool(story: Story) -> Pool:
    """Vision is about to get gpu-02 with its two whole H100."""
    Tenant.objects.filter(pk=story.vision.pk).update(isolation=Isolation.DEDICATED_NODES)
    story.vision.refresh_from_db()
    row = pools.assign(actor=story.petra, tenant=story.vision, node="gpu-02", handover=SOON, now=NOW)
    return Pool(story, row)


def own(tenant: Tenant) -> dict[str, int]:
    rows = Quota.objects.filter(tenant=tenant, offer__flavor__tenant=tenant).select_related("offer")
    return {row.offer.slug: row.nominal_quota for row in rows}


def test_a_node_that_serves_a_tenant_is_its_quota_and_nobody_elses(pool: Pool) -> None:
    story = pool.story
    assert pools.settle(actor=story.petra, tenant=story.vision, now=NOW) == [], "not before it is clear"
    pool.bring()

    pools.settle(actor=story.petra, tenant=story.vision, now=NOW)

    assert own(story.vision) == {"h100-vision-whole": 2}
    quota = Quota.objects.get(offer__slug="h100-vision-whole")
    assert (quota.borrowing_limit, quota.lending_limit) == (0, 0)
    offer = story.offer("h100-vision-whole")
    assert offer.flavor.node_labels[LABEL_TENANT] == "vision"
    assert pools.settle(actor=story.petra, tenant=story.vision, now=NOW) == [], (
        "the same again changes nothing"
    )


def test_everybody_elses_offer_no_longer_counts_the_devices_of_a_tenants_node(pool: Pool) -> None:
    story = pool.story
    shared = story.offer("h100-whole")
    assert stock.supply(story.cluster)[shared.pk].capacity == 2
    pool.bring()
    pools.settle(actor=story.petra, tenant=story.vision, now=NOW)

    supplied = stock.supply(story.cluster)

    assert supplied[shared.pk].capacity == 0
    assert supplied[story.offer("h100-vision-whole").pk].free == 2


def test_the_offer_of_a_tenants_node_is_seen_and_given_to_that_tenant_only(pool: Pool) -> None:
    story = pool.story
    pool.bring()
    pools.settle(actor=story.petra, tenant=story.vision, now=NOW)
    offer = story.offer("h100-vision-whole")

    assert offer in offers.offers_of(story.vision)
    assert offer not in offers.offers_of(story.speech)
    with pytest.raises(Invalid) as refused:
        quota_changes.set_quota(
            actor=story.petra, tenant=story.speech, offer=offer, amounts=quota_changes.Amounts(1), now=NOW
        )
    assert [type(problem) for problem in refused.value.problems] == [FieldProblem]
    with pytest.raises(Invalid):
        _granted(story, story.speech, offer)
    spec = {"offer": offer.slug, "count": 1, "reason": "a paper"}
    petra = Rest(User.objects.get(username="platform"))
    asked = petra.send("POST", "/quota-requests", {"tenant": "speech", "spec": spec})
    assert (asked.status_code, asked.json()["errors"][0]["pointer"]) == (422, "#/spec/offer")


def test_of_two_shares_that_their_node_calls_alike_a_tenant_has_one(story: Story) -> None:
    Offer.objects.filter(slug__in=["h100-whole", "l4-whole"]).update(resource_name="nvidia.com/gpu.shared")
    _granted(story, story.vision, story.offer("h100-whole"))
    with pytest.raises(Invalid):
        _granted(story, story.vision, story.offer("l4-whole"))
    with pytest.raises(Invalid):
        quota_changes.set_quota(
            actor=story.petra,
            tenant=story.vision,
            offer=story.offer("l4-whole"),
            amounts=quota_changes.Amounts(1),
            now=NOW,
        )


def _granted(story: Story, tenant: Tenant, offer: Offer) -> Grant:
    wish = GrantWish(1, NOW + timedelta(days=1))
    return granting.give_grant(actor=story.petra, tenant=tenant, offer=offer, wish=wish, now=NOW)


def test_releasing_a_node_cuts_the_quota_before_anything_is_stopped(pool: Pool) -> None:
    story = pool.story
    pool.bring()
    pools.settle(actor=story.petra, tenant=story.vision, now=NOW)

    pools.release(actor=story.petra, assignment=pool.row, handover=SOON, now=NOW)

    assert own(story.vision) == {"h100-vision-whole": 0}


def test_a_node_leaves_a_tenant_whose_trust_no_longer_allows_its_offer(pool: Pool) -> None:
    story = pool.story
    pool.bring()
    pools.settle(actor=story.petra, tenant=story.vision, now=NOW)
    _close(story)

    pools.release(actor=story.petra, assignment=pool.row, handover=SOON, now=NOW)

    assert own(story.vision) == {"h100-vision-whole": 0}


def test_what_grows_on_a_closed_offer_keeps_no_other_tenant_from_its_nodes(
    pool: Pool, caplog: pytest.LogCaptureFixture
) -> None:
    story = pool.story
    Tenant.objects.filter(pk=story.speech.pk).update(isolation=Isolation.DEDICATED_NODES)
    story.speech.refresh_from_db()
    other = pools.assign(actor=story.petra, tenant=story.speech, node="gpu-03", handover=SOON, now=NOW)
    for each in (pool, Pool(story, other)):
        each.bring()
    for tenant in (story.vision, story.speech):
        pools.settle(actor=story.petra, tenant=tenant, now=NOW)
    before = own(story.speech)
    Quota.objects.filter(tenant=story.vision).update(nominal_quota=1)
    Quota.objects.filter(tenant=story.speech).update(nominal_quota=0)
    _close(story)

    pools.settle_all(now=NOW)

    assert own(story.vision) == {"h100-vision-whole": 1}
    assert own(story.speech) == before == {"l4-speech-whole": 1}
    assert "the nodes of vision" in caplog.text


def _close(story: Story) -> None:
    Offer.objects.filter(flavor__tenant=story.vision).update(min_trust_level=TrustLevel.TRUSTED)
    Tenant.objects.filter(pk=story.vision.pk).update(trust_level=TrustLevel.UNTRUSTED)
    story.vision.refresh_from_db()


def test_an_untrusted_tenant_gets_no_quota_of_shares_even_on_its_own_node(story: Story) -> None:
    _shared_node(story, "t4-01", "time-slicing")
    Tenant.objects.filter(pk=story.vision.pk).update(
        isolation=Isolation.DEDICATED_NODES, trust_level=TrustLevel.UNTRUSTED
    )
    story.vision.refresh_from_db()
    row = pools.assign(actor=story.petra, tenant=story.vision, node="t4-01", handover=SOON, now=NOW)
    Pool(story, row).bring()

    pools.settle(actor=story.petra, tenant=story.vision, now=NOW)

    assert Offer.objects.filter(sharing_mode=SharingMode.TIME_SLICING).count() == 1
    assert own(story.vision) == {}


def test_shares_are_counted_on_their_nodes_and_what_pods_ask_for_is_taken(story: Story) -> None:
    _shared_node(story, "t4-01", "time-slicing")
    Tenant.objects.filter(pk=story.vision.pk).update(isolation=Isolation.DEDICATED_NODES)
    story.vision.refresh_from_db()
    row = pools.assign(actor=story.petra, tenant=story.vision, node="t4-01", handover=SOON, now=NOW)
    Pool(story, row).bring()
    pools.settle(actor=story.petra, tenant=story.vision, now=NOW)
    _share_taken(story, "t4-01")
    story.gateway.mirror(story.cluster)

    offer = Offer.objects.get(sharing_mode=SharingMode.TIME_SLICING)
    supplied = stock.supply(story.cluster)[offer.pk]

    assert own(story.vision) == {offer.slug: 8}
    assert (supplied.capacity, supplied.allocated, supplied.free) == (8, 1, 7)


def _shared_node(story: Story, name: str, strategy: str) -> None:
    labels = {**SHARED.labels, "nvidia.com/gpu.count": "2", "nvidia.com/gpu.sharing-strategy": strategy}
    labels.pop(LABEL_TENANT)
    admin = story.gateway.simulated.client()
    admin.create("nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}})
    room = {"cpu": "32", "memory": "128Gi", "pods": "110", "nvidia.com/gpu.shared": "8"}
    ready = [{"type": "Ready", "status": "True"}]
    status: dict[str, Any] = {"capacity": room, "allocatable": room, "conditions": ready}
    admin.patch("nodes", name, {"status": status}, subresource="status")
    story.gateway.mirror(story.cluster)


def _share_taken(story: Story, node: str) -> None:
    resources = {"limits": {"nvidia.com/gpu.shared": "1"}, "requests": {"nvidia.com/gpu.shared": "1"}}
    spec = {"nodeName": node, "containers": [{"name": "c", "image": "i", "resources": resources}]}
    metadata = {"name": "p", "namespace": "default"}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    story.gateway.simulated.client().create("pods", body, "default")


@pytest.mark.parametrize("mode", [SharingMode.MPS, SharingMode.TIME_SLICING])
def test_shares_are_refused_on_everybodys_nodes_however_far_a_tenant_is_trusted(
    story: Story, mode: SharingMode
) -> None:
    offer = story.offer("h100-whole")
    offer.sharing_mode = mode
    Tenant.objects.filter(pk=story.vision.pk).update(trust_level=TrustLevel.TRUSTED)
    story.vision.refresh_from_db()

    assert "only on nodes that serve one tenant" in offers.refusal_of(offer, story.vision)


def test_the_catalogue_of_a_tenant_that_is_gone_is_retired(pool: Pool) -> None:
    story = pool.story
    pool.bring()
    pools.settle(actor=story.petra, tenant=story.vision, now=NOW)
    Tenant.objects.filter(pk=story.vision.pk).update(deleting_at=NOW, deleted_at=NOW)

    pools.retire(now=NOW)

    offer = story.offer("h100-vision-whole")
    assert offer.deleting_at == offer.flavor.deleting_at == NOW
    assert story.offer("h100-whole").deleting_at is None
