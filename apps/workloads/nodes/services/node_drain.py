"""What a node that changes hands means for the work on it: seen first, announced, asked to stop in time.

`apps.tenants.nodes.services.dedication` brings the node itself.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import DateTimeField, QuerySet

from apps.accounts.specs import Actor, system_actor
from apps.cluster.models import Cluster, MirrorObject
from apps.errors import Conflict, NotFound
from apps.notices import services as notices
from apps.notices.specs import Kind as NoticeKind
from apps.prepared import Prepared
from apps.quotas.allowances.services import pools
from apps.tenants.models import NodeAssignment, Tenant
from apps.tenants.nodes.services.assigning import Handover
from apps.tenants.specs import NodePhase
from apps.workloads.lifecycle.services import verbs
from apps.workloads.models import Workload, WorkloadEvent

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Clearing:
    """What a hand-over would do: the workloads that have to leave, and pods that nobody here can ask to.

    `strangers` were made outside the portal: the node waits for them until their owners end them.
    """

    leaves: tuple[Workload, ...]
    strangers: tuple[str, ...]
    stop_at: datetime


def preview(
    cluster: Cluster, node: str, *, keeps: Tenant | None, handover: Handover, now: datetime
) -> Clearing:
    """Who runs there and would be asked to stop, and when; `keeps` is the tenant whose work may stay.

    RULE: of a hand-over that is under way already the first notice stands.
    """
    leaves, strangers = [], []
    tenants = {
        tenant.object_name: tenant for tenant in Tenant.objects.filter(cluster=cluster, deleted_at=None)
    }
    for pod in _pods(cluster, node):
        tenant = tenants.get(pod.namespace)
        if tenant is None or (keeps is not None and tenant.pk == keeps.pk):
            continue
        if pod.owner_kind == "workload":
            leaves.append(pod.owner_id)
        else:
            strangers.append(f"{pod.namespace}/{pod.name}")
    rows = Workload.objects.filter(pk__in=leaves, deleted_at=None).select_related("tenant", "owner", "offer")
    stop_at = _stands(cluster, node, keeps) or now + handover.notice
    return Clearing(tuple(rows.order_by("slug")), tuple(sorted(strangers)), stop_at)


def _stands(cluster: Cluster, node: str, keeps: Tenant | None) -> datetime | None:
    live = NodeAssignment.objects.filter(cluster=cluster, node=node, deleted_at=None)
    same = live.exclude(deleting_at=None) if keeps is None else live.filter(tenant=keeps, deleting_at=None)
    return same.values_list("stop_at", flat=True).first()


def words(seen: Clearing) -> list[str]:
    """The effect in sentences, one per workload, as every surface tells it."""
    asked = [
        f"{row.name} of {row.tenant.slug} runs there and is asked to stop at {_clock(seen)}."
        for row in seen.leaves
    ]
    return asked + [
        f"The pod {pod} was made outside the portal: the node waits until it ends." for pod in seen.strangers
    ]


@transaction.atomic
def assign(*, actor: Actor, tenant: Tenant, node: str, handover: Handover, now: datetime) -> NodeAssignment:
    """`pools.assign`, and everybody whose work has to leave is told when it will be asked to stop."""
    seen = preview(tenant.cluster, node, keeps=tenant, handover=handover, now=now)
    row = pools.assign(actor=actor, tenant=tenant, node=node, handover=handover, now=now)
    if row.phase == NodePhase.CLEARING and _is_begun(row, handover, now):
        _announce(seen, row, now)
    return row


@transaction.atomic
def release(*, actor: Actor, assignment: NodeAssignment, handover: Handover, now: datetime) -> NodeAssignment:
    """`pools.release`, and the tenant's people are told when their work there will be asked to stop."""
    seen = preview(assignment.cluster, assignment.node, keeps=None, handover=handover, now=now)
    row = pools.release(actor=actor, assignment=assignment, handover=handover, now=now)
    if _is_begun(row, handover, now):
        _announce(seen, row, now)
    return row


def _is_begun(row: NodeAssignment, handover: Handover, now: datetime) -> bool:
    """Whether this call began it; one that found it under way has nothing new to tell."""
    return row.stop_at == now + handover.notice


def stop_due(*, now: datetime) -> int:
    """Stops what is left on nodes whose notice is over, by the normal life cycle; answers how many.

    Volumes stay, and what was stopped may be started again: it then queues for another node.
    """
    stopped = 0
    for row in _LEAVING(now):
        keeps = None if row.deleting_at else row.tenant
        seen = preview(row.cluster, row.node, keeps=keeps, handover=_AT_ONCE, now=now)
        stopped += sum(_stop(workload, row, now) for workload in seen.leaves if not workload.suspended)
    return stopped


_AT_ONCE = Handover(timedelta(0))


def _leaving(now: Any) -> QuerySet[NodeAssignment]:
    phases = [NodePhase.CLEARING, NodePhase.RELEASING]
    rows = NodeAssignment.objects.filter(deleted_at=None, stop_at__lte=now, phase__in=phases)
    return rows.select_related("tenant", "cluster")


_LEAVING = Prepared(_leaving, DateTimeField())


def _stop(workload: Workload, row: NodeAssignment, now: datetime) -> bool:
    reason = f"the node {row.node} changes hands"
    try:
        verbs.stop_workload(actor=system_actor("nodes"), workload=workload, reason=reason, now=now)
    except (Conflict, NotFound) as error:
        # It ended or was deleted since it was listed: then there is nothing to stop.
        _log.info("%s on %s needs no stop: %s", workload.slug, row.node, error.detail)
        return False
    return True


def _clock(seen: Clearing) -> str:
    return f"{seen.stop_at:%Y-%m-%d %H:%M} UTC"


def _announce(seen: Clearing, row: NodeAssignment, now: datetime) -> None:
    for workload in seen.leaves:
        words = f"{workload.name} will be asked to stop at {_clock(seen)}: {row.node} is handed over. "
        words += "Its disks stay, and it can be started again."
        WorkloadEvent.objects.create(
            workload=workload,
            at=now,
            source="allotment",
            type="Warning",
            reason="NodeHandover",
            message=words,
        )
        url = f"/t/{workload.tenant.slug}/workloads/{workload.pk}/"
        notices.tell(
            [workload.owner_id],
            kind=NoticeKind.NODE_HANDOVER,
            message=words,
            url=url,
            at=now,
            tenant=workload.tenant.slug,
        )


def _pods(cluster: Cluster, node: str) -> Sequence[MirrorObject]:
    rows = MirrorObject.objects.filter(cluster=cluster, kind="Pod", gone_at=None, body__spec__nodeName=node)
    return list(rows.exclude(body__status__phase__in=["Succeeded", "Failed"]))
