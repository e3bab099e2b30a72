"""How a workload's port is reached from outside: by the door, and where a Gateway leads to it, by that. Pure.

Gateway API 1.4 and later; the filter ExternalAuth (GEP-1494) is of its experimental channel.
"""

from typing import Any

from apps.cluster.objects.kinds import GATEWAY, GRANTS
from apps.tenants.isolation.manifests import peer
from apps.tenants.specs import DOOR_NAMESPACE
from apps.workloads.gateway_specs import DOORS_OWN, GatewayPlace
from apps.workloads.manifests import pods
from apps.workloads.manifests.pods import Manifest
from apps.workloads.specs import PlacementSpec

GATEWAY_LABEL = "gateway.networking.k8s.io/gateway-name"
"""On the pods of a Gateway, which lie in its namespace (GEP-1762)."""
ASKED = ("Cookie", "Origin", "Sec-Fetch-Dest", "Sec-Fetch-Mode", "Sec-Fetch-Site", "Sec-WebSocket-Key")
"""What the door judges a request by; host, method and Authorization always come with them. NGINX Gateway
Fabric takes no route that names Host, Connection or Upgrade: by its key, too, a WebSocket is known.
"""
ANSWERED = ("Authorization", "Cookie")
"""What of the door's answer the pod hears instead of what the browser sent."""


def entrances(place: PlacementSpec, name: str, port: int, *, team: bool = False) -> list[Manifest]:
    """Who reaches the port of that name besides the door: the Gateway, the tenant's own pods.

    RULE: of pods with the label LABEL_INGRESS, which the door reaches by one policy of the namespace. Of all
    others that namespace's policies decide.
    """
    routed = [_route(place, place.gateway, port), _grant(place)] if place.gateway else []
    peers: list[Manifest] = []
    if place.gateway:
        peers.append(peer(place.gateway.namespace, {GATEWAY_LABEL: place.gateway.name}))
    if team:
        peers.append({"podSelector": {}})
    return [*([_policy(place, name, peers)] if peers else []), *routed]


def _policy(place: PlacementSpec, port: str, peers: list[Manifest]) -> Manifest:
    policy = pods.manifest("networking.k8s.io/v1", "NetworkPolicy", place)
    policy["spec"] = {
        "podSelector": {"matchLabels": pods.selector(place)},
        "policyTypes": ["Ingress"],
        "ingress": [{"from": peers, "ports": [{"port": port, "protocol": "TCP"}]}],
    }
    return policy


def _route(place: PlacementSpec, gateway: GatewayPlace, port: int) -> Manifest:
    """RULE: the Gateway asks the door about every request that it leads to the pod by itself. What goes on
    for long as a WebSocket, and the door's own addresses, are the door's: it ends them with the right.
    The question's path says which route asks: what a browser sends as `Host` need not.
    """
    door = {"name": gateway.door, "port": gateway.door_port}
    check = {
        "protocol": "HTTP",
        "backendRef": {"name": gateway.door, "port": gateway.check_port},
        "http": {
            "path": f"/{place.workload_id}",
            "allowedHeaders": list(ASKED),
            "allowedResponseHeaders": list(ANSWERED),
        },
    }
    route = pods.manifest(GATEWAY, "HTTPRoute", place)
    route["metadata"]["namespace"] = DOOR_NAMESPACE
    route["spec"] = {
        "parentRefs": [{"namespace": gateway.namespace, "name": gateway.name}],
        "hostnames": [gateway.host],
        "rules": [
            {"matches": [_below(DOORS_OWN), _upgrade()], "backendRefs": [door]},
            {
                "matches": [_below("/")],
                "filters": [{"type": "ExternalAuth", "externalAuth": check}],
                "backendRefs": [{"name": place.object_name, "namespace": place.namespace, "port": port}],
            },
        ],
    }
    return route


def _below(path: str) -> Manifest:
    return {"path": {"type": "PathPrefix", "value": path}}


def _upgrade() -> Manifest:
    named = {"type": "Exact", "name": "Upgrade", "value": "websocket"}
    return _below("/") | {"headers": [named]}


def _grant(place: PlacementSpec) -> Manifest:
    """That routes beside the door may lead to this one Service."""
    grant: dict[str, Any] = pods.manifest(GRANTS, "ReferenceGrant", place)
    grant["spec"] = {
        "from": [{"group": GATEWAY.partition("/")[0], "kind": "HTTPRoute", "namespace": DOOR_NAMESPACE}],
        "to": [{"group": "", "kind": "Service", "name": place.object_name}],
    }
    return grant
