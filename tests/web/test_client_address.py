"""X-Forwarded-For is believed of declared proxies alone, and read from the right."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import uvicorn
import yaml
from django.test import RequestFactory
from honcho.environ import parse_procfile
from pytest_django import Settings

from apps.web.requests.client_address import client_address, client_network
from portal.door.__main__ import served
from portal.protocol import Protocol

ROOT = Path(__file__).resolve().parents[2]
PROXY, INNER = "10.0.0.7", "10.0.0.8"


def seen(peer: str, forwarded: str | None = None) -> str:
    given: dict[str, Any] = {"REMOTE_ADDR": peer}
    if forwarded is not None:
        given["HTTP_X_FORWARDED_FOR"] = forwarded
    return str(client_address(RequestFactory().get("/", **given)))


@pytest.mark.parametrize("peer", ["127.0.0.1", "::1", "10.0.0.7", "192.0.2.1"])
def test_nobody_is_believed_unless_declared(peer: str) -> None:
    assert seen(peer, "198.51.100.1") == peer


@pytest.mark.parametrize(
    ("forwarded", "who"),
    [
        (None, PROXY),
        ("192.0.2.1", "192.0.2.1"),
        ("1.1.1.1, 192.0.2.1", "192.0.2.1"),
        (f"1.1.1.1, 192.0.2.1, {INNER}", "192.0.2.1"),
        (f"1.1.1.1,192.0.2.1:4711 , {INNER}", "192.0.2.1"),
        ("[2001:db8::1]:99", "2001:db8::1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("1.1.1.1, unknown", PROXY),
        (f"1.1.1.1, junk, {INNER}", INNER),
        ("", PROXY),
        (f"{INNER}", INNER),
    ],
)
def test_the_right_most_hop_that_is_no_proxy_is_who_asks(
    forwarded: str | None, who: str, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settings.CONFIG, "trusted_proxies", "10.0.0.0/24, fd00::/8")
    assert seen(PROXY, forwarded) == who


def test_one_ipv6_customer_is_one_client_and_no_address_is_one_too() -> None:
    def network(peer: str) -> str:
        return client_network(RequestFactory().get("/", REMOTE_ADDR=peer))

    assert network("2001:db8::1") == network("2001:db8::ffff:1") != network("2001:db8:0:1::1")
    assert network("") == "unknown"
    assert network("192.0.2.1") == "192.0.2.1"


def _starts() -> dict[str, list[str]]:
    """Every way in which a web server of the product is started."""
    processes = parse_procfile((ROOT / "Procfile").read_text()).processes
    found = {
        f"Procfile {name}": shlex.split(re.sub(r"\$\{\w+:-(.*?)\}", r"\1", command))
        for name, command in processes.items()
    }
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
    found |= {f"compose {name}": each.get("command", []) for name, each in services.items()}
    lines = (ROOT / "Dockerfile").read_text().replace("\\\n", "").splitlines()
    (image,) = [line.removeprefix("CMD ") for line in lines if line.startswith("CMD") and "uvicorn" in line]
    found["Dockerfile"] = [part.strip(' "') for part in image.strip("[]").split(",")]
    return {place: command for place, command in found.items() if command and command[0] == "uvicorn"}


def test_the_door_is_a_web_server_too() -> None:
    assert {"Procfile web", "Dockerfile"} <= set(_starts())
    door = served()
    assert (door.proxy_headers, door.http) == (False, Protocol)


@pytest.mark.parametrize("place", _starts())
def test_the_web_server_reads_no_such_header_itself(place: str) -> None:
    """By itself uvicorn would believe everybody on this machine."""
    arguments = _starts()[place][1:]
    assert uvicorn.main.make_context("uvicorn", arguments).params["proxy_headers"] is False


@pytest.mark.parametrize("place", _starts())
def test_every_web_server_bounds_how_long_a_head_may_take(place: str) -> None:
    arguments = _starts()[place][1:]
    assert uvicorn.main.make_context("uvicorn", arguments).params["http"] == "portal.protocol:Protocol"
