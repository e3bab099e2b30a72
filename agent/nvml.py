"""The one port to NVIDIA's management library, through `pynvml`: plain values out, three kinds of refusal.

Tests put a stand-in behind `pynvml.nvmlLib`: everything above the driver's own library is the real code.
"""

import ctypes
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pynvml

_MEMORY_V2 = pynvml.nvmlMemory_v2
_NO_INSTANCE = 0xFFFFFFFF
_MOST_EVENTS = 64
_MEBIBYTE = 1024 * 1024


class NvmlError(Exception):
    """What NVML refused, in words that can stand after "because"."""


class Unavailable(NvmlError):
    """A reading that is not to be had. `lasting`: asking again at once would be in vain."""

    def __init__(self, why: str, *, lasting: bool = False) -> None:
        super().__init__(why)
        self.lasting = lasting


class Lost(NvmlError):
    """The GPU is there no more, or waits for a reset."""


class DriverGone(NvmlError):
    """The driver is not there, was unloaded, or was replaced. `mismatched`: by one of another version."""

    def __init__(self, why: str, *, mismatched: bool = False) -> None:
        super().__init__(why)
        self.mismatched = mismatched


_GONE = {
    pynvml.NVML_ERROR_UNINITIALIZED: "the driver was unloaded",
    pynvml.NVML_ERROR_DRIVER_NOT_LOADED: "no NVIDIA driver is loaded on this node",
    pynvml.NVML_ERROR_LIBRARY_NOT_FOUND: "libnvidia-ml.so.1 is not in this container or on this machine",
    pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH: "the driver was replaced by one of another version",
}
_LOST = {
    pynvml.NVML_ERROR_GPU_IS_LOST: "the GPU has fallen off the bus",
    pynvml.NVML_ERROR_RESET_REQUIRED: "the GPU waits for a reset",
    pynvml.NVML_ERROR_GPU_NOT_FOUND: "the GPU is there no more",
}
_LASTING = {
    pynvml.NVML_ERROR_NOT_SUPPORTED: "this card or its mode does not have it",
    pynvml.NVML_ERROR_FUNCTION_NOT_FOUND: "the installed driver is too old to be asked for it",
    pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH: "the installed driver is too old to be asked for it",
    pynvml.NVML_ERROR_DEPRECATED: "the installed driver no longer has it",
    pynvml.NVML_ERROR_NO_PERMISSION: "the driver refuses it without more rights",
}


@dataclass(frozen=True)
class Process:
    """A process with a compute context; `memory_mib` is None where the driver does not say."""

    pid: int
    memory_mib: float | None


@dataclass(frozen=True)
class Memory:
    """A framebuffer, MiB. `reserved` is None where the driver is too old to tell it from `used`."""

    used: float
    free: float
    reserved: float | None


@dataclass(frozen=True)
class Xid:
    """An error event of a GPU; `gpu_instance` is None when it is the whole GPU's."""

    uuid: str
    code: int
    gpu_instance: int | None


def refusal(code: int) -> NvmlError:
    """The refusal that stands for an NVML return code."""
    if code in _GONE:
        return DriverGone(_GONE[code], mismatched=code == pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH)
    if code in _LOST:
        return Lost(_LOST[code])
    if code in _LASTING:
        return Unavailable(_LASTING[code], lasting=True)
    return Unavailable(f"NVML says: {pynvml.NVMLError(code)}")


def ask(function: str, *arguments: Any) -> Any:
    """Call a function of `pynvml`; NVML's errors come out as refusals."""
    try:
        return getattr(pynvml, function)(*arguments)
    except pynvml.NVMLError as error:
        raise refusal(error.value) from error


def text(value: str | bytes) -> str:
    """Text of the library, whichever way the binding hands it over."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def start() -> str:
    """Initialize the library; the driver's version."""
    ask("nvmlInit")
    return text(ask("nvmlSystemGetDriverVersion"))


def stop() -> None:
    """Let the library go; a driver that is gone already needs no farewell."""
    try:
        ask("nvmlShutdown")
    except NvmlError:
        return


def memory(handle: Any) -> Memory:
    """The framebuffer of a GPU or MIG device; without the second version `used` includes what is reserved."""
    try:
        found = ask("nvmlDeviceGetMemoryInfo", handle, _MEMORY_V2)
    except Unavailable:
        found = ask("nvmlDeviceGetMemoryInfo", handle)
        return Memory(found.used / _MEBIBYTE, found.free / _MEBIBYTE, None)
    return Memory(found.used / _MEBIBYTE, found.free / _MEBIBYTE, found.reserved / _MEBIBYTE)


