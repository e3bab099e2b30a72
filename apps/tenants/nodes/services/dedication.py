"""Brings a node to the tenant that it serves, and gives it back.

`apps.workloads` stops the work that has to leave; this module only waits for it.
"""

from datetime import datetime, timedelta
from uuid import UUID

from apps.cluster.gateway.port import Gateway
from apps.cluster.mirror.rules.mirror_columns import Sighting
from apps.cluster.mirror.selectors import inventory as fleet
from apps.cluster.mirror.services import mirror_table
from apps.cluster.models import Cluster, MirrorObject
from apps.cluster.objects.conditions import condition
from apps.cluster.objects.names import LABEL_TENANT
from apps.cluster.reconciling.services.frame import Result, run_reconcile
from apps.cluster.specs import Body, ObjectRef
from apps.tenants.isolation import node_patch
from apps.tenants.isolation.node_patch import NodeWish
from apps.tenants.models import NodeAssignment, Tenant
from apps.tenants.specs import NodePhase

LOOK_AGAIN = timedelta(seconds=5)
DRIFT_LOOK = timedelta(seconds=30)
"""A node carries no owner label of ours, so no watch event leads here: what others change is looked for."""


def reconcile_node(pk: str | UUID, *, gateway: Gateway | None = None) -> None:
    """One assignment: the node's label, taint and cordon."""
    run_reconcile(NodeAssignment, pk, _assignment, owner="node", gateway=gateway)


def _assignment(row: NodeAssignment, gateway: Gateway, now: datetime) -> Result:
    body = fleet.named(row.cluster_id, "Node", [row.node]).values_list("body", flat=True).first()
    if body is None:
        words = f"The cluster has no node {row.node}."
        gone = row.deleting_at is not None
        missing = condition("Ready", False, "NodeMissing", words)
        return Result([missing], updates=_released(gone=gone), due_at=now + DRIFT_LOOK, done=gone)
    left = pods_to_leave(row)
    # The node only counts as clear after it was shut: a pod bound just before may still be on its way.
    is_shut = (body["metadata"].get("labels") or {}).get(LABEL_TENANT) == row.tenant.slug
    if row.deleting_at is not None or row.tenant.deleting_at is not None:
        return _release(row, gateway, body, left=left, now=now)
    is_clear = is_shut and not left
    _bring(row, gateway, body, NodeWish(row.tenant.slug, "" if is_clear else str(row.pk)), now=now)
    if not is_clear:
        waits = condition("Ready", False, "Clearing", _waits_for(left))
        return Result([waits], updates={"phase": NodePhase.CLEARING}, due_at=now + LOOK_AGAIN)
    ready = condition("Ready", True, "Assigned", f"It serves {row.tenant.slug} alone.")
    return Result([ready], updates={"phase": NodePhase.ASSIGNED}, due_at=now + DRIFT_LOOK)


def _release(row: NodeAssignment, gateway: Gateway, body: Body, *, left: list[str], now: datetime) -> Result:
    """The mark stays until the tenant's last pod has gone: nobody else may come beside it."""
    updates = {"deleting_at": row.deleting_at or now}
    if left:
        _bring(row, gateway, body, NodeWish(row.tenant.slug, str(row.pk)), now=now)
        waits = condition("Ready", False, "Releasing", _waits_for(left))
        return Result([waits], updates=updates | {"phase": NodePhase.RELEASING}, due_at=now + LOOK_AGAIN)
    _bring(row, gateway, body, NodeWish(), now=now)
    done = condition("Ready", False, "Released", "It serves everybody again.")
    # The row is done only when it is being deleted; a tenant that is deleted marks it first.
    gone = row.deleting_at is not None
    return Result([done], updates=updates | _released(gone=gone), due_at=None if gone else now, done=gone)


def _released(*, gone: bool) -> dict[str, object]:
    return {"phase": NodePhase.RELEASED} if gone else {}


def _waits_for(pods: list[str]) -> str:
    if not pods:
        return "Nothing new starts here; it waits for work that was already on its way."
    shown, more = pods[:3], len(pods) - 3
    return f"Waits until {', '.join(shown)}{f' and {more} more' if more > 0 else ''} has left."


def _bring(row: NodeAssignment, gateway: Gateway, body: Body, wish: NodeWish, *, now: datetime) -> None:
    """No call while the mirror shows what is wished; else a read and one write on exactly that version."""
    if not node_patch.change(body, wish):
        return
    fresh = gateway.get(ObjectRef("Node", "", row.node))
    if fresh is None:
        return
    patch = node_patch.change(fresh, wish)
    ref, version = ObjectRef("Node", "", row.node), str(fresh["metadata"]["resourceVersion"])
    if patch:
        fresh = gateway.merge(ref, patch, resource_version=version)
    mirror_table.record_seen(row.cluster, [Sighting("Node", fresh)], now=now)


def pods_on(cluster: Cluster, node: str) -> list[Body]:
    """The mirrored pods that the scheduler put on a node, ended ones included."""
    rows = MirrorObject.objects.filter(cluster=cluster, kind="Pod", gone_at=None, body__spec__nodeName=node)
    return list(rows.values_list("body", flat=True))


def pods_to_leave(row: NodeAssignment) -> list[str]:
    """What has to leave before the hand-over is done: others' pods, or the tenant's own when it goes back.

    Only pods in namespaces of tenants count: a node's own daemons serve whoever has it.
    """
    tenants = Tenant.objects.filter(cluster=row.cluster_id, deleted_at=None)
    goes_back = row.deleting_at is not None or row.tenant.deleting_at is not None
    leaving = tenants if goes_back else tenants.exclude(pk=row.tenant_id)
    return node_patch.strangers(pods_on(row.cluster, row.node), leaving.values_list("object_name", flat=True))
