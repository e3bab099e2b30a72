"""What one sample proves about the work of an allocation, and what ten minutes of samples prove together.

Physics (DCGM's field definitions, measured behaviour of data-centre GPUs):
- Work shows in a pipe or in watts. Training and inference keep tensor cores or DRAM busy; integer work
  touches neither but draws power in proportion to SM active. GPU_UTIL is the share of time *any* kernel ran:
  it may contradict other counters, it never proves work.
- One spinning block is one multiprocessor of this instance: 1/132 of an H100, 1/16 of its 1g slice.
- Blocks that sleep on every multiprocessor read SM active 1.0 at the watts of a parked board.
- Profiling counters may read 0 under full load (dcgm-exporter issue 662): watts contradict them.
- Watts are the board's. A MIG instance's part of them is unknown; it is at most all of them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise
from statistics import fmean, median
from typing import NamedTuple

from apps.metering.detector import noise
from apps.metering.detector.moments import spread
from apps.metering.detector.noise import FLOOR, Reading
from apps.metering.detector.trace import Sample, Trace

BUCKET = 600.0
"""Seconds that are judged together: a second of full load in ten minutes is 0.17 % of them."""
PIPE = 0.008
"""Tensor or DRAM active over a bucket: five seconds of a saturated pipe in ten minutes."""
SPIN_BLOCKS = 4.2
"""A few spinning blocks are a token; more need a reason that shows elsewhere."""
PAID_BLOCKS = 2.5
"""Two blocks draw nothing; what the board draws then are its clocks."""
LEAST_SM, MOST_SPIN = 0.02, 0.3
WORKING_EFFORT = 0.12
BUSY_UTIL = 0.5
"""GPU_UTIL over which kernels ran so often that counters at 0 contradict it: one block reads more."""
STUCK_EFFORT = 0.25
"""Share of the dynamic power range that no parked, clocked-up or spinning board reaches."""
RESTING, PAID_SHARE = 0.17, 0.4
"""What a board of slices draws at rest, at most; and the part of what a slice may draw that its work does."""
SLEEPING_EFFORT, SLEEPING_OCCUPANCY = 0.22, 0.06
"""Effort per SM active under which blocks must be asleep; one warp of 64 per multiprocessor is 0.016."""
CALM_ROWS, CALM = 10, 0.03
"""Rows of a shared board at rest and busy that can be compared, and how much of its watts they may vary."""
CAPABLE, PARKED_EFFORT = 0.2, 0.15
SMALL_BOARD = 160.0
"""Watts; under it are the boards without HBM that raise their clocks for a context."""
MEMORY_HELD = 0.03
CONTEXT_MIB = 100.0
"""Nothing runs without a context, and none takes less; what a shared board draws then is a neighbour's."""
BARE_ROWS = 4
"""Rows without a context that tell what counters read by themselves."""
RISE, RISE_OF_SHARE = 0.08, 0.3
RECENT_ROWS = 120
"""Of what came before and after: an hour."""
UTIL_SEEN, TOUCHED = 0.05, 0.002


class Proof(Enum):
    """What a bucket proves. FAINT needs its rhythm judged."""

    WORK = "work"
    FAINT = "faint"
    NOTHING = "nothing"
    UNKNOWN = "unknown"


class Signal(NamedTuple):
    """A sample as evidence: `sm` without sleepers; `token` is activity that is no proof of work by itself;
    `busiest` the most active of its counters; `active` whether anything ran.
    """

    ts: float
    sm: float
    tensor: float
    dram: float
    effort: float | None
    token: float
    asleep: bool
    stuck: bool
    blind: bool
    util: float | None
    busiest: float
    active: bool

    @property
    def intensity(self) -> float:
        """The part of the device in use, by its busiest resource: the formula of the effective price."""
        return 1.0 if self.stuck else self.busiest


