"""A name that led to a cluster when it was registered, and leads to this machine by now: no way of connecting
says anything there, whatever is asked of the gateway.
"""

import asyncio
import inspect
import tempfile
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

from apps.cluster.errors import Unreachable
from apps.cluster.gateway import client, forwarding
from apps.cluster.gateway.port import Gateway, Probe, open_keyed
from apps.cluster.specs import ClientKey, ObjectRef
from tests.cluster.registering import CONFIG, lead_astray
from tests.controlplane import pki

METHODS = sorted({name for kind in (Gateway, Probe) for name in vars(kind) if not name.startswith("_")})
SILENT = ("endpoint",)
"""What asks nobody."""
HOST_ONLY = ("stream_log", "port_forward")
"""Pods run on the host alone: nobody follows or forwards inside a virtual cluster."""
GIVEN: dict[str, Any] = {
    "manifest": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "b"}},
    "ref": ObjectRef("Pod", "b", "a"), "changes": {}, "uid": "u", "kind": "Pod", "api_version": "v1",
    "resource_version": "1", "timeout_seconds": 1, "namespace": "b", "pod": "a", "port": 8888, "account": "a",
    "seconds": 600, "verb": "get", "resource": "pods", "group": "",
    "container": "main", "tail_lines": 5,
}  # fmt: skip


@pytest.fixture
def gateways(
    listener: tuple[int, list[bytes]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> dict[str, Any]:
    """Every kind of gateway to an address that came over REST; the name leads to the listener."""
    server = lead_astray(monkeypatch, listener[0])
    cluster = {"server": server, "insecure-skip-tls-verify": True}
    text = yaml.safe_dump(CONFIG | {"clusters": [{"name": "c", "cluster": cluster}]})
    made = pki.own_pki(tmp_path)
    key = ClientKey(server, made.cert("ca").read_bytes(), *pki.administrator(made))
    return {
        "registered": client.for_text(text),
        "with a token": client.with_token("", "t", text=text),
        "virtual": open_keyed(key),
    }


def ask(gateway: Any, name: str) -> None:
    """Call the method, and take what it gives as its callers do."""
    method = getattr(gateway, name)
    given = {
        key: GIVEN[key]
        for key, each in inspect.signature(method).parameters.items()
        if each.default is each.empty
    }
    found = method(**given)
    if inspect.isasyncgen(found):
        asyncio.run(drained(found))
    elif inspect.isgenerator(found):
        list(found)
    elif isinstance(found, forwarding.Way):
        asyncio.run(forwarded(found))


async def drained(lines: Any) -> None:
    async for _ in lines:
        pass


async def forwarded(way: forwarding.Way) -> None:
    """Something connects to the forwarded port, and hears that nobody is there."""
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "s")
        async with forwarding.listening(way, path):
            reader, writer = await asyncio.open_unix_connection(path)
            with closing(writer):
                assert await reader.read() == b""


@pytest.mark.parametrize("name", [name for name in METHODS if name not in SILENT])
def test_nothing_is_said_where_no_cluster_may_be(
    listener: tuple[int, list[bytes]], gateways: dict[str, Any], name: str
) -> None:
    for kind, gateway in gateways.items():
        if kind != "virtual" or name not in HOST_ONLY:
            with suppress(Unreachable):
                ask(gateway, name)
    assert set(listener[1]) <= {b""}
