"""Flavors, offers and queues on their way into a cluster and out again, against a real API server's rules."""

from datetime import timedelta

import pytest
from django.utils import timezone

from apps.cluster.models import MirrorObject
from apps.cluster.objects.conditions import Condition, find
from apps.cluster.reconciling.services import wake
from apps.cluster.specs import ObjectRef
from apps.quotas.allowances.services import quota_changes
from apps.quotas.allowances.services.queue_reconcile import reconcile_queue
from apps.quotas.allowances.services.quota_changes import Amounts
from apps.quotas.catalogue.services.offer_reconcile import reconcile_flavor, reconcile_offer
from apps.quotas.models import Flavor, Offer, TenantQueue
from apps.quotas.periodic import sweep_quotas
from apps.tenants.lifecycle.services import tenancy
from apps.tenants.lifecycle.services.reconcile import reconcile_tenant
from apps.tenants.lifecycle.services.tenancy import TenantChange
from apps.tenants.models import Tenant
from apps.tenants.specs import RESERVE_SUFFIX, Suspend, TrustLevel
from tests.factories import NOW, begin_deletion
from tests.quotas.conftest import Story

pytestmark = pytest.mark.both_databases


@pytest.fixture
def queue(story: Story) -> TenantQueue:
    """Vision's queue with 2 whole H100, not reconciled yet."""
    amounts = Amounts(2, 1)
    quota_changes.set_quota(
        actor=story.petra, tenant=story.vision, offer=story.offer("h100-whole"), amounts=amounts, now=NOW
    )
    return TenantQueue.objects.get(tenant=story.vision)


def ready(queue: TenantQueue) -> Condition:
    found = find(TenantQueue.objects.get(pk=queue.pk).conditions, "Ready")
    assert found is not None
    return found


def cluster_queue(story: Story) -> ObjectRef:
    return ObjectRef("ClusterQueue", "", story.vision.object_name)


def test_flavors_and_offers_reach_the_cluster(story: Story) -> None:
    for flavor in Flavor.objects.all():
        reconcile_flavor(flavor.pk, gateway=story.gateway)
    for offer in Offer.objects.all():
        reconcile_offer(offer.pk, gateway=story.gateway)
    classes, _ = story.gateway.list("DeviceClass", label_selector="allotment.dev/owner=offer")
    assert {body["spec"]["extendedResourceName"] for body in classes} == {
        offer.resource_name for offer in Offer.objects.all()
    }
    assert not Offer.objects.exclude(observed_generation=1).exists()
    assert not Flavor.objects.exclude(observed_generation=1).exists()


def test_quota_becomes_a_cluster_queue_a_local_queue_and_a_backstop(story: Story, queue: TenantQueue) -> None:
    reconcile_queue(queue.pk, gateway=story.gateway)
    applied = sorted(
        ref.kind for verb, ref in story.gateway.calls if verb == "apply" and ref.name != "objects"
    )
    assert {"ClusterQueue", "LocalQueue", "ResourceQuota"} <= set(applied)
    assert story.gateway.get(ObjectRef("LocalQueue", story.vision.object_name, "gpu")) is not None
    assert TenantQueue.objects.get(pk=queue.pk).observed_generation == queue.generation


def test_a_second_look_makes_no_call(story: Story, queue: TenantQueue) -> None:
    reconcile_queue(queue.pk, gateway=story.gateway)
    story.gateway.mirror(story.cluster)
    story.gateway.calls.clear()
    reconcile_queue(queue.pk, gateway=story.gateway)
    assert story.gateway.calls == []


def test_ready_is_what_kueue_says(story: Story, queue: TenantQueue) -> None:
    reconcile_queue(queue.pk, gateway=story.gateway)
    assert ready(queue)["reason"] == "Unknown"
    inactive = {
        "type": "Active",
        "status": "False",
        "reason": "FlavorNotFound",
        "message": "Can't admit: missing flavor",
    }
    kueue = story.gateway.simulated.client(manager="kueue")
    body = {"status": {"conditions": [{**inactive, "lastTransitionTime": "2026-11-20T09:00:00Z"}]}}
    kueue.patch("clusterqueues.kueue.x-k8s.io", story.vision.object_name, body, subresource="status")
    story.gateway.mirror(story.cluster)
    reconcile_queue(queue.pk, gateway=story.gateway)
    assert (ready(queue)["status"], ready(queue)["reason"]) == ("False", "FlavorNotFound")


def test_without_a_namespace_only_the_cluster_queue_is_made_and_it_looks_again(
    story: Story, queue: TenantQueue
) -> None:
    MirrorObject.objects.filter(kind="Namespace").update(gone_at=NOW)
    reconcile_queue(queue.pk, gateway=story.gateway)
    fresh = TenantQueue.objects.get(pk=queue.pk)
    assert ready(queue)["reason"] == "NamespaceMissing"
    assert fresh.due_at is not None
    assert story.gateway.get(ObjectRef("LocalQueue", story.vision.object_name, "gpu")) is None
    assert story.gateway.get(cluster_queue(story)) is not None


