"""An allocation and its samples as the exporters sent them, and which of them can be trusted.

Mends nothing: a sample that is a duplicate, frozen, outside the allocation or unreadable is dropped. Coverage
is counted from what is left, before anything is bridged.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from statistics import median
from typing import Any, NamedTuple

STEP = 30.0
"""Seconds between samples when a trace is too short to tell: dcgm-exporter's collection interval."""
FROZEN_ROWS = 6
"""Three minutes of equal rows. Watts jitter by themselves: equal in every digit means that nobody
measured."""
LIVE_WATTS, FEW_PAIRS = 0.7, 4
"""Share of neighbouring rows whose watts differ where power is measured and not just repeated."""
WHOLE, MIG = "whole", "mig"
NOTEBOOK, JOB, SERVICE = "notebook", "job", "service"
_NOTEBOOKS = ("notebook", "workspace", "ide", "jupyter", "interactive", "dev")
_SERVICES = ("service", "endpoint", "inference", "deployment", "serving", "server", "model")


class Sample(NamedTuple):
    """One row. Ratios 0 to 1, memory in MiB, watts; None is missing."""

    ts: float
    util: float | None
    sm: float | None
    occupancy: float | None
    tensor: float | None
    dram: float | None
    memory: float | None
    total: float | None
    watts: float | None
    processes: int | None
    xid: int | None

    @property
    def known(self) -> bool:
        """Whether it says what the multiprocessors did. GPU_UTIL and watts alone say nothing of the kind."""
        return self.sm is not None


@dataclass(frozen=True)
class Allocation:
    """Who holds what, from when to when (unix seconds), and the policy that idleness is held against."""

    id: str
    kind: str = JOB
    model: str = ""
    sharing: str = WHOLE
    profile: str = ""
    share: float = 1.0
    total_mib: float = 0.0
    start: float = 0.0
    end: float = 0.0
    sms: int = 108
    tdp_w: float = 0.0
    utc_offset_h: float = 0.0
    office_hours: tuple[float, float] = (9.0, 18.0)
    idle_window_s: float = 3600.0

    @property
    def block(self) -> float:
        """What one spinning thread block reads as SM active: one multiprocessor of this instance."""
        return 1.0 / max(1, self.sms)

    @property
    def own_board(self) -> bool:
        """Whether the board's watts speak of nobody else's instance."""
        return self.sharing != MIG or self.share > 0.99


def read_allocation(meta: Mapping[str, Any]) -> Allocation:
    """A line of meta.jsonl. Fields that are missing or null keep their default; an unknown kind is a job."""
    given = {k: v for k, v in meta.items() if v is not None and k in Allocation.__dataclass_fields__}
    numbers = ("share", "total_mib", "start", "end", "tdp_w", "utc_offset_h", "idle_window_s")
    given |= {name: float(given[name]) for name in numbers if name in given}
    if "sms" in given:
        given["sms"] = int(given["sms"])
    if "office_hours" in given:
        first, last = given["office_hours"]
        given["office_hours"] = (float(first), float(last))
    given["id"] = str(given.get("id", ""))
    given["kind"] = _kind(str(given.get("kind", JOB)).lower())
    given["sharing"] = str(given.get("sharing", WHOLE)).lower() or WHOLE
    return Allocation(**given)


def _kind(word: str) -> str:
    if word.startswith(_NOTEBOOKS):
        return NOTEBOOK
    return SERVICE if any(name in word for name in _SERVICES) else JOB


def read_samples(rows: Iterable[Mapping[str, str | None]]) -> list[Sample]:
    """Rows of the CSV. What is empty, not a number or beyond what the hardware can say reads as missing; a
    row without a time is dropped.
    """
    found = []
    for row in rows:
        ts = _number(row.get("ts"), math.inf)
        if ts is None:
            continue
        util, processes, xid = (_number(row.get(name), limit) for name, limit in _WHOLE_NUMBERS)
        sm, occupancy, tensor, dram = (_ratio(row.get(name)) for name in _RATIOS)
        found.append(
            Sample(
                ts=ts,
                util=None if util is None else min(1.0, util / 100.0),
                sm=sm,
                occupancy=occupancy,
                tensor=tensor,
                dram=dram,
                memory=_number(row.get("fb_used_mib"), 1e7),
                total=_number(row.get("fb_total_mib"), 1e7) or None,
                watts=_number(row.get("power_w"), 1e5),
                processes=None if processes is None else int(processes),
                xid=None if xid is None else int(xid),
            )
        )
    return found


