"""What clients of a running sandbox see: the official client, tokens and rights, faults, restart, and clear
refusals.
"""

from __future__ import annotations

import json
import signal
import socket
import threading
import time
from pathlib import Path
from typing import Any

import httpx
import pytest
from kubernetes import client as kubernetes
from kubernetes import config as kubernetes_config
from kubernetes.dynamic import DynamicClient

from sandbox.__main__ import main
from sandbox.api.serving import hosting
from sandbox.controllers.arrivals import SETUP
from sandbox.fleet.behaviours import ANNOTATION
from tests.patience import patient
from tests.sandbox.conftest import run_command
from tests.sandbox.running import ROOT, Running, client_of, start

pytestmark = pytest.mark.programs

PODS = "/api/v1/namespaces/default/pods"
MAPS = "/api/v1/namespaces/default/configmaps"
RULES = "/apis/rbac.authorization.k8s.io/v1/namespaces/default"


def config(name: str, **data: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "data": data}


def official(kubeconfig: Path) -> Any:
    return kubernetes_config.new_client_from_config(str(kubeconfig))  # type: ignore[no-untyped-call]


def fault(running: Running, **body: Any) -> None:
    assert running.call("POST", "/sandbox/faults", body).status_code == 200


@pytest.fixture(autouse=True)
def _no_faults(running: Running) -> Any:
    yield
    running.call("DELETE", "/sandbox/faults")


def test_the_official_dynamic_client_applies_lists_and_deletes(running: Running) -> None:
    dynamic: Any = DynamicClient(official(running.admin))  # type: ignore[no-untyped-call]
    maps = dynamic.resources.get(api_version="v1", kind="ConfigMap")
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "dyn"}, "data": {"a": "1"}}
    maps.server_side_apply(body=body, namespace="default", name="dyn", field_manager="one")
    with pytest.raises(Exception, match="conflict with") as refused:
        maps.server_side_apply(
            body={**body, "data": {"a": "2"}}, namespace="default", name="dyn", field_manager="two"
        )
    assert getattr(refused.value, "status", None) == 409
    assert "dyn" in [item.metadata.name for item in maps.get(namespace="default").items]
    maps.delete(name="dyn", namespace="default")
    assert running.http.get(f"{MAPS}/dyn").status_code == 404


def test_the_official_typed_client_reads_what_is_served(running: Running) -> None:
    core: Any = kubernetes.CoreV1Api(official(running.admin))
    nodes = core.list_node().items
    assert len(nodes) == 4
    assert all(node.status.allocatable["cpu"] for node in nodes)
    assert core.read_namespace("default").status.phase == "Active"


def test_a_watch_over_http_tells_of_a_new_object(running: Running) -> None:
    version = running.http.get(MAPS).json()["metadata"]["resourceVersion"]
    seen: list[Any] = []

    def follow() -> None:
        with running.http.stream(
            "GET", f"{MAPS}?watch=1&resourceVersion={version}&timeoutSeconds=5"
        ) as stream:
            for line in stream.iter_lines():
                seen.append(json.loads(line))
                return

    thread = threading.Thread(target=follow)
    thread.start()
    time.sleep(0.2)
    running.call("POST", MAPS, config("watched"))
    thread.join(timeout=patient(10))
    assert [(event["type"], event["object"]["metadata"]["name"]) for event in seen] == [("ADDED", "watched")]


def test_an_account_may_do_what_its_role_says_and_loses_it_at_once(running: Running) -> None:
    running.call("POST", "/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "member"}})
    rules = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]}]
    running.call("POST", f"{RULES}/roles", {"metadata": {"name": "reader"}, "rules": rules})
    subject = {"kind": "ServiceAccount", "name": "member", "namespace": "default"}
    binding = {
        "metadata": {"name": "reader"},
        "roleRef": {"kind": "Role", "name": "reader"},
        "subjects": [subject],
    }
    running.call("POST", f"{RULES}/rolebindings", binding)
    path = "/api/v1/namespaces/default/serviceaccounts/member/token"
    token = running.call("POST", path, {"spec": {"expirationSeconds": 600}}).json()["status"]["token"]
    bearer = {"Authorization": f"Bearer {token}"}
    assert running.http.get(MAPS, headers=bearer).status_code == 200
    assert running.http.get(PODS, headers=bearer).status_code == 403
    running.call("DELETE", f"{RULES}/rolebindings/reader")
    assert running.http.get(MAPS, headers=bearer).status_code == 403
    running.call("DELETE", "/api/v1/namespaces/default/serviceaccounts/member")
    assert running.http.get(MAPS, headers=bearer).status_code == 401


