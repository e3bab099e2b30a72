"""Proves the fixture: processes come and go, Kueue queues, the scheduler allocates, kwok runs, logs answer.

The product's own behaviour on a plane is tested elsewhere.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.controlplane import documents
from tests.controlplane.plane import ControlPlane, Outage, PlaneError
from tests.patience import until

pytestmark = pytest.mark.plane

# Names of its own: suites of the product may share the plane.
OFFER = "plane-proof.dev/mig-3g.40gb"
TENANT = "plane-proof"
VISIBILITY = "/apis/visibility.kueue.x-k8s.io/v1beta2"


@pytest.fixture
def tenant(control_plane: ControlPlane) -> Iterator[ControlPlane]:
    """The plane with one tenant; afterwards its quota, its devices and its namespace are free again."""
    _apply(control_plane, _tenant())
    yield control_plane
    cluster_wide = (f"clusterqueue/{TENANT}", f"resourceflavor/{TENANT}", f"deviceclass/{TENANT}")
    control_plane.kubectl("delete", f"namespace/{TENANT}", *cluster_wide, "--timeout=50s")


@pytest.mark.exhaustive
def test_a_plane_goes_down_without_a_leftover_process(tmp_path: Path, control_plane: ControlPlane) -> None:
    """Beside the plane of the session: two on one machine do not meet."""
    with ControlPlane(tmp_path / "second", fleet_name="small", audit=True) as plane:
        assert set(plane.status().values()) == {"running"}
        assert len(_commands_naming(plane.folder)) == len(plane.status())
        assert plane.kubectl("get", "nodes", "-o", "name", as_admin=False).split() == ["node/gpu-01"]
        users = {json.loads(line)["user"]["username"] for line in plane.layout.log("audit").open()}
        assert {"system:serviceaccount:allotment-system:allotment-controller", "kueue"} <= users
    assert _commands_naming(plane.folder) == []
    assert set(control_plane.status().values()) == {"running"}


@pytest.mark.exhaustive
def test_a_component_that_dies_during_start_is_reported_with_its_log(tmp_path: Path) -> None:
    (tmp_path / "etcd").write_text("a file where etcd wants its folder")
    plane = ControlPlane(tmp_path)
    with pytest.raises(PlaneError, match=r"(?s)etcd died.*not a directory|etcd died.*file exists"):
        plane.up()
    assert _commands_naming(tmp_path) == []


@pytest.mark.exhaustive
def test_a_waiting_notebook_starts_when_the_job_ends(tenant: ControlPlane) -> None:
    """One slice of quota: a Job holds it, the notebook waits at position 0, then runs on the same device."""
    _apply(tenant, [_job("train", ["sh", "-c", "sleep 8"], gpu=True)])
    until(lambda: _phases(tenant, "job-name=train") == ["Running"])
    _apply(tenant, _notebook("nb"))
    until(lambda: _pending(tenant) == [("nb", 0)])
    assert _phases(tenant, "app=nb") == ["Pending"]
    assert _allocated_profiles(tenant) == ["gpu-0-mig-3g40gb-9-4"]
    assert "CUDA device" in tenant.kubectl("logs", "-ljob-name=train", f"-n{TENANT}", as_admin=False)
    until(lambda: _phases(tenant, "app=nb") == ["Running"])
    assert _pending(tenant) == []
    assert _allocated_profiles(tenant) == ["gpu-0-mig-3g40gb-9-4"]
    claim = tenant.kubectl("get", "pvc/nb", f"-n{TENANT}", "-o", "jsonpath={.status.phase}")
    assert claim == "Bound"
    assert tenant.kubectl("exec", "nb-0", f"-n{TENANT}", "--", "id", "-u").strip() != "0"


def test_a_job_that_exits_with_an_error_fails(tenant: ControlPlane) -> None:
    _apply(tenant, [_job("broken", ["sh", "-c", "sleep 1; exit 3"], gpu=False)])
    until(lambda: _phases(tenant, "job-name=broken") not in ([], ["Pending"], ["Running"]))
    assert _phases(tenant, "job-name=broken") == ["Failed"]

    def failed() -> str:
        return tenant.kubectl("get", "job/broken", f"-n{TENANT}", "-o", "jsonpath={.status.failed}")

    until(lambda: bool(failed()))
    assert failed() == "1", "the Job counts it and does not try again"


def test_the_product_account_reads_no_secret_and_binds_no_foreign_role(tenant: ControlPlane) -> None:
    with pytest.raises(PlaneError, match='cannot list resource "secrets"'):
        tenant.kubectl("get", "secrets", "-A", as_admin=False)
    bind = ("create", "rolebinding", f"-n{TENANT}", "--serviceaccount=allotment-access:someone")
    tenant.kubectl(*bind, "--clusterrole=allotment-tenant-member", "someone", as_admin=False)
    with pytest.raises(PlaneError, match="forbidden"):
        tenant.kubectl(*bind, "--clusterrole=cluster-admin", "admin", as_admin=False)


@pytest.mark.exhaustive
@pytest.mark.parametrize("outage", list(Outage))
def test_a_component_taken_away_comes_back(tenant: ControlPlane, outage: Outage) -> None:
    """While Kueue is away its webhook fails closed; afterwards the same request passes."""
    job = _job("probe", ["true"], gpu=False)
    dry_run = ("create", "--dry-run=server", "-f", "-")
    tenant.stop_component("kueue", outage)
    with pytest.raises(PlaneError, match=r"kb\.io"):
        tenant.kubectl(*dry_run, input=json.dumps(job))
    tenant.start_component("kueue")
    assert "job.batch/probe" in tenant.kubectl(*dry_run, input=json.dumps(job))


def _apply(plane: ControlPlane, objects: list[dict[str, Any]]) -> None:
    plane.kubectl("apply", "--server-side", "-f", "-", input=documents.dump(objects))


def _phases(plane: ControlPlane, selector: str) -> list[str]:
    path = "jsonpath={.items[*].status.phase}"
    return plane.kubectl("get", "pods", f"-n{TENANT}", "-l", selector, "-o", path).split()


def _pending(plane: ControlPlane) -> list[tuple[str, int]]:
    """Owner and position, asked as admin: the product itself reads places off its mirror."""
    answer = plane.kubectl("get", "--raw", f"{VISIBILITY}/clusterqueues/{TENANT}/pendingworkloads")
    return [
        (item["metadata"]["ownerReferences"][0]["name"], item["positionInClusterQueue"])
        for item in json.loads(answer)["items"]
    ]


def _allocated_profiles(plane: ControlPlane) -> list[str]:
    path = "jsonpath={.items[*].status.allocation.devices.results[*].device}"
    return plane.kubectl("get", "resourceclaims", f"-n{TENANT}", "-o", path).split()


def _commands_naming(folder: Path) -> list[str]:
    commands = (_command(int(entry.name)) for entry in Path("/proc").iterdir() if entry.name.isdigit())
    return [command for command in commands if str(folder) in command]


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    except (FileNotFoundError, ProcessLookupError):
        # Ended between the listing and the reading.
        return ""


def _tenant() -> list[dict[str, Any]]:
    kueue = "kueue.x-k8s.io/v1beta2"
    quotas = [("cpu", 8), ("memory", "16Gi"), (OFFER, 1)]
    resources = [{"name": name, "nominalQuota": amount} for name, amount in quotas]
    # The type first: a whole GPU has no profile, and one error stops every allocation of the class.
    selector = (
        "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'mig'"
        " && device.attributes['gpu.nvidia.com'].profile == '3g.40gb'"
    )
    labels = {"allotment.dev/managed": "true", "pod-security.kubernetes.io/enforce": "restricted"}
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": TENANT, "labels": labels}},
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "DeviceClass",
            "metadata": {"name": TENANT},
            "spec": {"selectors": [{"cel": {"expression": selector}}], "extendedResourceName": OFFER},
        },
        {"apiVersion": kueue, "kind": "ResourceFlavor", "metadata": {"name": TENANT}, "spec": {}},
        {
            "apiVersion": kueue,
            "kind": "ClusterQueue",
            "metadata": {"name": TENANT},
            "spec": {
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": TENANT}},
                "resourceGroups": [
                    {
                        "coveredResources": [name for name, _ in quotas],
                        "flavors": [{"name": TENANT, "resources": resources}],
                    }
                ],
            },
        },
        {
            "apiVersion": kueue,
            "kind": "LocalQueue",
            "metadata": {"name": "gpu", "namespace": TENANT},
            "spec": {"clusterQueue": TENANT},
        },
    ]


def _metadata(name: str) -> dict[str, Any]:
    return {"name": name, "namespace": TENANT, "labels": {"kueue.x-k8s.io/queue-name": "gpu"}}


def _job(name: str, command: list[str], *, gpu: bool) -> dict[str, Any]:
    template = {"spec": {"restartPolicy": "Never", **_pod(command, gpu=gpu)}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": _metadata(name),
        "spec": {"backoffLimit": 0, "template": template},
    }


def _notebook(name: str) -> list[dict[str, Any]]:
    volume = {"name": "home", "persistentVolumeClaim": {"claimName": name}}
    labels = {"app": name}
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    return [
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": name, "namespace": TENANT},
            "spec": claim,
        },
        {
            "apiVersion": "apps/v1",
            "kind": "StatefulSet",
            "metadata": _metadata(name),
            "spec": {
                "serviceName": name,
                "replicas": 1,
                "selector": {"matchLabels": labels},
                "template": {
                    "metadata": {"labels": labels},
                    "spec": {**_pod(["jupyter", "lab"], gpu=True), "volumes": [volume]},
                },
            },
        },
    ]


def _pod(command: list[str], *, gpu: bool) -> dict[str, Any]:
    amounts = {"cpu": "1", "memory": "1Gi", **({OFFER: "1"} if gpu else {})}
    return {
        # The namespace controller waits for half of the pods' grace before it looks again.
        "terminationGracePeriodSeconds": 0,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 1000,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [
            {
                "name": "main",
                "image": "registry.example/python:3.13",
                "command": command,
                "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
                "resources": {"requests": amounts, "limits": amounts},
            }
        ],
    }
