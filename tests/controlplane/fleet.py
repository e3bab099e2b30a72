"""GPU nodes as a cluster with NVIDIA's GPU feature discovery and DRA driver v0.4.1 shows them.

Pure functions that return Node and ResourceSlice dicts; applies nothing. Static MIG: a GPU in MIG mode
publishes its slices and not itself. Attributes, names and units are those of the driver's source.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Document = dict[str, Any]

DRIVER = "gpu.nvidia.com"
_MIB = 1024 * 1024
_FLEET_NAMESPACE = uuid.UUID("6a1f3c9e-0d7b-4f52-9b8e-3f2a51c7d440")


@dataclass(frozen=True)
class Profile:
    """One MIG profile of a model: memory in MiB, engines per instance, size in memory slices."""

    name: str
    profile_id: int
    memory: int
    multiprocessors: int
    size: int
    compute_slices: int
    engines: int


@dataclass(frozen=True)
class Model:
    """What NVML reports about a GPU model; memory in MiB."""

    product: str
    architecture: str
    family: str
    capability: tuple[int, int]
    memory: int


H100 = Model("NVIDIA H100 80GB HBM3", "Hopper", "hopper", (9, 0), 81559)
L4 = Model("NVIDIA L4", "Ada Lovelace", "ada-lovelace", (8, 9), 23034)

# NVIDIA MIG user guide, H100 80GB; copy engines, decoders and JPEG engines come in equal numbers.
H100_PROFILES: Mapping[str, Profile] = {
    profile.name: profile
    for profile in (
        Profile("1g.10gb", 19, 9984, 16, 1, 1, 1),
        Profile("2g.20gb", 14, 20096, 32, 2, 2, 2),
        Profile("3g.40gb", 9, 40448, 60, 4, 3, 3),
        Profile("7g.80gb", 0, 81152, 132, 8, 7, 7),
    )
}


@dataclass(frozen=True)
class Gpu:
    """One physical GPU: whole where `slices` is empty, else cut into (profile, first memory slice)."""

    model: Model
    slices: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True)
class FleetNode:
    """One node: its GPUs in order of their minor number, its CPUs and its memory in GiB."""

    name: str
    gpus: tuple[Gpu, ...]
    cpus: int = 64
    memory: int = 512


_SEVENTHS = Gpu(H100, tuple(("1g.10gb", start) for start in range(7)))
_CUT = FleetNode("gpu-01", (Gpu(H100, (("1g.10gb", 0), ("3g.40gb", 4))),))
FLEETS: Mapping[str, tuple[FleetNode, ...]] = {
    "none": (),
    "small": (_CUT,),
    "wide": tuple(FleetNode(f"gpu-{number:02}", (_SEVENTHS,) * 8) for number in range(1, 4)),
    "story": (_CUT, FleetNode("gpu-02", (Gpu(H100), Gpu(H100))), FleetNode("gpu-03", (Gpu(L4),))),
}


def nodes(fleet: Sequence[FleetNode]) -> list[Document]:
    """The Node objects of a fleet, with status as a kubelet would report it."""
    return [_node(node) for node in fleet]


def resource_slices(fleet: Sequence[FleetNode], node_uids: Mapping[str, str]) -> list[Document]:
    """One ResourceSlice and one pool per node, owned by its Node, as published without DynamicMIG."""
    return [_resource_slice(node, node_uids[node.name]) for node in fleet]


def devices(node: FleetNode) -> list[Document]:
    """The devices of a node in the driver's order: by GPU, then by name."""
    return [device for minor in range(len(node.gpus)) for device in _devices_of(node, minor)]


def _node(node: FleetNode) -> Document:
    resources = {
        "cpu": str(node.cpus),
        "memory": f"{node.memory}Gi",
        "pods": "110",
        "ephemeral-storage": "1Ti",
    }
    labels = {
        "kubernetes.io/hostname": node.name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "node.kubernetes.io/instance-type": f"gpu-{len(node.gpus)}",
        **discovery_labels(node),
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": node.name, "labels": labels, "annotations": {"kwok.x-k8s.io/node": "fake"}},
        "status": {"capacity": resources, "allocatable": resources},
    }


