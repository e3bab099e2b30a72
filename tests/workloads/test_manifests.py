"""Whole manifests against golden files; the files are the contract with the API server (see test_on_plane).

To accept a wanted change: `ALLOTMENT_GOLDEN=write pytest tests/workloads/test_manifests.py`; read the diff.
"""

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from apps.cluster.objects import names
from apps.workloads import registry
from apps.workloads.cores_specs import CoresPlace
from apps.workloads.gateway_specs import GatewayPlace
from apps.workloads.manifests import pods, rendering
from apps.workloads.secret_specs import Into, SecretKey
from apps.workloads.spec import parsing
from apps.workloads.specs import Kind, PlacementSpec, WorkloadSpec
from tests import yamls
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
PRIVATE = PlacementSpec(**{**PLACE.__dict__, "keeps_image": True, "pull_secret": "allotment-registries"})
SECRET = PlacementSpec(
    **{**PLACE.__dict__, "secrets": (SecretKey("HF_TOKEN", Into.ENV), SecretKey("netrc", Into.FILE))}
)
CORES = PlacementSpec(**{**PLACE.__dict__, "cores": CoresPlace("cpu-dddddddddd", {"pool": "cpu"})})
HOST = f"{PLACE.workload_id}.apps.example.net"
ROUTED = PlacementSpec(
    **{**PLACE.__dict__, "gateway": GatewayPlace("edge", "public", HOST, "allotment-door", 8001, 8002)}
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
    "notebook-private": (
        notebook_body(image=f"registry.example/lab@sha256:{'a' * 64}"),
        PRIVATE,
        True,
    ),
    "notebook-routed": (notebook_body(), ROUTED, True),
    "job": (
        {"kind": "job", "offer": "h100-1g-10gb", "image": "python:3.13", "cpu": "500m", "memory": "1Gi",
         "command": ["python", "-c", "print(1)"], "max_run_seconds": 3600,
         "job": {"completions": 4, "parallelism": 2, "backoff_limit": 1, "completion_mode": "NonIndexed"}},
        ANNOTATED,
        True,
    ),
    "job-cores": (
        {"kind": "job", "offer": "cpu-cores", "image": "python:3.13", "count": 0, "cpu": "8",
         "memory": "32Gi", "command": ["python", "prepare.py"]},
        CORES,
        True,
    ),
    "notebook-secrets": (notebook_body(env={"HF_TOKEN": "of the request", "A": "1"}), SECRET, True),
    "array": (
        {"kind": "job", "offer": "h100-1g-10gb", "image": "python:3.13", "cpu": "500m", "memory": "1Gi",
         "command": ["python", "fold.py"], "max_run_seconds": 3600,
         "job": {"completions": 20, "parallelism": 4, "backoff_limit": 1, "max_failed_indexes": 5}},
        PLACE,
        True,
    ),
    "array-items": (
        {"kind": "job", "offer": "h100-1g-10gb", "image": "python:3.13", "cpu": "500m", "memory": "1Gi",
         "command": ["sh", "-c", "echo $JOB_COMPLETION_INDEX"], "job": {"items": "3,7-9", "parallelism": 2}},
        PLACE,
        True,
    ),
    "training": (
        {"kind": "training", "offer": "h100-whole", "image": "pytorch:2.9", "cpu": "16",
         "memory": "64Gi", "count": 4, "command": ["torchrun", "train.py"], "max_run_seconds": 3600,
         "priority": "preemptible",
         "env": {"NCCL_DEBUG": "INFO"},
         "volumes": [{"name": "checkpoints", "size": "1Ti", "mount_path": "/checkpoints"}],
         "training": {"nodes": 2, "restarts": 3}},
        PLACE,
        True,
    ),
    "service": (
        {"kind": "service", "offer": "h100-whole", "image": "vllm/vllm-openai:v0.11.0", "cpu": "8",
         "memory": "64Gi", "args": ["--model", "mistralai/Mistral-7B-v0.3"],
         "service": {"replicas": 2, "health_path": "/health", "open_to": "owner"}},
        SECRET,
        True,
    ),
    "service-plain": (
        {"kind": "service", "offer": "h100-1g-10gb", "image": "python:3.13", "cpu": "1", "memory": "1Gi",
         "command": ["python", "-m", "http.server", "8000"]},
        PLACE,
        True,
    ),
    "service-cores": (
        {"kind": "service", "offer": "cpu-cores", "image": "python:3.13", "count": 0, "cpu": "2",
         "memory": "4Gi", "command": ["python", "-m", "http.server", "8000"]},
        CORES,
        True,
    ),
    "training-stopped": (
        {"kind": "training", "offer": "h100-whole", "image": "pytorch:2.9", "cpu": "16", "memory": "64Gi",
         "volumes": [{"name": "checkpoints", "size": "1Ti", "mount_path": "/checkpoints"}]},
        PLACE,
        False,
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
    assert rendered == yamls.documents(file.read_text())


def pod_spec(manifest: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = manifest["spec"]
    return found if manifest["kind"] == "Pod" else dict(found["template"]["spec"])


def controller_of(name: str) -> dict[str, Any]:
    body, place, _ = CASES[name]
    spec = spec_of(body)
    kind = rendering.controller_kind(spec.kind)
    return next(m for m in rendering.render(spec, place) if m["kind"] == kind)


def test_a_job_never_says_whether_it_is_suspended() -> None:
    assert "suspend" not in controller_of("job")["spec"]


@pytest.mark.parametrize("name", ["array", "array-items"])
def test_neither_does_an_array(name: str) -> None:
    spec = controller_of(name)["spec"]
    assert "suspend" not in spec
    assert "backoffLimit" not in spec


def template_of(**job: Any) -> str:
    body, place, _ = CASES["array"]
    (found,) = rendering.render(spec_of({**body, "job": {**body["job"], **job}}), place)
    return str(found["metadata"]["annotations"][pods.TEMPLATE])


def test_what_never_changes_on_an_arrays_job_takes_a_new_one() -> None:
    assert len({template_of(), template_of(completions=21), template_of(backoff_limit=0)}) == 3
    assert template_of() == template_of(parallelism=2) == template_of(max_failed_indexes=None)


@pytest.mark.parametrize(("before", "after"), [(1, 3), (3, 4), (3, 1)])
def test_another_number_of_runs_that_are_alike_takes_a_new_job(before: int, after: int) -> None:
    """RULE: the runs of a Job never change, so the API server would refuse it for ever."""
    body, place, _ = CASES["job"]

    def rendered(runs: int) -> list[dict[str, Any]]:
        alike = {"completions": runs, "completion_mode": "NonIndexed"}
        return rendering.render(spec_of({**body, "job": alike}), place)

    there = next(found for found in rendered(before) if found["kind"] == "Job")
    assert rendering.is_current(there, rendered(before))
    assert not rendering.is_current(there, rendered(after))


@pytest.mark.parametrize("index", range(4))
def test_a_program_of_named_items_sees_its_items_number(index: int) -> None:
    (container,) = pod_spec(controller_of("array-items"))["containers"]
    env = {each["name"]: each["value"] for each in container["env"]} | {"JOB_COMPLETION_INDEX": str(index)}
    told = subprocess.run(container["command"], env={**os.environ, **env}, capture_output=True, check=True)
    assert told.stdout.decode() == f"{(3, 7, 8, 9)[index]}\n"


@pytest.mark.parametrize("name", ["notebook", "job"])
def test_only_the_pod_or_what_makes_pods_is_queued(name: str) -> None:
    body, place, _ = CASES[name]
    queued = [
        m["kind"]
        for m in rendering.render(spec_of(body), place)
        if "kueue.x-k8s.io/queue-name" in m["metadata"]["labels"]
    ]
    assert queued == [rendering.controller_kind(Kind(body["kind"]))]


def test_the_policy_of_a_namespace_knows_the_ports_of_all_that_is_opened() -> None:
    opened = set[str]()
    for name in ("notebook", "service"):
        found = controller_of(name)
        template = found if found["kind"] == "Pod" else found["spec"]["template"]
        assert template["metadata"]["labels"][names.LABEL_INGRESS] == "proxy"
        opened |= {port["name"] for each in template["spec"]["containers"] for port in each["ports"]}
    assert opened == set(names.INGRESS_PORTS)
    assert {kind.controller for kind in map(registry.of, Kind) if kind.opens} == {"Pod", "Deployment"}


def test_a_stopped_notebook_keeps_nothing_but_its_volume() -> None:
    body, place, running = CASES["notebook-stopped"]
    assert [m["kind"] for m in rendering.render(spec_of(body), place, running=running)] == [
        "PersistentVolumeClaim"
    ]


@pytest.mark.parametrize("name", ["notebook", "notebook-full", "job", "array-items"])
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
