"""A real controller of Gateway API judges our routes: the product's, the chart's, and wrong ones.

The Gateway is the one of docs/installing.md; what Envoy would do is read from the controller's configuration.
"""

import json
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

from apps.tenants.specs import DOOR_NAMESPACE
from apps.workloads.manifests.entrances import ANSWERED, ASKED
from tests.chart.guide import objects
from tests.chart.helm import MOST, Helm, named
from tests.controlplane import pki
from tests.controlplane.cilium import CLASS, GatewayController
from tests.controlplane.documents import Document, dump
from tests.controlplane.plane import ControlPlane
from tests.fence.scene import merged
from tests.golden import golden
from tests.patience import until

pytestmark = [pytest.mark.plane, pytest.mark.exhaustive, pytest.mark.timeout(300)]
DOOR, WEB = "allotment-door:8001", "allotment-web:80"
ASKS = "type.googleapis.com/envoy.extensions.filters.http.ext_authz.v3.ExtAuthz"


@dataclass(frozen=True)
class Way:
    """What Envoy does with requests of one host that match: the Service and port that it leads to, or the
    status that it answers itself; the settings of whoever it asks first.
    """

    match: dict[str, Any]
    to: str | int
    asked: tuple[dict[str, Any], ...]


class Edge:
    """The Gateway of the guide, with the chart's routes and one notebook's objects."""

    def __init__(self, plane: ControlPlane, controller: GatewayController, rendered: list[Document]) -> None:
        self.plane, self.controller = plane, controller
        (self.gateway,) = objects("Behind a Gateway")
        self.gateway["spec"]["gatewayClassName"] = CLASS
        self.place = self.gateway["metadata"]
        self.chart = [*named(rendered, "HTTPRoute").values(), *named(rendered, "Service").values()]
        text = json.dumps(golden("workloads/notebook-routed"))
        for example, own in (("edge", self.place["namespace"]), ("public", self.place["name"])):
            text = text.replace(f'"{example}"', f'"{own}"')
        written = {body["kind"]: body for body in json.loads(text)}
        self.route, self.grant, self.service = (
            written[kind] for kind in ("HTTPRoute", "ReferenceGrant", "Service")
        )
        (self.host,) = self.route["spec"]["hostnames"]
        self.space = self.service["metadata"]["namespace"]
        self.pod = f"{self.service['metadata']['name']}:{self.service['spec']['ports'][0]['port']}"

    def set_up(self) -> None:
        names = (self.place["namespace"], self.space)
        self.plane.apply(
            [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in names]
        )
        self.plane.apply([*self._certificates(), self.gateway, *self.chart])

    def _certificates(self) -> Iterator[Document]:
        certificate, key = pki.server(self.plane.layout.pki, "gateway", "127.0.0.1")
        data = {"tls.crt": b64encode(certificate).decode(), "tls.key": b64encode(key).decode()}
        for listener in self.gateway["spec"]["listeners"]:
            (reference,) = listener["tls"]["certificateRefs"]
            metadata = {"name": reference["name"], "namespace": self.place["namespace"]}
            secret = {"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls"}
            yield {**secret, "metadata": metadata, "data": data}

    @contextmanager
    def standing(self, *bodies: Document) -> Iterator[None]:
        """These objects are there meanwhile; in the end the Gateway has forgotten the notebook's host."""
        self.plane.apply(list(bodies))
        try:
            yield
        finally:
            self.plane.kubectl("delete", "-f", "-", input=dump(list(bodies)))
            until(lambda: not self.ways(self.host), "the Gateway to forget the host")

    def said(self, route: Document) -> dict[str, str]:
        """The reasons of the controller's conditions of a route, a failed one with a `!` before it."""
        where = f"-n={route['metadata']['namespace']}"
        text = self.plane.kubectl("get", "httproute", route["metadata"]["name"], where, "-o", "json")
        parents = json.loads(text).get("status", {}).get("parents", [])
        return {
            condition["type"]: ("" if condition["status"] == "True" else "!") + condition["reason"]
            for parent in parents
            for condition in parent["conditions"]
        }

    def ways(self, host: str) -> list[Way]:
        """In Envoy's order, of this virtual host alone."""
        resources = self.controller.envoy(self.place["namespace"], self.place["name"])
        asked = {name: settings for resource in resources for name, settings in _filters(resource)}
        return [
            _way(route, asked)
            for resource in resources
            for virtual in resource.get("virtualHosts", ())
            if host in virtual["domains"]
            for route in virtual["routes"]
        ]

    def leads_to_pod(self) -> bool:
        """Whether anything that Envoy is told names the notebook's Service as where to lead."""
        return any(way.to == self.pod for way in self.ways(self.host))


