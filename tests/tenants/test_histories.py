"""Whatever happened to tenants, the cluster is as if they had just been made; and making one is cheap."""

import os
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from apps.quotas.allowances.services import quota_changes as quotas
from apps.quotas.allowances.services.queue_reconcile import reconcile_queue
from apps.quotas.allowances.services.quota_changes import Amounts
from apps.quotas.models import TenantQueue
from apps.tenants.lifecycle.services import tenancy
from apps.tenants.lifecycle.services.reconcile import reconcile_tenant
from apps.tenants.specs import TrustLevel
from tests.conftest import Cast, as_actor
from tests.factories import NOW
from tests.tenants.histories import Histories
from tests.tenants.settling import api_server, fresh, objects_of, settle

HISTORIES = int(os.environ.get("DRILL_HISTORIES", "4"))
STEPS = int(os.environ.get("DRILL_HISTORY_STEPS", "15"))
MOST_WRITES = 14


@pytest.mark.timeout(1200)
def test_every_history_ends_as_a_fresh_creation_would(
    db: None, record_property: Callable[[str, object], None]
) -> None:
    run_state_machine_as_test(
        Histories,
        settings=settings(
            max_examples=HISTORIES,
            stateful_step_count=STEPS,
            deadline=None,
            # A failed history is printed as it is: to make it shorter took longer than all the others.
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
            derandomize=HISTORIES < 100,
        ),
    )
    record_property("histories", HISTORIES)


def test_an_orphan_in_the_cluster_is_noticed(cast: Cast) -> None:
    gateway, manager = api_server()
    settle(gateway, manager, cast.vision.cluster)
    reached = objects_of(gateway)
    assert reached == fresh(cast.vision.cluster)
    labels = {"app.kubernetes.io/managed-by": "allotment"}
    body = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "left", "labels": labels}}
    gateway.client.create("serviceaccounts", body, cast.vision.object_name)
    assert set(objects_of(gateway)) - set(fresh(cast.vision.cluster)) == {
        ("ServiceAccount", cast.vision.object_name, "left")
    }


def test_a_new_tenant_is_at_most_fourteen_writes_and_looking_again_is_none(cast: Cast) -> None:
    """Two of them spare every notebook two: docs/decisions/0160."""
    gateway, manager = api_server()
    petra = as_actor(cast.petra)
    tenant = tenancy.create_tenant(
        actor=petra,
        slug="newcomers",
        name="",
        department=cast.vision.department,
        trust_level=TrustLevel.STANDARD,
        now=NOW,
    )
    quotas.set_quota(actor=petra, tenant=tenant, offer=cast.offer, amounts=Amounts(1), now=NOW)
    queue = TenantQueue.objects.get(tenant=tenant)
    writes = []
    for _ in range(3):
        gateway.calls.clear()
        reconcile_tenant(tenant.pk, gateway=gateway)
        reconcile_queue(queue.pk, gateway=gateway)
        writes.append(len(gateway.calls))
        manager.drain()
        gateway.mirror(tenant.cluster)
    assert writes[0] + writes[1] <= MOST_WRITES
    assert writes[2] == 0
