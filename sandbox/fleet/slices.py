"""ResourceSlices and DeviceClasses as NVIDIA's DRA driver v0.4.1 publishes them: whole GPUs, static MIG, and
boards that are cut on demand (its gate DynamicMIG), in the shape of Kubernetes 1.35 and newer.

Pure: devices in, API objects out. Pools on the device plugin (time-slicing) publish no slice, because the
driver must not share a node with the plugin.
"""

from __future__ import annotations

import hashlib
import re
from typing import Any

from sandbox.fleet.devices import Device, Gpu, node_gpus, offered_devices
from sandbox.fleet.hardware import GpuModel, MigProfile
from sandbox.fleet.spec import Fleet, SharingMode

Obj = dict[str, Any]
DRIVER = "gpu.nvidia.com"
_CAPITAL = re.compile("[A-Z]")
_SUFFIX_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"


def resource_slices(fleet: Fleet, node: str, seed: int) -> list[Obj]:
    """The node's slices: one pool named after the node, generation 1; none where DRA serves no device.

    RULE: one slice holds everything; of boards that are cut on demand one holds the counters of all and each
    board has one with its devices, because the API takes no slice with both.
    """
    pool = fleet.pool_of(node)
    if pool is None or pool.model is None or pool.sharing.mode is SharingMode.TIME_SLICING:
        return []
    gpus, salt = node_gpus(fleet, node, pool, seed), f"{seed}/{node}"
    if pool.sharing.mode is not SharingMode.MIG_ON_DEMAND:
        return [_slice(node, salt, 1, devices=[each for gpu in gpus for each in _devices(gpu)])]
    count = len(gpus) + 1
    counters = [{"name": _counter_set(gpu), "counters": _of_board(gpu.model)} for gpu in gpus]
    return [
        _slice(node, f"{salt}/counters", count, sharedCounters=counters),
        *(_slice(node, f"{salt}/{gpu.minor}", count, devices=_devices(gpu)) for gpu in gpus),
    ]


def _slice(node: str, salt: str, count: int, **content: list[Obj]) -> Obj:
    pool = {"name": node, "generation": 1, "resourceSliceCount": count}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": f"{node}-{DRIVER}-{_suffix(salt)}"},
        "spec": {"driver": DRIVER, "nodeName": node, "pool": pool, **content},
    }


def _devices(gpu: Gpu) -> list[Obj]:
    return [device_object(device) for device in offered_devices(gpu)]


def device_object(device: Device) -> Obj:
    """One device with the driver's attributes and capacity (memory in bytes, as a binary quantity), and with
    what it takes of its board's counters where that is cut on demand.

    Devices in shares are no driver's of NVIDIA: Kubernetes has them (consumable capacity), so a driver may.
    """
    body: Obj = {"name": device.name, "attributes": _attributes(device), "capacity": _capacity(device)}
    if device.gpu.in_shares:
        body["allowMultipleAllocations"] = True
    if not device.gpu.possible:
        return body
    taken = [{"counterSet": _counter_set(device.gpu), "counters": _taken(device)}]
    return {**body, "consumesCounters": taken}


def _counter_set(gpu: Gpu) -> str:
    return f"{gpu.device_name}-counter-set"


def _of_board(model: GpuModel) -> Obj:
    """What a board has: what its largest profile has, and its memory slices."""
    return _counters(_most(model), range(model.memory_slices))


def _taken(device: Device) -> Obj:
    """A whole board takes all that it has, an instance its capacity and its memory slices."""
    if device.instance is None:
        return _of_board(device.gpu.model)
    placement = device.instance.placement
    ends = placement.start + placement.profile.memory_slices
    return _counters(_profile_capacity(placement.profile), range(placement.start, ends))


def _counters(capacity: dict[str, str], memory_slices: range) -> Obj:
    """RULE of the driver: a counter is named as the capacity is, with hyphens."""
    named = {_CAPITAL.sub(lambda found: f"-{found[0].lower()}", name): v for name, v in capacity.items()}
    named |= {f"memory-slice-{number}": "1" for number in memory_slices}
    return {name: {"value": value} for name, value in named.items()}


def _most(model: GpuModel) -> dict[str, str]:
    largest = max(model.profiles, key=lambda profile: profile.memory_mib)
    return _profile_capacity(largest)


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
    # What is cut on demand has no UUID before it is cut.
    known = {} if gpu.possible else {"uuid": {"string": device.instance.uuid}}
    return {
        "type": {"string": "mig"},
        **known,
        "parentUUID": {"string": gpu.uuid},
        "profile": {"string": device.instance.placement.profile.name},
        **shared,
    }


def _capacity(device: Device) -> Obj:
    if device.instance is None:
        most = _most(device.gpu.model) if device.gpu.possible else {"memory": f"{device.memory_mib}Mi"}
        return _values(most)
    placement = device.instance.placement
    capacity = _profile_capacity(placement.profile)
    if not device.gpu.possible:
        places = range(placement.start, placement.start + placement.profile.memory_slices)
        capacity |= {f"memorySlice{number}": "1" for number in places}
    return _values(capacity)


def _profile_capacity(profile: MigProfile) -> dict[str, str]:
    counts = {
        "multiprocessors": profile.multiprocessors,
        "copyEngines": profile.copy_engines,
        "decoders": profile.decoders,
        "encoders": 0,
        "jpegEngines": profile.jpeg_engines,
        "ofaEngines": profile.ofa_engines,
    }
    return {"memory": f"{profile.memory_mib}Mi", **{name: str(value) for name, value in counts.items()}}


def _values(capacity: dict[str, str]) -> Obj:
    return {name: {"value": value} for name, value in capacity.items()}


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
