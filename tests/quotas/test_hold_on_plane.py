"""Budgets, holds and grants before the judge: a real Kueue, and work that is made past the portal."""

import json
import time
from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.utils import timezone

from apps.cluster.specs import ObjectRef
from apps.metering.allocations.services.collect import collect
from apps.metering.billing.services import pricing_run as metering
from apps.quotas.allowances.services import granting
from apps.quotas.allowances.services.granting import GrantWish
from apps.quotas.budgets.rules.budget import Limits
from apps.quotas.budgets.selectors import spending
from apps.quotas.budgets.services import budgeting
from apps.quotas.catalogue.services import offering as catalogue
from apps.quotas.catalogue.services.offering import OfferChange
from apps.quotas.models import Price, TenantQueue
from apps.quotas.specs import BudgetUnit, HoldReason
from apps.tenants.lifecycle.services import tenancy as tenants
from apps.tenants.lifecycle.services.tenancy import TenantChange
from apps.tenants.specs import QUEUE_NAME, RESERVE_SUFFIX, TrustLevel
from apps.workloads.models import Workload
from apps.workloads.specs import Phase
from apps.workloads.waiting.rules.situation import Cause
from apps.workloads.waiting.selectors import waiting
from tests.controlplane.plane import ControlPlane
from tests.workloads.on_plane import ROOT, House, told_alike

pytestmark = [pytest.mark.plane, pytest.mark.django_db, pytest.mark.timeout(300)]


@pytest.fixture
def house(control_plane: ControlPlane) -> Any:
    made = House(control_plane)
    yield made
    made.clear()


def limit(amount: str) -> Limits:
    return Limits(BudgetUnit.MONEY, None, Decimal(amount))


def by_kubectl(house: House, name: str) -> None:
    """A Job of one slice that the portal knows nothing of."""
    limits = {house.offer.resource_name: "1"}
    fenced = {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "runAsNonRoot": True,
        "runAsUser": 1000,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    container = {
        "name": "c",
        "image": "python:3.13",
        "command": ["sleep", "6"],
        "securityContext": fenced,
        "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": limits},
    }
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name,
            "namespace": house.tenant.object_name,
            "labels": {"kueue.x-k8s.io/queue-name": QUEUE_NAME},
        },
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [container]}}},
    }
    house.plane.kubectl("apply", "-f", "-", input=json.dumps(job))


def is_suspended(house: House, name: str) -> bool:
    job = house.admin.get(ObjectRef("Job", house.tenant.object_name, name))
    return bool(job and job["spec"].get("suspend"))


def is_done(house: House, name: str) -> bool:
    job = house.admin.get(ObjectRef("Job", house.tenant.object_name, name)) or {}
    return bool((job.get("status") or {}).get("succeeded"))


def hold_reason(house: House) -> str:
    return TenantQueue.objects.get(tenant=house.tenant).hold_reason


def test_a_spent_budget_holds_kubectls_work_too_and_a_raised_one_lets_it_go(house: House) -> None:
    Price.objects.update(valid_from=timezone.now() - timedelta(days=1))
    row = budgeting.set_budget(actor=ROOT, owner=house.tenant, limits=limit("0.00001"), now=timezone.now())
    notebook = house.submit("dev", offer="h100-3g-40gb")
    house.reaches(notebook, Phase.RUNNING)

    def is_spent() -> bool:
        now = timezone.now()
        metering.bill(collect(house.cluster, now=now).workloads, now=now)
        return hold_reason(house) == HoldReason.BUDGET

    house.until(is_spent, "the budget to be spent")
    queue = ObjectRef("LocalQueue", house.tenant.object_name, QUEUE_NAME)

    def policy() -> str:
        return str((house.admin.get(queue) or {})["spec"].get("stopPolicy"))

    house.until(lambda: policy() == "Hold", "the LocalQueue to be held")
    by_kubectl(house, "past-the-portal")
    ours = house.job("by-the-portal")
    for _ in range(10):
        house.turn()
    assert is_suspended(house, "past-the-portal")
    assert house.phase(ours) == Phase.PENDING
    assert house.phase(notebook) == Phase.RUNNING

    budgeting.set_budget(actor=ROOT, owner=house.tenant, limits=limit("1000"), now=timezone.now())
    house.until(lambda: is_done(house, "past-the-portal"), "kubectl's job to run", 90)
    house.reaches(ours, Phase.SUCCEEDED, 90)
    assert spending.spent(row, timezone.now()) > 0


