"""Brings flavors, offers and tenants' queues into their cluster, and takes them out again."""

from datetime import datetime, timedelta
from uuid import UUID

from django.db.models import Q

from apps.cluster import mirror
from apps.cluster.conditions import condition
from apps.cluster.converge import Outcome, run
from apps.cluster.gateway import Gateway
from apps.cluster.models import Cluster, MirrorObject, Reconciled
from apps.cluster.plan import diff
from apps.cluster.reconciling import Result, run_reconcile
from apps.cluster.specs import Manifest, ObjectRef, Observed
from apps.quotas import observation, selectors, spending
from apps.quotas.manifests import render_flavor, render_offer, render_queue
from apps.quotas.models import Flavor, Offer, TenantQueue
from apps.quotas.specs import Mechanism

LOOK_AGAIN = timedelta(seconds=2)
STUCK_AFTER = timedelta(minutes=10)


def reconcile_flavor(pk: str | UUID, *, gateway: Gateway | None = None) -> None:
    """One flavor: its ResourceFlavor."""
    run_reconcile(Flavor, pk, _flavor, owner="flavor", gateway=gateway)


def reconcile_offer(pk: str | UUID, *, gateway: Gateway | None = None) -> None:
    """One offer: its DeviceClass."""
    run_reconcile(Offer, pk, _offer, owner="offer", gateway=gateway)


def reconcile_queue(key: str | UUID, *, gateway: Gateway | None = None) -> None:
    """One tenant's queue, by its own id or its tenant's; a tenant without quota has none."""
    pk = TenantQueue.objects.filter(Q(pk=key) | Q(tenant=key)).values_list("pk", flat=True).first()
    if pk is not None:
        run_reconcile(TenantQueue, pk, _queue, owner="queue", gateway=gateway)


def _flavor(flavor: Flavor, gateway: Gateway, now: datetime) -> Result:
    return _single(
        flavor, gateway, [] if flavor.deleting_at else render_flavor(selectors.flavor_spec(flavor)), now
    )


def _offer(offer: Offer, gateway: Gateway, now: datetime) -> Result:
    # Behind a device plugin the resource is the node's own: there is nothing to apply.
    wanted = offer.mechanism == Mechanism.DRA and not offer.deleting_at
    return _single(offer, gateway, render_offer(selectors.offer_spec(offer)) if wanted else [], now)


def _single(row: Flavor | Offer, gateway: Gateway, desired: list[Manifest], now: datetime) -> Result:
    outcome, left = _converge(row, gateway, desired, now)
    reason = "Applied" if outcome.is_complete else "NotApplied"
    due_at = now + LOOK_AGAIN if row.deleting_at and left else None
    return Result([condition("Ready", outcome.is_complete, reason)], outcome, due_at=due_at, done=not left)


def _queue(queue: TenantQueue, gateway: Gateway, now: datetime) -> Result:
    tenant = queue.tenant
    if tenant.deleted_at is not None:
        return _remove_queue(queue, gateway, tenant.deleted_at, now)
    # A LocalQueue can lie only in a namespace that is there and stays.
    there = tenant.deleting_at is None and _has_namespace(queue.cluster, tenant.object_name)
    desired = render_queue(selectors.queue_spec(queue, namespace_is_there=there, now=now))
    outcome, left = _converge(queue, gateway, desired, now)
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
    later = selectors.next_change(queue, now)
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
    outcome, left = _converge(queue, gateway, [], now)
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


def _converge(
    row: Reconciled, gateway: Gateway, desired: list[Manifest], now: datetime
) -> tuple[Outcome, dict[ObjectRef, Observed]]:
    """Run the difference, and answer with what of the row the mirror holds afterwards."""
    plan = diff(desired, mirror.observed_for(row.pk), owner_id=str(row.pk))
    outcome = run(gateway, row.cluster, plan, now=now)
    return outcome, mirror.observed_for(row.pk)


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
