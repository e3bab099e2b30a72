"""The devices of a fleet with their lasting identities: physical GPUs and the MIG instances on them.

One list that nodes, resource slices and telemetry share, so that a UUID means the same thing everywhere.
Makes no Kubernetes object.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from sandbox.fleet.hardware import MIB, GpuModel, MigProfile, Placement
from sandbox.fleet.spec import Fleet, Pool, SharingMode

_NAMESPACE = uuid.uuid5(uuid.NAMESPACE_DNS, "sandbox.allotment.dev")
_PCI_BUSES = (0x0F, 0x2D, 0x44, 0x5B, 0x89, 0xA8, 0xC0, 0xD8, 0x10, 0x2E, 0x45, 0x5C, 0x8A, 0xA9, 0xC1, 0xD9)


@dataclass(frozen=True)
class Gpu:
    """One physical GPU; `minor` is its index on the node."""

    node: str
    minor: int
    model: GpuModel
    uuid: str
    driver: str
    cuda: str
    instances: tuple[MigInstance, ...]
    possible: tuple[MigInstance, ...] = ()
    """Of a board that is cut on demand: every profile at every place."""
    in_shares: bool = False
    """Whether claims have parts of its memory (`allowMultipleAllocations`)."""

    @property
    def device_name(self) -> str:
        """The DRA driver's name for it."""
        return f"gpu-{self.minor}"

    @property
    def mig_enabled(self) -> bool:
        """Whether it is in MIG mode."""
        return bool(self.instances)

    @property
    def pci_bus_id(self) -> str:
        """Its place on the PCI bus."""
        return f"0000:{_PCI_BUSES[self.minor % len(_PCI_BUSES)]:02x}:00.0"

    @property
    def pcie_root(self) -> str:
        """The PCIe root it hangs on."""
        return f"pci0000:{_PCI_BUSES[self.minor % len(_PCI_BUSES)] & 0xFC:02x}"


@dataclass(frozen=True)
class MigInstance:
    """One MIG instance: a placement with the UUID the driver gave it."""

    parent_minor: int
    placement: Placement
    uuid: str

    @property
    def device_name(self) -> str:
        """The DRA driver's canonical name: parent minor, profile without dots, profile id, start."""
        profile = self.placement.profile
        plain = profile.name.replace(".", "").replace("+", "-")
        return f"gpu-{self.parent_minor}-mig-{plain}-{profile.profile_id}-{self.placement.start}"


@dataclass(frozen=True)
class Device:
    """What a claim can be given: a whole GPU, or one MIG instance of it."""

    gpu: Gpu
    instance: MigInstance | None

    @property
    def name(self) -> str:
        """The name."""
        return self.gpu.device_name if self.instance is None else self.instance.device_name

    @property
    def memory_mib(self) -> int:
        """Memory as NVML reports it."""
        return (
            self.gpu.model.memory_mib if self.instance is None else self.instance.placement.profile.memory_mib
        )

    @property
    def memory_bytes(self) -> int:
        """Memory in bytes."""
        return self.memory_mib * MIB

    @property
    def multiprocessors(self) -> int:
        """Streaming multiprocessors it may use."""
        if self.instance is None:
            return self.gpu.model.multiprocessors
        return self.instance.placement.profile.multiprocessors


def node_gpus(fleet: Fleet, node: str, pool: Pool, seed: int) -> list[Gpu]:
    """The GPUs of one node. Identities depend on seed, node and minor alone."""
    if pool.model is None:
        return []
    return [_gpu(fleet, node, pool, seed=seed, minor=minor) for minor in range(pool.gpus_per_node)]


def _gpu(fleet: Fleet, node: str, pool: Pool, *, seed: int, minor: int) -> Gpu:
    if pool.model is None:
        raise ValueError(f"pool {pool.name} has no GPUs")
    instances = tuple(
        MigInstance(minor, placement, f"MIG-{_identity(seed, node, minor, str(placement.start))}")
        for placement in pool.sharing.layouts[minor]
    )
    on_demand = pool.sharing.mode is SharingMode.MIG_ON_DEMAND
    return Gpu(
        node=node,
        minor=minor,
        model=pool.model,
        uuid=f"GPU-{_identity(seed, node, minor, '')}",
        driver=fleet.versions.driver,
        cuda=fleet.versions.cuda,
        instances=instances,
        possible=tuple(_possible(pool.model, seed, node, minor)) if on_demand else (),
        in_shares=pool.sharing.mode is SharingMode.SHARES,
    )


def _possible(model: GpuModel, seed: int, node: str, minor: int) -> Iterator[MigInstance]:
    placements = (
        (profile, start) for profile in sorted(model.profiles, key=_name) for start in profile.starts
    )
    for number, (profile, start) in enumerate(placements, 1):
        identity = _identity(seed, node, minor, f"{profile.profile_id}/{start}")
        yield MigInstance(minor, Placement(profile, start, number), f"MIG-{identity}")


def _name(profile: MigProfile) -> str:
    return profile.name


def _identity(seed: int, node: str, minor: int, part: str) -> uuid.UUID:
    return uuid.uuid5(_NAMESPACE, f"{seed}/{node}/{minor}/{part}")


def offered_devices(gpu: Gpu) -> list[Device]:
    """What its driver publishes; of a board that is cut on demand, itself and all that it could be."""
    if not gpu.possible:
        return list(gpu_devices(gpu))
    every = [Device(gpu, None), *(Device(gpu, instance) for instance in gpu.possible)]
    return sorted(every, key=lambda device: device.name)


def present_devices(gpu: Gpu, held: Collection[str]) -> list[Device]:
    """What is there while claims hold these, by name: a board is cut where an instance of it is held."""
    cut = [Device(gpu, instance) for instance in gpu.possible if instance.device_name in held]
    return cut or list(gpu_devices(gpu))


def gpu_devices(gpu: Gpu) -> Iterator[Device]:
    """A GPU in MIG mode is its instances only; otherwise itself, also where it is cut on demand."""
    if not gpu.instances:
        yield Device(gpu, None)
    for instance in gpu.instances:
        yield Device(gpu, instance)