def _filters(resource: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for chain in resource.get("filterChains", ()):
        for outer in chain["filters"]:
            for inner in outer["typedConfig"].get("httpFilters", ()):
                if inner["typedConfig"]["@type"] == ASKS:
                    yield inner["name"], inner["typedConfig"]


def _way(route: dict[str, Any], asked: dict[str, dict[str, Any]]) -> Way:
    of_route = route.get("typedPerFilterConfig", {})
    in_force = tuple(
        settings for name, settings in asked.items() if not of_route.get(name, {}).get("disabled")
    )
    if "directResponse" in route:
        return Way(route["match"], route["directResponse"]["status"], in_force)
    return Way(route["match"], route["route"]["cluster"].partition(":")[2], in_force)


@pytest.fixture(scope="module")
def edge(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Edge]:
    rendered = Helm(tmp_path_factory.mktemp("helm")).template(MOST)
    with GatewayController(control_plane) as controller:
        stage = Edge(control_plane, controller, rendered)
        stage.set_up()
        yield stage


def test_the_products_route_and_grant_are_accepted_and_the_door_is_asked_for_the_pod_alone(
    edge: Edge,
) -> None:
    with edge.standing(edge.service, edge.grant, edge.route):
        until(edge.leads_to_pod, "the Gateway to lead to the pod")
        assert edge.said(edge.route) == {"Accepted": "Accepted", "ResolvedRefs": "ResolvedRefs"}
        own, upgrade, pod = edge.ways(edge.host)
    assert (own.to, own.asked, own.match) == (DOOR, (), {"pathSeparatedPrefix": "/.allotment"})
    assert (upgrade.to, upgrade.asked) == (DOOR, ())
    assert upgrade.match["headers"] == [{"name": "Upgrade", "stringMatch": {"exact": "websocket"}}]
    assert (pod.to, pod.match) == (edge.pod, {"prefix": "/"})
    (asked,) = pod.asked
    assert asked["httpService"]["pathPrefix"] == f"/{edge.host.partition('.')[0]}"
    assert asked["httpService"]["serverUri"]["cluster"] == f"http:{DOOR_NAMESPACE}:allotment-door:8002"
    answered = asked["httpService"]["authorizationResponse"]
    assert _names(asked["allowedHeaders"]) == ASKED
    assert _names(answered["allowedUpstreamHeaders"]) == ANSWERED
    assert "failureModeAllow" not in asked


def _names(matcher: dict[str, Any]) -> tuple[str, ...]:
    return tuple(pattern["exact"] for pattern in matcher["patterns"])


def test_the_charts_routes_are_accepted_and_ask_nobody(edge: Edge) -> None:
    routes = [body for body in edge.chart if body["kind"] == "HTTPRoute"]
    for route, to in zip(routes, (WEB, DOOR), strict=True):
        (host,) = route["spec"]["hostnames"]
        until(partial(edge.ways, host), f"the Gateway to lead {host}")
        assert edge.said(route) == {"Accepted": "Accepted", "ResolvedRefs": "ResolvedRefs"}
        assert [(way.to, way.asked) for way in edge.ways(host)] == [(to, ())]


NOBODY, OTHER = {"name": "nobody"}, {"spec": {"to": [{"group": "", "kind": "Service", "name": "other"}]}}


@pytest.mark.parametrize(
    ("grants", "asks", "reason"),
    [
        (None, {}, "!RefNotPermitted"),
        (OTHER, {}, "!RefNotPermitted"),
        ({}, NOBODY, "!BackendNotFound"),
    ],
    ids=["without a grant", "a grant of another Service", "nobody is asked"],
)
def test_a_route_that_lacks_something_leads_nobody_to_the_pod(
    edge: Edge, grants: Document | None, asks: Document, reason: str
) -> None:
    """The host answers by itself: the wildcard's route is not asked for a host that has one of its own."""
    route = json.loads(json.dumps(edge.route))
    route["spec"]["rules"][1]["filters"][0]["externalAuth"]["backendRef"] |= asks
    allowed = [] if grants is None else [merged(edge.grant, grants)]
    with edge.standing(edge.service, *allowed, route):
        until(lambda: edge.said(route).get("ResolvedRefs") == reason, reason)
        until(lambda: edge.ways(edge.host), "the Gateway to answer for the host")
        assert edge.said(route)["Accepted"] == "Accepted"
        assert edge.ways(edge.host)[-1].to == 500
        assert not edge.leads_to_pod()


def test_a_tenants_own_route_takes_nobodys_host(edge: Edge) -> None:
    """The guide's listeners take routes of the door's namespace alone."""
    theirs = merged(edge.route, {"metadata": {"namespace": edge.space}})
    theirs["spec"]["rules"] = [{"backendRefs": [{"name": edge.service["metadata"]["name"], "port": 8888}]}]
    with edge.standing(edge.service, theirs):
        until(lambda: edge.said(theirs), "the controller to judge it")
        assert edge.said(theirs)["Accepted"] == "!NotAllowedByListeners"
        assert edge.ways(edge.host) == []
