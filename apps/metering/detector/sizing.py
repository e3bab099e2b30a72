"""Right-sizing: how much memory and how many multiprocessors an allocation needs, and the smallest size that
gives them.

Memory is a cliff, compute is a curve: under the peak an allocation dies, with fewer multiprocessors it only
takes longer. Sizes: NVIDIA's MIG guide (driver 580); what NVML reports, not the name on the box.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from apps.metering.detector.signals import Signal
from apps.metering.detector.trace import WHOLE, Allocation, Trace

QUANTILE = 0.999
MARGIN, PEAK_MARGIN, SPARE_MIB = 1.15, 1.08, 256.0
"""Over the p99.9, and over the highest single sample: what grew between two samples was not seen."""
GROWTH = 1.5
"""Of memory still growing: what it gained in the last quarter, and half as much again."""
DEMAND = 0.95
SLOWDOWN = 1.1
"""Longer than this nobody calls the same work."""
WINDOW = 300.0


@dataclass(frozen=True)
class Size:
    """A device that may be asked for. `bandwidth` is its part of the GPU's memory bandwidth."""

    name: str
    memory_mib: float
    sms: int
    bandwidth: float
    share: float


@dataclass(frozen=True)
class Need:
    """What was observed: memory with its margin, multiprocessors and bandwidth that were busy at peak
    demand.
    """

    memory_mib: float
    sms: float
    bandwidth: float


@dataclass(frozen=True)
class Advice:
    """The smallest size that fits. `saving` is the share of the present device's cost; `slowdown` 1 is
    none.
    """

    size: Size
    saving: float
    slowdown: float

    @property
    def risk(self) -> str:
        """What may go wrong, in a word: out of memory cannot, as observed; slower can."""
        return "none" if self.slowdown <= 1.0 else "slower"


_MIG = {
    # model: SMs of a compute slice layout 1g, 1g with double memory, 2g, 3g, 4g; MiB of the same.
    "A100-40": ((14, 14, 28, 42, 56), (4864, 9856, 9856, 19968, 19968), 98),
    "A100-80": ((14, 14, 28, 42, 56), (9856, 19968, 19968, 40192, 40192), 98),
    "H100": ((16, 26, 32, 60, 64), (9984, 20090, 20090, 40448, 40448), 132),
    "H200": ((16, 26, 32, 60, 64), (16384, 33024, 33024, 71168, 71168), 132),
    "B200": ((18, 30, 36, 54, 72), (20992, 45312, 45312, 90624, 90624), 126),
}
_COMPUTE = (1, 1, 2, 3, 4)
_BANDWIDTH = (1 / 8, 2 / 8, 2 / 8, 4 / 8, 4 / 8)
_NAMES = ("1g", "1g double", "2g", "3g", "4g")


def family(model: str) -> str:
    """The word that names a board, of its product name: `NVIDIA L40` is an L40 and no L4, `Tesla
    V100-SXM2-32GB` a V100. Names that begin otherwise, such as `NVIDIA RTX A1000`, give a word of no board.
    """
    words = [word for word in re.split(r"[\s_-]+", model.upper()) if word not in ("NVIDIA", "TESLA")]
    return words[0] if words else ""


def sizes(allocation: Allocation, total_mib: float) -> list[Size]:
    """The sizes smaller than the present device that its model can be cut into, smallest first. Empty for
    models that cannot be cut and for devices that are shared in time.
    """
    own = family(allocation.model)
    key = next((k for k in _MIG if own == k.partition("-")[0]), None)
    if key == "A100-40" and (total_mib > 45_000 or "80" in allocation.model):
        key = "A100-80"
    if key is None or allocation.sharing not in (WHOLE, "mig"):
        return []
    sms, memory, _ = _MIG[key]
    made = [
        Size(name, mib, count, width, compute / 7)
        for name, mib, count, width, compute in zip(_NAMES, memory, sms, _BANDWIDTH, _COMPUTE, strict=True)
    ]
    return [
        s
        for s in made
        if s.memory_mib < 0.97 * total_mib and s.sms <= allocation.sms and s.share <= allocation.share
    ]


def need(trace: Trace, signals: Sequence[Signal]) -> Need:
    """Memory: p99.9 with a margin, never under the highest sample with a smaller one. Compute: the p95 of
    five-minute means, in multiprocessors of the present device, over the time it worked.
    """
    return Need(needed_memory(trace), *_demand(trace, signals))


def needed_memory(trace: Trace) -> float:
    """MiB, rounded up to 64; 0 when no sample tells."""
    seen = sorted(s.memory for s in trace.samples if s.memory is not None)
    if not seen:
        return 0.0
    high = seen[min(len(seen) - 1, math.ceil(QUANTILE * len(seen)) - 1)]
    wanted = max(high * MARGIN, seen[-1] * PEAK_MARGIN) + min(SPARE_MIB, 0.02 * trace.total_mib)
    return math.ceil((wanted + _trend(trace)) / 64.0) * 64.0


def _trend(trace: Trace) -> float:
    """What memory would grow by if it grew on as in the last quarter."""
    seen = [s.memory for s in trace.samples if s.memory is not None]
    since, tail = 3 * len(seen) // 4, max(1, len(seen) // 20)
    grown = sum(seen[-tail:]) / tail - sum(seen[since : since + tail]) / tail
    return max(0.0, GROWTH * grown - 0.02 * max(seen))


def _demand(trace: Trace, signals: Sequence[Signal]) -> tuple[float, float]:
    grouped: dict[int, list[Signal]] = {}
    for signal in signals:
        grouped.setdefault(int(signal.ts // WINDOW), []).append(signal)
    busy = [g for g in grouped.values() if any(s.intensity > 0.002 for s in g)]
    if not busy:
        return 0.0, 0.0
    sms = sorted(sum(1.0 if s.stuck else s.sm for s in g) / len(g) for g in busy)
    dram = sorted(sum(s.dram for s in g) / len(g) for g in busy)
    place = min(len(busy) - 1, int(DEMAND * len(busy)))
    return sms[place] * trace.allocation.sms, dram[place]


def advise(trace: Trace, wanted: Need) -> Advice | None:
    """The smallest size that holds the memory and slows the work by at most a tenth; None where there is
    none.
    """
    allocation = trace.allocation
    present = _bandwidth(allocation)
    for size in sorted(sizes(allocation, trace.total_mib), key=lambda s: (s.share, s.memory_mib)):
        slowdown = max(wanted.sms / size.sms, wanted.bandwidth * present / size.bandwidth)
        if size.memory_mib >= wanted.memory_mib and slowdown <= SLOWDOWN:
            return Advice(size, 1.0 - size.share / max(allocation.share, size.share), max(1.0, slowdown))
    return None


def _bandwidth(allocation: Allocation) -> float:
    """The present device's part of the memory bandwidth: its memory slices of eight."""
    compute = round(allocation.share * 7)
    return {1: 1 / 8, 2: 2 / 8, 3: 4 / 8, 4: 4 / 8}.get(compute, 1.0) if allocation.sharing == "mig" else 1.0
