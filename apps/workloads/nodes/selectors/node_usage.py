"""Whom each node serves, for pages and REST: its flavor, its tenant, a hand-over on its way. Reads only."""

from collections.abc import Iterable
from datetime import timedelta

from django.db.models import QuerySet

from apps.cluster.mirror.selectors.inventory import ShownNode
from apps.cluster.models import Cluster
from apps.cluster.objects.names import LABEL_TENANT
from apps.cluster.specs import NodeUse
from apps.errors import Conflict
from apps.quotas.models import Flavor
from apps.tenants.models import NodeAssignment
from apps.tenants.nodes.services.assigning import Handover
from apps.tenants.specs import NodePhase

_POSTURE = {
    NodePhase.CLEARING: "clearing",
    NodePhase.ASSIGNED: "dedicated",
    NodePhase.RELEASING: "releasing",
}


def handover(*, seconds: int, reason: str) -> Handover:
    """A hand-over with a notice of so many seconds."""
    return Handover(timedelta(seconds=seconds), reason)


def live(cluster: Cluster, node: str) -> NodeAssignment:
    """The assignment of a node; Conflict for one that serves everybody."""
    row = _live().filter(cluster=cluster, node=node).first()
    if row is None:
        raise Conflict(
            f"{node} already serves everybody.", hint="Only a node that serves one tenant can be given back."
        )
    return row


def uses_of(nodes: Iterable[ShownNode]) -> dict[str, NodeUse]:
    """What each node is used for, by its uid."""
    rows = {(row.cluster_id, row.node): row for row in _live()}
    flavors = list(Flavor.objects.filter(deleted_at=None).order_by("slug"))
    return {
        node.uid: _use(rows.get((node.cluster.pk, node.view.name)), _flavor(node, flavors)) for node in nodes
    }


def _live() -> QuerySet[NodeAssignment]:
    return NodeAssignment.objects.filter(deleted_at=None).select_related("tenant", "cluster")


def _flavor(node: ShownNode, flavors: Iterable[Flavor]) -> str | None:
    """The flavor whose labels the node carries; one tenant's never stands for everybody's node."""
    own, labels = node.view.labels.get(LABEL_TENANT, ""), node.view.labels
    fitting = (
        flavor.slug
        for flavor in flavors
        if flavor.cluster_id == node.cluster.pk
        and flavor.node_labels
        and flavor.node_labels.items() <= labels.items()
        and flavor.node_labels.get(LABEL_TENANT, "") == own
    )
    return next(fitting, None)


def _use(row: NodeAssignment | None, flavor: str | None) -> NodeUse:
    if row is None:
        return NodeUse(flavor)
    phase = NodePhase(row.phase)
    posture = _POSTURE.get(phase, "shared")
    message = next((c["message"] for c in row.conditions if c["type"] == "Ready"), "")
    about = {"stop_at": row.stop_at, "reason": row.reason, "message": message}
    return NodeUse(flavor, posture, row.tenant.slug, None if phase is NodePhase.ASSIGNED else about)
