"""Every way in which a server can answer badly leaves the client as one of five errors.

A real HTTP server answers here what an API server would; the real one has its turn in test_on_plane.
"""

import json
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from apps.cluster.errors import Conflict, Expired, Rejected, Throttled, Unreachable
from apps.cluster.gateway import client
from apps.cluster.specs import EventType, ObjectRef

REF = ObjectRef("Service", "ns", "nb")
MANIFEST: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "nb", "namespace": "ns"},
}


class Server(ThreadingHTTPServer):
    """Answers every request with `code`, `headers` and `raw`, after `delay` seconds."""

    code, delay = 200, 0.0
    raw = b"{}"
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.headers: dict[str, str] = {}
        self.paths: list[str] = []

    def handle_error(self, *_: Any) -> None:
        """A client that gave up is what some tests are about."""

    def says(self, code: int, status: Any = None, **headers: str) -> None:
        self.code, self.headers = code, {name.replace("_", "-"): value for name, value in headers.items()}
        self.raw = status if isinstance(status, bytes) else json.dumps(status).encode()


class Handler(BaseHTTPRequestHandler):
    """See Server."""

    server: Server

    def answer(self) -> None:
        self.server.paths.append(self.path)
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        time.sleep(self.server.delay)
        self.send_response(self.server.code)
        for name, value in self.server.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(self.server.raw)))
        self.end_headers()
        self.wfile.write(self.server.raw)

    do_GET = do_PATCH = do_DELETE = answer  # noqa: N815 - the names that http.server looks for

    def log_message(self, *args: Any) -> None:
        """Quiet."""


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as running:
        threading.Thread(target=running.serve_forever, args=(0.01,), daemon=True).start()
        yield running
        running.shutdown()


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Callable[[str], str]:
    def write(address: str) -> str:
        path = tmp_path / "kubeconfig"
        path.write_text(json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "x",
            "clusters": [{"name": "c", "cluster": {"server": address}}],
            "users": [{"name": "u", "user": {"token": "secret"}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        }))  # fmt: skip
        return str(path)

    return write


@pytest.fixture
def gateway(server: Server, kubeconfig: Callable[[str], str]) -> client.KubernetesGateway:
    return client.for_kubeconfig(kubeconfig(f"http://127.0.0.1:{server.server_port}"))


STOLEN = {
    "message": 'Apply failed with 1 conflict: conflict with "kubectl-edit" using v1: .data.a',
    "reason": "Conflict",
}
SCHEMA = {"message": "failed to create typed patch object (ns/nb): .spec.x: field not declared in schema"}
ADDRESS = "https://127.0.0.1:35891/mutate-batch-v1-job"
WEBHOOK = {
    "message": f'failed calling webhook "mjob.kb.io": Post "{ADDRESS}": connection refused',
    "reason": "InternalError",
}


@pytest.mark.parametrize(
    ("code", "status", "error", "reason"),
    [
        (400, {"message": "bad", "reason": "BadRequest"}, Rejected, "BadRequest"),
        (401, {"message": "Unauthorized"}, Unreachable, "Unauthorized"),
        (403, {"message": "forbidden: User", "reason": "Forbidden"}, Rejected, "Forbidden"),
        (404, {"message": "namespaces ns not found", "reason": "NotFound"}, Rejected, "NotFound"),
        (409, STOLEN, Conflict, "Conflict"),
        (410, {"message": "too old", "reason": "Expired"}, Expired, "Expired"),
        (422, {"message": "immutable", "reason": "Invalid"}, Rejected, "Invalid"),
        (429, {"message": "slow"}, Throttled, "Throttled"),
        (500, SCHEMA, Rejected, "Invalid"),
        (503, b"<html>gateway</html>", Unreachable, "ClusterUnavailable"),
        (200, b"not json", Unreachable, "ClusterUnavailable"),
    ],
)
def test_a_bad_answer_becomes_one_error_with_the_server_s_words(
    server: Server,
    gateway: client.KubernetesGateway,
    code: int,
    status: Any,
    error: type[Exception],
    reason: str,
) -> None:
    server.says(code, status)

    with pytest.raises(error) as caught:
        gateway.apply(MANIFEST)

    assert type(caught.value) is error
    assert caught.value.reason == reason  # type: ignore[attr-defined]
    if isinstance(status, dict):
        assert status["message"] in str(caught.value)


def test_a_silent_webhook_is_named_without_its_address(
    server: Server, gateway: client.KubernetesGateway
) -> None:
    server.says(500, WEBHOOK)

    with pytest.raises(Unreachable, match=r"webhook mjob\.kb\.io does not answer") as caught:
        gateway.apply(MANIFEST)

    assert caught.value.reason == "WebhookUnavailable"
    assert "127.0.0.1" not in str(caught.value)


