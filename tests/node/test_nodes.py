"""What happens to nodes: a power cut, a second one; and what is asked of the kubelet itself."""

import json

import pytest

from agent.podresources import Kubelet
from apps.workloads.specs import Phase
from tests.node.asking import jupyter_of, notebook, pod_of
from tests.node.cluster import NodeCluster
from tests.workloads.on_plane import House

pytestmark = [
    pytest.mark.node, pytest.mark.exhaustive, pytest.mark.django_db, pytest.mark.timeout(500)
]  # fmt: skip


def test_the_kubelet_tells_the_agent_who_holds_which_device(
    node_house: House, node_cluster: NodeCluster
) -> None:
    row = notebook(node_house, "nb")
    node_house.reaches(row, Phase.RUNNING, 120)
    kubelet = Kubelet(node_cluster.node("node1").place.file("kubelet/pod-resources/kubelet.sock"))
    try:
        told = {
            (holder.namespace, holder.pod): place
            for place, holders in kubelet.holdings().by_place.items()
            for holder in holders
        }
    finally:
        kubelet.close()
    pod = pod_of(node_house, row)["metadata"]
    minor, profile, start = told[pod["namespace"], pod["name"]]
    (device,) = row.placement[0]["devices"]
    assert device["name"] == f"node1/gpu-{minor}-mig-1g10gb-{profile}-{start}"


def test_a_command_runs_in_the_container(node_house: House) -> None:
    row = notebook(node_house, "nb")
    node_house.reaches(row, Phase.RUNNING, 120)
    pod = pod_of(node_house, row)["metadata"]
    said = node_house.plane.kubectl(
        "exec", "-n", pod["namespace"], pod["name"], "--", "sh", "-c", "id -u; pwd"
    )
    assert said.split() == ["1000", "/home/jovyan"]


def test_a_power_cut_is_told_and_the_notebook_is_back_with_the_node(
    node_house: House, node_cluster: NodeCluster
) -> None:
    row = notebook(node_house, "nb")
    node_house.reaches(row, Phase.RUNNING, 120)
    jupyter_of(node_house, row).run("open('kept', 'w').write('work')")
    node_cluster.cut_power("node1")
    try:
        node_house.until(lambda: node_house.phase(row) != Phase.RUNNING, "the product to see it", 120)
    finally:
        node_cluster.start_node("node1")
    node_house.reaches(row, Phase.RUNNING, 180)
    assert jupyter_of(node_house, row).run("print(open('kept').read())") == "work\n"


def test_two_nodes_whose_pods_reach_each_other(node_house: House, node_cluster: NodeCluster) -> None:
    """The first node takes no more once it has the first of two."""
    node_cluster.start_node("node2")
    try:
        first = notebook(node_house, "first", memory="512Mi")
        node_house.reaches(first, Phase.RUNNING, 120)
        other = {"node1": "node2", "node2": "node1"}[first.placement[0]["node"]]
        node_house.plane.kubectl("cordon", first.placement[0]["node"])
        second = notebook(node_house, "second", memory="512Mi")
        node_house.reaches(second, Phase.RUNNING, 120)
        assert second.placement[0]["node"] == other
        address = pod_of(node_house, second)["status"]["podIP"]
        ask = f"import urllib.request as r; print(r.urlopen('http://{address}:8888/api').read().decode())"
        assert "version" in json.loads(jupyter_of(node_house, first).run(ask))
    finally:
        node_house.plane.kubectl("uncordon", "node1", "node2")
        node_house.clear_workloads()
        node_cluster.cut_power("node2")
        node_house.plane.kubectl("delete", "node", "node2")
