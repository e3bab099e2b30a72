"""The mirror keeps what is read, and nothing that is secret or noisy."""

import json
from typing import Any

import pytest

from apps.cluster.objects import queueing
from apps.cluster.objects.kinds import KINDS
from apps.workloads.cores_specs import CoresPlace
from apps.workloads.manifests import rendering
from apps.workloads.spec import parsing
from apps.workloads.specs import PlacementSpec
from tests.factories import notebook_body


def test_no_data_of_a_config_map_reaches_the_database() -> None:
    kept = KINDS["ConfigMap"].keep({"metadata": {"name": "c"}, "data": {"password": "hunter2"}})

    assert "hunter2" not in json.dumps(kept)


def test_the_environment_of_a_container_is_not_kept_but_its_requests_are() -> None:
    container = {
        "name": "c",
        "image": "i",
        "env": [{"name": "KEY", "value": "secret"}],
        "resources": {"limits": {"x": "1"}},
    }

    kept = KINDS["Pod"].keep(
        {"metadata": {"name": "p"}, "spec": {"nodeName": "n", "containers": [container]}}
    )

    assert "secret" not in json.dumps(kept)
    assert kept["spec"]["containers"][0]["resources"] == {"limits": {"x": "1"}}
    assert kept["spec"]["nodeName"] == "n"


def test_a_heartbeat_of_a_node_changes_nothing() -> None:
    def node(beat: str) -> dict[str, Any]:
        condition = {"type": "Ready", "status": "True", "lastHeartbeatTime": beat}
        return {"metadata": {"name": "n", "resourceVersion": beat}, "status": {"conditions": [condition]}}

    assert KINDS["Node"].keep(node("1")) == KINDS["Node"].keep(node("2"))


def test_a_queue_entry_keeps_its_status_whole_and_of_its_pods_the_requests() -> None:
    template = {
        "spec": {
            "containers": [{"name": "c", "env": [{"value": "secret"}], "resources": {"limits": {"gpu": 1}}}]
        }
    }
    body = {
        "metadata": {"name": "w"},
        "spec": {"queueName": "gpu", "podSets": [{"name": "main", "count": 2, "template": template}]},
        "status": {"conditions": [{"type": "Admitted"}]},
    }

    kept = KINDS["Workload"].keep(body)

    assert kept["spec"]["podSets"] == [{"name": "main", "count": 2, "resources": [{"limits": {"gpu": 1}}]}]
    assert kept["status"] == body["status"]


def test_a_queue_entry_keeps_on_which_cores_its_pods_run_though_kueue_dropped_their_labels() -> None:
    cores = CoresPlace("cpu-dddddddddd", {})
    place = PlacementSpec("id", "nb", "vision", "vision-b", "gpu", "cpu/cpu-dddddddddd", 1, cores=cores)
    rendered = rendering.render(parsing.parse(notebook_body(offer="cpu-cores", count=0)), place)
    (spec,) = (m["spec"] for m in rendered if m["kind"] == "Pod")
    body = {"metadata": {"name": "w"}, "spec": {"podSets": [{"name": "main", "template": {"spec": spec}}]}}

    assert queueing.asks_of(KINDS["Workload"].keep(body)) == "cpu/cpu-dddddddddd"


@pytest.mark.parametrize("kind", list(KINDS))
def test_every_kind_survives_an_object_with_nothing_in_it(kind: str) -> None:
    assert KINDS[kind].keep({"metadata": {"name": "x"}})["metadata"] == {"name": "x"}


def test_a_path_cannot_be_led_astray_by_a_name() -> None:
    assert KINDS["Pod"].path("ns", "../../secrets/x?y").endswith("/pods/..%2F..%2Fsecrets%2Fx%3Fy")
