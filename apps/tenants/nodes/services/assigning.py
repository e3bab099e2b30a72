"""What people do with the nodes of a tenant: hand one over, give one back. Records intent only.

What that means for quota is `services.pools`; who is asked to leave, `services.node_drain`.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from django.db import IntegrityError, transaction

from apps.accounts.specs import Actor
from apps.audit import services as audit
from apps.cluster.mirror.selectors import inventory
from apps.cluster.reconciling.services import wake
from apps.errors import Conflict, FieldProblem, Invalid, NotAllowed, NotFound
from apps.tenants import policies
from apps.tenants.models import NodeAssignment, Tenant
from apps.tenants.specs import Isolation, NodePhase
from apps.web.streams import events

LONGEST_NOTICE = timedelta(days=7)


@dataclass(frozen=True)
class Handover:
    """How a node changes hands: after which notice its work is asked to stop, and why."""

    notice: timedelta
    reason: str = ""


@transaction.atomic
def assign_node(
    *, actor: Actor, tenant: Tenant, node: str, handover: Handover, now: datetime
) -> NodeAssignment:
    """Gives a node to a tenant; from another tenant too. Giving it where it is already changes nothing.

    Rule: platform engineers only; the tenant's isolation is dedicated-nodes, and the node is of its cluster.
    From now on nothing new starts there; what runs of others is asked to stop after the notice.
    """
    _require(actor, tenant)
    _check(tenant, node, handover)
    row = NodeAssignment.objects.select_for_update().filter(
        cluster=tenant.cluster_id, node=node, deleted_at=None
    ).select_related("tenant").first()  # fmt: skip
    if row is not None and row.tenant_id == tenant.pk and row.deleting_at is None:
        return row
    before = row.tenant.slug if row else None
    concerned = {tenant.pk, row.tenant_id if row else tenant.pk}
    row = row or NodeAssignment(cluster=tenant.cluster, node=node, created_by=actor.username)
    row.tenant, row.phase, row.deleting_at = tenant, NodePhase.CLEARING, None
    row.stop_at, row.reason = now + handover.notice, handover.reason
    row.generation += 0 if row._state.adding else 1
    try:
        with transaction.atomic():
            row.save()
    except IntegrityError:
        # Two at once found it free: the database decides.
        raise Conflict(f"Somebody else was given {node} just now.", hint="Look again.") from None
    _attest_anew(concerned, now)
    _told(actor, row, "node.assign", changes={"tenant": [before, tenant.slug]}, now=now)
    return row


@transaction.atomic
def release_node(
    *, actor: Actor, assignment: NodeAssignment, handover: Handover, now: datetime
) -> NodeAssignment:
    """Gives a node back to everybody once the tenant's work has left it; asking again changes nothing.

    Rule: platform engineers only. Nothing new starts there from now on.
    """
    _require(actor, assignment.tenant)
    _check_notice(handover)
    row = NodeAssignment.objects.select_for_update(of=("self",)).select_related("tenant", "cluster").filter(
        pk=assignment.pk, deleted_at=None
    ).first()  # fmt: skip
    if row is None:
        raise NotFound
    if row.deleting_at is not None:
        return row
    row.deleting_at, row.phase = now, NodePhase.RELEASING
    row.stop_at, row.reason = now + handover.notice, handover.reason
    row.generation += 1
    row.save()
    _attest_anew([row.tenant_id], now)
    _told(actor, row, "node.release", changes={"tenant": [row.tenant.slug, None]}, now=now)
    return row


def _attest_anew(tenants: Iterable[UUID], now: datetime) -> None:
    """Asks for a new check: their fence changes but none of their objects does, so the generation stays."""
    alive = Tenant.objects.filter(pk__in=list(tenants), deleting_at=None)
    for pk in alive.order_by("pk").values_list("pk", flat=True):
        Tenant.objects.filter(pk=pk).update(attestation_due_at=now)
        wake.hint("attestation", str(pk))


def _require(actor: Actor, tenant: Tenant) -> None:
    if not policies.can_manage_tenant(actor, tenant):
        raise NotAllowed("Only a platform engineer hands nodes over.")


def _check(tenant: Tenant, node: str, handover: Handover) -> None:
    _check_notice(handover)
    if tenant.isolation != Isolation.DEDICATED_NODES:
        words = (
            f"{tenant.slug} has the isolation {tenant.isolation}; nodes go to tenants with dedicated-nodes."
        )
        raise Invalid([FieldProblem("/tenant", "invalid_value", words)])
    if tenant.deleting_at is not None:
        raise Conflict(f"{tenant.slug} is being deleted.", hint="Choose another tenant.")
    if node not in {view.name for view in inventory.nodes(tenant.cluster)}:
        words = f"{tenant.cluster.slug}, the cluster of {tenant.slug}, has no node {node}."
        raise Invalid([FieldProblem("/tenant", "invalid_value", words)])


def _check_notice(handover: Handover) -> None:
    if not timedelta(0) <= handover.notice <= LONGEST_NOTICE:
        words = f"0 to {LONGEST_NOTICE.days} days."
        raise Invalid([FieldProblem("/notice_seconds", "out_of_range", words)])


def _told(
    actor: Actor, row: NodeAssignment, action: str, *, changes: dict[str, list[str | None]], now: datetime
) -> None:
    wake.hint("node", str(row.pk))
    fact = events.Fact("fleet.updated", now, "node", row.node, row.tenant.slug, row.generation, row.phase)
    events.publish(["console"], part="rows needs use", data=fact.as_data())
    audit.record(actor, action, row, now=now, changes=changes, reason=row.reason)
