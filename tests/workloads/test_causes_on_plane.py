"""Causes that only a whole cluster makes, on the real one, and told alike on the page, over REST, in a
message.

Only a kubelet is missing: what it would write about an image is written here by hand, in its own words. All
else Kubernetes and Kueue say themselves: the disk is the volume controller's, the layout the scheduler's.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from decimal import Decimal
from functools import partial
from typing import Any

import pytest
from django.utils import timezone

from apps.cluster.gateway.port import open_gateway
from apps.cluster.models import Cluster
from apps.cluster.specs import ObjectRef
from apps.cluster.watching.services import ingest
from apps.cluster.watching.services.watch import Watcher
from apps.metering.allocations.services.collect import collect
from apps.metering.billing.services import pricing_run as metering
from apps.notices.models import Notice
from apps.quotas.allowances.services import quota_changes as quotas
from apps.quotas.budgets.rules.budget import Limits
from apps.quotas.budgets.services import budgeting
from apps.quotas.models import Price, Quota, TenantQueue
from apps.quotas.specs import BudgetUnit, HoldReason
from apps.tenants.lifecycle.services import tenancy as tenants
from apps.tenants.specs import QUEUE_NAME, Suspend
from apps.workloads.models import Workload
from apps.workloads.specs import Phase
from apps.workloads.waiting.rules.situation import Cause
from tests.cluster.reading import written
from tests.controlplane.plane import Outage
from tests.workloads.on_plane import ROOT, House, house, on_every_surface, told_alike, why

__all__ = ["house"]
pytestmark = [pytest.mark.exhaustive, pytest.mark.plane, pytest.mark.django_db, pytest.mark.timeout(300)]

KUBELET_SAYS = 'Back-off pulling image "python:3.99": ErrImagePull: manifest unknown'


@contextmanager
def without_kubelet(house: House) -> Iterator[None]:
    """Whoever plays the kubelet stands still: pods get a node and nothing more."""
    house.plane.stop_component("kwok", Outage.PAUSE)
    try:
        yield
    finally:
        house.plane.start_component("kwok")


def pod_of(house: House, row: Workload) -> dict[str, Any]:
    found = house.plane.kubectl("get", "pods", "-A", "-l", f"allotment.dev/uid={row.pk}", "-o", "json")
    items: list[dict[str, Any]] = json.loads(found)["items"]
    return next((each for each in items if each["spec"].get("nodeName")), {})


def write_status(house: House, pod: dict[str, Any], status: dict[str, Any]) -> None:
    meta = pod["metadata"]
    house.plane.kubectl(
        "-n", meta["namespace"], "patch", "pod", meta["name"], "--subresource=status", "--type=merge",
        "-p", json.dumps({"status": status}),
    )  # fmt: skip


def test_an_image_that_cannot_be_pulled(house: House) -> None:
    with without_kubelet(house):
        row = house.job("wrong", image="python:3.99")
        pod = house.until(lambda: pod_of(house, row), "a node for the pod")
        name = pod["spec"]["containers"][0]["name"]
        waits = {"waiting": {"reason": "ImagePullBackOff", "message": KUBELET_SAYS}}
        told = {
            "name": name, "image": "python:3.99", "imageID": "", "ready": False, "restartCount": 0,
            "state": waits,
        }  # fmt: skip
        write_status(house, pod, {"phase": "Pending", "containerStatuses": [told]})
        words = told_alike(house, row, Cause.IMAGE)
    assert words.startswith("Its image cannot be pulled: python:3.99. The cluster says: Back-off pulling")
    assert "correct the image and start it again" in words


def test_a_disk_whose_storage_class_has_gone(house: House) -> None:
    """The claim names a class that is no longer there: volume controller and scheduler both say so."""
    holder = house.job("holder", command=["sleep", "300"])
    house.reaches(holder, Phase.RUNNING)
    with default_class(house, "q6-vanishing"):
        row = house.submit("nb")
        claim = partial(
            house.plane.kubectl, "get", "pvc", "-n", house.tenant.object_name, "-l",
            f"allotment.dev/uid={row.pk}", "-o", "jsonpath={.items[*].spec.storageClassName}",
        )  # fmt: skip
        house.until(lambda: "q6-vanishing" in claim(), "the claim")
    house.act("stop", holder, reason="")
    words = told_alike(house, row, Cause.VOLUME)
    assert words.startswith("Its disk cannot be used. The cluster says: ")
    assert '"q6-vanishing" not found' in words
    assert house.phase(row) == Phase.PENDING


@contextmanager
def default_class(house: House, name: str) -> Iterator[None]:
    """For a while the newest default class, which new claims take."""
    known = json.loads(house.plane.kubectl("get", "storageclass", "standard", "-o", "json"))
    made = {key: known[key] for key in ("apiVersion", "kind", "provisioner", "volumeBindingMode")}
    metadata = {"name": name, "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}
    house.plane.kubectl("apply", "-f", "-", input=json.dumps(made | {"metadata": metadata}))
    try:
        yield
    finally:
        house.plane.kubectl("delete", "storageclass", name)


def guarantee(house: House, offer: str, count: int) -> None:
    """More than there is: Kueue lets in what the scheduler finds no place for."""
    row = Quota.objects.get(tenant=house.tenant, offer__slug=offer)
    amounts = quotas.Amounts(nominal_quota=count)
    quotas.set_quota(actor=ROOT, tenant=house.tenant, offer=row.offer, amounts=amounts, now=timezone.now())
    queue = ObjectRef("ClusterQueue", "", house.tenant.object_name)

    def nominal() -> bool:
        body = house.admin.get(queue) or {}
        amounts = [
            resource["nominalQuota"]
            for group in body["spec"]["resourceGroups"]
            for flavor in group["flavors"]
            for resource in flavor["resources"]
            if resource["name"] == row.offer.resource_name
        ]
        return str(count) in map(str, amounts)

    house.until(nominal, "the quota in the ClusterQueue")


def test_a_layout_that_leaves_no_place(house: House) -> None:
    """The GPU has one small and one large slice; two small ones are asked for."""
    guarantee(house, house.offer.slug, 2)
    holder = house.job("holder", command=["sleep", "300"])
    house.reaches(holder, Phase.RUNNING)
    row = house.submit("nb")
    words = told_alike(house, row, Cause.FITS_NO_NODE)
    assert words.startswith("Admitted, but fits no node: needs 1 H100 1g.10gb MIG slice on one node; 4 ")
    assert "4 memory slices of such GPUs are free, but their MIG layout leaves no place for it." in words
    found = why(house, row)
    assert found is not None
    assert "cannot allocate all claims" in found.detail, "the scheduler's own words stand beside"
    house.act("stop", holder, reason="")
    house.reaches(row, Phase.RUNNING)


def test_a_whole_gpu_that_is_taken_is_no_matter_of_layout(house: House) -> None:
    guarantee(house, "l4-whole", 2)
    holder = house.job("holder", offer="l4-whole", command=["sleep", "300"])
    house.reaches(holder, Phase.RUNNING)
    row = house.submit("nb", offer="l4-whole")
    words = told_alike(house, row, Cause.FITS_NO_NODE)
    assert "needs 1 L4 whole on one node, and none is free. " in words
    assert f"of those held by holder of {house.tenant.slug} (1, " in words
    assert house.phase(row) == Phase.PENDING
    house.act("stop", holder, reason="")
    house.reaches(row, Phase.RUNNING)


def test_a_spent_budget(house: House) -> None:
    Price.objects.update(valid_from=timezone.now() - timedelta(days=1))
    limits = Limits(BudgetUnit.MONEY, None, Decimal("0.00001"))
    budgeting.set_budget(actor=ROOT, owner=house.tenant, limits=limits, now=timezone.now())
    house.reaches(house.submit("spends", offer="h100-3g-40gb"), Phase.RUNNING)

    def is_held() -> bool:
        now = timezone.now()
        metering.bill(collect(house.cluster, now=now).workloads, now=now)
        return TenantQueue.objects.get(tenant=house.tenant).hold_reason == HoldReason.BUDGET

    house.until(is_held, "the budget to be spent")
    local = ObjectRef("LocalQueue", house.tenant.object_name, QUEUE_NAME)
    house.until(
        lambda: (house.admin.get(local) or {})["spec"].get("stopPolicy") == "Hold", "Kueue's own hold"
    )
    row = house.submit("nb")
    words = told_alike(house, row, Cause.BUDGET)
    assert f"this month's budget of {house.tenant.slug}, 0.00 EUR, is spent" in words
    assert "a manager of the department or a platform engineer raises it" in words
    message = Notice.objects.get(user__username=house.rosa.username, kind="budget.hard").message
    assert "is spent. New work is held until" in message
    assert "or until a manager of the department or a platform engineer raises it" in message
    assert house.phase(row) == Phase.PENDING
    more = Limits(BudgetUnit.MONEY, None, Decimal(1000))
    budgeting.set_budget(actor=ROOT, owner=house.tenant, limits=more, now=timezone.now())
    house.reaches(row, Phase.RUNNING, 90)


def test_a_suspended_tenant(house: House) -> None:
    row = house.submit("nb")
    house.reaches(row, Phase.RUNNING)
    drained = tenants.TenantChange(suspend=Suspend.DRAIN)
    tenants.update_tenant(actor=ROOT, tenant=house.tenant, change=drained, now=timezone.now())
    house.reaches(row, Phase.PENDING)
    words = told_alike(house, row, Cause.SUSPENDED)
    assert words.startswith("Held: the tenant is suspended or being deleted. A manager of the department")
    free = tenants.TenantChange(suspend=Suspend.NONE)
    tenants.update_tenant(actor=ROOT, tenant=house.tenant, change=free, now=timezone.now())
    house.reaches(row, Phase.RUNNING)


def test_a_cluster_that_is_silent(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its API server hangs. What waits says so, and so does what is asked for meanwhile; then both start."""
    monkeypatch.setattr(ingest, "SILENCE", timedelta(seconds=5))
    holder = house.job("holder", command=["sleep", "300"])
    house.reaches(holder, Phase.RUNNING)
    row = house.submit("nb")
    assert told_alike(house, row, Cause.QUOTA_USED)
    watcher = Watcher(house.cluster, partial(open_gateway, house.cluster))
    watcher.start()
    try:
        written(watcher, lambda: phase_of(house.cluster) == Cluster.Phase.READY)
        house.plane.stop_component("kube-apiserver", Outage.PAUSE)
        try:
            written(watcher, lambda: phase_of(house.cluster) == Cluster.Phase.SILENT)
            later = house.submit("later", offer="l4-whole")
            for each in (row, later):
                words = on_every_surface(house, each, Cause.CLUSTER_SILENT)
                assert words.startswith("Plane is silent since ")
                assert "what you asked for is stored and applied as soon as it answers" in words
        finally:
            house.plane.start_component("kube-apiserver")
        written(watcher, lambda: phase_of(house.cluster) == Cluster.Phase.READY)
    finally:
        watcher.shut_down()
    assert told_alike(house, row, Cause.QUOTA_USED)
    house.reaches(later, Phase.RUNNING, 90)


def phase_of(cluster: Cluster) -> str:
    return str(Cluster.objects.values_list("phase", flat=True).get(pk=cluster.pk))


def test_a_running_notebook_that_a_hand_sets_inactive(house: House) -> None:
    """Kueue takes the pod, and its Workload goes with it: the row says why, and no pod is made meanwhile."""
    row = house.submit("nb")
    house.reaches(row, Phase.RUNNING)
    space = house.tenant.object_name
    queued = house.plane.kubectl("-n", space, "get", "workloads.kueue.x-k8s.io", "-o", "name").strip()
    with house.following("Workload"):
        house.plane.kubectl("-n", space, "patch", queued, "--type=merge", "-p", '{"spec":{"active":false}}')
        house.reaches(row, Phase.PENDING)
        words = told_alike(house, row, Cause.DEACTIVATED)
    assert "spec.active of its Kueue Workload is false. Start it again" in words
    for _ in range(3):
        house.look()
        house.turn()
    assert pod_of(house, row) == {}
    house.act("resume", row, reason="")
    house.reaches(row, Phase.RUNNING)
