"""The exporters over HTTP, logs and exec, and the command line's checks."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from sandbox import controllers, fleet
from sandbox.__main__ import main
from sandbox.api.cluster.simulated import Cluster
from sandbox.api.controllers.manager import Manager
from sandbox.fleet.faults import Fault, FaultKind, inject

NOW = datetime(2026, 11, 21, 10, tzinfo=UTC)


@pytest.fixture
def cluster() -> Cluster:
    made = Cluster.in_memory(seed=7, start=NOW)
    manager = Manager(made)
    controllers.install(made, manager)
    fleet.install(made, manager, "laptop", 7)
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-a"}}
    made.system.create("namespaces", body)
    limits = {"nvidia.com/gpu": 1}
    spec = {"containers": [{"name": "c", "image": "x:1", "resources": {"limits": limits}}]}
    made.system.create(
        "pods", {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}, "team-a"
    )
    manager.advance(60)
    return made


def test_every_gpu_node_has_an_exporter_and_a_gap_is_a_503(cluster: Cluster) -> None:
    http = TestClient(Starlette(routes=fleet.routes(cluster)))
    targets = [t["targets"][0] for t in http.get("/fleet/targets").json()]
    assert targets == ["h100-0", "a100-0", "l4-0", "t4-0"]
    answer = http.get("/fleet/nodes/h100-0/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert "DCGM_FI_PROF_SM_ACTIVE{" in answer.text
    assert http.get("/fleet/nodes/nowhere/metrics").status_code == 404
    inject(cluster.system, Fault(FaultKind.EXPORTER_GAP, "h100-0"), cluster.clock.now())
    assert http.get("/fleet/nodes/h100-0/metrics").status_code == 503


def test_logs_continue_where_the_last_window_ended(cluster: Cluster) -> None:
    pod = cluster.system.get("pods", "p", "team-a")
    assert pod is not None
    assert cluster.logs is not None
    end = cluster.clock.now()
    middle = end - timedelta(seconds=25)
    whole = list(cluster.logs.lines(pod, "c", NOW, end))
    parts = [*cluster.logs.lines(pod, "c", NOW, middle), *cluster.logs.lines(pod, "c", middle, end)]
    assert len(whole) >= 5
    assert parts == whole


def test_exec_answers_a_few_commands_and_runs_nothing(cluster: Cluster, tmp_path: Path) -> None:
    pod = cluster.system.get("pods", "p", "team-a")
    assert pod is not None
    assert cluster.exec is not None
    run = cluster.exec.run
    assert run(pod, "c", ["hostname"], NOW) == ("p\n", "", 0)
    assert "simulated" in run(pod, "c", ["nvidia-smi"], cluster.clock.now())[0]
    touched = tmp_path / "touched"
    assert run(pod, "c", ["sh", "-c", f"touch {touched}"], NOW)[2] == 127
    assert not touched.exists()


def test_the_command_line_names_the_line_of_a_wrong_fleet_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "fleet.yaml"
    file.write_text(
        "apiVersion: sandbox.allotment.dev/v1\nkind: Fleet\nname: x\npools:\n  - {name: a, model: H9}\n"
    )
    assert main(["fleet", str(file)]) == 1
    assert "line 5: fleet.pools[0].model must be one of" in capsys.readouterr().err
    assert main(["fleet", "lab"]) == 0
    assert "64 GPUs" in capsys.readouterr().out