@pytest.mark.exhaustive
def test_a_grant_is_kueues_nominal_quota_until_it_ends(house: House) -> None:
    def nominal() -> str:
        body = house.admin.get(ObjectRef("ClusterQueue", "", house.tenant.object_name))
        assert body is not None
        flavors = body["spec"]["resourceGroups"][0]["flavors"]
        amounts = [
            resource["nominalQuota"]
            for flavor in flavors
            for resource in flavor["resources"]
            if resource["name"] == house.offer.resource_name
        ]
        return str(max(amounts, key=int))

    now = timezone.now()
    assert nominal() == "1"
    wish = GrantWish(3, now + timedelta(seconds=12), reason="a paper")
    granting.give_grant(actor=ROOT, tenant=house.tenant, offer=house.offer, wish=wish, now=now)
    house.until(lambda: nominal() == "4", "the grant in the ClusterQueue")
    house.until(lambda: nominal() == "1", "the grant's end in the ClusterQueue")
    queue = TenantQueue.objects.get(tenant=house.tenant)
    assert queue.conditions


@pytest.mark.exhaustive
def test_a_lowered_trust_level_is_kept_by_kueue_whoever_made_the_work(house: House) -> None:
    """What runs goes on; what waits, and what kubectl makes, starts once the level is raised again."""
    runs = house.job("runs", command=["sleep", "300"])
    house.reaches(runs, Phase.RUNNING)
    ours = house.job("ours")
    house.until(lambda: place_of(house, ours), "a place in the queue")
    asks = OfferChange(min_trust_level=TrustLevel.STANDARD)
    catalogue.update_offer(actor=ROOT, offer=house.offer, change=asks, now=timezone.now())
    set_trust(house, TrustLevel.UNTRUSTED)
    reserve = ObjectRef("ClusterQueue", "", f"{house.tenant.object_name}{RESERVE_SUFFIX}")
    house.until(lambda: is_active(house, reserve), "what is closed to be lent alone")
    by_kubectl(house, "past-the-portal")
    stays_so(house, lambda: house.phase(runs) == Phase.RUNNING)
    house.act("stop", runs, reason="")
    house.until(lambda: house.left(runs) == [], "its device to be free")
    stays_so(house, lambda: is_suspended(house, "past-the-portal") and house.phase(ours) == Phase.PENDING)
    words = told_alike(house, ours, Cause.CLOSED)
    assert f"needs trust level standard; {house.tenant.slug} is untrusted." in words

    set_trust(house, TrustLevel.STANDARD)
    house.until(lambda: is_done(house, "past-the-portal"), "kubectl's job to run", 90)
    house.reaches(ours, Phase.SUCCEEDED, 90)
    assert house.admin.get(reserve) is None


def place_of(house: House, row: Workload) -> Any:
    queue: Any = waiting.queue_of(house.rosa, row, timezone.now()) or {}
    return queue.get("position")


def set_trust(house: House, level: TrustLevel) -> None:
    change = TenantChange(trust_level=level)
    tenants.update_tenant(actor=ROOT, tenant=house.tenant, change=change, now=timezone.now())


def is_active(house: House, ref: ObjectRef) -> bool:
    body = house.admin.get(ref) or {}
    conditions = (body.get("status") or {}).get("conditions", [])
    return any((c["type"], c["status"]) == ("Active", "True") for c in conditions)


def stays_so(house: House, is_so: Callable[[], bool]) -> None:
    for _ in range(10):
        house.turn()
        assert is_so(), house.told()
        time.sleep(0.3)