_RATIOS = ("sm_active", "sm_occupancy", "tensor_active", "dram_active")
_WHOLE_NUMBERS = (("gpu_util", 101.0), ("processes", 1e6), ("xid", 1e6))
_ROUNDING = 1.05


def _number(text: str | None, limit: float) -> float | None:
    try:
        value = float(text) if text else math.nan
    except ValueError:
        return None
    return value if 0.0 <= value <= limit and not math.isinf(value) else None


def _ratio(text: str | None) -> float | None:
    """DCGM's ratios may exceed 1 by rounding; far above is a blank marker of the driver."""
    value = _number(text, _ROUNDING)
    return None if value is None else min(1.0, value)


@dataclass(frozen=True)
class Trace:
    """The trusted samples in order of time, `step` seconds apart where nothing is missing."""

    allocation: Allocation
    samples: Sequence[Sample]
    step: float
    coverage: float
    """Share of the allocation's time with a known sample, before holes are bridged."""
    holes: Sequence[tuple[float, float]]
    """Spans without a known sample that are too long to bridge."""
    total_mib: float
    """The memory of the device: what the allocation says, else what the exporter says."""


BRIDGED = 600.0
"""Holes up to this long are bridged: one window of the signals. Longer ones are unknown time."""


def clean(allocation: Allocation, samples: Iterable[Sample]) -> Trace:
    """Sort late rows in, keep the first of duplicates, drop the frozen, the foreign and the blind ones."""
    at: dict[float, Sample] = {}
    for sample in samples:
        if allocation.start <= sample.ts < allocation.end or sample.ts == allocation.end:
            at.setdefault(sample.ts, sample)
    ordered = [at[ts] for ts in sorted(at)]
    known = [s for s in _thaw(ordered) if s.known]
    step = _step(known)
    total = allocation.total_mib or median([s.total for s in known if s.total] or [0.0])
    return Trace(
        allocation, known, step, _coverage(allocation, known, step), _holes(allocation, known), total
    )


def _step(samples: Sequence[Sample]) -> float:
    gaps = [b.ts - a.ts for a, b in pairwise(samples)]
    return min(300.0, max(5.0, median(gaps))) if len(gaps) >= 3 else STEP


def _coverage(allocation: Allocation, samples: Sequence[Sample], step: float) -> float:
    """By floor: two steps to a bucket, so that the jitter of a healthy exporter leaves none empty."""
    width = 2 * step
    buckets = max(1, math.ceil((allocation.end - allocation.start) / width))
    return min(1.0, len({int((s.ts - allocation.start) // width) for s in samples}) / buckets)


def _holes(allocation: Allocation, samples: Sequence[Sample]) -> list[tuple[float, float]]:
    times = [allocation.start, *(s.ts for s in samples), allocation.end]
    return [(a, b) for a, b in pairwise(times) if b - a > BRIDGED]


def _measured(sample: Sample) -> tuple[float | None, ...]:
    return (*sample[1:7], sample.watts)


def _thaw(samples: Sequence[Sample]) -> list[Sample]:
    """Without the repetitions of a frozen exporter, which serves its last values for ever."""
    runs = [list(run) for _, run in groupby(samples, _measured)]
    short = [run for run in runs if len(run) < FROZEN_ROWS]
    moves = {quiet: _watts_move([run for run in short if _quiet(run[0]) is quiet]) for quiet in (True, False)}
    kept: list[Sample] = []
    for run in runs:
        frozen = len(run) >= FROZEN_ROWS and _is_frozen(run[0], moves, alone=len(runs) == 1)
        kept += run[:1] if frozen else run
    return kept


def _quiet(sample: Sample) -> bool:
    return not any((sample.sm, sample.tensor, sample.dram))


def _watts_move(short: Sequence[Sequence[Sample]]) -> bool:
    """Whether neighbouring rows nearly always differ in watts, where there are enough to tell."""
    rows = [sample.watts for run in short for sample in run]
    pairs = list(pairwise(rows))
    return len(pairs) >= FEW_PAIRS and sum(a != b for a, b in pairs) >= LIVE_WATTS * len(pairs)


def _is_frozen(sample: Sample, moves: Mapping[bool, bool], *, alone: bool) -> bool:
    """Equal rows are proof where something in them can never stand still: watts that move elsewhere in this
    trace at the same kind of load, or averages of busy counters. A parked device may read the same for hours
    where the power meter is coarse; the same fraction of a watt from the first row to the last was never
    measured.
    """
    busy = sum(0.0 < (value or 0.0) < 1.0 for value in (sample.sm, sample.tensor, sample.dram))
    if sample.watts is None:
        return busy == 3
    never = alone and not sample.watts.is_integer()
    return never or moves[_quiet(sample)] or busy >= 2