def test_a_conflict_names_the_other_managers(server: Server, gateway: client.KubernetesGateway) -> None:
    server.says(409, STOLEN)

    with pytest.raises(Conflict) as caught:
        gateway.apply(MANIFEST)

    assert caught.value.managers == ("kubectl-edit",)


def test_the_time_a_busy_server_asks_for_is_kept(server: Server, gateway: client.KubernetesGateway) -> None:
    server.says(429, {"message": "slow"}, Retry_After="7")

    with pytest.raises(Throttled) as caught:
        gateway.get(REF)

    assert caught.value.retry_after == 7


def test_what_is_not_there_is_none_and_cannot_be_deleted(
    server: Server, gateway: client.KubernetesGateway
) -> None:
    server.says(404, {"message": "not found"})

    assert gateway.get(REF) is None
    assert gateway.delete(REF, uid="u") is False
    assert gateway.api_resources("kueue.x-k8s.io/v1beta2") == frozenset()


def test_a_refused_connection_is_told_in_one_line_without_the_address(
    kubeconfig: Callable[[str], str],
) -> None:
    with pytest.raises(Unreachable, match=r"^The cluster does not answer: Connection refused\.$"):
        client.for_kubeconfig(kubeconfig("http://127.0.0.1:9")).server_version()


def test_a_server_that_never_answers_is_given_up_on(
    server: Server, gateway: client.KubernetesGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "_READ", 0.2)
    server.delay = 2.0

    with pytest.raises(Unreachable):
        gateway._json("GET", "/version", read=0.2)

    assert server.paths == ["/version?"], "it was asked again"


def test_a_missing_kubeconfig_is_no_crash() -> None:
    with pytest.raises(Unreachable, match="cannot be read: No such file"):
        client.for_kubeconfig("/nowhere/kubeconfig")


def test_a_new_kubeconfig_is_taken_up(server: Server, kubeconfig: Callable[[str], str]) -> None:
    path = kubeconfig("http://127.0.0.1:9")
    old = client.for_kubeconfig(path)
    assert client.for_kubeconfig(path) is old
    time.sleep(0.01)

    kubeconfig(f"http://127.0.0.1:{server.server_port}")

    assert client.for_kubeconfig(path).address.endswith(str(server.server_port))


def test_a_watch_tells_events_and_an_expired_version(
    server: Server, gateway: client.KubernetesGateway
) -> None:
    event = {"type": "ADDED", "object": {"metadata": {"name": "nb", "resourceVersion": "5"}}}
    error = {"type": "ERROR", "object": {"code": 410, "message": "too old resource version"}}
    server.says(200, f"{json.dumps(event)}\n{json.dumps(error)}\n".encode())

    watch = iter(gateway.watch("Service", "1", 60))
    first = next(watch)

    assert (first.type, first.resource_version) == (EventType.ADDED, "5")
    with pytest.raises(Expired):
        next(watch)


def test_a_list_of_pages_is_one_list_of_one_version(
    server: Server, gateway: client.KubernetesGateway
) -> None:
    page = {"metadata": {"resourceVersion": "9", "continue": ""}, "items": [{"metadata": {"name": "a"}}]}
    server.says(200, page)

    items, version = gateway.list("Service", label_selector="a=b")

    assert ([item["metadata"]["name"] for item in items], version) == (["a"], "9")
    assert "labelSelector=a%3Db" in server.paths[0]


def test_a_log_comes_in_parts_and_not_for_longer_than_asked(
    server: Server, gateway: client.KubernetesGateway
) -> None:
    server.says(200, b"x" * 200_000)
    read = partial(gateway.read_log, "ns", "p", container="main", tail_lines=7)

    assert [len(part) for part in read(seconds=10)] == [65_536, 65_536, 65_536, 3_392]
    assert server.paths == ["/api/v1/namespaces/ns/pods/p/log?container=main&tailLines=7"]
    server.delay = 1.0
    with pytest.raises(Unreachable):
        next(read(seconds=0.1))
    server.says(400, {"message": "container is waiting to start"})
    with pytest.raises(Rejected, match="waiting to start"):
        next(read(seconds=10))


@pytest.mark.parametrize("code", [301, 302, 307, 308])
def test_a_server_leads_nowhere_else(server: Server, gateway: client.KubernetesGateway, code: int) -> None:
    with Server() as other:
        threading.Thread(target=other.serve_forever, args=(0.01,), daemon=True).start()
        server.says(code, {}, Location=f"http://127.0.0.1:{other.server_port}/latest/meta-data/")
        for ask in (gateway.server_version, lambda: gateway.get(REF), lambda: gateway.apply(MANIFEST)):
            with pytest.raises(Unreachable):
                ask()
        assert (len(server.paths), other.paths) == (3, [])
        other.shutdown()
