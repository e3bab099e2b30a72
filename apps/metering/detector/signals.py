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

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from statistics import correlation, fmean, median, pstdev

from apps.metering.detector.trace import Sample, Trace

BUCKET = 600.0
"""Seconds that are judged together: a second of full load in ten minutes is 0.17 % of them."""
PIPE = 0.008
"""Tensor or DRAM active over a bucket: five seconds of a saturated pipe in ten minutes."""
SPIN_BLOCKS = 4.2
"""A few spinning blocks are a token; more need a reason that shows elsewhere."""
LEAST_SM, MOST_SPIN = 0.02, 0.3
WORKING_EFFORT = 0.12
STUCK_EFFORT = 0.25
"""Share of the dynamic power range that no parked, clocked-up or spinning board reaches."""
SLEEPING_EFFORT, SLEEPING_OCCUPANCY = 0.22, 0.06
"""Effort per SM active under which blocks must be asleep; one warp of 64 per multiprocessor is 0.016."""
CAPABLE, PARKED_EFFORT = 0.2, 0.15
FLOOR = 0.0002
"""What counters read when nothing runs is at most this; most read exactly 0, noisy ones a tiny bit more."""
SMALL = (0.02, 0.006, 0.002)
NOISY_SHARE, NOISY_SPREAD, CLUSTERED, COARSE = 0.3, 0.3, 1.5, 0.005
MEMORY_HELD = 0.03
RISE, RISE_OF_SHARE = 0.08, 0.3
UTIL_SEEN = 0.05
STEADY_RATIO, DOUBLE_RATIO = 0.75, 0.8
"""Of the variation of chance arrivals, where there are very many groups to tell."""


class Proof(Enum):
    """What a bucket proves. FAINT needs its rhythm judged."""

    WORK = "work"
    FAINT = "faint"
    NOTHING = "nothing"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Signal:
    """A sample as evidence: `sm` without sleepers; `token` is activity that is no proof of work by itself."""

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

    @property
    def intensity(self) -> float:
        """The part of the device in use, by its busiest resource: the formula of the effective price."""
        return 1.0 if self.stuck else max(self.sm, self.dram, self.tensor)


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
        # Small boards park high: an L4 or T4 with a context rests at a third of its 70 W.
        self.parked = min(low, self._tdp * (0.2 if self._tdp >= 150 else 0.4))
        self._suspect = self._share < 1.0 and self._rose(trace)

    def effort(self, sample: Sample) -> float | None:
        """Share of the board's dynamic power in use: 0 parked, 1 at its limit. None without watts."""
        if not sample.watts or self._tdp <= self.parked:
            return None
        return max(0.0, (sample.watts - self.parked) / (self._tdp - self.parked))

    def read(self, sample: Sample) -> Signal:
        """The evidence in one known sample."""
        effort = self.effort(sample)
        sm, tensor, dram = sample.sm or 0.0, sample.tensor or 0.0, sample.dram or 0.0
        own = self._share == 1.0
        zero = sm == 0.0 and tensor == 0.0 and dram == 0.0
        silent = zero and (effort or 0.0) >= STUCK_EFFORT
        # One block spinning all the time would read more than 0; only parked watts say that nothing runs.
        parked = own and effort is not None and effort < PARKED_EFFORT
        impossible = zero and (sample.util or 0.0) >= 0.9 and not parked
        asleep = (
            sm >= CAPABLE and max(tensor, dram) < max(0.01, 0.05 * sm) and self._asleep(sample, sm, effort)
        )
        stuck = silent and own and (sample.util is None or sample.util >= 0.3)
        return Signal(
            ts=sample.ts,
            sm=0.0 if asleep else sm,
            tensor=tensor,
            dram=dram,
            effort=effort if own else None,
            token=sm,
            asleep=asleep,
            stuck=stuck,
            blind=not stuck and (impossible or (silent and not own and self._contradicted(sample))),
            util=sample.util,
        )

    def _asleep(self, sample: Sample, sm: float, effort: float | None) -> bool:
        """Told by watts on a board of its own, by occupancy on a slice."""
        if self._share == 1.0:
            return effort is not None and min(1.0, effort) < SLEEPING_EFFORT * sm
        # A slice that always works has no parked watts to compare with, and neighbours hide its own; but
        # nothing useful runs one warp wide and reads no memory.
        thin = sample.occupancy is not None and sample.occupancy <= SLEEPING_OCCUPANCY * sm
        return thin and sample.dram is not None and sample.dram < FLOOR

    def _contradicted(self, sample: Sample) -> bool:
        """On a shared board high watts may be a neighbour's, unless they came with this allocation's
        memory.
        """
        return self._suspect if sample.util is None else sample.util >= 0.5

    def _rose(self, trace: Trace) -> bool:
        """Counters that never moved, and watts that rose when memory was loaded; or nobody saw whether they
        did.
        """
        if any((s.sm or 0.0) > 0 or (s.dram or 0.0) > 0 for s in trace.samples):
            return False
        limit = MEMORY_HELD * trace.total_mib
        loaded = next((i for i, s in enumerate(trace.samples) if (s.memory or 0.0) > limit), 0)
        before = [e for s in trace.samples[:loaded] if (e := self.effort(s)) is not None]
        after = [e for s in trace.samples[loaded : loaded + 120] if (e := self.effort(s)) is not None]
        if len(before) < 2 or not after:
            return True
        return median(after) - median(before) >= max(RISE, RISE_OF_SHARE * self._share)


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
    floor = noise_floor(signals)
    return [_quieted(s, floor) for s in signals] if floor > FLOOR else signals


