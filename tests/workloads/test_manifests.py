"""Whole manifests against golden files; the files are the contract with the API server (see test_on_plane).

To accept a wanted change: `ALLOTMENT_GOLDEN=write pytest tests/workloads/test_manifests.py`; read the diff.
"""

import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from apps.workloads.manifests import rendering
from apps.workloads.spec import parsing
from apps.workloads.specs import Kind, PlacementSpec, WorkloadSpec
from tests.factories import notebook_body

GOLDEN = Path(__file__).parent.parent / "golden" / "workloads"
PLACE = PlacementSpec(
    workload_id="0199f3c2-0000-7000-8000-000000000001",
    object_name="nb-ada-aaaaaaaaaa",
    tenant="vision",
    namespace="vision-bbbbbbbbbb",
    queue="gpu",
    resource_name="allotment.dev/h100-1g-10gb",
    generation=3,
)
ANNOTATED = PlacementSpec(
    **{**PLACE.__dict__, "annotations": {"pod-complete.stage.kwok.x-k8s.io/delay": "12s"}}
)
CASES: dict[str, tuple[dict[str, Any], PlacementSpec, bool]] = {
    "notebook": ({"kind": "notebook", "offer": "h100-1g-10gb", "memory": "16Gi", "cpu": "2"}, PLACE, True),
    "notebook-stopped": (notebook_body(), PLACE, False),
    "notebook-full": (
        notebook_body(
            count=2,
            command=["jupyter"],
            args=["lab", "--port=8888"],
            env={"HOME": "/work", "MODE": "a\nb"},
            volumes=[{"name": "data", "size": "1Ti", "mount_path": "/data"}],
        ),
        PLACE,
        True,
    ),
    "job": (
        {"kind": "job", "offer": "h100-1g-10gb", "image": "python:3.13", "cpu": "500m", "memory": "1Gi",
         "command": ["python", "-c", "print(1)"], "max_run_seconds": 3600,
         "job": {"completions": 4, "parallelism": 2, "backoff_limit": 1}},
        ANNOTATED,
        True,
    ),
}  # fmt: skip


def spec_of(body: dict[str, Any]) -> WorkloadSpec:
    return parsing.parse(body)


@pytest.mark.parametrize("name", CASES)
def test_the_manifests_are_the_golden_ones(name: str) -> None:
    body, place, running = CASES[name]
    rendered = rendering.render(spec_of(body), place, running=running)
    file = GOLDEN / f"{name}.yaml"
    if os.environ.get("ALLOTMENT_GOLDEN") == "write":
        file.write_text(yaml.safe_dump_all(rendered, sort_keys=False))
    assert rendered == list(yaml.safe_load_all(file.read_text()))


def pod_spec(manifest: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = manifest["spec"]["template"]["spec"]
    return found


def controller_of(name: str) -> dict[str, Any]:
    body, place, _ = CASES[name]
    spec = spec_of(body)
    kind = rendering.controller_kind(spec.kind)
    return next(m for m in rendering.render(spec, place) if m["kind"] == kind)


def test_a_job_never_says_whether_it_is_suspended() -> None:
    assert "suspend" not in controller_of("job")["spec"]


def test_a_notebook_is_never_scaled_to_nothing() -> None:
    assert controller_of("notebook")["spec"]["replicas"] == 1


@pytest.mark.parametrize("name", ["notebook", "job"])
def test_only_the_object_that_makes_pods_is_queued(name: str) -> None:
    body, place, _ = CASES[name]
    queued = [
        m["kind"]
        for m in rendering.render(spec_of(body), place)
        if "kueue.x-k8s.io/queue-name" in m["metadata"]["labels"]
    ]
    assert queued == [rendering.controller_kind(Kind(body["kind"]))]


def test_a_stopped_notebook_keeps_nothing_but_its_volume() -> None:
    body, place, running = CASES["notebook-stopped"]
    assert [m["kind"] for m in rendering.render(spec_of(body), place, running=running)] == [
        "PersistentVolumeClaim"
    ]


@pytest.mark.parametrize("name", ["notebook", "notebook-full", "job"])
def test_pods_meet_the_restricted_profile(name: str) -> None:
    pod = pod_spec(controller_of(name))
    (container,) = pod["containers"]
    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] > 0
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
    }
    assert {v["name"] for v in pod["volumes"]} == {m["name"] for m in container["volumeMounts"]}


def test_the_users_own_home_wins() -> None:
    (container,) = pod_spec(controller_of("notebook-full"))["containers"]
    assert {"name": "HOME", "value": "/work"} in container["env"]
