"""What the product may do with a Gateway: its roles are wide, the policy allotment-routes is not."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from apps.cluster.gateway import client
from apps.cluster.watching.services import capabilities
from tests.controlplane.plane import PlaneError
from tests.fence.scene import Manifest, Scene, merged
from tests.golden import golden

pytestmark = [pytest.mark.plane, pytest.mark.timeout(240)]
SYSTEM, GROUP = "allotment-system", "gateway.networking.k8s.io"
HOST = "0199f3c2-0000-7000-8000-000000000009.apps.example.net"
_DRY = ("apply", "--server-side", "--field-manager=allotment", "--dry-run=server", "-f", "-")
DOOR = {"name": "allotment-door", "port": 8001}
ASKED: Manifest = {
    "type": "ExternalAuth",
    "externalAuth": {
        "protocol": "HTTP",
        "backendRef": {"name": "allotment-door", "namespace": SYSTEM, "port": 8002},
        "http": {"allowedHeaders": ["Cookie", "Origin"], "allowedResponseHeaders": ["Authorization"]},
    },
}
TO_DOOR: Manifest = {
    "matches": [
        {"path": {"type": "PathPrefix", "value": "/.allotment"}},
        {"headers": [{"name": "Upgrade", "value": "websocket"}]},
    ],
    "backendRefs": [DOOR],
}


@pytest.fixture(autouse=True)
def nothing_stays(scene: Scene) -> Iterator[None]:
    yield
    for kind, space in (("httproute", SYSTEM), ("referencegrant", scene.space), ("referencegrant", SYSTEM)):
        scene.plane.kubectl("delete", kind, "tried", f"-n={space}", "--ignore-not-found")


def grant(space: str) -> Manifest:
    """What lets a workload's route lead to its Service."""
    return {
        "apiVersion": f"{GROUP}/v1beta1",
        "kind": "ReferenceGrant",
        "metadata": {"name": "tried", "namespace": space},
        "spec": {
            "from": [{"group": GROUP, "kind": "HTTPRoute", "namespace": SYSTEM}],
            "to": [{"group": "", "kind": "Service", "name": "notebook"}],
        },
    }


def to_pod(space: str, *filters: Manifest) -> Manifest:
    """A rule that leads past the door."""
    return {
        "filters": list(filters),
        "backendRefs": [{"name": "notebook", "namespace": space, "port": 80}],
    }


def route(space: str) -> Manifest:
    """A workload's route."""
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "HTTPRoute",
        "metadata": {"name": "tried", "namespace": SYSTEM},
        "spec": {
            "parentRefs": [{"namespace": "gateways", "name": "people"}],
            "hostnames": [HOST],
            "rules": [TO_DOOR, to_pod(space, ASKED)],
        },
    }


def test_a_workloads_route_and_grant_come_change_and_go(scene: Scene) -> None:
    both = grant(scene.space), route(scene.space)
    scene.product(*both)
    port = {"backendRefs": [{"name": "notebook", "namespace": scene.space, "port": 8888}]}
    scene.product(both[0], merged(both[1], {"spec": {"rules": [to_pod(scene.space, ASKED) | port]}}))
    for kind, space in (("referencegrant", scene.space), ("httproute", SYSTEM)):
        scene.plane.kubectl("delete", kind, "tried", f"-n={space}", as_admin=False)


def test_what_the_product_renders_is_accepted(scene: Scene) -> None:
    rendered = [body for body in golden("workloads/notebook-routed") if GROUP in body["apiVersion"]]
    assert {body["kind"] for body in rendered} == {"HTTPRoute", "ReferenceGrant"}
    text = json.dumps(rendered).replace("vision-bbbbbbbbbb", scene.space)
    for body in json.loads(text):
        answer = scene.plane.kubectl(*_DRY, input=json.dumps(body), as_admin=False)
        assert body["metadata"]["name"] in answer


def test_it_may_try_whether_the_cluster_takes_routes_that_ask(scene: Scene) -> None:
    facts = capabilities.facts(client.for_kubeconfig(str(scene.plane.kubeconfig)))
    assert facts.has_routes


@pytest.mark.parametrize("verb", ["get", "list", "watch", "deletecollection"])
@pytest.mark.parametrize("kind", ["httproutes", "referencegrants"])
def test_they_are_written_and_never_read(scene: Scene, kind: str, verb: str) -> None:
    asked = ("auth", "can-i", verb, f"{kind}.{GROUP}", f"-n={SYSTEM}")
    with pytest.raises(PlaneError):
        scene.plane.kubectl(*asked, as_admin=False)