class Meter:
    """Reads the samples of one trace. `parked` is the board at rest: the lowest watts seen, as far as they
    are credible for a board of this size.
    """

    def __init__(self, trace: Trace) -> None:
        allocation = trace.allocation
        self._share = 1.0 if allocation.own_board else max(allocation.share, 0.05)
        self._tdp = allocation.tdp_w
        watts = sorted(s.watts for s in trace.samples if s.watts)
        low = watts[len(watts) // 20] if watts else 0.0
        # Small boards rest at a third of their watts as soon as anything raises their clocks: an L4, a T4 at
        # 28 of 70 W. Without a context they read 10, and that says nothing about work.
        small = self._tdp < SMALL_BOARD
        self.parked = min(max(low, 0.3 * self._tdp), 0.4 * self._tdp) if small else min(low, 0.2 * self._tdp)
        self._suspect = self._share < 1.0 and (self._rose(trace) or self._draws_on(trace))
        self._unborne = not any(_moves(s) for s in trace.samples)
        self._unpaid = self._share < 1.0 and self._costs_nothing(trace)
        self._start = trace.allocation.start
        self._asleep = self._sleeping(trace)

    def effort(self, sample: Sample) -> float | None:
        """Share of the board's dynamic power in use: 0 parked, 1 at its limit. None without watts."""
        if not sample.watts or self._tdp <= self.parked:
            return None
        return max(0.0, (sample.watts - self.parked) / (self._tdp - self.parked))

    def read(self, sample: Sample) -> Signal:
        """The evidence in one known sample."""
        effort = self.effort(sample)
        token, tensor, dram = sample.sm or 0.0, sample.tensor or 0.0, sample.dram or 0.0
        asleep = _may_sleep(sample) and self._index(sample) in self._asleep
        sm = 0.0 if asleep else token
        stuck, blind = (False, False) if token or tensor or dram else self._silent(sample, effort)
        return Signal(
            sample.ts, sm, tensor, dram, effort if self._share == 1.0 else None, token, asleep, stuck, blind,
            sample.util, max(sm, tensor, dram), _is_active(token, max(tensor, dram), sample.util),
        )  # fmt: skip

    def _silent(self, sample: Sample, effort: float | None) -> tuple[bool, bool]:
        """(stuck, blind) of counters that all read 0."""
        own, nothing = self._share == 1.0, sample.memory is not None and sample.memory < CONTEXT_MIB
        if nothing and not own:
            return False, False
        silent = (effort or 0.0) >= STUCK_EFFORT if own else self._may_work(sample)
        if silent and own and (sample.util is None or sample.util >= 0.3):
            return True, False
        # One block spinning all the time would read more than 0; only parked watts say that nothing runs.
        parked = own and effort is not None and effort < PARKED_EFFORT
        impossible = (sample.util or 0.0) >= BUSY_UTIL and not parked
        # Counters that never moved are believed where no context is, or watts or GPU_UTIL bear them out.
        unborne = self._unborne and not nothing and sample.util is None and not sample.watts
        return False, impossible or unborne or (silent and not own and self._contradicted(sample))

    def _may_work(self, sample: Sample) -> bool:
        """Whether a shared board draws enough for this slice to work, whoever does."""
        rest = RESTING * self._tdp
        return (sample.watts or 0.0) - rest >= PAID_SHARE * self._share * (self._tdp - rest)

    def _index(self, sample: Sample) -> int:
        return int((sample.ts - self._start) // BUCKET)

    def _sleeping(self, trace: Trace) -> frozenset[int]:
        """The buckets in which what keeps multiprocessors busy sleeps. Judged together: watts are read at a
        moment and counters over a while, and a cell may be empty.
        """
        grouped: dict[int, list[Sample]] = {}
        for sample in trace.samples:
            if _may_sleep(sample):
                grouped.setdefault(self._index(sample), []).append(sample)
        return frozenset(index for index, group in grouped.items() if self._sleep(group))

    def _sleep(self, group: Sequence[Sample]) -> bool:
        """Told by watts on a board of its own, by occupancy on a slice; by what half of the samples tell."""
        sm, half = fmean(s.sm or 0.0 for s in group), len(group) / 2
        if self._share == 1.0:
            efforts = [min(1.0, effort) for s in group if (effort := self.effort(s)) is not None]
            return len(efforts) >= half and fmean(efforts) < SLEEPING_EFFORT * sm
        # A slice that always works has no parked watts to compare with, and neighbours hide its own; but
        # nothing useful runs one warp wide and reads no memory.
        drams = [s.dram for s in group if s.dram is not None]
        widths = [s.occupancy for s in group if s.occupancy is not None]
        thin = len(widths) >= half and median(widths) <= SLEEPING_OCCUPANCY * sm
        return (thin or self._unpaid) and len(drams) >= half and max(drams) < FLOOR

    def _costs_nothing(self, trace: Trace) -> bool:
        """Whether a calm board draws no more while this slice's multiprocessors are busy without a pipe than
        while they rest: neighbours are in both, and work is paid for in watts. What nobody read is neither.
        """
        rows = [s for s in trace.samples if s.watts and s.dram is not None and not s.dram]
        rest = [s.watts for s in rows if s.watts and s.sm is not None and not (s.sm or s.tensor)]
        busy = [(s.watts, s.sm) for s in rows if s.watts and s.sm is not None and s.sm >= CAPABLE]
        if len(rest) < CALM_ROWS or len(busy) < CALM_ROWS or self._tdp <= self.parked:
            return False
        drawn = [watts for watts, _ in busy]
        if max(spread(rest), spread(drawn)) > CALM * self._tdp:
            return False
        rise = (median(drawn) - median(rest)) / (self._tdp - self.parked)
        return rise < SLEEPING_EFFORT * self._share * median(sm for _, sm in busy)

    def _contradicted(self, sample: Sample) -> bool:
        """On a shared board high watts may be a neighbour's, unless they came with this allocation's
        memory.
        """
        return self._suspect if sample.util is None else sample.util >= 0.5

    def _rose(self, trace: Trace) -> bool:
        """Counters that never moved, and watts that rose when memory was loaded; or nobody saw whether they
        did.
        """
        if any(_moves(s) for s in trace.samples):
            return False
        limit = MEMORY_HELD * trace.total_mib
        loaded = next((i for i, s in enumerate(trace.samples) if (s.memory or 0.0) > limit), 0)
        before = [e for s in trace.samples[:loaded] if (e := self.effort(s)) is not None]
        after = [e for s in trace.samples[loaded : loaded + RECENT_ROWS] if (e := self.effort(s)) is not None]
        if len(before) < 2 or not after:
            return True
        return median(after) - median(before) >= max(RISE, RISE_OF_SHARE * self._share)

    def _draws_on(self, trace: Trace) -> bool:
        """Counters that moved and then stood at 0 to the end, while the board draws what it drew with the
        work: it is they that stopped.

        RULE: the rows next to the end are compared and no others, for over minutes the neighbours' part is
        the same; counters that stop do so under load, and work that rests before them ended by itself.
        """
        last = next((i for i, s in enumerate(reversed(trace.samples)) if _moves(s)), len(trace.samples))
        ended = len(trace.samples) - last
        before, after = trace.samples[max(0, ended - CALM_ROWS) : ended], trace.samples[ended:][:CALM_ROWS]
        worked = [s for s in before if s.watts and (s.sm or 0.0) >= CAPABLE]
        left = [s.watts for s in after if s.watts]
        if 2 * min(len(worked), len(left)) < CALM_ROWS or self._tdp <= self.parked:
            return False
        # Watts are read at a moment, and meet the bursts of a row or its pauses: means, no medians.
        drop = (fmean(s.watts or 0.0 for s in worked) - fmean(left)) / (self._tdp - self.parked)
        return drop < SLEEPING_EFFORT * self._share * fmean(s.sm or 0.0 for s in worked)


@dataclass(frozen=True)
class Bucket:
    """Ten minutes [start, start + BUCKET), by floor, and what they prove."""

    start: float
    signals: Sequence[Signal]
    proof: Proof

    @property
    def end(self) -> float:
        """Where the next one begins."""
        return self.start + BUCKET


def read_signals(trace: Trace) -> list[Signal]:
    """Every sample as evidence, less what the counters read by themselves."""
    meter = Meter(trace)
    signals = [meter.read(s) for s in trace.samples]
    of_sm = [Reading(s.token, s.tensor + s.dram, s.util) for s in signals]
    floor = noise.floor(of_sm, is_sm=True)
    # A reading of one counter is no noise of another: what copies a little touches memory alone.
    pipes = noise.floor(
        [Reading(max(s.tensor, s.dram), s.token, s.util) for s in signals],
        by_itself=_reads_alone(trace),
    )
    alone = noise.alone(of_sm, trace.step) if trace.sees_pipes else 0.0
    if max(floor, pipes, alone) <= FLOOR:
        return signals
    return [_quieted(s, max(floor, alone) if _is_alone(s) else floor, pipes) for s in signals]


def _is_alone(signal: Signal) -> bool:
    """Whether multiprocessors read something and nothing else does."""
    return not (signal.tensor or signal.dram or signal.util)


def _reads_alone(trace: Trace) -> bool:
    """Whether a pipe read something in most of the rows without a context: nothing runs in them."""
    bare = [
        max(s.tensor or 0.0, s.dram or 0.0)
        for s in trace.samples
        if s.memory is not None and s.memory < CONTEXT_MIB
    ]
    return len(bare) >= BARE_ROWS and sum(value > FLOOR for value in bare) > len(bare) / 2


def _moves(sample: Sample) -> bool:
    """Whether a counter reads anything."""
    return bool(sample.sm or sample.tensor or sample.dram)


def _may_sleep(sample: Sample) -> bool:
    """Many multiprocessors busy, and no pipe."""
    sm = sample.sm or 0.0
    return sm >= CAPABLE and max(sample.tensor or 0.0, sample.dram or 0.0) < max(0.01, 0.05 * sm)


def _quieted(signal: Signal, floor: float, pipes: float) -> Signal:
    sm, token = (value if value >= floor else 0.0 for value in (signal.sm, signal.token))
    tensor, dram = (value if value >= pipes else 0.0 for value in (signal.tensor, signal.dram))
    active = _is_active(token, max(tensor, dram), signal.util)
    return signal._replace(
        sm=sm, tensor=tensor, dram=dram, token=token, busiest=max(sm, tensor, dram), active=active
    )


def buckets(trace: Trace, signals: Sequence[Signal]) -> list[Bucket]:
    """The allocation's time in buckets; one with under a third of its samples is unknown."""
    start, spin = trace.allocation.start, spin_limit(trace)
    paid = max(LEAST_SM, PAID_BLOCKS * trace.allocation.block)
    grouped: dict[int, list[Signal]] = {}
    for signal in signals:
        grouped.setdefault(int((signal.ts - start) // BUCKET), []).append(signal)
    count = int((trace.allocation.end - start) // BUCKET) + 1
    made = []
    for index in range(count):
        found = grouped.get(index, [])
        whole = min(BUCKET, trace.allocation.end - start - index * BUCKET) / trace.step
        enough = len(found) >= max(1.0, whole / 3)
        proof = _proof(found, (spin, paid)) if enough else Proof.UNKNOWN
        made.append(Bucket(start + index * BUCKET, found, proof))
    return made


def spin_limit(trace: Trace) -> float:
    """SM active up to which some blocks may just spin, on this instance."""
    return min(MOST_SPIN, max(LEAST_SM, SPIN_BLOCKS * trace.allocation.block))


def _proof(found: Sequence[Signal], limits: tuple[float, float]) -> Proof:
    """`limits`: SM active that is work by itself, and that is work where watts say so, too."""
    spin, least = limits
    count = len(found)
    _, sms, tensors, drams, efforts, _, _, stuck, blind, _, busiest, active = zip(*found, strict=True)
    if sum(blind) > count / 3:
        return Proof.UNKNOWN
    if sum(stuck) >= max(2, count / 4):
        return Proof.WORK
    if _lasts([value > 0.002 for value in busiest]):
        pipe, sm = max(sum(tensors), sum(drams)) / count, sum(sms) / count
        paid = [effort for effort in efforts if effort is not None] if sm >= least else []
        if pipe >= PIPE or sm >= spin or (paid and sum(paid) / len(paid) >= WORKING_EFFORT):
            return Proof.WORK
    return Proof.FAINT if any(active) else Proof.NOTHING


def _lasts(loaded: Sequence[bool]) -> bool:
    """Two samples of load in a row, or three. One may be a second of load, whether the exporter averages or
    not, and ten minutes may hold the begin of two such intervals.
    """
    return sum(loaded) >= min(3, len(loaded)) or any(a and b for a, b in pairwise(loaded))


def _is_active(token: float, pipe: float, util: float | None) -> bool:
    """Whether anything ran: above the floor of the counters, or a kernel that GPU_UTIL happened to meet."""
    return token > FLOOR or pipe > TOUCHED or (util is not None and util >= UTIL_SEEN)
