"""The product's own images, built by the steps of its Dockerfile, in containers on a real node."""

import json
from typing import Any

import httpx
import pytest

from apps.workloads.specs import Phase
from tests import yamls
from tests.node.asking import notebook, pod_of
from tests.node.cluster import CHECKOUT, NodeCluster
from tests.node.images import recipes
from tests.patience import patient, until
from tests.workloads.on_plane import House

pytestmark = [
    pytest.mark.node, pytest.mark.exhaustive, pytest.mark.django_db, pytest.mark.timeout(900)
]  # fmt: skip
AGENT_YAML = CHECKOUT / "k8s" / "allotment" / "templates" / "agent.yaml"
STANDS_IN = ("__init__", "agent/cards", "agent/standin", "agent/live", "node/simulated_nvml")
"""Modules of the tests that a container needs to have a card."""
OWN, TELEMETRY = "own", "allotment-telemetry"
START = "python manage.py migrate --verbosity 0; exec uvicorn portal.asgi:application --host 0.0.0.0"
NAME = "allotment.test"
HOST = {"Host": NAME}
ENVIRONMENT = {
    "ALLOTMENT_MODE": "development",
    "ALLOTMENT_SECRET_KEY": "of-a-container-in-a-test-and-nowhere-else-at-all",
    "ALLOTMENT_PUBLIC_URL": f"http://{NAME}",
}
HARDENED = {
    "runAsNonRoot": True,
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}
FOLDERS = {"home": "/var/lib/allotment", "tmp": "/tmp"}  # noqa: S108 - of the container


@pytest.fixture(scope="module", autouse=True)
def own_images() -> None:
    recipes.ensure_own(recipes.store_of_this_machine(), recipes.PRODUCT, recipes.AGENT)


def apply(cluster: NodeCluster, *objects: dict[str, Any]) -> None:
    everything = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
    cluster.plane.kubectl("apply", "-f", "-", input=everything)


def address(cluster: NodeCluster, namespace: str, labels: str) -> str:
    """The IP of the one pod with these labels, once it is ready."""

    def pods() -> str:
        return cluster.plane.kubectl("get", "pods", "-n", namespace, "-l", labels, "-o", "json")

    def ready() -> str:
        for pod in json.loads(pods())["items"]:
            state = {fact["type"]: fact["status"] for fact in pod["status"].get("conditions", ())}
            if state.get("Ready") == "True":
                return str(pod["status"]["podIP"])
        return ""

    return str(until(ready, f"a pod with {labels} to be ready", 120, told=lambda: pods()[-3000:]))


def web_pod() -> dict[str, Any]:
    """The web process as the strictest level of Pod Security wants it, with an SQLite file of its own."""
    container = {
        "name": "web",
        "image": recipes.reference(recipes.PRODUCT),
        "command": ["sh", "-ec", START],
        "env": [{"name": name, "value": value} for name, value in ENVIRONMENT.items()],
        "securityContext": HARDENED,
        "volumeMounts": [{"name": name, "mountPath": path} for name, path in FOLDERS.items()],
        "readinessProbe": {
            "httpGet": {"path": "/healthz", "port": 8000, "httpHeaders": [{"name": "Host", "value": NAME}]},
            "periodSeconds": 1,
        },
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web", "namespace": OWN, "labels": {"part": "web"}},
        "spec": {"containers": [container], "volumes": [{"name": name, "emptyDir": {}} for name in FOLDERS]},
    }


def test_the_web_process_runs_under_the_strictest_pod_security(node_cluster: NodeCluster) -> None:
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": OWN, "labels": labels}}
    apply(node_cluster, space, web_pod())
    try:
        portal = f"http://{address(node_cluster, OWN, 'part=web')}:8000"
        page = httpx.get(f"{portal}/sign-in/", headers=HOST, timeout=patient(20))
        assert page.status_code == 200, page.text
        style = page.text.partition("allotment.")[2].partition('"')[0]
        assert httpx.get(f"{portal}/static/css/allotment.{style}", headers=HOST).status_code == 200
        inside = ("exec", "-n", OWN, "web", "--")
        assert node_cluster.plane.kubectl(*inside, "id", "-u").strip() == "10001"
        for program in (("celery", "--version"), ("honcho", "version"), ("python", "manage.py", "check")):
            node_cluster.plane.kubectl(*inside, *program)
    finally:
        node_cluster.plane.kubectl("delete", "namespace", OWN, "--wait=false")


def agent_objects(card: str) -> list[dict[str, Any]]:
    """The manifest as it is, but for the image's name, NVIDIA's runtime, and a stand-in for its driver."""
    space, *objects = yamls.documents(AGENT_YAML.read_text())
    (daemons,) = (each for each in objects if each["kind"] == "DaemonSet")
    spec = daemons["spec"]["template"]["spec"]
    del spec["runtimeClassName"]
    (container,) = spec["containers"]
    container["image"] = recipes.reference(recipes.AGENT)
    container["command"] = ["python", "-m", "tests.node.simulated_nvml"]
    added = {"NODE_CARD": card, "PYTHONPATH": "/srv/agent:/stand-in"}
    container["env"] += [{"name": name, "value": value} for name, value in added.items()]
    container["volumeMounts"].append({"name": "stand-in", "mountPath": "/stand-in/tests", "readOnly": True})
    keys = {path.replace("/", "."): f"{path}.py" for path in STANDS_IN}
    items = [{"key": key, "path": path} for key, path in keys.items()]
    spec["volumes"].append({"name": "stand-in", "configMap": {"name": "stand-in", "items": items}})
    files = {key: (CHECKOUT / "tests" / path).read_text() for key, path in keys.items()}
    place = {"name": "stand-in", "namespace": TELEMETRY}
    return [space, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": place, "data": files}, *objects]


def test_the_agents_daemonset_says_who_holds_which_slice(
    node_cluster: NodeCluster, node_house: House
) -> None:
    row = notebook(node_house, "held")
    node_house.reaches(row, Phase.RUNNING, 120)
    (device,) = row.placement[0]["devices"]
    pod = pod_of(node_house, row)["metadata"]
    node_cluster.plane.kubectl("label", "node", "node1", "nvidia.com/gpu.present=true", "--overwrite")
    apply(node_cluster, *agent_objects(f"{device['id']} 1g.10gb {device['name'].rpartition('-')[2]}"))
    try:
        ip = address(node_cluster, TELEMETRY, "app.kubernetes.io/name=allotment-agent")
        holder = (f'namespace="{pod["namespace"]}"', f'pod="{pod["name"]}"', 'Hostname="node1"')

        def named() -> list[str]:
            text = httpx.get(f"http://{ip}:9400/metrics", timeout=patient(10)).text
            return [line for line in text.splitlines() if all(words in line for words in holder)]

        lines = until(named, "the agent to name the notebook's pod", 60)
        busy = [line for line in lines if line.startswith("DCGM_FI_PROF_SM_ACTIVE{")]
        assert any(device["id"] in line for line in busy), lines
    finally:
        node_cluster.plane.kubectl("delete", "namespace", TELEMETRY, "--wait=false")