def _quieted(signal: Signal, floor: float) -> Signal:
    return replace(
        signal,
        sm=signal.sm if signal.sm >= floor else 0.0,
        tensor=signal.tensor if signal.tensor >= floor else 0.0,
        dram=signal.dram if signal.dram >= floor else 0.0,
        token=signal.token if signal.token >= floor else 0.0,
    )


def noise_floor(signals: Sequence[Signal]) -> float:
    """What this exporter reads when nothing runs. Small readings are noise when they are independent from
    sample to sample and from the pipes: a loop evens out, cells cluster, requests move every counter. Smaller
    ones are tried when larger ones hang together.
    """
    first = next((i for i, s in enumerate(signals) if s.token > 0), 0)
    for limit in SMALL:
        floor = _floor([s for s in signals[first:] if s.token < limit])
        if floor > FLOOR:
            return floor
    return FLOOR


def _floor(tiny: Sequence[Signal]) -> float:
    tokens = [s.token for s in tiny]
    known = sorted(t for t in tokens if t > 0)
    if len(tiny) < 60 or len(known) < 2:
        return FLOOR
    # Where readings are rounded to hundredths, noise is a step now and then.
    coarse = known[0] >= COARSE and known[int(0.95 * len(known))] <= 2.01 * known[0]
    if not (coarse or len(known) >= NOISY_SHARE * len(tiny)) or _structured(tiny, tokens):
        return FLOOR
    return 2.5 * known[0] if coarse else max(FLOOR, 6.0 * median(known))


def _structured(tiny: Sequence[Signal], tokens: Sequence[float]) -> bool:
    """Whether readings hang together, in time or with the pipes."""
    groups = [fmean(tokens[i : i + 10]) for i in range(0, len(tokens) - 9, 10)]
    pipes = [s.tensor + s.dram for s in tiny]
    spread = pstdev(tokens)
    clustered = pstdev(groups) > CLUSTERED * spread / 10**0.5
    related = spread > 0 and pstdev(pipes) > 0 and correlation(tokens, pipes) >= 0.5
    return clustered or related or spread <= NOISY_SPREAD * fmean(tokens) or regular(tokens, 10)


def regular(values: Sequence[float], size: int) -> bool:
    """Whether means of `size` values vary clearly less than means of as many independent ones would: chance
    arrivals and noise are independent, a loop makes up for what it missed. Two and a half standard errors,
    and means of twice as many must not contradict.
    """
    if len(values) < 6 * size or fmean(values) <= 0:
        return False
    groups = len(values) // size
    limit = min(STEADY_RATIO, 1.0 - 2.5 / (2 * groups) ** 0.5)
    return _of_chance(values, size) <= limit and _of_chance(values, 2 * size) <= DOUBLE_RATIO


def _of_chance(values: Sequence[float], size: int) -> float:
    """Variation of means of `size` values over that of independent ones."""
    chance = pstdev(values) / size**0.5
    means = [fmean(values[i : i + size]) for i in range(0, len(values) - size + 1, size)]
    return pstdev(means) / chance if chance > 0 else 0.0


def buckets(trace: Trace, signals: Sequence[Signal]) -> list[Bucket]:
    """The allocation's time in buckets; one with under a third of its samples is unknown."""
    start, spin = trace.allocation.start, spin_limit(trace)
    grouped: dict[int, list[Signal]] = {}
    for signal in signals:
        grouped.setdefault(int((signal.ts - start) // BUCKET), []).append(signal)
    count = int((trace.allocation.end - start) // BUCKET) + 1
    made = []
    for index in range(count):
        found = grouped.get(index, [])
        whole = min(BUCKET, trace.allocation.end - start - index * BUCKET) / trace.step
        enough = len(found) >= max(1.0, whole / 3)
        proof = _proof(found, spin) if enough else Proof.UNKNOWN
        made.append(Bucket(start + index * BUCKET, found, proof))
    return made


def spin_limit(trace: Trace) -> float:
    """SM active up to which some blocks may just spin, on this instance."""
    return min(MOST_SPIN, max(LEAST_SM, SPIN_BLOCKS * trace.allocation.block))


def _mean(values: Iterator[float], count: int) -> float:
    return sum(values) / count


def _proof(found: Sequence[Signal], spin: float) -> Proof:
    count = len(found)
    if sum(s.blind for s in found) > count / 3:
        return Proof.UNKNOWN
    if sum(s.stuck for s in found) >= max(2, count / 10):
        return Proof.WORK
    active = [s for s in found if max(s.sm, s.tensor, s.dram) > 0.002]
    pipe = max(_mean((s.tensor for s in found), count), _mean((s.dram for s in found), count))
    sm = _mean((s.sm for s in found), count)
    efforts = [s.effort for s in found if s.effort is not None]
    paid = sm >= LEAST_SM and bool(efforts) and sum(efforts) / len(efforts) >= WORKING_EFFORT
    # One sample of load in ten minutes may be a second of it, whether the exporter averages or not.
    if len(active) >= min(2, count) and (pipe >= PIPE or sm >= spin or paid):
        return Proof.WORK
    return Proof.FAINT if any(is_active(s) for s in found) else Proof.NOTHING


def is_active(signal: Signal) -> bool:
    """Whether anything ran: above the floor of the counters, or a kernel that GPU_UTIL happened to meet."""
    seen = signal.util is not None and signal.util >= UTIL_SEEN
    return signal.token > FLOOR or max(signal.tensor, signal.dram) > 0.003 or seen
