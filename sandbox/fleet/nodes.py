"""Node objects of a fleet: labels as GPU feature discovery writes them, taints, capacity, conditions.

Pure: a fleet and a time in, API objects out. Writes nothing.
"""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from typing import Any

from sandbox.fleet.devices import Gpu, node_gpus
from sandbox.fleet.hardware import GpuModel, MigProfile
from sandbox.fleet.spec import Fleet, Pool, SharingMode

Obj = dict[str, Any]
POOL_LABEL = "sandbox.allotment.dev/pool"
CAPACITY_LABEL = "karpenter.sh/capacity-type"
SHARED_RESOURCE = "nvidia.com/gpu.shared"
_HEALTHY = (
    ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
)


def node_object(fleet: Fleet, name: str, seed: int, now: datetime) -> Obj:
    """The Node `name` of the fleet, ready. GPUs given out by DRA are in ResourceSlices, not in its
    capacity.
    """
    pool = fleet.pool_of(name)
    if pool is None:
        raise ValueError(f"the fleet has no node {name}")
    gpus = node_gpus(fleet, name, pool, seed)
    resources = _resources(pool)
    node: Obj = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {**_node_labels(name, pool), **gpu_labels(fleet, pool, gpus)},
            "annotations": {"node.alpha.kubernetes.io/ttl": "0"},
        },
        "spec": {},
        "status": {
            "capacity": resources,
            "allocatable": dict(resources),
            "conditions": node_conditions(now),
            "addresses": [
                {"type": "InternalIP", "address": _address(fleet, name)},
                {"type": "Hostname", "address": name},
            ],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
            "nodeInfo": _node_info(fleet, name),
        },
    }
    if pool.taints:
        node["spec"]["taints"] = [
            {"key": t.key, "value": t.value, "effect": t.effect.value} for t in pool.taints
        ]
    return node


def node_conditions(now: datetime) -> list[Obj]:
    """The four conditions of a healthy kubelet."""
    stamp = now.strftime("%Y-%m-%dT%H:%M:%SZ")
    return [
        {
            "type": kind,
            "status": status,
            "reason": reason,
            "message": message,
            "lastHeartbeatTime": stamp,
            "lastTransitionTime": stamp,
        }
        for kind, status, reason, message in _HEALTHY
    ]


def _resources(pool: Pool) -> dict[str, str]:
    resources = {
        "cpu": pool.cpu,
        "memory": pool.memory,
        "pods": "110",
        "ephemeral-storage": "1Ti",
        "hugepages-1Gi": "0",
        "hugepages-2Mi": "0",
    }
    if pool.sharing.mode is SharingMode.TIME_SLICING:
        resources[SHARED_RESOURCE] = str(pool.gpus_per_node * pool.sharing.replicas)
    return resources | {name: str(count) for name, count in pool.others}


def _node_labels(name: str, pool: Pool) -> dict[str, str]:
    return {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "beta.kubernetes.io/os": "linux",
        "beta.kubernetes.io/arch": "amd64",
        "topology.kubernetes.io/region": "sandbox",
        "topology.kubernetes.io/zone": "sandbox-a",
        "node.kubernetes.io/instance-type": pool.name,
        CAPACITY_LABEL: pool.capacity.value,
        POOL_LABEL: pool.name,
    }


def gpu_labels(fleet: Fleet, pool: Pool, gpus: list[Gpu]) -> dict[str, str]:
    """GPU feature discovery's labels, MIG strategy `mixed`; memory in MiB. Nothing on a node without GPUs."""
    model = pool.model
    if model is None:
        return {}
    mode = pool.sharing.mode
    labels = {
        "nvidia.com/gpu.present": "true",
        "nvidia.com/gpu.machine": f"Simulated-{pool.name}",
        "nvidia.com/gpu.count": str(len(gpus)),
        "nvidia.com/gpu.replicas": str(pool.sharing.replicas),
        "nvidia.com/gpu.sharing-strategy": "time-slicing" if mode is SharingMode.TIME_SLICING else "none",
        "nvidia.com/mps.capable": "false",
        "nvidia.com/mig.capable": str(model.mig_capable).lower(),
        "nvidia.com/mig.strategy": "mixed",
        **_model_labels(model),
        **_version_labels(fleet),
    }
    if model.mig_capable:
        labels["nvidia.com/mig.config"] = (
            "all-disabled" if mode is not SharingMode.MIG else f"custom-{pool.name}"
        )
        labels["nvidia.com/mig.config.state"] = "success"
    if mode is SharingMode.TIME_SLICING:
        labels["nvidia.com/device-plugin.config"] = f"time-slicing-{pool.sharing.replicas}"
    counts = Counter(instance.placement.profile for gpu in gpus for instance in gpu.instances)
    for profile, count in counts.items():
        labels.update(_mig_labels(model, profile, count))
    return labels


def _model_labels(model: GpuModel) -> dict[str, str]:
    return {
        "nvidia.com/gpu.product": model.product_label,
        "nvidia.com/gpu.memory": str(model.memory_mib),
        "nvidia.com/gpu.family": model.family,
        "nvidia.com/gpu.mode": "compute",
        "nvidia.com/gpu.compute.major": str(model.compute_capability[0]),
        "nvidia.com/gpu.compute.minor": str(model.compute_capability[1]),
    }


def _version_labels(fleet: Fleet) -> dict[str, str]:
    driver = [*fleet.versions.driver.split("."), ""]
    cuda = fleet.versions.cuda.split(".")
    return {
        "nvidia.com/cuda.driver-version.major": driver[0],
        "nvidia.com/cuda.driver-version.minor": driver[1],
        "nvidia.com/cuda.driver-version.revision": driver[2],
        "nvidia.com/cuda.driver-version.full": fleet.versions.driver,
        "nvidia.com/cuda.runtime-version.major": cuda[0],
        "nvidia.com/cuda.runtime-version.minor": cuda[1],
        "nvidia.com/cuda.runtime-version.full": fleet.versions.cuda,
    }


def _mig_labels(model: GpuModel, profile: MigProfile, count: int) -> dict[str, str]:
    prefix = f"nvidia.com/mig-{profile.name.replace('+', '.')}"
    values = {
        "count": count,
        "product": f"{model.product_label}-MIG-{profile.name.replace('+', '.')}",
        "memory": profile.memory_mib,
        "multiprocessors": profile.multiprocessors,
        "slices.gi": profile.compute_slices,
        "slices.ci": profile.compute_slices,
        "engines.copy": profile.copy_engines,
        "engines.decoder": profile.decoders,
        "engines.encoder": 0,
        "engines.jpeg": profile.jpeg_engines,
        "engines.ofa": profile.ofa_engines,
        "replicas": 1,
        "sharing-strategy": "none",
    }
    return {f"{prefix}.{key}": str(value) for key, value in values.items()}


def _address(fleet: Fleet, name: str) -> str:
    index = [node for node, _ in fleet.node_pools()].index(name)
    return f"10.64.{index // 250}.{index % 250 + 4}"


def _node_info(fleet: Fleet, name: str) -> Obj:
    return {
        "architecture": "amd64",
        "bootID": "",
        "containerRuntimeVersion": "containerd://2.1.4",
        "kernelVersion": "6.8.0-simulated",
        "kubeProxyVersion": "",
        "kubeletVersion": fleet.versions.kubernetes,
        "machineID": name,
        "operatingSystem": "linux",
        "osImage": "Allotment sandbox (simulated)",
        "systemUUID": name,
    }
