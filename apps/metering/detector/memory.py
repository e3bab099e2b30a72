"""What memory and processes tell: lives of a container, and memory that only grows.

A life is a time in which a process is there. A leak grows by many small steps at a rate that does not fall; a
cache that warms up, a user's cells and an allocator's pool grow too, but slower and slower, or in a few big
steps.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean, median

from apps.metering.detector.trace import BRIDGED, Sample, Trace

LEAST_CONTEXT_MIB = 150.0
HELD_SHARE, HELD_MIB = 0.04, 600.0
"""Memory beyond what a driver reserves."""
RESET = 0.7
"""A drop below this share of a life's peak, to the level of a fresh context, is a new process."""
FEWEST_COUNTS, COUNTED = 5, 0.2
"""Readings of the process count that make it known: cells may be empty, and a 0 among them is a 0."""
WINDOW = 300.0
LEAST_GROWTH, LEAST_LEAK_SECONDS = 0.06, 1800.0
STRAIGHT, LATE, BIGGEST_STEP = 0.9, 0.6, 0.4
"""Fit of a line; the last third's growth against the first's (a warm-up: under 0.5); the biggest step's
share."""
CEILING, FULL = 0.85, 0.97
AT_CEILING, NEAR_CEILING, ENDED_SHARE, PAUSED_STEPS = 0.965, 0.93, 0.6, 2.5
"""Peaks of lives that memory ended, of so many of the lives: a sample seldom meets the very last, so that
those near the ceiling count, too, with pauses of so many steps, which trials of a sweep have not.
"""


@dataclass(frozen=True)
class Life:
    """One run of a process, from its first to its last sample."""

    samples: Sequence[Sample]

    @property
    def start(self) -> float:
        """Its first sample."""
        return self.samples[0].ts

    @property
    def seconds(self) -> float:
        """From the first to the last sample: 0 where only one met it."""
        return self.samples[-1].ts - self.samples[0].ts

    @property
    def unbroken(self) -> float:
        """Seconds of its longest part without a hole: in one it may have ended and begun again."""
        longest = begins = 0.0
        for a, b in pairwise([self.samples[0], *self.samples]):
            begins = b.ts if b.ts - a.ts > BRIDGED or not begins else begins
            longest = max(longest, b.ts - begins)
        return longest

    @property
    def peak(self) -> float:
        """The most memory it was seen to hold, MiB."""
        return max((s.memory or 0.0) for s in self.samples)


def trusted_processes(trace: Trace) -> bool:
    """Whether the process count can be believed: present, and not 0 while the multiprocessors work (a
    container's process namespace hides processes from some exporters).
    """
    counted = [s for s in trace.samples if s.processes is not None]
    if len(counted) < max(FEWEST_COUNTS, COUNTED * len(trace.samples)):
        return False
    working = [s for s in counted if max(s.tensor or 0.0, s.dram or 0.0) > 0.05 or (s.sm or 0.0) > 0.3]
    return sum(s.processes == 0 for s in working) <= 0.5 * len(working)


def held_limit(total_mib: float) -> float:
    """MiB from which memory of a device of this size is held by somebody, not reserved by the driver."""
    return min(HELD_MIB, max(LEAST_CONTEXT_MIB, HELD_SHARE * total_mib))


def is_kept(trace: Trace, begins: float, ends: float) -> bool:
    """Whether as much memory is held after a time as before it, as far as anybody told."""
    before = [s.memory for s in trace.samples if s.ts <= begins and s.memory is not None]
    after = [s.memory for s in trace.samples if s.ts >= ends and s.memory is not None]
    return not (before and after) or abs(after[0] - before[-1]) < held_limit(trace.total_mib)


def lives(trace: Trace) -> list[Life]:
    """Runs of samples with a process, cut where memory falls to a fresh start. What a sample does not tell is
    as it was.
    """
    by_count = trusted_processes(trace)
    limit = held_limit(trace.total_mib)
    found: list[list[Sample]] = []
    peak, memory, alive = 0.0, 0.0, False
    for sample in trace.samples:
        memory = memory if sample.memory is None else sample.memory
        told = sample.processes if by_count else sample.memory
        here = alive if told is None else told > 0 if by_count else told >= limit / 2
        fresh = memory < RESET * peak and memory < peak - 2 * limit
        if here and (not alive or fresh):
            found.append([])
            peak = 0.0
        if here:
            found[-1].append(sample)
            peak = max(peak, memory)
        alive = here
    return [Life(samples) for samples in found]


