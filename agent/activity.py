"""What the silicon did: GPM's ratios over the last `window` seconds, whenever somebody asks.

GPM counts without a pause, and the ratio between two of its samples is the exact mean of the time between
them. Samples are kept for the window, so a scraper that comes every 30 s sees all of its 30 s, not just the
last second of them. Before the window is full the ratios cover the time since the first sample.
"""

from collections import deque
from dataclasses import dataclass
from typing import Any

from agent import nvml
from agent.fields import PROFILED_FIELDS
from agent.nvml import Gpm, NvmlError, Unavailable

_METRICS = tuple(field.metric for field in PROFILED_FIELDS)
# Counters may round a little above all of the time; more than that is no ratio.
_SLACK = 1.05

Key = tuple[str, str]


@dataclass(frozen=True)
class Activities:
    """Values by field name, reasons by field name for those that have none, and the seconds they cover."""

    values: dict[str, float]
    missing: dict[str, NvmlError]
    span: float


NOTHING = Activities({}, {}, 0.0)


class Activity:
    """The samples of every device. A key is (UUID of the GPU, UUID of the MIG device or empty)."""

    def __init__(self, window: float) -> None:
        self._window = window
        self._gpm = Gpm(_METRICS)
        self._samples: dict[Key, deque[tuple[float, Any]]] = {}
        self._free: list[Any] = []

    def read(self, key: Key, handle: Any, gpu_instance: int | None, now: float) -> Activities:
        """Take a sample and tell what happened since the one a window ago; empty on the first."""
        sample = self._free.pop() if self._free else Gpm.allocate()
        try:
            Gpm.take(handle, gpu_instance, sample)
        except NvmlError:
            self._free.append(sample)
            raise
        samples = self._samples.setdefault(key, deque())
        samples.append((now, sample))
        while len(samples) > 1 and samples[1][0] <= now - self._window:
            self._free.append(samples.popleft()[1])
        began, first = samples[0]
        if first is sample:
            return NOTHING
        return _sorted(self._gpm.between(first, sample), now - began)

    def forget(self, kept: set[Key]) -> None:
        """Drop the samples of devices that are there no more, and of all whose counters began anew."""
        for key in set(self._samples) - kept:
            self._free += [sample for _, sample in self._samples.pop(key)]

    def close(self) -> None:
        """Give all samples back while the driver is still there."""
        self.forget(set())
        while self._free:
            try:
                Gpm.free(self._free.pop())
            except NvmlError:
                return


def _sorted(found: list[float | NvmlError], span: float) -> Activities:
    values: dict[str, float] = {}
    missing: dict[str, NvmlError] = {}
    for field, value in zip(PROFILED_FIELDS, found, strict=True):
        if isinstance(value, NvmlError):
            missing[field.name] = value
        elif not 0.0 <= value * field.scale <= field.limit * _SLACK:
            missing[field.name] = Unavailable(f"the counters say {value:g}, which cannot be")
        else:
            values[field.name] = min(value * field.scale, field.limit)
    return Activities(values, missing, span)


def supported(handle: Any) -> bool:
    """Whether the card has GPM; an older driver that cannot be asked has none."""
    try:
        return nvml.Gpm.supported(handle)
    except Unavailable:
        return False
