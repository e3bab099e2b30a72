"""Where a cluster that came over the network may lead, in every way of writing it; and that a name which
leads elsewhere later is found out.
"""

import socket
from ipaddress import ip_address
from typing import Any

import pytest
import yaml
from pytest_django import Settings

from apps.cluster.errors import Unreachable
from apps.cluster.gateway import client
from apps.cluster.gateway.addresses import address_problem, resolved_problem, server_problem
from apps.cluster.gateway.kubeconfig import problems
from apps.cluster.models import Cluster
from tests.cluster.registering import CONFIG, body, lead_astray
from tests.conftest import Cast
from tests.tenants.rest import Rest

GOOD = [
    *(
        "https://10.0.0.1:6443",
        "https://172.16.3.4",
        "https://192.168.1.1/k8s/clusters/c-1",
        "https://8.8.8.8",
    ),
    *(
        "https://k8s.example.org:6443",
        "https://[fd12::1]:6443",
        "https://[2001:4860::1]",
        "https://localhost.org",
    ),
    "https://[64:ff9b::10.0.0.1]",
]
MACHINE = [
    *(
        "127.0.0.1",
        "127.1",
        "127.255.0.3",
        "2130706433",
        "0x7f000001",
        "017700000001",
        "0x7f.0.0.1",
        "0",
        "0.0.0.0",  # noqa: S104 - nothing is bound
    ),
    *("[::1]", "[::]", "[0:0:0:0:0:0:0:1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::127.0.0.1]"),
    *("[64:ff9b::127.0.0.1]", "[2002:7f00:1::]", "localhost", "LOCALHOST", "localhost.", "a.localhost"),
    *("ip6-localhost", "127.0.0.1."),
]
METADATA = [
    *("169.254.169.254", "2852039166", "0xa9fea9fe", "0251.0376.0251.0376", "169.254.43518"),
    *(
        "[::ffff:169.254.169.254]",
        "[64:ff9b::a9fe:a9fe]",
        "[fd00:ec2::254]",
        "100.100.100.200",
        "168.63.129.16",
    ),
    *("metadata.google.internal", "Metadata.Google.Internal.", "metadata"),
]
ELSEWHERE = [
    "169.254.1.1",
    "[fe80::1]",
    "[fe80::1%25eth0]",
    "224.0.0.1",
    "[ff02::1]",
    "255.255.255.255",
    "100.64.0.1",
]
MISSHAPEN = [
    *(None, 7, "", "https://", "//10.0.0.1", "10.0.0.1:6443", "https://[::1", "https://10.0.0.1:99999"),
    *(
        "https://10.0.0.1\\@127.0.0.1",
        "https://a b",
        "https://a\nb",
        "https://１２７.0.0.1",
        "https://127。0。0。1",
    ),
    *(
        "https://u@10.0.0.1",
        "https://u:p@10.0.0.1",
        "http://10.0.0.1",
        "unix:///run/x",
        "https://10.0.0.1?a=b",
    ),
    "https://10.0.0.1#@127.0.0.1",
]


@pytest.mark.parametrize("server", GOOD)
def test_where_clusters_live_is_accepted(server: str) -> None:
    assert server_problem(server, ()) is None


@pytest.mark.parametrize("host", [*MACHINE, *METADATA, *ELSEWHERE])
def test_what_only_this_machine_reaches_is_refused(host: str) -> None:
    assert str(server_problem(f"https://{host}:6443", ())).startswith("leads to ")


@pytest.mark.parametrize("server", MISSHAPEN)
def test_what_is_no_plain_https_address_is_refused(server: Any) -> None:
    assert server_problem(server, ("0.0.0.0/0", "::/0", "localhost")) is not None


@pytest.mark.parametrize("host", METADATA)
def test_a_metadata_service_is_refused_whatever_is_allowed(host: str) -> None:
    allowed = ("0.0.0.0/0", "::/0", host.strip("[]").lower(), "metadata")
    assert server_problem(f"https://{host}", allowed) == "leads to a cloud's metadata service"


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "[::1]", "localhost"])
def test_an_installation_for_development_allows_itself(host: str) -> None:
    assert server_problem(f"https://{host}:6443", ("127.0.0.0/8", "::1/128", "localhost")) is None