def test_a_token_dies_with_the_secret_it_is_bound_to(running: Running) -> None:
    running.call("POST", "/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "bound"}})
    running.call("POST", "/api/v1/namespaces/default/secrets", {"metadata": {"name": "lease"}})
    spec = {"boundObjectRef": {"apiVersion": "v1", "kind": "Secret", "name": "lease"}}
    path = "/api/v1/namespaces/default/serviceaccounts/bound/token"
    token = running.call("POST", path, {"spec": spec}).json()["status"]["token"]
    bearer = {"Authorization": f"Bearer {token}"}
    assert running.http.get("/version", headers=bearer).status_code == 200
    running.call("DELETE", "/api/v1/namespaces/default/secrets/lease")
    assert running.http.get("/version", headers=bearer).status_code == 401


def test_nobody_grants_more_than_they_hold(running: Running) -> None:
    with client_of(running.kubeconfig) as product:
        body = {"metadata": {"name": "all"}, "roleRef": {"kind": "ClusterRole", "name": "cluster-admin"}}
        refused = product.post(f"{RULES}/rolebindings", json=body)
    assert refused.status_code == 403
    assert "attempting to grant RBAC permissions not currently held" in refused.json()["message"]


def test_the_product_may_not_read_secrets_nor_reach_the_sandboxs_own_controls(running: Running) -> None:
    with client_of(running.kubeconfig) as product:
        assert product.get("/api/v1/namespaces/default/secrets").status_code == 403
        assert product.get("/sandbox/state").status_code == 403
        assert product.get("/api/v1/nodes").status_code == 200


def test_too_many_requests_say_when_to_come_back(running: Running) -> None:
    fault(running, kind="status", code=429, retryAfter=3, verbs=["GET"], path="/configmaps")
    answer = running.http.get(MAPS)
    assert answer.status_code == 429
    assert answer.headers["retry-after"] == "3"
    assert answer.json()["reason"] == "TooManyRequests"
    assert running.http.get(PODS).status_code == 200


def test_a_cut_connection_loses_the_answer_but_not_the_write(running: Running) -> None:
    fault(running, kind="cut", verbs=["POST"], path="/configmaps")
    with pytest.raises(httpx.TransportError):
        running.call("POST", MAPS, config("written"))
    running.call("DELETE", "/sandbox/faults")
    assert running.http.get(f"{MAPS}/written").status_code == 200


def test_a_server_that_is_gone_answers_nothing_and_comes_back(running: Running) -> None:
    fault(running, kind="gone", seconds=0.5)
    with pytest.raises(httpx.TransportError):
        running.http.get(MAPS)
    time.sleep(0.6)
    assert running.http.get(MAPS).status_code == 200


def test_latency_is_felt(running: Running) -> None:
    fault(running, kind="latency", latency=0.3, path="/configmaps")
    begin = time.monotonic()
    running.http.get(MAPS)
    assert time.monotonic() - begin >= 0.3


def test_history_can_be_made_too_old(running: Running) -> None:
    version = running.http.get(MAPS).json()["metadata"]["resourceVersion"]
    running.call("POST", MAPS, config("later"))
    fault(running, kind="compact")
    with running.http.stream("GET", f"{MAPS}?watch=1&resourceVersion={version}") as stream:
        event = json.loads(next(stream.iter_lines()))
    assert (event["type"], event["object"]["code"]) == ("ERROR", 410)


def test_a_kind_that_is_not_simulated_says_so(running: Running) -> None:
    answer = running.http.get("/apis/apps/v1/namespaces/default/daemonsets")
    assert answer.status_code == 501
    assert "needs a real cluster" in answer.json()["message"]


@pytest.mark.parametrize(
    ("body", "media", "code"),
    [
        ("{", "application/json", 400),
        ("[]", "application/json", 400),
        ("x", "text/plain", 415),
        ("x" * 4_000_000, "application/json", 413),
    ],
)
def test_a_body_that_makes_no_sense_is_refused(running: Running, body: str, media: str, code: int) -> None:
    answer = running.http.post(MAPS, content=body, headers={"Content-Type": media})
    assert answer.status_code == code
    assert answer.json()["kind"] == "Status"


def test_no_token_and_a_wrong_token_are_told_apart(running: Running) -> None:
    assert running.http.get(MAPS, headers={"Authorization": ""}).status_code == 403
    assert running.http.get(MAPS, headers={"Authorization": "Bearer nonsense"}).status_code == 401


def test_it_listens_on_loopback_alone(running: Running) -> None:
    address = running.http.base_url
    assert address.host == "127.0.0.1"
    outside = socket.gethostbyname(socket.gethostname())
    if outside.startswith("127."):
        pytest.skip("this machine has no other address")
    with pytest.raises(OSError, match="refused"):
        socket.create_connection((outside, address.port or 0), timeout=2)


def test_a_port_in_use_is_said_clearly(running: Running, sandbox_folder: Path) -> None:
    done = run_command("up", "--dir", str(sandbox_folder), "--port", str(running.http.base_url.port))
    assert done.returncode == 1
    assert "cannot listen on 127.0.0.1" in done.stderr
    assert "--port" in done.stderr


def test_a_folder_in_use_is_said_clearly(running: Running) -> None:
    done = run_command("up", "--dir", str(running.folder))
    assert done.returncode == 1
    assert "another sandbox uses" in done.stderr


def test_state_tokens_and_watches_survive_a_kill(sandbox_folder: Path) -> None:
    first = start(sandbox_folder)
    version = first.http.get(MAPS).json()["metadata"]["resourceVersion"]
    first.call("POST", MAPS, config("kept", k="v"))
    first.stop(signal.SIGKILL)
    second = start(sandbox_folder)
    try:
        assert second.http.get(f"{MAPS}/kept").json()["data"] == {"k": "v"}
        path = f"{MAPS}?watch=1&resourceVersion={version}&timeoutSeconds=1"
        names = [
            json.loads(line)["object"]["metadata"]["name"] for line in second.http.get(path).text.splitlines()
        ]
        assert "kept" in names
    finally:
        assert second.stop() == 0


def test_a_corrupt_state_is_kept_aside_and_never_overwritten(sandbox_folder: Path) -> None:
    sandbox_folder.mkdir()
    (sandbox_folder / "state.sqlite3").write_bytes(b"not a database at all" * 100)
    running = start(sandbox_folder)
    running.stop()
    kept = list(sandbox_folder.glob("state.sqlite3.corrupt-*"))
    assert len(kept) == 1
    assert kept[0].read_bytes().startswith(b"not a database")


def test_the_clock_is_set_and_shown_by_the_command_line(running: Running) -> None:
    done = run_command("clock", "--dir", str(running.folder), "--speed", "10")
    assert json.loads(done.stdout)["speed"] == 10
    assert run_command("clock", "--dir", str(running.folder), "--speed", "100").returncode == 2
    assert json.loads(run_command("clock", "--dir", str(running.folder), "--speed", "1").stdout)["speed"] == 1


def test_a_behaviour_is_given_to_a_pod_and_to_the_next_ones_of_a_namespace(
    running: Running, capsys: pytest.CaptureFixture[str]
) -> None:
    def behave(*words: str) -> None:
        assert main(["behave", "--dir", str(running.folder), *words]) == 0
        assert json.loads(capsys.readouterr().out)["behaviour"] == words[-1]

    def made(name: str) -> dict[str, Any]:
        pod = {"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "x:1"}]}}
        running.call("POST", PODS, pod)
        answer: dict[str, Any] = running.call("GET", f"{PODS}/{name}").json()
        return answer

    behave("default", "init-crash")
    pod = made("next")
    behave("default", "usual")
    assert pod["metadata"]["annotations"][ANNOTATION] == "init-crash"
    assert [each["name"] for each in pod["spec"]["initContainers"]] == [SETUP]
    assert ANNOTATION not in (made("later")["metadata"].get("annotations") or {})
    behave("default/later", "evicted")
    later = running.call("GET", f"{PODS}/later").json()
    assert later["metadata"]["annotations"][ANNOTATION] == "evicted"


def test_production_code_never_imports_the_sandbox() -> None:
    import ast

    for folder in ("apps", "portal", "agent"):
        for file in (ROOT / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(file.read_text())):
                names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
                names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
                assert not any(name.split(".")[0] == "sandbox" for name in names), file


def test_the_sandbox_starts_with_what_the_chart_brings() -> None:
    kinds = {body["kind"] for body in hosting.chart_documents()}
    assert {"ClusterRole", "ValidatingAdmissionPolicy", "WorkloadPriorityClass"} <= kinds
