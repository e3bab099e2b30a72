"""Which GPUs and MIG devices there are. Handles live as long as the driver; MIG is looked at every time."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from agent import nvml
from agent.snapshot import Gpu, Instance

_MIG_NAME = re.compile(r"\bMIG\s+(\S.*)$")


@dataclass
class Board:
    """A physical GPU with its handle. `gpm`: None until asked."""

    gpu: Gpu
    handle: Any
    gpm: bool | None = None


@dataclass(frozen=True)
class Part:
    """A MIG device with the handle that its memory and processes are asked of."""

    instance: Instance
    handle: Any


def count() -> int:
    """How many GPUs the driver knows, lost ones too."""
    return int(nvml.ask("nvmlDeviceGetCount"))


def board(index: int) -> Board:
    """The GPU at this index; Lost when it does not answer, Unavailable when it may not be seen."""
    handle = nvml.ask("nvmlDeviceGetHandleByIndex", index)
    gpu = Gpu(
        index=index,
        minor=_minor(handle, index),
        uuid=nvml.text(nvml.ask("nvmlDeviceGetUUID", handle)),
        pci_bus_id=nvml.text(nvml.ask("nvmlDeviceGetPciInfo", handle).busId),
        model=nvml.text(nvml.ask("nvmlDeviceGetName", handle)),
    )
    return Board(gpu, handle)


def _minor(handle: Any, index: int) -> int:
    try:
        return int(nvml.ask("nvmlDeviceGetMinorNumber", handle))
    except nvml.Unavailable:
        return index


def sliced(handle: Any) -> bool:
    """Whether the GPU is in MIG mode now."""
    try:
        return bool(nvml.ask("nvmlDeviceGetMigMode", handle)[0])
    except nvml.Unavailable:
        return False


class Parts:
    """The MIG devices of one GPU. What a UUID stands for never changes, so each is described once."""

    def __init__(self, handle: Any) -> None:
        self._handle = handle
        self._most: int | None = None
        self._known: dict[str, tuple[int, int, str, tuple[int, int] | None]] = {}

    def now(self) -> list[Part]:
        """The MIG devices there are at this moment, in the driver's order."""
        found = [(uuid, handle, self._describe(uuid, handle)) for uuid, handle in self._handles()]
        self._known = {uuid: described for uuid, _, described in found}
        owners = [described[0] for _, _, described in found]
        return [
            Part(
                Instance(
                    uuid=uuid,
                    profile=profile,
                    gpu_instance=gpu_instance,
                    compute_instance=compute_instance,
                    whole=owners.count(gpu_instance) == 1,
                    place=place,
                ),
                handle,
            )
            for uuid, handle, (gpu_instance, compute_instance, profile, place) in found
        ]

    def _handles(self) -> Iterator[tuple[str, Any]]:
        if self._most is None:
            self._most = int(nvml.ask("nvmlDeviceGetMaxMigDeviceCount", self._handle))
        for index in range(self._most):
            try:
                handle = nvml.ask("nvmlDeviceGetMigDeviceHandleByIndex", self._handle, index)
                yield nvml.text(nvml.ask("nvmlDeviceGetUUID", handle)), handle
            except nvml.Unavailable:
                # An empty slot, or an instance that was destroyed between the two questions.
                continue

    def _describe(self, uuid: str, handle: Any) -> tuple[int, int, str, tuple[int, int] | None]:
        if uuid in self._known:
            return self._known[uuid]
        gpu_instance = int(nvml.ask("nvmlDeviceGetGpuInstanceId", handle))
        compute_instance = int(nvml.ask("nvmlDeviceGetComputeInstanceId", handle))
        return gpu_instance, compute_instance, _profile(handle), self._place(gpu_instance)

    def _place(self, gpu_instance: int) -> tuple[int, int] | None:
        try:
            instance = nvml.ask("nvmlDeviceGetGpuInstanceById", self._handle, gpu_instance)
            info = nvml.ask("nvmlGpuInstanceGetInfo", instance)
        except nvml.Unavailable:
            return None
        return int(info.profileId), int(info.placement.start)


def _profile(handle: Any) -> str:
    """`1g.18gb` from the device's name, which ends with it; else from its attributes; else empty."""
    try:
        named = _MIG_NAME.search(nvml.text(nvml.ask("nvmlDeviceGetName", handle)))
    except nvml.Unavailable:
        named = None
    if named:
        return named.group(1).strip()
    try:
        found = nvml.ask("nvmlDeviceGetAttributes", handle)
    except nvml.Unavailable:
        return ""
    return f"{found.gpuInstanceSliceCount}g.{round(found.memorySizeMB / 1024)}gb"
