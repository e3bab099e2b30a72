"""An allocation and its samples as the exporters sent them, and which of them can be trusted.

Mends nothing: a sample that is a duplicate, frozen, outside the allocation or unreadable is dropped. Coverage
is counted from what is left, before anything is bridged, by the step of the source.
"""

import math
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby, pairwise
from operator import itemgetter
from statistics import median
from typing import Any, NamedTuple

STEP = 30.0
"""Seconds between samples when a trace is too short to tell: dcgm-exporter's collection interval."""
CLOSEST, ALIKE, FEWEST_GAPS = 0.05, 1.5, 3
"""Where nobody tells the step: the closest twentieth of the gaps are one step wide however much was lost, for
what is lost only widens gaps; and gaps that are one step, but for jitter.
"""
JITTER = 1.25
"""A sample speaks of so many steps at most: of one, and of what a healthy exporter may be late."""
FROZEN_ROWS = 6
"""Three minutes of equal rows. Watts jitter by themselves: equal in every digit means that nobody
measured."""
LIVE_WATTS, FEW_PAIRS = 0.7, 4
"""Share of neighbouring rows whose watts differ where power is measured and not just repeated."""
WHOLE, MIG = "whole", "mig"
NOTEBOOK, JOB, SERVICE = "notebook", "job", "service"
_NOTEBOOKS = ("notebook", "workspace", "ide", "jupyter", "interactive", "dev")
_ALONE = (WHOLE, "exclusive", "full", "none")
_SHARED = ("time-slicing", "timeslicing", "time-sliced", "mps", "fraction", "hami", "vgpu", "shared")
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


@dataclass(frozen=True)
class Allocation:
    """Who holds what, from when to when (unix seconds), and the policy that idleness is held against.

    `step_s` is the source's collection interval, 0 where nobody tells it. `utc_offset_h` is the local clock;
    where clocks change, `offsets` says it anew from a moment on: (unix seconds, hours), in order.
    """

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
    step_s: float = 0.0
    offsets: tuple[tuple[float, float], ...] = ()

    def offset_at(self, ts: float) -> float:
        """What the local clock is ahead of UTC at a moment, in hours."""
        return next((hours for since, hours in reversed(self.offsets) if ts >= since), self.utc_offset_h)

    @property
    def block(self) -> float:
        """What one spinning thread block reads as SM active: one multiprocessor of this instance."""
        return 1.0 / max(1, self.sms)

    @property
    def own_board(self) -> bool:
        """Whether the board's watts speak of nobody else's instance."""
        return self.sharing != MIG or self.share > 0.99


def read_allocation(meta: Mapping[str, Any]) -> Allocation:
    """A line of meta.jsonl. Fields that are missing or null keep their default; an unknown kind is a job, an
    unknown way of sharing is told by the share. ValueError for what cannot be judged by: numbers that are
    none, no time or none at all between start and end.
    """
    given = {
        k: v
        for k, v in meta.items()
        if v is not None and k in Allocation.__dataclass_fields__ and k != "offsets"
    }
    given |= {name: _finite(name, given[name]) for name in _NUMBERS if name in given}
    if "office_hours" in given:
        given["office_hours"] = _hours(given["office_hours"])
    for name in ("id", "model", "profile"):
        given[name] = str(given.get(name, ""))
    given["sms"] = int(given.get("sms", 0)) or Allocation.sms
    given["kind"] = _kind(str(given.get("kind", JOB)).lower())
    given["sharing"] = _sharing(str(given.get("sharing", "")).lower(), given)
    found = Allocation(**given)
    if "start" not in given or not 0 < found.end - found.start <= LONGEST:
        raise ValueError(f"from {meta.get('start')} to {meta.get('end')} is not a period that can be judged")
    if found.idle_window_s <= 0 or found.share <= 0 or found.step_s < 0:
        raise ValueError("idle_window_s and share must be over 0, step_s not under it")
    return found


_NUMBERS = ("share", "total_mib", "start", "end", "sms", "tdp_w", "utc_offset_h", "idle_window_s", "step_s")
LONGEST = 400 * 86_400.0
"""Seconds; whoever writes milliseconds is told so."""