def pauses(found: Sequence[Life]) -> list[float]:
    """Seconds from the last sample of each life to the first of the next."""
    return [b.start - a.samples[-1].ts for a, b in pairwise(found)]


def runs_out(trace: Trace, found: Sequence[Life]) -> bool:
    """Lives that end at the ceiling again and again, however they came there."""
    ended = [life.peak / trace.total_mib for life in found[:-1]] if trace.total_mib else []
    if len(ended) < 2:
        return False
    paused = median(pauses(found)) >= PAUSED_STEPS * trace.step
    limit, many = NEAR_CEILING if paused else AT_CEILING, max(2.0, ENDED_SHARE * len(ended))
    return sum(peak >= limit for peak in ended) >= many


def grows(trace: Trace, samples: Sequence[Sample]) -> bool:
    """Whether memory leaks over these samples: nearly a line, not slowing down, without a step that explains
    it. The first tenth is left out: loading.
    """
    known = [(s.ts, s.memory) for s in samples if s.memory is not None]
    known = _until_full(known[len(known) // 10 :], FULL * trace.total_mib)
    if len(known) < 12 or known[-1][0] - known[0][0] < 0.3 * LEAST_LEAK_SECONDS:
        return False
    levels = _levels(known, max(WINDOW / 5, min(WINDOW * 4, (known[-1][0] - known[0][0]) / 24)))
    if len(levels) < 9:
        return False
    growth = levels[-1][1] - levels[0][1]
    if growth < LEAST_GROWTH * trace.total_mib:
        return False
    steps = [b[1] - a[1] for a, b in pairwise(levels)]
    return (
        max(steps) <= BIGGEST_STEP * growth
        and -min(steps) <= 0.5 * growth
        and sum(s > 0 for s in steps) >= 0.6 * len(steps)
        and _fit(levels) >= STRAIGHT
        and _lateness(levels) >= LATE
    )


def _until_full(known: list[tuple[float, float]], limit: float) -> list[tuple[float, float]]:
    """Up to the ceiling, where it took half an hour to get there: beyond it nothing can grow."""
    full = next((i for i, (_, memory) in enumerate(known) if memory >= limit), None)
    reached = full is not None and known[full][0] - known[0][0] >= LEAST_LEAK_SECONDS
    return known[: full + 1] if full is not None and reached else known


def _levels(known: Sequence[tuple[float, float]], width: float) -> list[tuple[float, float]]:
    grouped: dict[int, list[float]] = {}
    for ts, memory in known:
        grouped.setdefault(int(ts // width), []).append(memory)
    return [(index * width, median(values)) for index, values in sorted(grouped.items())]


def _fit(levels: Sequence[tuple[float, float]]) -> float:
    """R squared of a line."""
    mx, my = fmean(x for x, _ in levels), fmean(y for _, y in levels)
    sxx = sum((x - mx) ** 2 for x, _ in levels)
    syy = sum((y - my) ** 2 for _, y in levels)
    sxy = sum((x - mx) * (y - my) for x, y in levels)
    return sxy * sxy / (sxx * syy) if sxx > 0 and syy > 0 else 0.0


def _lateness(levels: Sequence[tuple[float, float]]) -> float:
    """Growth in the last third of the time over growth in the first."""
    first, last = levels[0][0], levels[-1][0]
    early = [y for x, y in levels if x <= first + (last - first) / 3]
    late = [y for x, y in levels if x >= last - (last - first) / 3]
    gain = early[-1] - early[0]
    return (late[-1] - late[0]) / gain if gain > 0 else 2.0


def leaking(trace: Trace, found: Sequence[Life]) -> bool:
    """One life that leaks for half an hour, or two that leak to near the ceiling and begin again."""
    long = [life for life in found if life.seconds >= LEAST_LEAK_SECONDS]
    if long and grows(trace, max(long, key=lambda life: life.seconds).samples):
        return True
    ended = [life for life in found if life.peak >= CEILING * trace.total_mib]
    return sum(grows(trace, life.samples) for life in ended) >= 2
