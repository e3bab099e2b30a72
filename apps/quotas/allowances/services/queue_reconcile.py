"""Brings tenants' queues into their cluster, and takes them out again."""

from datetime import datetime, timedelta
from uuid import UUID

from django.db.models import Q

from apps.cluster.gateway.port import Gateway
from apps.cluster.models import Cluster, MirrorObject
from apps.cluster.objects.conditions import condition
from apps.cluster.reconciling.services.frame import Result, run_reconcile
from apps.cluster.specs import ObjectRef, Observed
from apps.quotas.allowances.selectors import entitlements
from apps.quotas.budgets.selectors import spending
from apps.quotas.catalogue.services.offer_reconcile import LOOK_AGAIN, converged
from apps.quotas.kueue import observation
from apps.quotas.kueue.manifests import render_queue
from apps.quotas.models import TenantQueue

STUCK_AFTER = timedelta(minutes=10)


def reconcile_queue(key: str | UUID, *, gateway: Gateway | None = None) -> None:
    """One tenant's queue, by its own id or its tenant's; a tenant without quota has none."""
    pk = TenantQueue.objects.filter(Q(pk=key) | Q(tenant=key)).values_list("pk", flat=True).first()
    if pk is not None:
        run_reconcile(TenantQueue, pk, _queue, owner="queue", gateway=gateway)


def _queue(queue: TenantQueue, gateway: Gateway, now: datetime) -> Result:
    tenant = queue.tenant
    if tenant.deleted_at is not None:
        return _remove_queue(queue, gateway, tenant.deleted_at, now)
    # A LocalQueue can lie only in a namespace that is there and stays.
    there = tenant.deleting_at is None and _has_namespace(queue.cluster, tenant.object_name)
    desired = render_queue(entitlements.queue_spec(queue, namespace_is_there=there, now=now))
    outcome, left = converged(queue, gateway, desired, now)
    held = spending.hold_of(queue, now)
    updates = {
        "tenant_generation": tenant.generation,
        "hold_reason": held.reason,
        "hold_detail": held.detail,
    }
    if tenant.deleting_at is not None:
        words = "Held: the tenant is being deleted."
        return Result(
            [condition("Ready", False, "Deleting", words)], outcome, updates, due_at=now + LOOK_AGAIN
        )
    later = entitlements.next_change(queue, now)
    if not desired:
        none = condition("Ready", False, "NoQuota", "The tenant has no quota.")
        return Result([none], outcome, updates, due_at=later)
    if not there:
        words = f"Waits for the namespace {tenant.object_name}."
        waits = condition("Ready", False, "NamespaceMissing", words)
        return Result([waits], outcome, updates, due_at=now + LOOK_AGAIN)
    return Result([_activity(left, tenant.object_name)], outcome, updates, due_at=later)


def _remove_queue(queue: TenantQueue, gateway: Gateway, since: datetime, now: datetime) -> Result:
    # Kueue's finalizer holds a ClusterQueue while anything is admitted; the namespace has gone before.
    outcome, left = converged(queue, gateway, [], now)
    words = (
        "Nothing is left in the cluster." if not left else f"Waits until {', '.join(map(str, left))} is gone."
    )
    held = [name for seen in left.values() for name in seen.body.get("metadata", {}).get("finalizers", [])]
    if held and now - since > STUCK_AFTER:
        words = f"{words} It is stuck for 10 minutes, held by the finalizer {', '.join(sorted(set(held)))}."
    gone = condition("Ready", False, "Deleting" if left else "Deleted", words)
    updates = {"tenant_generation": queue.tenant.generation, "deleting_at": queue.deleting_at or since}
    due_at = now + LOOK_AGAIN if left or queue.deleting_at is None else None
    return Result([gone], outcome, updates, due_at=due_at, done=not left)


def _activity(observed: dict[ObjectRef, Observed], name: str) -> dict[str, str]:
    queue = observed.get(ObjectRef("ClusterQueue", "", name))
    if queue is None:
        return condition("Ready", False, "NotApplied", "The cluster does not hold the queue yet.")
    active, reason, message = observation.is_active(queue.body)
    return condition("Ready", active, reason, message)


def _has_namespace(cluster: Cluster, name: str) -> bool:
    rows = MirrorObject.objects.filter(
        cluster=cluster, kind="Namespace", name=name, gone_at=None, deleting=False
    )
    return rows.exists()
