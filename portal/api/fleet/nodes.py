"""REST for nodes: what they are, whom they serve, and handing them over; the effect on work is told first."""

from typing import Any

from django.utils import timezone
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.specs import ScopeGroup
from apps.cluster.mirror.selectors import inventory as clusters
from apps.cluster.mirror.selectors.inventory import ShownNode
from apps.errors import FieldProblem, Invalid, NotAllowed
from apps.ranges import NOTICE_SECONDS
from apps.tenants.models import NodeAssignment, Tenant
from apps.tenants.nodes.services.assigning import Handover
from apps.tenants.selectors import tenant_for
from apps.workloads.nodes.selectors import node_usage
from apps.workloads.nodes.services import node_drain
from portal.api.base import references
from portal.api.base.serializers import StrictSerializer
from portal.api.base.views import ApiView, idempotent
from portal.api.base.writing import DRY_RUN, written
from portal.api.declared.declaring import answers, pages, refuses, takes
from portal.api.fleet.clusters import only, page_of
from portal.api.fleet.clusters_bodies import NodeBody, node_body

HOUR = 3600


class ReleaseSerializer(StrictSerializer):
    """What giving back takes."""

    notice_seconds = serializers.IntegerField(default=HOUR, **NOTICE_SECONDS.bounds)
    reason = serializers.CharField(max_length=500, required=False, allow_blank=True, default="")


class AssignSerializer(ReleaseSerializer):
    """What handing over takes."""

    tenant = serializers.CharField(max_length=40, help_text="slug or id; its isolation is dedicated-nodes")


class NodesView(ApiView):
    """The nodes of the fleet."""

    scope_group = ScopeGroup.INVENTORY
    lists = True
    sorts = ()

    @pages(NodeBody)
    def get(self, request: Request) -> Response:
        """By cluster and name; an empty list for those who may not see nodes."""
        shown = {f"{n.cluster.slug}/{n.view.name}": n for n in clusters.nodes_for(self.actor)}
        uses = node_usage.uses_of(shown.values())
        return page_of(request, shown, lambda node: node_body(node, uses[node.uid]))


class NodeView(ApiView):
    """One node."""

    scope_group = ScopeGroup.INVENTORY

    @answers(200, NodeBody)
    def get(self, request: Request, name: str) -> Response:  # noqa: ARG002 - Django's signature
        """By its name or id."""
        return _shown(self._node(name))

    def _node(self, name: str) -> ShownNode:
        return only([n for n in clusters.nodes_for(self.actor) if name in (n.view.name, n.uid)])


class AssignNode(NodeView):
    """Hands a node to a tenant."""

    http_method_names = ("post", "options")

    @takes(AssignSerializer)
    @answers(202, NodeBody)
    @refuses("wrong_phase")
    def post(self, request: Request, name: str) -> Response:
        """What runs there of others is asked to stop after the notice; `?dry_run=true` names it."""
        return idempotent(request, lambda: self._told(request, name))

    def _told(self, request: Request, name: str) -> Response:
        node = self._node(name)
        _require_platform(self)
        asked = self._asked(request)
        tenant, handover = self._tenant(node, asked), _handover(asked)
        now = timezone.now()
        seen = node_drain.preview(node.cluster, node.view.name, keeps=tenant, handover=handover, now=now)

        def act() -> NodeAssignment | None:
            if tenant is not None:
                return node_drain.assign(
                    actor=self.actor, tenant=tenant, node=node.view.name, handover=handover, now=now
                )
            return node_drain.release(
                actor=self.actor, assignment=_assignment(node), handover=handover, now=now
            )

        response = written(request, act, lambda _: _shown(self._node(name), status=202))
        if DRY_RUN.of(request):
            response.data["warnings"] = node_drain.words(seen)
        return response

    def _asked(self, request: Request) -> dict[str, Any]:
        return AssignSerializer.checked(request.data)

    def _tenant(self, node: ShownNode, asked: dict[str, Any]) -> Tenant | None:
        key = asked["tenant"]
        tenant = references.found(
            "/tenant", lambda: tenant_for(self.actor, key), f"There is no tenant {key}."
        )
        if tenant.cluster_id != node.cluster.pk:
            words = f"{tenant.slug} is not on the cluster {node.cluster.slug}."
            raise Invalid([FieldProblem("/tenant", "invalid_value", words)])
        return tenant


class ReleaseNode(AssignNode):
    """Gives a node back to everybody."""

    @takes(ReleaseSerializer)
    @answers(202, NodeBody)
    @refuses("wrong_phase")
    def post(self, request: Request, name: str) -> Response:
        """Its tenant's work there is asked to stop after the notice; `?dry_run=true` names it."""
        return super().post(request, name)

    def _asked(self, request: Request) -> dict[str, Any]:
        return ReleaseSerializer.checked(request.data)

    def _tenant(self, node: ShownNode, asked: dict[str, Any]) -> Tenant | None:  # noqa: ARG002 - nobody keeps it
        _assignment(node)
        return None


def _require_platform(view: ApiView) -> None:
    if not view.actor.is_platform:
        raise NotAllowed("Only a platform engineer hands nodes over.")


def _handover(asked: dict[str, Any]) -> Handover:
    return node_usage.handover(seconds=asked["notice_seconds"], reason=asked["reason"])


def _assignment(node: ShownNode) -> NodeAssignment:
    return node_usage.live(node.cluster, node.view.name)


def _shown(node: ShownNode, status: int = 200) -> Response:
    return Response(node_body(node, node_usage.uses_of([node])[node.uid]), status=status)
