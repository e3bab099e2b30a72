"""Where a tenant's pods may connect to: read strictly, rendered for the cluster, shown before it is set."""

import ipaddress
from typing import Any

import pytest
from django.test import Client

from apps.errors import Invalid, NotAllowed
from apps.tenants import selectors
from apps.tenants.isolation import egress
from apps.tenants.isolation.manifests import render_tenant
from apps.tenants.lifecycle.services import tenancy
from apps.tenants.lifecycle.services.reconcile import reconcile_tenant
from apps.tenants.lifecycle.services.tenancy import TenantChange
from apps.tenants.models import Tenant
from apps.tenants.specs import Egress, EgressMode, EgressPort, EgressRule
from tests.conftest import Cast, as_actor
from tests.factories import NOW
from tests.tenants.in_process import InProcess
from tests.tenants.rest import Rest


def outgoing(tenant: Tenant) -> list[dict[str, Any]]:
    fresh = Tenant.objects.select_related("department", "cluster").get(pk=tenant.pk)
    manifests = render_tenant(selectors.tenant_spec(fresh))
    (policy,) = [m for m in manifests if m["kind"] == "NetworkPolicy" and "base" in m["metadata"]["name"]]
    rules: list[dict[str, Any]] = policy["spec"]["egress"]
    return rules[2:]


@pytest.mark.parametrize(
    ("row", "pointer"),
    [
        ({"cidr": "10.0.0.1/8"}, "/0/cidr"),
        ({"cidr": "everywhere"}, "/0/cidr"),
        ({"cidr": 7}, "/0/cidr"),
        ({"cidr": "10.0.0.0/8", "ports": "443"}, "/0/ports"),
        ({"cidr": "10.0.0.0/8", "ports": [{"protocol": "ICMP"}]}, "/0/ports/0"),
        ({"cidr": "10.0.0.0/8", "ports": [{"port": 0}]}, "/0/ports/0/port"),
        ({"cidr": "10.0.0.0/8", "ports": [{"port": True}]}, "/0/ports/0/port"),
        ({"cidr": "10.0.0.0/8", "except": []}, "/0/except"),
        ("10.0.0.0/8", "/0/cidr"),
    ],
)
def test_a_wrong_network_is_named(row: Any, pointer: str) -> None:
    with pytest.raises(Invalid) as refusal:
        egress.parse([row], "")
    assert pointer in [problem.pointer for problem in refusal.value.problems]


def test_lines_and_json_say_the_same() -> None:
    rules = egress.parse(egress.from_lines("10.2.0.0/16 tcp/443 UDP\n\n2001:db8::/32\n"), "")
    assert rules == (
        EgressRule("10.2.0.0/16", (EgressPort("TCP", 443), EgressPort("UDP", None))),
        EgressRule("2001:db8::/32"),
    )
    assert egress.parse(egress.as_json(rules), "") == rules
    assert egress.parse(egress.from_lines(egress.as_lines(rules)), "") == rules


def test_the_internet_leaves_out_private_networks_and_metadata(cast: Cast) -> None:
    change = TenantChange(egress=Egress(EgressMode.INTERNET))
    tenancy.update_tenant(actor=as_actor(cast.petra), tenant=cast.vision, change=change, now=NOW)
    (rule,) = outgoing(cast.vision)
    four, six = (peer["ipBlock"] for peer in rule["to"])
    private = [ipaddress.ip_network(text) for text in (*four["except"], *six["except"])]
    for address in ("169.254.169.254", "10.96.0.1", "192.168.1.1", "100.64.0.1", "fd00:ec2::254", "fe80::1"):
        assert any(
            ipaddress.ip_address(address) in network
            for network in private
            if network.version == (6 if ":" in address else 4)
        )
    assert not any(
        ipaddress.ip_address("140.82.121.3") in network for network in private if network.version == 4
    )


def test_a_list_opens_its_networks_and_ports_alone(cast: Cast, access: InProcess) -> None:
    assert outgoing(cast.vision) == []
    allow = (EgressRule("10.2.0.0/16", (EgressPort("TCP", 443),)), EgressRule("10.3.0.0/16"))
    change = TenantChange(egress=Egress(EgressMode.ALLOW_LIST, allow))
    tenancy.update_tenant(actor=as_actor(cast.petra), tenant=cast.vision, change=change, now=NOW)
    assert outgoing(cast.vision) == [
        {"to": [{"ipBlock": {"cidr": "10.2.0.0/16"}}], "ports": [{"protocol": "TCP", "port": 443}]},
        {"to": [{"ipBlock": {"cidr": "10.3.0.0/16"}}]},
    ]
    reconcile_tenant(cast.vision.pk, gateway=access)
    held = access.client.get("networkpolicies.networking.k8s.io", "base-allow", cast.vision.object_name)
    assert held is not None
    assert len(held["spec"]["egress"]) == 4


def test_egress_is_set_over_rest_by_platform_engineers(cast: Cast) -> None:
    wish = {"spec": {"egress": {"mode": "allow-list", "allow": [{"cidr": "10.2.0.0/16"}]}}}
    changed = Rest(cast.petra).send("PATCH", "/tenants/vision", wish, match="*")
    assert changed.json()["spec"]["egress"] == {
        "mode": "allow-list",
        "allow": [{"cidr": "10.2.0.0/16", "ports": []}],
    }
    wrong = {"spec": {"egress": {"mode": "allow-list", "allow": [{"cidr": "x"}]}}}
    refused = Rest(cast.petra).send("PATCH", "/tenants/vision", wrong, match="*")
    assert refused.json()["errors"][0]["pointer"] == "#/spec/egress/allow/0/cidr"
    tenancy.set_managers(
        actor=as_actor(cast.petra), department=cast.vision.department, usernames=["outsider"], now=NOW
    )
    change = TenantChange(egress=Egress(EgressMode.INTERNET))
    with pytest.raises(NotAllowed, match="egress"):
        tenancy.update_tenant(actor=as_actor(cast.otto), tenant=cast.vision, change=change, now=NOW)


def test_the_page_shows_the_rules_before_they_are_set(cast: Cast) -> None:
    browser = Client()
    browser.force_login(cast.petra)
    path, typed = (
        "/console/tenants/vision/change/egress/",
        {"mode": "allow-list", "allow": "10.2.0.0/16 TCP/443"},
    )
    shown = browser.post(path, typed)
    assert "cidr: 10.2.0.0/16" in shown.content.decode()
    assert Tenant.objects.get(pk=cast.vision.pk).egress == EgressMode.NONE
    assert browser.post(path, {"mode": "allow-list", "allow": "nowhere"}).status_code == 422
    assert browser.post(path, typed | {"confirm": "yes"}).status_code == 303
    assert Tenant.objects.get(pk=cast.vision.pk).egress == EgressMode.ALLOW_LIST
