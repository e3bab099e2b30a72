"""The devices of a fleet with their lasting identities: physical GPUs and the MIG instances on them.

One list that nodes, resource slices and telemetry share, so that a UUID means the same thing everywhere.
Makes no Kubernetes object.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass

from sandbox.fleet.hardware import MIB, GpuModel, Placement
from sandbox.fleet.spec import Fleet, Pool

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
        MigInstance(minor, placement, f"MIG-{_identity(seed, node, minor, placement.start)}")
        for placement in pool.sharing.layouts[minor]
    )
    return Gpu(
        node=node,
        minor=minor,
        model=pool.model,
        uuid=f"GPU-{_identity(seed, node, minor, None)}",
        driver=fleet.versions.driver,
        cuda=fleet.versions.cuda,
        instances=instances,
    )


def _identity(seed: int, node: str, minor: int, start: int | None) -> uuid.UUID:
    return uuid.uuid5(_NAMESPACE, f"{seed}/{node}/{minor}/{'' if start is None else start}")


def gpu_devices(gpu: Gpu) -> Iterator[Device]:
    """A GPU in MIG mode offers its instances only; otherwise itself."""
    if not gpu.instances:
        yield Device(gpu, None)
    for instance in gpu.instances:
        yield Device(gpu, instance)
