"""What the chart renders for a Gateway of the administrator's, by the real Helm and without a cluster."""

import pytest

from apps.tenants.specs import DOOR_NAMESPACE
from apps.workloads.manifests.entrances import GATEWAY_LABEL
from portal.config import Config
from tests.chart.helm import (
    LEAST,
    MOST,
    Document,
    Helm,
    HelmError,
    Values,
    container,
    named,
    pods,
)

pytestmark = pytest.mark.plane


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"gateway": {"name": "people"}}, "set both gateway.namespace and gateway.name"),
        ({"gateway": {"namespace": "gateways"}}, "set both gateway.namespace and gateway.name"),
        ({"settings": LEAST["settings"]}, "set settings.apps_url"),
        ({"inCluster": {"enabled": False}}, "set inCluster.enabled=true"),
        ({"settings": MOST["settings"] | {"door_cluster": ""}}, "set settings.door_cluster to its slug"),
    ],
)
def test_a_gateway_without_what_it_needs_is_refused(helm: Helm, change: Values, words: str) -> None:
    with pytest.raises(HelmError, match=words):
        helm.template(MOST | change)


def test_a_gateway_leads_where_an_ingress_would(most: list[Document]) -> None:
    services = named(most, "Service")
    led = {}
    for route in named(most, "HTTPRoute").values():
        assert route["spec"]["parentRefs"] == [MOST["gateway"]]
        (host,), (rule,) = route["spec"]["hostnames"], route["spec"]["rules"]
        (backend,) = rule["backendRefs"]
        (target,) = (
            port["targetPort"]
            for port in services[backend["name"]]["spec"]["ports"]
            if port["port"] == backend["port"]
        )
        led[host] = (backend["name"], target)
    assert led == {
        "allotment.example.org": ("allotment-web", "http"),
        "*.apps.example.net": ("allotment-door", "http"),
    }


def test_what_a_gateway_asks_is_reached_by_its_own_pods_alone(most: list[Document]) -> None:
    """Whoever asks there is answered with the IDE's token."""
    known = {name: Config.model_fields[name].default for name in ("door_port", "door_check_port")}
    assert known == {"door_port": 8001, "door_check_port": 8002}
    ports = named(most, "Service")["allotment-door"]["spec"]["ports"]
    assert {port["port"]: port["targetPort"] for port in ports} == {80: "http", 8001: "http", 8002: "check"}
    inside = container(pods(most)["allotment-door"])
    assert {"name": "check", "containerPort": 8002, "protocol": "TCP"} in inside["ports"]
    rules = named(most, "NetworkPolicy")["allotment-door"]["spec"]["ingress"]
    (peers,) = [rule["from"] for rule in rules if 8002 in [port["port"] for port in rule["ports"]]]
    assert peers == [
        {
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "gateways"}},
            "podSelector": {"matchLabels": {GATEWAY_LABEL: "people"}},
        }
    ]


def test_every_part_knows_the_gateway_and_the_doors_service(most: list[Document]) -> None:
    services = named(most, "Service")
    for name, pod in pods(most).items():
        known = {variable["name"]: variable.get("value") for variable in container(pod)["env"]}
        assert known["ALLOTMENT_GATEWAY"] == "gateways/people", name
        assert known["ALLOTMENT_DOOR_CLUSTER"] == "north", name
        service = services[str(known["ALLOTMENT_DOOR_SERVICE"])]
        assert service["spec"]["selector"]["app.kubernetes.io/component"] == "proxy", name
        assert service["metadata"]["namespace"] == DOOR_NAMESPACE, name


def test_without_a_gateway_there_is_no_route_and_nothing_asks_the_door(helm: Helm) -> None:
    rendered = helm.template({**MOST, "gateway": {}})
    assert not named(rendered, "HTTPRoute")
    assert [port["port"] for port in named(rendered, "Service")["allotment-door"]["spec"]["ports"]] == [80]
    assert len(container(pods(rendered)["allotment-door"])["ports"]) == 1
    assert len(named(rendered, "NetworkPolicy")["allotment-door"]["spec"]["ingress"]) == 1
    for name, pod in pods(rendered).items():
        names = {variable["name"] for variable in container(pod)["env"]}
        assert not names & {"ALLOTMENT_GATEWAY", "ALLOTMENT_DOOR_SERVICE"}, name
