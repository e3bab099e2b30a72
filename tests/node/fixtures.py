"""Pytest fixtures: one cluster with a real node per test process, or the one named by ALLOTMENT_NODE_DIR."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.controlplane import binaries
from tests.controlplane.fixtures import judged
from tests.node import programs
from tests.node.cluster import NodeCluster, what_is_missing
from tests.ports import free_port

if TYPE_CHECKING:
    from tests.story.conftest import Installation
    from tests.workloads.on_plane import House


@pytest.fixture(scope="session")
def node_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeCluster]:
    """A plane with `node1` and the audit log on; tests share it, so each uses its own names."""
    running = os.environ.get("ALLOTMENT_NODE_DIR")
    if running:
        yield NodeCluster(Path(running))
        return
    problem = what_is_missing()
    if not problem and None in (binaries.find(), binaries.find(programs.NODE)):
        # A cold build takes minutes: longer than the time limit of the test that would pay for it.
        problem = "the nodes' programs are not built; run `python -m tests.node build` once"
    if problem:
        pytest.fail(problem)
    folder = tmp_path_factory.mktemp("nodes")
    with NodeCluster(folder, audit=True) as cluster, judged(folder):
        yield cluster


@pytest.fixture
def node_house(node_cluster: NodeCluster, db: None) -> Iterator[House]:
    """A tenant of its own whose pods run in containers, with the product's workers by hand."""
    from tests.workloads.on_plane import House

    made = House(node_cluster.plane, is_simulated=False)
    yield made
    made.clear()


@pytest.fixture
def on_nodes(node_cluster: NodeCluster, tmp_path: Path) -> Iterator[Installation]:
    """`make demo CLUSTER=...` on a cluster whose pods run; what it leaves there is removed."""
    from tests.story.conftest import Installation, running

    port, plane = free_port(run=2), node_cluster.plane
    try:
        with running(tmp_path / "home", port, "--cluster", str(plane.kubeconfig)) as (output, _):
            yield Installation(f"http://127.0.0.1:{port}", tmp_path / "home", plane, output)
    finally:
        plane.kubectl("delete", "namespaces", "-l", "allotment.dev/tenant=vision")