def discovery_labels(node: FleetNode) -> dict[str, str]:
    """What NVIDIA's GPU feature discovery tells of a node."""
    model = node.gpus[0].model
    cut = [name for gpu in node.gpus for name, _ in gpu.slices]
    values = {
        "gpu.present": "true",
        "gpu.product": model.product.replace(" ", "-"),
        "gpu.count": str(len(node.gpus)),
        "gpu.memory": str(model.memory),
        "gpu.replicas": "1",
        "gpu.family": model.family,
        "gpu.mode": "compute",
        "gpu.machine": "Allotment-Test-Node",
        "gpu.sharing-strategy": "none",
        "gpu.compute.major": str(model.capability[0]),
        "gpu.compute.minor": str(model.capability[1]),
        "mig.capable": str(model is H100).lower(),
        "mig.strategy": "mixed" if cut else "none",
        "cuda.driver-version.full": "580.95.05",
        "cuda.runtime-version.full": "13.0",
    }
    for name in sorted(set(cut)):
        values |= _profile_labels(H100_PROFILES[name], cut.count(name))
    return {f"nvidia.com/{key}": value for key, value in values.items()}


def _profile_labels(profile: Profile, count: int) -> dict[str, str]:
    prefix = f"mig-{profile.name}"
    return {
        f"{prefix}.count": str(count),
        f"{prefix}.memory": str(profile.memory),
        f"{prefix}.multiprocessors": str(profile.multiprocessors),
        f"{prefix}.slices.gi": str(profile.compute_slices),
        f"{prefix}.slices.ci": str(profile.compute_slices),
    }


def _resource_slice(node: FleetNode, uid: str) -> Document:
    owner = {"apiVersion": "v1", "kind": "Node", "name": node.name, "uid": uid, "controller": True}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        # The driver lets the API server append a random suffix; a fixed one keeps a second apply a no-op.
        "metadata": {"name": f"00000000-{DRIVER}-{node.name}-{uid[:5]}", "ownerReferences": [owner]},
        "spec": {
            "driver": DRIVER,
            "nodeName": node.name,
            "pool": {"name": node.name, "generation": 1, "resourceSliceCount": 1},
            "devices": devices(node),
        },
    }


def _devices_of(node: FleetNode, minor: int) -> list[Document]:
    gpu = node.gpus[minor]
    if not gpu.slices:
        return [_whole(node, minor)]
    cut = [_mig(node, minor, H100_PROFILES[name], start) for name, start in gpu.slices]
    return sorted(cut, key=lambda device: str(device["name"]))


def _whole(node: FleetNode, minor: int) -> Document:
    attributes = {"type": {"string": "gpu"}, "uuid": {"string": _gpu_uuid(node, minor)}}
    return {
        "name": f"gpu-{minor}",
        "attributes": attributes | _common_attributes(node, minor),
        "capacity": {"memory": {"value": f"{node.gpus[minor].model.memory}Mi"}},
    }


def _mig(node: FleetNode, minor: int, profile: Profile, start: int) -> Document:
    attributes = {
        "type": {"string": "mig"},
        "uuid": {"string": f"MIG-{_identity(node, minor, f'{profile.name}-{start}')}"},
        "parentUUID": {"string": _gpu_uuid(node, minor)},
        "profile": {"string": profile.name},
    }
    counts = {
        "multiprocessors": profile.multiprocessors,
        "copyEngines": profile.engines,
        "decoders": profile.engines,
        "encoders": 0,
        "jpegEngines": profile.engines,
        "ofaEngines": 1 if profile.size == 8 else 0,
        **{f"memorySlice{index}": 1 for index in range(start, start + profile.size)},
    }
    capacity = {"memory": f"{profile.memory}Mi", **{name: str(count) for name, count in counts.items()}}
    return {
        "name": f"gpu-{minor}-mig-{profile.name.replace('.', '')}-{profile.profile_id}-{start}",
        "attributes": attributes | _common_attributes(node, minor),
        "capacity": {name: {"value": value} for name, value in capacity.items()},
    }


def _common_attributes(node: FleetNode, minor: int) -> Document:
    model = node.gpus[minor].model
    major, small = model.capability
    return {
        "productName": {"string": model.product},
        "brand": {"string": "Nvidia"},
        "architecture": {"string": model.architecture},
        "cudaComputeCapability": {"version": f"{major}.{small}.0"},
        # The driver prints 580.95.05 as a semantic version.
        "driverVersion": {"version": "580.95.5"},
        "cudaDriverVersion": {"version": "13.0.0"},
        "resource.kubernetes.io/pciBusID": {"string": f"0000:{0x18 + 8 * minor:02x}:00.0"},
        "resource.kubernetes.io/pcieRoot": {"string": f"pci0000:{0x15 + 8 * minor:02x}"},
    }


def _gpu_uuid(node: FleetNode, minor: int) -> str:
    return f"GPU-{_identity(node, minor, 'gpu')}"


def _identity(node: FleetNode, minor: int, part: str) -> uuid.UUID:
    """Stable over runs, so that golden files and ledgers can name a device."""
    return uuid.uuid5(_FLEET_NAMESPACE, f"{node.name}/{minor}/{part}")
