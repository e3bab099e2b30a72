"""REST for clusters and devices; the mirror answers, never a cluster. Nodes, with who has them, are
`portal.api.fleet.nodes`.
"""

import base64
import binascii
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar
from urllib.parse import urlencode

from django.urls import reverse
from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.specs import ScopeGroup
from apps.cluster.mirror.selectors import inventory
from apps.cluster.models import Cluster
from apps.cluster.registration.services import clusters
from apps.cluster.registration.services.clusters import Registration
from apps.errors import NotFound
from apps.metering.allocations.selectors.gpu_health import dead_among
from apps.web.problems.refusals import BadParameter
from apps.web.requests.perimeter import public
from portal.api.base.paging import CURSOR, INCLUDE_TOTAL, LIMIT
from portal.api.base.views import ApiView, etag, idempotent, paginate, require_match
from portal.api.base.writing import as_sent, document, made, written
from portal.api.declared.declaring import answers, pages, refuses, takes
from portal.api.fleet.clusters_bodies import (
    ClusterBody,
    ClusterDocumentSerializer,
    DeviceBody,
    NewClusterSerializer,
    cluster_body,
    device_body,
)

Shown = TypeVar("Shown")


class ClustersView(ApiView):
    """The registered clusters."""

    scope_group = ScopeGroup.CLUSTERS
    lists = True
    sorts = ("-created_at", "slug")

    @pages(ClusterBody)
    def get(self, request: Request) -> Response:
        """For platform engineers and auditors; an empty list for everybody else."""
        return paginate(request, inventory.clusters_for(self.actor), cluster_body)

    @takes(NewClusterSerializer)
    @answers(201, ClusterBody, etag=True, location=True)
    @refuses("already_exists")
    def post(self, request: Request) -> Response:
        """Register one by a kubeconfig of inline data: no programs, no files."""
        if self.actor.is_platform:  # a name is looked up for nobody else, and before the transaction
            clusters.require_no_detour(_registration(NewClusterSerializer.checked(request.data)).kubeconfig)
        return idempotent(request, lambda: written(request, self._make, _made))

    def _make(self) -> Cluster:
        clusters.require_platform(self.actor)
        asked = NewClusterSerializer.checked(self.request.data)
        return clusters.add_cluster(
            actor=self.actor, slug=asked["slug"], wish=_registration(asked), now=timezone.now()
        )


class ClusterView(ApiView):
    """One cluster."""

    scope_group = ScopeGroup.CLUSTERS
    matched_methods = ("PATCH", "DELETE")
    http_method_names = ("get", "head", "options", "patch", "delete")

    @answers(200, ClusterBody, etag=True)
    def get(self, request: Request, cluster: str) -> Response:  # noqa: ARG002 - Django's signature
        """Its phase and capabilities, by slug or id."""
        return _shown(inventory.cluster_for(self.actor, cluster))

    @takes(ClusterDocumentSerializer)
    @answers(200, ClusterBody, etag=True)
    @refuses("wrong_phase")
    def patch(self, request: Request, cluster: str) -> Response:
        """Another name, or other credentials."""

        def change() -> Cluster:
            row = self._matched(request, cluster)
            wish = _changed(request, row)
            return clusters.change_cluster(actor=self.actor, cluster=row, wish=wish, now=timezone.now())

        row = self._matched(request, cluster)
        clusters.require_no_detour(_changed(request, row).kubeconfig)
        return written(request, change, _shown)

    @answers(204)
    @refuses("has_dependents")
    def delete(self, request: Request, cluster: str) -> Response:
        """Forget it; 409 has_dependents once anything was set up there."""

        def remove() -> None:
            row = self._matched(request, cluster)
            clusters.remove_cluster(actor=self.actor, cluster=row, now=timezone.now())

        return written(request, remove, lambda _: Response(status=204))

    def _matched(self, request: Request, key: str) -> Cluster:
        row = inventory.cluster_for(self.actor, key)
        clusters.require_platform(self.actor)
        require_match(request, row.generation)
        return row


def _registration(asked: Mapping[str, Any]) -> Registration:
    spec = asked.get("spec") or {}
    return Registration(name=asked["name"] or None, kubeconfig=spec.get("kubeconfig") or None)


def _changed(request: Request, row: Cluster) -> Registration:
    context = {"current": as_sent(cluster_body(row))}
    return _registration(ClusterDocumentSerializer.checked(document(request), context=context))


def _shown(row: Cluster) -> Response:
    return Response(cluster_body(row), headers={"ETag": etag(row)})


def _made(row: Cluster) -> Response:
    return made(cluster_body(row), reverse("api-cluster", args=[row.slug]), row)


class DevicesView(ApiView):
    """The physical GPUs of the fleet."""

    scope_group = ScopeGroup.INVENTORY
    lists = True
    sorts = ()

    @pages(DeviceBody)
    def get(self, request: Request) -> Response:
        """By cluster, node and id; everybody sees what is free, holders are for those who see everything."""
        gpus = inventory.gpus_for(self.actor)
        render = partial(device_body, dead=dead_among(g.view.id for g in gpus))
        return page_of(request, {f"{g.cluster.slug}/{g.view.node}/{g.view.id}": g for g in gpus}, render)


class DeviceView(ApiView):
    """One physical GPU."""

    scope_group = ScopeGroup.INVENTORY

    @answers(200, DeviceBody)
    def get(self, request: Request, uuid: str) -> Response:  # noqa: ARG002 - Django's signature
        """By its UUID."""
        shown = only([g for g in inventory.gpus_for(self.actor) if g.view.id == uuid])
        return Response(device_body(shown, dead_among([uuid])))


def only(found: Sequence[Shown]) -> Shown:
    """The first of what was found; NotFound where there is none."""
    if not found:
        raise NotFound
    return found[0]


def page_of(
    request: Request, shown: Mapping[str, Shown], render: Callable[[Shown], Mapping[str, Any]]
) -> Response:
    """A page of things that are no rows, in the order of their keys; the cursor is the last key shown."""
    limit, after = LIMIT.of(request), _after(CURSOR.of(request) or "")
    keys = [key for key in sorted(shown) if key > after]
    body: dict[str, Any] = {"items": [render(shown[key]) for key in keys[:limit]], "next": None}
    if len(keys) > limit:
        cursor = base64.urlsafe_b64encode(keys[limit - 1].encode()).decode()
        query = urlencode({**request.query_params.dict(), "cursor": cursor})
        body["next"] = public(f"{request.path}?{query}")
    if INCLUDE_TOTAL.of(request):
        body["total"] = len(shown)
    return Response(body)


def _after(cursor: str) -> str:
    try:
        return base64.b64decode(cursor, altchars=b"-_", validate=True).decode()
    except (binascii.Error, UnicodeDecodeError, ValueError):
        raise BadParameter("cursor", "The cursor is not one of ours; list again from the start.") from None
