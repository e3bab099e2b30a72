"""pods/portforward of the sandbox, by the gateway's own client: the simulated notebook behind the door."""

import asyncio
import tempfile
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.asyncio.client import unix_connect

from apps.cluster.gateway import client, forwarding
from tests.sandbox.running import Running, start

pytestmark = pytest.mark.programs

POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "nb", "namespace": "door", "labels": {"allotment.dev/managed": "true"}},
    "spec": {
        "containers": [
            {
                "name": "main",
                "image": "i",
                "ports": [{"containerPort": 8888}],
                "env": [
                    {
                        "name": "JUPYTER_TOKEN",
                        "valueFrom": {"secretKeyRef": {"name": "nb-ide", "key": "token"}},
                    }
                ],
                "securityContext": {"runAsNonRoot": True},
            }
        ]
    },
}
SECRET = {
    "apiVersion": "v1", "kind": "Secret", "type": "allotment.dev/ide", "data": {"token": "czNjcmV0"},
    "metadata": {"name": "nb-ide", "namespace": "door"},
}  # fmt: skip


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Any:
    found = start(tmp_path_factory.mktemp("forwards"), "--fleet", "laptop")
    for path, body in (
        ("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "door"}}),
        ("/api/v1/namespaces/door/secrets", SECRET),
        ("/api/v1/namespaces/door/pods", POD),
    ):
        answer = found.call("POST", path, body)
        assert answer.status_code == 201, answer.text
    yield found
    found.stop()


async def _asked(way: forwarding.Way, *paths: str, token: str = "s3cret") -> list[httpx.Response]:  # noqa: S107
    with tempfile.TemporaryDirectory() as folder:
        socket = str(Path(folder) / "s")
        async with forwarding.listening(way, socket):
            transport = httpx.AsyncHTTPTransport(uds=socket)
            headers = {"Authorization": f"token {token}"}
            async with httpx.AsyncClient(transport=transport, headers=headers) as http:
                return [await http.get(f"http://nb{path}") for path in paths]


def test_a_simulated_notebook_says_what_it_is_and_shows_its_state(running: Running) -> None:
    for _ in range(100):
        status = running.call("GET", "/api/v1/namespaces/door/pods/nb").json()["status"]
        if status.get("phase") == "Running":
            break
        asyncio.run(asyncio.sleep(0.1))
    way = client.for_kubeconfig(str(running.kubeconfig)).port_forward("door", "nb", 8888)
    page, state, kernels, none = asyncio.run(_asked(way, "/", "/state", "/api/kernels", "/nothing"))
    assert "simulated notebook" in page.text
    assert (state.json()["pod"], state.json()["image"]) == ("nb", "i")
    assert state.json()["environment"] == [{"name": "JUPYTER_TOKEN", "value": "", "secret": "nb-ide"}]
    assert kernels.json()[0]["name"] == "python3"
    assert none.status_code == 404
    (refused,) = asyncio.run(_asked(way, "/", token="guessed"))
    assert refused.status_code == 403


async def _echoed(way: forwarding.Way, *messages: str | bytes) -> list[str | bytes]:
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "s")
        headers = {"Authorization": "token s3cret"}
        async with (
            forwarding.listening(way, path),
            unix_connect(path, "ws://nb/echo", additional_headers=headers) as wire,
        ):
            for message in messages:
                await wire.send(message)
            return [await wire.recv() for _ in messages]


def test_its_websocket_sends_back_what_it_hears(running: Running) -> None:
    way = client.for_kubeconfig(str(running.kubeconfig)).port_forward("door", "nb", 8888)
    messages = ("hello", b"\0\1", "a" * 50_000)
    assert asyncio.run(_echoed(way, *messages)) == list(messages)


@pytest.mark.parametrize(("pod", "port"), [("nb", 22), ("nobody", 8888)])
def test_where_nothing_listens_the_connection_ends(running: Running, pod: str, port: int) -> None:
    way = client.for_kubeconfig(str(running.kubeconfig)).port_forward("door", pod, port)
    with pytest.raises(httpx.TransportError):
        asyncio.run(_asked(way, "/"))
