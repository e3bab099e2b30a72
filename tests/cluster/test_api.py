"""REST: clusters and devices; nodes are tests/workloads/test_nodes_api.py."""

from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from apps.cluster.mirror.rules.mirror_columns import Sighting
from apps.cluster.mirror.services import mirror_table
from apps.cluster.models import Cluster
from tests.conftest import Cast

DRIVER = "gpu.nvidia.com"

pytestmark = [
    pytest.mark.urls("tests.cluster.urls"),
    pytest.mark.filterwarnings("ignore:No directory at"),
    pytest.mark.both_databases,
]


def gpu(name: str, **attributes: str) -> dict[str, Any]:
    values = {key: {"string": value} for key, value in attributes.items()}
    return {"name": name, "attributes": values, "capacity": {"memory": {"value": "80Gi"}}}


def meta(name: str, **rest: Any) -> dict[str, Any]:
    return {"name": name, "uid": f"uid-{name}", "resourceVersion": "5", **rest}


@pytest.fixture
def fleet(cluster: Cluster) -> None:
    """gpu-01 has a whole GPU and one cut in two; a claim of vision holds the first slice."""
    node = {
        "metadata": meta("gpu-01"),
        "status": {
            "allocatable": {"cpu": "64", "memory": "512Gi"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }
    devices = [
        gpu("gpu-0", type="gpu", uuid="GPU-a", productName="H100"),
        gpu("gpu-1-mig-1g10gb-19-0", type="mig", uuid="MIG-b", parentUUID="GPU-b", profile="1g.10gb"),
        gpu("gpu-1-mig-1g10gb-19-1", type="mig", uuid="MIG-c", parentUUID="GPU-b", profile="1g.10gb"),
    ]
    pool = {"name": "gpu-01", "generation": 1}
    published = {
        "metadata": meta("slice"),
        "spec": {"driver": DRIVER, "nodeName": "gpu-01", "pool": pool, "devices": devices},
    }
    result = {"driver": DRIVER, "pool": "gpu-01", "device": "gpu-1-mig-1g10gb-19-0"}
    claim = {
        "metadata": meta("nb-gpu", namespace="vision-x"),
        "status": {
            "allocation": {"devices": {"results": [result]}},
            "reservedFor": [{"resource": "pods", "name": "nb-0"}],
        },
    }
    seen = [Sighting("Node", node), Sighting("ResourceSlice", published), Sighting("ResourceClaim", claim)]
    mirror_table.record_seen(cluster, seen, now=timezone.now())


def client(user: Any) -> Client:
    browser = Client()
    browser.force_login(user)
    return browser


def test_a_platform_engineer_sees_clusters_with_their_capabilities_but_not_their_credentials(
    cast: Cast,
) -> None:
    Cluster.objects.update(
        kubeconfig_path="/etc/secret/kubeconfig",
        capabilities=[
            {"name": "kueue", "available": False, "version": None, "message": "nothing starts here"}
        ],
    )

    answer = client(cast.petra).get("/api/v1/clusters")

    (item,) = answer.json()["items"]
    assert (item["slug"], item["status"]["phase"], item["status"]["capabilities"][0]["name"]) == (
        "north",
        "Ready",
        "kueue",
    )
    assert item["spec"] == {"kubeconfig": None}
    assert b"/etc/secret" not in answer.content
    assert client(cast.ann).get("/api/v1/clusters/north").json() == item


def test_a_researcher_sees_no_cluster(cast: Cast, fleet: None) -> None:
    rosa = client(cast.rosa)

    assert rosa.get("/api/v1/clusters").json()["items"] == []
    foreign, unknown = rosa.get("/api/v1/clusters/north"), rosa.get("/api/v1/clusters/nowhere")
    assert foreign.status_code == unknown.status_code == 404
    assert foreign.content == unknown.content


def test_everybody_sees_what_is_free_and_only_the_platform_who_holds(cast: Cast, fleet: None) -> None:
    researcher, engineer = (
        client(user).get("/api/v1/devices").json()["items"] for user in (cast.rosa, cast.petra)
    )

    assert [(gpu["uuid"], gpu["sharing_mode"], gpu["free"]) for gpu in researcher] == [
        ("GPU-a", "exclusive", 1),
        ("GPU-b", "mig", 1),
    ]
    assert [gpu["holders"] for gpu in researcher] == [None, None]
    assert engineer[1]["holders"] == [
        {
            "namespace": "vision-x",
            "claim": "nb-gpu",
            "pods": ["nb-0"],
            "workload": None,
            "gpu_memory": None,
        }
    ]
    assert [part["start"] for part in engineer[1]["mig_layout"]] == [0, 1]


def test_a_list_of_devices_is_paged_to_its_end(cast: Cast, fleet: None) -> None:
    petra = client(cast.petra)

    first = petra.get("/api/v1/devices?limit=1&include_total=true").json()
    second = petra.get(first["next"]).json()

    assert (first["total"], second["next"]) == (2, None)
    assert [page["items"][0]["uuid"] for page in (first, second)] == ["GPU-a", "GPU-b"]
    assert petra.get("/api/v1/devices/GPU-b").json() == second["items"][0]


@pytest.mark.parametrize("query", ["cursor=%%%", "limit=0", "limit=x", "colour=red"])
def test_a_wrong_parameter_is_named(cast: Cast, query: str) -> None:
    answer = client(cast.petra).get(f"/api/v1/devices?{query}")

    assert answer.status_code == 400
    assert answer.json()["errors"][0]["parameter"] == query.partition("=")[0]
