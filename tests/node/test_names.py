"""The names by which the door reaches what runs in its own cluster, resolved by CoreDNS in a pod."""

import json

import pytest
from pytest_django import Settings

from apps.tenants.specs import DOOR_NAMESPACE
from apps.workloads.opening.services import reaching
from apps.workloads.specs import Phase
from tests.controlplane.documents import Document
from tests.node.asking import PYTHON, notebook, pod_of
from tests.node.cluster import NodeCluster
from tests.node.names import Names
from tests.workloads.on_plane import House

pytestmark = [
    pytest.mark.node, pytest.mark.exhaustive, pytest.mark.django_db, pytest.mark.timeout(300)
]  # fmt: skip
ASKS = """
import json, socket, sys, time, urllib.request
name, port = sys.argv[1:]
for _ in range(100):
    try:
        address = socket.gethostbyname(name)
        break
    except OSError as error:
        address = str(error)
        time.sleep(0.2)
said = urllib.request.urlopen(f"http://{name}:{port}/api", timeout=20).read().decode()
of_service = socket.gethostbyname("kubernetes.default.svc")
print(json.dumps({"address": address, "said": json.loads(said), "of_service": of_service}))
"""


def asking(*arguments: str) -> Document:
    """A pod where the door's are, which are `restricted`."""
    container = {
        "name": "asks",
        "image": PYTHON,
        "command": ["python3", "-c", ASKS, *arguments],
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    user = {"runAsNonRoot": True, "runAsUser": 1000, "seccompProfile": {"type": "RuntimeDefault"}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "asks", "namespace": DOOR_NAMESPACE},
        "spec": {"restartPolicy": "Never", "securityContext": user, "containers": [container]},
    }


def test_a_pod_beside_the_door_reaches_a_notebook_by_its_name(
    node_house: House, node_cluster: NodeCluster, settings: Settings
) -> None:
    row = notebook(node_house, "nb")
    settings.CONFIG = settings.CONFIG.model_copy(update={"door_cluster": row.cluster.slug})
    node_house.reaches(row, Phase.RUNNING, 120)
    upstream = reaching.upstream(row)
    assert upstream.way is None
    kubectl, pod = node_house.plane.kubectl, ("pod/asks", f"-n={DOOR_NAMESPACE}")
    with Names(node_cluster):
        node_house.plane.apply([asking(upstream.host, str(upstream.port))])
        try:
            kubectl("wait", *pod, "--for=jsonpath={.status.phase}=Succeeded", "--timeout=60s")
            answer = json.loads(kubectl("logs", *pod))
        finally:
            kubectl("delete", *pod, "--now")
    assert answer["address"] == pod_of(node_house, row)["status"]["podIP"]
    assert "version" in answer["said"]
    assert answer["of_service"] == kubectl("get", "service", "kubernetes", "-o=jsonpath={.spec.clusterIP}")
