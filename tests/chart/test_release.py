"""A release on the real API server: admitted, installed, upgraded, rolled back, and gone without a trace.

Admission, controllers and scheduler are real; kwok says that pods run and that the Job's ended.
"""

import json
import os
import shutil
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path

import pytest
import yaml

from apps.cluster.errors import Unreachable
from apps.cluster.gateway import client
from tests.chart.guide import follow, objects
from tests.chart.helm import (
    CHART,
    LEAST,
    MOST,
    NAMESPACE,
    RELEASE,
    SECRETS,
    Document,
    Helm,
    HelmError,
    container,
    named,
    pods,
)
from tests.controlplane import documents
from tests.controlplane.plane import ControlPlane, PlaneError
from tests.patience import until

pytestmark = [pytest.mark.exhaustive, pytest.mark.plane, pytest.mark.timeout(600)]

RESTRICTED = "chart-restricted"
OPERATORS = {"ServiceMonitor", "PrometheusRule"}
"""Kinds that this control plane does not know."""
PASSING = {"events", "events.events.k8s.io", "leases.coordination.k8s.io"}
"""What every cluster makes without end."""


@pytest.fixture(scope="module")
def here(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Helm:
    """Helm as the plane's administrator."""
    return Helm(tmp_path_factory.mktemp("helm"), control_plane.admin_kubeconfig)


@pytest.fixture
def secret(control_plane: ControlPlane) -> Iterator[None]:
    """The installer's Secret."""
    literals = [f"--from-literal={key}={value}" for key, value in SECRETS.items()]
    control_plane.kubectl("create", "secret", "generic", "allotment", f"-n{NAMESPACE}", *literals)
    yield
    control_plane.kubectl("delete", "secret", "allotment", f"-n{NAMESPACE}")


@pytest.fixture
def restricted(control_plane: ControlPlane) -> Iterator[str]:
    """A namespace that takes nothing but what Pod Security calls restricted."""
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    metadata = {"name": RESTRICTED, "labels": labels}
    control_plane.apply([{"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}])
    yield RESTRICTED
    control_plane.kubectl("delete", "namespace", RESTRICTED)


@pytest.mark.parametrize("which", ["least", "most"])
def test_every_pod_is_admitted_as_restricted(
    which: str, control_plane: ControlPlane, restricted: str, request: pytest.FixtureRequest
) -> None:
    for name, template in pods(request.getfixturevalue(which)).items():
        assert f"pod/{name}" in _create(control_plane, _pod(name, template, restricted))


def test_a_pod_with_one_right_more_is_not(
    control_plane: ControlPlane, restricted: str, least: list[Document]
) -> None:
    pod = deepcopy(_pod("allotment-web", pods(least)["allotment-web"], restricted))
    pod["spec"]["containers"][0]["securityContext"]["allowPrivilegeEscalation"] = True
    with pytest.raises(PlaneError, match="violates PodSecurity"):
        _create(control_plane, pod)


@pytest.mark.parametrize("which", ["least", "most"])
def test_the_api_server_accepts_every_object(
    which: str, control_plane: ControlPlane, request: pytest.FixtureRequest
) -> None:
    """With every field known to it: a field that is misspelt would be dropped in silence."""
    rendered = [each for each in request.getfixturevalue(which) if each["kind"] not in OPERATORS]
    given = documents.dump(rendered)
    answer = control_plane.kubectl("create", "--dry-run=server", "--validate=strict", "-f", "-", input=given)
    assert answer.count("created (server dry run)") == len(rendered)


def test_the_api_server_accepts_the_gateway_of_the_guide(control_plane: ControlPlane) -> None:
    (gateway,) = objects("Behind a Gateway")
    gateway["metadata"]["namespace"] = "default"
    given = documents.dump([gateway])
    answer = control_plane.kubectl("create", "--dry-run=server", "--validate=strict", "-f", "-", input=given)
    assert "created (server dry run)" in answer


@pytest.mark.usefixtures("secret")
def test_helm_tries_it_on_the_server(here: Helm, control_plane: ControlPlane) -> None:
    without_monitor = MOST | {"serviceMonitor": {"enabled": False}, "prometheusRule": {"enabled": False}}
    assert "STATUS: pending-install" in here.on_chart("install", without_monitor, "--dry-run=server")
    assert _releases(here) == []
    assert _of_the_release(control_plane) == []


def test_a_missing_secret_is_said_before_anything_is_made(here: Helm, control_plane: ControlPlane) -> None:
    with pytest.raises(HelmError, match="There is no Secret allotment in allotment-system"):
        here.on_chart("install", LEAST)
    assert _of_the_release(control_plane) == []


@pytest.mark.usefixtures("secret")
def test_a_missing_key_is_said_too(here: Helm, control_plane: ControlPlane) -> None:
    values = LEAST | {"redis": {"existingSecret": "allotment", "key": "redis"}}
    with pytest.raises(HelmError, match="The Secret allotment in allotment-system has no key redis"):
        here.on_chart("install", values)
    assert _of_the_release(control_plane) == []


@pytest.mark.usefixtures("secret")
def test_a_cluster_that_nobody_prepared_is_said_too(here: Helm, tmp_path: Path) -> None:
    """The account cannot be taken from a plane that others use: a copy of the chart asks for another."""
    copy = tmp_path / "chart"
    shutil.copytree(CHART, copy)
    checks = copy / "templates" / "checks.yaml"
    checks.write_text(checks.read_text().replace('"allotment-controller"', '"allotment-nobody"'))
    (tmp_path / "values.yaml").write_text(yaml.safe_dump(LEAST))
    with pytest.raises(HelmError, match="run `kubectl apply -k k8s` first"):
        here.run("install", RELEASE, str(copy), "-n", NAMESPACE, "-f", str(tmp_path / "values.yaml"))


def test_the_guide_leads_from_nothing_to_a_release_and_back(
    here: Helm, control_plane: ControlPlane, folder: Path
) -> None:
    def follows(heading: str) -> str:
        return follow(heading, here, control_plane.kubectl_path, folder)

    follows("1. What the cluster needs")
    before = _everything(control_plane)
    follows("3. What is secret")
    follows("4. Values")
    follows("5. Install")
    sizes = {"web": 2, "worker-default": 2, "beat": 2, "watcher": 2, "door": 2}
    assert _ready(control_plane) == sizes
    assert _refused(control_plane) == []
    assert _migrated_at(control_plane) <= _first_made_at(control_plane)
    assert _images(control_plane) == {"registry.example.org/allotment:0.1.0"}

    values = folder / "values.yaml"
    values.write_text(values.read_text() + "web: {replicas: 3}\n")
    values.write_text(values.read_text().replace("org/allotment}", "org/allotment, tag: next}"))
    follows("Upgrade")
    assert _ready(control_plane) == sizes | {"web": 3}, "what was stopped for it runs again"
    assert _images(control_plane) == {"registry.example.org/allotment:next"}
    assert {"worker-default", "beat", "watcher"} <= _were_at_nothing(control_plane)

    follows("Roll back")
    assert _ready(control_plane) == sizes
    assert _images(control_plane) == {"registry.example.org/allotment:0.1.0"}

    follows("Remove")
    until(lambda: _everything(control_plane) == before, "the cluster to be as it was before")


def test_the_product_reaches_its_cluster_and_takes_up_a_new_token(
    helm: Helm, control_plane: ControlPlane, tmp_path: Path
) -> None:
    """The volume as the kubelet keeps it: a folder per state, and a link that is moved to the next."""
    rendered = helm.template(LEAST | {"inCluster": {"server": control_plane.layout.server}})
    (made,) = named(rendered, "ConfigMap").values()
    files = {
        "kubeconfig": made["data"]["kubeconfig"],
        "ca.crt": control_plane.layout.pki.cert("ca").read_text(),
    }
    for name in (*files, "token"):
        (tmp_path / name).symlink_to(f"..data/{name}")
    place = str(tmp_path / "kubeconfig")
    token = control_plane.token_of("allotment-controller", NAMESPACE)

    _write(tmp_path, "..first", files | {"token": token})
    assert client.for_kubeconfig(place).list("Namespace")[0]
    _write(tmp_path, "..second", files | {"token": "expired"})
    with pytest.raises(Unreachable, match="refuses our credentials"):
        client.for_kubeconfig(place).list("Namespace")
    _write(tmp_path, "..third", files | {"token": token})
    assert client.for_kubeconfig(place).list("Namespace")[0]


def _write(volume: Path, state: str, files: dict[str, str]) -> None:
    (volume / state).mkdir()
    for name, content in files.items():
        (volume / state / name).write_text(content)
    (volume / "..data_tmp").symlink_to(state)
    os.replace(volume / "..data_tmp", volume / "..data")  # noqa: PTH105 - a link is moved, not followed


def _pod(name: str, template: Document, namespace: str) -> Document:
    metadata = template["metadata"] | {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}


def _create(plane: ControlPlane, pod: Document) -> str:
    return plane.kubectl("create", "--dry-run=server", "-f", "-", input=json.dumps(pod))


def _items(plane: ControlPlane, kind: str) -> list[Document]:
    found: list[Document] = json.loads(plane.kubectl("get", kind, f"-n{NAMESPACE}", "-o", "json"))["items"]
    return found


def _part(name: str) -> str:
    return name.removeprefix(f"{RELEASE}-")


def _ready(plane: ControlPlane) -> dict[str, int]:
    return {
        _part(each["metadata"]["name"]): each["status"].get("readyReplicas", 0)
        for each in _items(plane, "deployments")
    }


def _images(plane: ControlPlane) -> set[str]:
    return {container(each["spec"]["template"])["image"] for each in _items(plane, "deployments")}


def _refused(plane: ControlPlane) -> list[str]:
    return [each["message"] for each in _items(plane, "events") if each["reason"] == "FailedCreate"]


def _migrated_at(plane: ControlPlane) -> str:
    done: list[str] = [
        each["lastTimestamp"]
        for each in _items(plane, "events")
        if each["reason"] == "Completed" and each["involvedObject"]["name"] == "allotment-migrate"
    ]
    return max(done)


def _first_made_at(plane: ControlPlane) -> str:
    made: list[str] = [each["metadata"]["creationTimestamp"] for each in _items(plane, "deployments")]
    return min(made)


def _were_at_nothing(plane: ControlPlane) -> set[str]:
    return {
        _part(each["involvedObject"]["name"])
        for each in _items(plane, "events")
        if each["reason"] == "ScalingReplicaSet" and each["message"].endswith("to 0")
    }


def _releases(helm: Helm) -> list[Document]:
    found: list[Document] = json.loads(helm.run("list", "-n", NAMESPACE, "--all", "-o", "json"))
    return found


def _of_the_release(plane: ControlPlane) -> list[str]:
    kinds = "deployments,jobs,services,configmaps,networkpolicies,poddisruptionbudgets,ingresses"
    selector = f"app.kubernetes.io/instance={RELEASE}"
    return plane.kubectl("get", kinds, f"-n{NAMESPACE}", "-l", selector, "-o", "name").split()


def _everything(plane: ControlPlane) -> set[str]:
    """Every object of the cluster that lasts, cluster-wide ones included."""
    listed = plane.kubectl("api-resources", "--verbs=list,delete", "-o", "name").split()
    kinds = ",".join(sorted(set(listed) - PASSING))
    columns = "custom-columns=KIND:.kind,NAMESPACE:.metadata.namespace,NAME:.metadata.name"
    lines = plane.kubectl("get", kinds, "-A", "-o", columns, "--no-headers").splitlines()
    return {" ".join(line.split()) for line in lines if line.split()[0] != "KIND"}
