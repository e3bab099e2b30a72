"""ResourceSlices and DeviceClasses as NVIDIA's DRA driver v0.4.1 publishes them (static MIG).

Pure: devices in, API objects out. Pools on the device plugin (time-slicing) publish no slice, because the
driver must not share a node with the plugin.
"""

from __future__ import annotations

import hashlib
from typing import Any

from sandbox.fleet.devices import Device, gpu_devices, node_gpus
from sandbox.fleet.spec import Fleet, SharingMode

Obj = dict[str, Any]
DRIVER = "gpu.nvidia.com"
_SUFFIX_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"


def resource_slice(fleet: Fleet, node: str, seed: int) -> Obj | None:
    """The node's slice: one pool named after the node, generation 1; None where DRA serves no device."""
    pool = fleet.pool_of(node)
    if pool is None or pool.model is None or pool.sharing.mode is SharingMode.TIME_SLICING:
        return None
    devices = [d for gpu in node_gpus(fleet, node, pool, seed) for d in gpu_devices(gpu)]
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": f"{node}-{DRIVER}-{_suffix(f'{seed}/{node}')}"},
        "spec": {
            "driver": DRIVER,
            "nodeName": node,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            "devices": [device_object(device) for device in devices],
        },
    }


def device_object(device: Device) -> Obj:
    """One device with the driver's attributes and capacity (memory in bytes, as a binary quantity)."""
    return {"name": device.name, "attributes": _attributes(device), "capacity": _capacity(device)}


def _attributes(device: Device) -> Obj:
    gpu, model = device.gpu, device.gpu.model
    shared: Obj = {
        "productName": {"string": model.product_name},
        "brand": {"string": "Nvidia"},
        "architecture": {"string": model.architecture},
        "cudaComputeCapability": {
            "version": f"{model.compute_capability[0]}.{model.compute_capability[1]}.0"
        },
        "driverVersion": {"version": semantic_version(gpu.driver)},
        "cudaDriverVersion": {"version": semantic_version(gpu.cuda)},
        "resource.kubernetes.io/pcieRoot": {"string": gpu.pcie_root},
        "resource.kubernetes.io/pciBusID": {"string": gpu.pci_bus_id},
    }
    if device.instance is None:
        return {"type": {"string": "gpu"}, "uuid": {"string": gpu.uuid}, **shared}
    return {
        "type": {"string": "mig"},
        "uuid": {"string": device.instance.uuid},
        "parentUUID": {"string": gpu.uuid},
        "profile": {"string": device.instance.placement.profile.name},
        **shared,
    }


def _capacity(device: Device) -> Obj:
    memory = {"memory": {"value": f"{device.memory_mib}Mi"}}
    if device.instance is None:
        return memory
    placement = device.instance.placement
    profile = placement.profile
    counts = {
        "multiprocessors": profile.multiprocessors,
        "copyEngines": profile.copy_engines,
        "decoders": profile.decoders,
        "encoders": 0,
        "jpegEngines": profile.jpeg_engines,
        "ofaEngines": profile.ofa_engines,
        **{f"memorySlice{placement.start + n}": 1 for n in range(profile.memory_slices)},
    }
    return {**memory, **{name: {"value": str(value)} for name, value in counts.items()}}


def semantic_version(text: str) -> str:
    """The driver parses its versions as semantic ones: three numbers without leading zeros."""
    parts = [str(int(part)) for part in text.split(".")]
    return ".".join([*parts, "0", "0"][:3])


def device_classes() -> list[Obj]:
    """The DeviceClasses the driver's chart installs on resource.k8s.io/v1."""
    domain = "compute-domain.nvidia.com"
    kind = "device.driver == '{0}' && device.attributes['{0}'].type == '{1}'"
    return [
        _class("gpu.nvidia.com", kind.format(DRIVER, "gpu"), extended="nvidia.com/gpu"),
        _class("mig.nvidia.com", kind.format(DRIVER, "mig")),
        _class("vfio.gpu.nvidia.com", kind.format(DRIVER, "vfio")),
        _class("compute-domain-daemon.nvidia.com", kind.format(domain, "daemon")),
        _class(
            "compute-domain-default-channel.nvidia.com",
            f"{kind.format(domain, 'channel')} && device.attributes['{domain}'].id == 0",
        ),
    ]


def _class(name: str, expression: str, *, extended: str = "") -> Obj:
    spec: Obj = {"selectors": [{"cel": {"expression": expression}}]}
    if extended:
        spec["extendedResourceName"] = extended
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": name},
        "spec": spec,
    }


def _suffix(salt: str) -> str:
    digest = hashlib.sha256(salt.encode()).digest()
    return "".join(_SUFFIX_ALPHABET[byte % len(_SUFFIX_ALPHABET)] for byte in digest[:5])