def test_every_address_that_python_calls_special_is_refused_or_private() -> None:
    for number in range(256):
        for text in (f"{number}.0.0.1", f"169.{number}.0.1", f"100.{number}.0.1", f"192.{number}.0.1"):
            address = ip_address(text)
            special = (
                address.is_loopback or address.is_link_local or address.is_multicast or address.is_reserved
            )
            assert not special or address_problem(address, ()), text


def test_a_name_is_judged_by_where_it_leads(monkeypatch: pytest.MonkeyPatch) -> None:
    leads: dict[str, list[str]] = {
        "good": ["10.0.0.1"],
        "bad": ["10.0.0.1", "::1"],
        "cloud": ["169.254.169.254"],
    }

    def look_up(host: str, *_: object, **__: object) -> list[Any]:
        if host not in leads:
            raise socket.gaierror
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 0)) for address in leads[host]]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    assert resolved_problem("https://good", ()) is None
    assert resolved_problem("https://nowhere-yet", ()) is None
    assert resolved_problem("https://bad:6443", ()) == "leads to the machine that Allotment itself runs on"
    assert resolved_problem("https://bad:6443", ("bad",)) is None
    assert resolved_problem("https://cloud", ("cloud",)) == "leads to a cloud's metadata service"


def named(server: Any, **more: Any) -> dict[str, Any]:
    return CONFIG | {"clusters": [{"name": "c", "cluster": {"server": server, **more}}]}


def test_a_kubeconfig_names_no_proxy_and_may_name_the_certificates_host() -> None:
    told = problems(named("https://10.0.0.1", **{"proxy-url": "http://10.0.0.9:3128"}), inline=True)
    assert told[0].startswith("/clusters/0/cluster/proxy-url: names a proxy")
    assert problems(named("https://10.0.0.1", **{"tls-server-name": "kubernetes"}), inline=True) == []


def test_the_operators_own_file_may_lead_anywhere() -> None:
    assert problems(named("http://127.0.0.1:6443", **{"proxy-url": "http://10.0.0.9"})) == []


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("entry", "key"),
    [
        ({"server": "https://169.254.169.254"}, "server"),
        ({"server": "https://127.0.0.1:6443"}, "server"),
        ({"server": "http://10.0.0.1"}, "server"),
        ({}, "server"),
        ({"server": "https://10.0.0.1", "proxy-url": "http://127.0.0.1:3128"}, "proxy-url"),
    ],
)
def test_rest_refuses_it_with_its_place_to_register_and_to_change(
    cast: Cast, entry: dict[str, str], key: str
) -> None:
    petra, bad = Rest(cast.petra), CONFIG | {"clusters": [{"name": "c", "cluster": entry}]}
    petra.send("POST", "/clusters", body() | {"slug": "west"})
    change = {"spec": {"kubeconfig": yaml.safe_dump(bad)}}
    for refused in (
        petra.send("POST", "/clusters", body(bad)),
        petra.send("PATCH", "/clusters/west", change, match='"1"'),
    ):
        assert refused.status_code == 422
        (error,) = refused.json()["errors"]
        assert error["pointer"] == f"#/spec/kubeconfig/clusters/0/cluster/{key}"
    assert not Cluster.objects.filter(slug="south").exists()
    assert Cluster.objects.get(slug="west").generation == 1


@pytest.mark.django_db
def test_rest_refuses_a_name_that_leads_to_this_machine(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    server = lead_astray(monkeypatch, 443)
    refused = Rest(cast.petra).send("POST", "/clusters", body(named(server)))
    assert refused.status_code == 422
    assert refused.json()["errors"][0]["pointer"] == "#/spec/kubeconfig/clusters/0/cluster/server"


def test_a_name_that_leads_here_by_now_is_told_nothing(
    listener: tuple[int, list[bytes]], settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The look-up at registration saw another address: only the connection shows where it leads."""
    port, heard = listener
    gateway = client.for_text(yaml.safe_dump(named(lead_astray(monkeypatch, port))))
    with pytest.raises(Unreachable, match="where no cluster may be"):
        gateway.server_version()
    assert set(heard) <= {b""}
    # What is allowed gets as far as TLS.
    monkeypatch.setattr(settings.CONFIG, "cluster_addresses", "127.0.0.0/8")
    with pytest.raises(Unreachable) as silence:
        gateway.server_version()
    assert "no cluster may be" not in str(silence.value)
    assert any(told.startswith(b"\x16\x03") for told in heard)
