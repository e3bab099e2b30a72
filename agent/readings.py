"""The values of a board and a device, one by one: what is refused is a gap with its reason, never a zero."""

from collections.abc import Callable
from typing import Any

import pynvml

from agent import fields, nvml
from agent.fields import Field
from agent.nvml import NvmlError, Process, Unavailable
from agent.snapshot import Gap

Asked = Callable[[Any], tuple[float, ...]]


def _clock(kind: int) -> Asked:
    return _plain("nvmlDeviceGetClockInfo", kind)


def _plain(function: str, *more: int, scale: float = 1.0) -> Asked:
    return lambda handle: (float(nvml.ask(function, handle, *more)) * scale,)


def _first(function: str) -> Asked:
    return lambda handle: (float(nvml.ask(function, handle)[0]),)


def _ecc(kind: int) -> Asked:
    return _plain("nvmlDeviceGetTotalEccErrors", kind, pynvml.NVML_VOLATILE_ECC)


# One question each; those that answer several fields at once are below.
_SINGLE: tuple[tuple[Field, Asked], ...] = (
    (fields.SM_CLOCK, _clock(pynvml.NVML_CLOCK_SM)),
    (fields.MEM_CLOCK, _clock(pynvml.NVML_CLOCK_MEM)),
    (fields.MEMORY_TEMP, lambda handle: (nvml.memory_celsius(handle),)),
    (fields.GPU_TEMP, _plain("nvmlDeviceGetTemperature", pynvml.NVML_TEMPERATURE_GPU)),
    (fields.POWER_USAGE, _plain("nvmlDeviceGetPowerUsage", scale=0.001)),
    (fields.ENERGY, _plain("nvmlDeviceGetTotalEnergyConsumption")),
    (fields.PCIE_REPLAY, _plain("nvmlDeviceGetPcieReplayCounter")),
    (fields.CLOCK_REASONS, lambda handle: (float(nvml.throttle(handle)),)),
    (fields.ECC_SINGLE, _ecc(pynvml.NVML_MEMORY_ERROR_TYPE_CORRECTED)),
    (fields.ECC_DOUBLE, _ecc(pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED)),
    (fields.ENC_UTIL, _first("nvmlDeviceGetEncoderUtilization")),
    (fields.DEC_UTIL, _first("nvmlDeviceGetDecoderUtilization")),
)
_UTILIZATION = (fields.GPU_UTIL, fields.MEM_COPY_UTIL)
_ROWS = (fields.REMAPPED_CORRECTABLE, fields.REMAPPED_UNCORRECTABLE, fields.REMAP_FAILURE)
# The driver has no value of these for a GPU that is cut into MIG devices: DCGM leaves them out too.
_NOT_SLICED = frozenset({fields.GPU_UTIL, fields.MEM_COPY_UTIL, fields.ENC_UTIL, fields.DEC_UTIL})


class Gaps:
    """What could not be read, and why. Lasting refusals are not asked for again until `again`."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str], list[str]] = {}
        self._lasting: dict[tuple[str, str], NvmlError] = {}

    def note(self, names: tuple[str, ...], where: str, refusal: NvmlError) -> None:
        """Say that these fields are unknown here."""
        self._found.setdefault((where, str(refusal)), []).extend(names)
        if isinstance(refusal, Unavailable) and refusal.lasting:
            self._lasting.update(((name, where), refusal) for name in names)

    def refused(self, names: tuple[str, ...], where: str) -> bool:
        """Whether asking is known to be in vain; then it is noted for this collection as well."""
        before = [self._lasting.get((name, where)) for name in names]
        if not all(before):
            return False
        self._found.setdefault((where, str(before[0])), []).extend(names)
        return True

    def taken(self) -> tuple[Gap, ...]:
        """The gaps of this collection; the next one begins without any."""
        found = tuple(Gap(tuple(names), where, why) for (where, why), names in self._found.items())
        self._found = {}
        return found

    def again(self) -> None:
        """Ask for everything once more: a driver or rights may have changed."""
        self._lasting = {}


class Reader:
    """Reads a device field by field into `values`, as `where` in gaps. Raises Lost and DriverGone."""

    def __init__(self, handle: Any, where: str, gaps: Gaps) -> None:
        self._handle, self._where, self._gaps = handle, where, gaps
        self.values: dict[str, float] = {}

    def board(self, *, sliced: bool) -> None:
        """What is true of the physical GPU as a whole."""
        for field, asked in _SINGLE:
            if not (sliced and field in _NOT_SLICED):
                self._read((field,), asked)
        if not sliced:
            self._read(_UTILIZATION, _utilization)
        self._read(_ROWS, _remapped)

    def memory(self) -> None:
        """The framebuffer of a GPU or a MIG device."""
        if not self._read((fields.FB_USED, fields.FB_FREE, fields.FB_RESERVED), _memory):
            return
        if self.values[fields.FB_RESERVED.name] < 0:
            del self.values[fields.FB_RESERVED.name]

    def processes(self) -> tuple[Process, ...]:
        """The processes with a compute context, and their number as a value."""
        if self._gaps.refused((fields.PROCESSES.name,), self._where):
            return ()
        try:
            found = nvml.processes(self._handle)
        except Unavailable as refusal:
            self._gaps.note((fields.PROCESSES.name,), self._where, refusal)
            return ()
        self.values[fields.PROCESSES.name] = len(found)
        return found

    def _read(self, wanted: tuple[Field, ...], asked: Asked) -> bool:
        names = tuple(field.name for field in wanted)
        if self._gaps.refused(names, self._where):
            return False
        try:
            found = asked(self._handle)
        except Unavailable as refusal:
            self._gaps.note(names, self._where, refusal)
            return False
        self.values.update(zip(names, found, strict=True))
        return True


def _memory(handle: Any) -> tuple[float, ...]:
    found = nvml.memory(handle)
    return found.used, found.free, -1.0 if found.reserved is None else found.reserved


def _utilization(handle: Any) -> tuple[float, ...]:
    found = nvml.ask("nvmlDeviceGetUtilizationRates", handle)
    return float(found.gpu), float(found.memory)


def _remapped(handle: Any) -> tuple[float, ...]:
    correctable, uncorrectable, _, failed = nvml.ask("nvmlDeviceGetRemappedRows", handle)
    return float(correctable), float(uncorrectable), float(failed)