def _finite(name: str, value: object) -> float:
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError) as problem:
        raise ValueError(f"{name}: {value!r} is not a number") from problem
    if not math.isfinite(number):
        raise ValueError(f"{name}: {value!r} is not a number")
    return number


def _hours(value: object) -> tuple[float, float]:
    if not isinstance(value, Sequence) or len(value) != 2:
        raise ValueError(f"office_hours: {value!r} is not a pair of hours")
    return _finite("office_hours", value[0]), _finite("office_hours", value[1])


def _sharing(word: str, given: Mapping[str, Any]) -> str:
    if MIG in word or (not word and given["profile"]):
        return MIG
    shared = word in _SHARED or given.get("share", 1.0) < 0.99
    return (word or "shared") if shared and word not in _ALONE else WHOLE


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
    """The trusted samples in order of time, `step` seconds apart where nothing is missing: the step of the
    source, never of what survived.
    """

    allocation: Allocation
    samples: Sequence[Sample]
    step: float
    holes: Sequence[tuple[float, float]]
    """Spans without a known sample that are too long to bridge."""
    total_mib: float
    """The memory of the device: what the allocation says, else what the exporter says."""

    @cached_property
    def coverage(self) -> float:
        """Share of the allocation's time that known samples speak of, before holes are bridged."""
        return self.seen(self.allocation.start, self.allocation.end)

    @cached_property
    def sees_pipes(self) -> bool:
        """Whether anybody measures tensor cores or memory."""
        return any(s.tensor is not None or s.dram is not None for s in self.samples)

    @property
    def silent(self) -> float:
        """Seconds since the last sample."""
        return self.allocation.end - (self.samples[-1].ts if self.samples else self.allocation.start)

    def seen(self, begin: float, end: float) -> float:
        """The share of a span that samples speak of: each of the time before it, of one step at most."""
        first, last = (bisect_right(self.samples, at, key=_TIME) for at in (begin, end))
        times = [begin, *(s.ts for s in self.samples[first:last]), end]
        spoken = sum(min(b - a, JITTER * self.step) for a, b in pairwise(times))
        return min(1.0, spoken / (end - begin)) if first < last else 0.0


BRIDGED = 600.0
"""Holes up to this long are bridged: one window of the signals. Longer ones are unknown time."""


def clean(allocation: Allocation, samples: Iterable[Sample]) -> Trace:
    """Sort late rows in, keep the first of duplicates, drop the frozen, the foreign and the blind ones."""
    inside = [s for s in samples if allocation.start <= s.ts <= allocation.end]
    ordered = [next(same) for _, same in groupby(sorted(inside, key=_TIME), _TIME)]
    # GPU_UTIL and watts alone do not say what the multiprocessors did.
    known = [s for s in _thaw(ordered) if s.sm is not None]
    step = allocation.step_s or _step(ordered)
    total = allocation.total_mib or median([s.total for s in known if s.total] or [0.0])
    return Trace(allocation, known, step, _holes(allocation, known), total)


def _step(samples: Sequence[Sample]) -> float:
    """The source's, from what survived of it: that of the closest samples."""
    gaps = sorted(b.ts - a.ts for a, b in pairwise(samples))
    if len(gaps) < FEWEST_GAPS:
        return STEP
    closest = gaps[int(CLOSEST * len(gaps))]
    return min(300.0, max(5.0, median(gap for gap in gaps if closest / ALIKE <= gap <= closest * ALIKE)))


def _holes(allocation: Allocation, samples: Sequence[Sample]) -> list[tuple[float, float]]:
    times = [allocation.start, *(s.ts for s in samples), allocation.end]
    return [(a, b) for a, b in pairwise(times) if b - a > BRIDGED]


_TIME, _MEASURED = itemgetter(0), itemgetter(1, 2, 3, 4, 5, 6, 8)


def _thaw(samples: Sequence[Sample]) -> list[Sample]:
    """Without the repetitions of a frozen exporter, which serves its last values for ever."""
    runs = [list(run) for _, run in groupby(samples, _MEASURED)]
    if max(map(len, runs), default=0) < FROZEN_ROWS:
        return list(samples)
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