_FROM = {"group": GROUP, "kind": "HTTPRoute", "namespace": SYSTEM}
_TO = {"group": "", "kind": "Service", "name": "notebook"}
GRANTS: list[tuple[str, Manifest, str]] = [
    ("into the door's own namespace", {"metadata": {"namespace": SYSTEM}}, "tenants' namespaces alone"),
    ("to a tenant's routes", {"spec": {"from": [_FROM | {"namespace": "speech"}]}}, "and nothing else"),
    ("to a tenant's beside ours", {"spec": {"from": [_FROM, _FROM | {"namespace": "a"}]}}, "nothing else"),
    ("to another kind of route", {"spec": {"from": [_FROM | {"kind": "TCPRoute"}]}}, "and nothing else"),
    ("to a Gateway", {"spec": {"from": [_FROM | {"kind": "Gateway"}]}}, "and nothing else"),
    ("of another group's HTTPRoute", {"spec": {"from": [_FROM | {"group": "x.io"}]}}, "nothing else"),
    ("of Secrets", {"spec": {"to": [_TO | {"kind": "Secret"}]}}, "and nothing else"),
    ("of Secrets beside a Service", {"spec": {"to": [_TO, _TO | {"kind": "Secret"}]}}, "nothing else"),
    ("of every Service", {"spec": {"to": [{"group": "", "kind": "Service"}]}}, "by their names"),
    ("of another group's Service", {"spec": {"to": [_TO | {"group": "x.io"}]}}, "and nothing else"),
]


@pytest.mark.parametrize(("change", "words"), [row[1:] for row in GRANTS], ids=[row[0] for row in GRANTS])
def test_no_other_grant_is_the_products_to_make(scene: Scene, change: Manifest, words: str) -> None:
    assert words in _refused(scene, merged(grant(scene.space), change))


def _rules(*rules: Manifest) -> Manifest:
    return {"spec": {"rules": list(rules)}}


_MIRROR = {"type": "RequestMirror", "requestMirror": {"backendRef": {"name": "a", "port": 80}}}
_ELSEWHERE = merged(ASKED, {"externalAuth": {"backendRef": {"namespace": "{space}"}}})
_COPIED = to_pod("{space}", ASKED)["backendRefs"][0] | {"filters": [_MIRROR]}
_BY_DEFAULT = {"hostnames": None, "parentRefs": None, "useDefaultGateways": "All"}
_HOSTS, _PAST = "for the hosts of workloads", "is asked first"
ROUTES: list[tuple[str, Manifest, str]] = [
    ("the portal's host", {"spec": {"hostnames": ["allotment.example.org"]}}, _HOSTS),
    ("every notebook's host", {"spec": {"hostnames": ["*.apps.example.net"]}}, _HOSTS),
    ("the portal's beside a workload's", {"spec": {"hostnames": [HOST, "a.example.org"]}}, _HOSTS),
    ("a host with a UUID in it", {"spec": {"hostnames": [f"a.{HOST}"]}}, _HOSTS),
    ("every host of the Gateway", {"spec": {"hostnames": None}}, _HOSTS),
    ("every host by default", {"spec": _BY_DEFAULT}, _HOSTS),
    ("a mesh", {"spec": {"parentRefs": [{"group": "", "kind": "Service", "name": "a"}]}}, _HOSTS),
    ("a pod unasked", _rules(to_pod("{space}")), _PAST),
    ("a pod unasked beside an asked one", _rules(to_pod("{space}", ASKED), to_pod("{space}")), _PAST),
    ("a pod, a pod asked", _rules(to_pod("{space}", _ELSEWHERE)), _PAST),
    ("a copy of what comes", _rules(to_pod("{space}", ASKED, _MIRROR)), _PAST),
    ("a copy by the backend", _rules({"filters": [ASKED], "backendRefs": [_COPIED]}), _PAST),
    ("a namespace of the tenant", {"metadata": {"namespace": "{space}"}}, "cannot patch resource"),
]


@pytest.mark.parametrize(("change", "words"), [row[1:] for row in ROUTES], ids=[row[0] for row in ROUTES])
def test_no_other_route_is_the_products_to_make(scene: Scene, change: Manifest, words: str) -> None:
    filled: Manifest = json.loads(json.dumps(change).replace("{space}", scene.space))
    assert words in _refused(scene, merged(route(scene.space), filled))


@pytest.mark.parametrize("kind", ["httproute", "referencegrant"])
def test_what_an_administrator_wrote_is_neither_overwritten_nor_deleted(scene: Scene, kind: str) -> None:
    ours, change = {
        "httproute": (route(scene.space), {"spec": {"hostnames": ["*.apps.example.net"]}}),
        "referencegrant": (grant(scene.space), {"spec": {"to": [{"group": "", "kind": "Service"}]}}),
    }[kind]
    scene.admin(merged(ours, change))
    assert "allotment-routes" in _refused(scene, ours)
    with pytest.raises(PlaneError, match="allotment-routes"):
        scene.plane.kubectl("delete", kind, "tried", f"-n={ours['metadata']['namespace']}", as_admin=False)


def _refused(scene: Scene, body: Manifest) -> str:
    with pytest.raises(PlaneError) as refusal:
        scene.product(body)
    said = str(refusal.value)
    assert "allotment-routes" in said or "cannot patch" in said
    return said