def test_suspending_the_tenant_stops_its_queue_though_nobody_hints(
    story: Story, queue: TenantQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    reconcile_queue(queue.pk, gateway=story.gateway)
    change = TenantChange(suspend=Suspend.DRAIN)
    tenancy.update_tenant(actor=story.petra, tenant=story.vision, change=change, now=NOW)
    hinted: list[tuple[str, str]] = []
    monkeypatch.setattr(wake, "hint", lambda owner, pk, **_how: hinted.append((owner, str(pk))))
    sweep_quotas()
    assert ("queue", str(queue.pk)) in hinted
    reconcile_queue(story.vision.pk, gateway=story.gateway)
    body = story.gateway.get(cluster_queue(story))
    assert body is not None
    assert body["spec"]["stopPolicy"] == "HoldAndDrain"
    hinted.clear()
    sweep_quotas()
    assert ("queue", str(queue.pk)) not in hinted


def test_a_lowered_trust_level_closes_the_offer_in_the_cluster_and_a_raised_one_opens_it(
    story: Story, queue: TenantQueue
) -> None:
    offer = story.offer("h100-whole")
    Offer.objects.filter(pk=offer.pk).update(min_trust_level=TrustLevel.STANDARD)
    reserve = ObjectRef("ClusterQueue", "", f"{story.vision.object_name}{RESERVE_SUFFIX}")
    reconcile_queue(queue.pk, gateway=story.gateway)
    assert (_nominal(story, cluster_queue(story), offer), story.gateway.get(reserve)) == ("2", None)
    for level, kept in ((TrustLevel.UNTRUSTED, ("0", "2")), (TrustLevel.STANDARD, ("2", None))):
        change = TenantChange(trust_level=level)
        tenancy.update_tenant(actor=story.petra, tenant=story.vision, change=change, now=NOW)
        story.gateway.mirror(story.cluster)
        reconcile_queue(story.vision.pk, gateway=story.gateway)
        assert (_nominal(story, cluster_queue(story), offer), _nominal(story, reserve, offer)) == kept


def _nominal(story: Story, ref: ObjectRef, offer: Offer) -> str | None:
    body = story.gateway.get(ref)
    if body is None:
        return None
    (group,) = body["spec"]["resourceGroups"]
    named = {f["name"]: {r["name"]: r["nominalQuota"] for r in f["resources"]} for f in group["flavors"]}
    return str(named[offer.flavor.object_name][offer.resource_name])


def test_a_tenant_being_deleted_is_held_and_its_queue_goes_after_the_namespace(
    story: Story, queue: TenantQueue
) -> None:
    reconcile_queue(queue.pk, gateway=story.gateway)
    begin_deletion(story.vision, now=NOW)
    reconcile_queue(queue.pk, gateway=story.gateway)
    body = story.gateway.get(cluster_queue(story))
    assert body is not None
    assert body["spec"]["stopPolicy"] == "Hold"
    reconcile_tenant(story.vision.pk, gateway=story.gateway)
    MirrorObject.objects.filter(owner_kind="tenant").update(gone_at=NOW)
    reconcile_tenant(story.vision.pk, gateway=story.gateway)
    assert Tenant.objects.get(pk=story.vision.pk).deleted_at is not None
    reconcile_queue(queue.pk, gateway=story.gateway)
    story.gateway.mirror(story.cluster)
    reconcile_queue(queue.pk, gateway=story.gateway)
    assert story.gateway.get(cluster_queue(story)) is None
    assert TenantQueue.objects.get(pk=queue.pk).deleted_at is not None


def test_a_queue_that_kueue_will_not_let_go_names_the_finalizer(story: Story, queue: TenantQueue) -> None:
    reconcile_queue(queue.pk, gateway=story.gateway)
    finalizers = {"metadata": {"finalizers": ["kueue.x-k8s.io/resource-in-use"]}}
    kueue = story.gateway.simulated.client(manager="kueue")
    kueue.patch("clusterqueues.kueue.x-k8s.io", story.vision.object_name, finalizers)
    story.gateway.mirror(story.cluster)
    gone = timezone.now() - timedelta(minutes=11)
    Tenant.objects.filter(pk=story.vision.pk).update(deleting_at=gone, deleted_at=gone)
    reconcile_queue(queue.pk, gateway=story.gateway)
    assert "held by the finalizer kueue.x-k8s.io/resource-in-use" in ready(queue)["message"]
    assert TenantQueue.objects.get(pk=queue.pk).deleted_at is None


def test_a_tenant_without_quota_has_no_queue_to_reconcile(story: Story) -> None:
    before = len(story.gateway.calls)
    reconcile_queue(story.speech.pk, gateway=story.gateway)
    assert len(story.gateway.calls) == before
