"""Quota and work to predict a change by."""

from datetime import timedelta
from typing import Any

import pytest

from apps.quotas.allowances.services import quota_changes
from apps.quotas.allowances.services.queue_reconcile import reconcile_queue
from apps.quotas.allowances.services.quota_changes import Amounts
from apps.quotas.models import TenantQueue
from apps.quotas.specs import Priority
from apps.tenants.lifecycle.services.reconcile import reconcile_department
from apps.tenants.models import Tenant
from sandbox.api.storage.clock import ManualClock
from tests.factories import NOW
from tests.quotas.conftest import Story

WHOLE = "h100-whole"


RESOURCE = f"allotment.dev/{WHOLE}"


@pytest.fixture
def shared(story: Story) -> Story:
    """Vision may borrow everything and is guaranteed nothing, speech is guaranteed both whole H100."""
    give(story, story.vision, Amounts(0, None))
    give(story, story.speech, Amounts(2, 0))
    reconcile_department(story.vision.department_id, gateway=story.gateway)
    for queue in TenantQueue.objects.all():
        reconcile_queue(queue.pk, gateway=story.gateway)
    story.gateway.mirror(story.cluster)
    return story


def _holds(tenant: Tenant, flavor: str) -> dict[str, Any]:
    """The status of a Workload that has had its quota for an hour."""
    at = (NOW - timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    reserved = {
        "type": "QuotaReserved",
        "status": "True",
        "reason": "QuotaReserved",
        "message": "",
        "lastTransitionTime": at,
    }
    assigned = {"name": "main", "count": 1, "flavors": {RESOURCE: flavor}, "resourceUsage": {RESOURCE: "1"}}
    admission = {"clusterQueue": tenant.object_name, "podSetAssignments": [assigned]}
    return {"conditions": [reserved], "admission": admission}


def give(story: Story, tenant: Tenant, amounts: Amounts) -> None:
    quota_changes.set_quota(
        actor=story.petra, tenant=tenant, offer=story.offer(WHOLE), amounts=amounts, now=NOW
    )


def work(
    story: Story, tenant: Tenant, name: str, *, priority: Priority = Priority.BATCH, runs: bool = False
) -> None:
    """Kueue's word that a workload of one whole H100 waits, or holds quota; each a second after the last."""
    clock = story.gateway.simulated.clock
    assert isinstance(clock, ManualClock)
    clock.jump(1)
    kueue = story.gateway.simulated.client(manager="kueue")
    container = {"name": "main", "image": "i", "resources": {"limits": {RESOURCE: "1"}}}
    pods = {
        "name": "main",
        "count": 1,
        "template": {"spec": {"containers": [container], "restartPolicy": "Never"}},
    }
    body: dict[str, Any] = {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {"name": f"job-{name}", "namespace": tenant.object_name},
        "spec": {"queueName": "gpu", "priority": priority.rank, "podSets": [pods]},
    }
    kueue.create("workloads.kueue.x-k8s.io", body, tenant.object_name)
    if runs:
        status = _holds(tenant, story.offer(WHOLE).flavor.object_name)
        kueue.patch(
            "workloads.kueue.x-k8s.io", f"job-{name}", {"status": status}, namespace=tenant.object_name,
            subresource="status",
        )  # fmt: skip
    story.gateway.mirror(story.cluster)