def processes(handle: Any) -> tuple[Process, ...]:
    """Processes with a compute context, by host pid."""
    found = ask("nvmlDeviceGetComputeRunningProcesses", handle)
    return tuple(
        Process(int(p.pid), None if p.usedGpuMemory is None else p.usedGpuMemory / _MEBIBYTE) for p in found
    )


def memory_celsius(handle: Any) -> float:
    """The temperature of the memory, which only the field interface tells."""
    (found,) = ask("nvmlDeviceGetFieldValues", handle, [pynvml.NVML_FI_DEV_MEMORY_TEMP])
    if found.nvmlReturn != pynvml.NVML_SUCCESS:
        raise refusal(found.nvmlReturn)
    return float(found.value.uiVal)


def throttle(handle: Any) -> int:
    """NVML's bit mask of why clocks are held down; older drivers know it by its older name."""
    try:
        return int(ask("nvmlDeviceGetCurrentClocksEventReasons", handle))
    except Unavailable:
        return int(ask("nvmlDeviceGetCurrentClocksThrottleReasons", handle))


class Events:
    """XID errors as the driver reports them: register GPUs once, then drain without waiting."""

    def __init__(self) -> None:
        self._set = ask("nvmlEventSetCreate")
        self._uuids: dict[int | None, str] = {}

    def register(self, handle: Any, uuid: str) -> None:
        """Hear of this GPU's XIDs; raises Unavailable where the card or the rights do not allow it."""
        self._uuids[_address(handle)] = uuid
        ask("nvmlDeviceRegisterEvents", handle, pynvml.nvmlEventTypeXidCriticalError, self._set)

    def drain(self) -> list[Xid]:
        """What has come since the last call, oldest first; a lost GPU ends it, as silence does."""
        found: list[Xid] = []
        for _ in range(_MOST_EVENTS):
            try:
                event = ask("nvmlEventSetWait", self._set, 0)
            except (Unavailable, Lost):
                break
            if event.eventType & pynvml.nvmlEventTypeXidCriticalError:
                instance = None if event.gpuInstanceId == _NO_INSTANCE else int(event.gpuInstanceId)
                # A GPU that fell off the bus (XID 79) can no longer be asked for its UUID.
                uuid = self._uuids.get(_address(event.device)) or _uuid(event.device)
                found.append(Xid(uuid, int(event.eventData), instance))
        return found


def _address(handle: Any) -> int | None:
    return ctypes.cast(handle, ctypes.c_void_p).value


def _uuid(handle: Any) -> str:
    try:
        return text(ask("nvmlDeviceGetUUID", handle))
    except NvmlError:
        return ""


class Gpm:
    """GPM samples (Hopper and newer): take them, and ask what happened between two of them.

    `metrics` are NVML's metric ids. One buffer is used for every question; not for two threads.
    """

    def __init__(self, metrics: tuple[int, ...]) -> None:
        self._query = pynvml.c_nvmlGpmMetricsGet_t()
        self._query.version = pynvml.NVML_GPM_METRICS_GET_VERSION
        self._query.numMetrics = len(metrics)
        self._entries = [self._query.metrics[at] for at in range(len(metrics))]
        for entry, metric in zip(self._entries, metrics, strict=True):
            entry.metricId = metric
        self._ask: Callable[[Any], Any] = pynvml.nvmlGpmMetricsGet

    @staticmethod
    def supported(handle: Any) -> bool:
        """Whether this GPU has GPM at all."""
        return bool(ask("nvmlGpmQueryDeviceSupport", handle).isSupportedDevice)

    @staticmethod
    def allocate() -> Any:
        """An empty sample; the library owns its memory until `free` or shutdown."""
        return ask("nvmlGpmSampleAlloc")

    @staticmethod
    def free(sample: Any) -> None:
        """Give a sample back."""
        ask("nvmlGpmSampleFree", sample)

    @staticmethod
    def take(handle: Any, gpu_instance: int | None, sample: Any) -> None:
        """Fill a sample with the counters of a GPU, or of one of its GPU instances."""
        if gpu_instance is None:
            ask("nvmlGpmSampleGet", handle, sample)
        else:
            ask("nvmlGpmMigSampleGet", handle, gpu_instance, sample)

    def between(self, first: Any, second: Any) -> list[float | NvmlError]:
        """The metrics between two samples, in the order of `metrics`: a value, or why there is none."""
        self._query.sample1, self._query.sample2 = first, second
        ask("nvmlGpmMetricsGet", self._query)
        return [_metric(entry) for entry in self._entries]


def _metric(entry: ctypes.Structure) -> float | NvmlError:
    found: Any = entry
    if found.nvmlReturn != pynvml.NVML_SUCCESS:
        return refusal(found.nvmlReturn)
    value = float(found.value)
    return value if math.isfinite(value) else Unavailable("the counters say no number for this span")
