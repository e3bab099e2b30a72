"""One rule per finding. Each states the physics it rests on; none looks at GPU_UTIL to decide idleness.

The thresholds were fixed on generated allocations (tests/metering/traces) of seeds 1 to 200 and are scored on
others; docs/detectors.md holds the table.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from itertools import pairwise
from statistics import fmean, median
from typing import TypeVar

from apps.metering.detector import memory, sizing
from apps.metering.detector.memory import Life
from apps.metering.detector.moments import spread
from apps.metering.detector.signals import Signal
from apps.metering.detector.sizing import Advice, Need
from apps.metering.detector.trace import BRIDGED, JOB, SERVICE, WHOLE, Sample, Trace
from apps.metering.detector.usage import Span, Usage, length, merged


class Finding(StrEnum):
    """What an allocation is."""

    HEALTHY = "healthy"
    UNKNOWN = "unknown"
    HOARDER = "hoarder"
    ZOMBIE = "zombie"
    EVASION = "evasion"
    FORGOTTEN = "forgotten"
    OVERSIZED = "oversized"
    UNDERSIZED = "undersized"
    DATA_STARVED = "data-starved"
    MEMORY_LEAK = "memory-leak"
    CRASH_LOOP = "crash-loop"
    SCALE_TO_ZERO = "scale-to-zero"
    WRONG_SHARING_MODE = "wrong-sharing-mode"


Timed = TypeVar("Timed", Sample, Signal)
ZOMBIE_SECONDS, HOLDING = 1800.0, 0.8
FORGOTTEN_WORK = 1800.0
"""Seconds of use that make an abandoned allocation forgotten rather than hoarded from the start."""
ABANDONED_SERVICE, NIGHT, EMPTY_SHARE = 3 * 86_400.0, 12 * 3600.0, 0.45
FEWEST_CRASHES, CRASH_LIFE, LONG_LIFE, ON_DEMAND_LIFE = 4, 300.0, 1800.0, 200.0
UP_SHARE, FEWEST_ERRORS, MANY_LIVES = 0.7, 3, 10
"""A longer life, under half an hour, is a crash where XIDs come between lives, or where a service has so
many: nothing ends a service but its failure.
"""
BACKOFF = 330.0
"""The kubelet's longest pause of five minutes, and what it takes to start: whoever loads on demand waits
longer. Samples see it a step longer, and half of them more than that.
"""
PROBED, PROBED_UTIL, SESSIONS, LONG_USE = 0.005, 0.05, 3, 10_800.0
"""What probes of a service's readiness take at most, where it was asked in sessions, or for long."""
ONE_PROBE = 0.02
"""What they take of a sample: the kubelet waits a second for one that comes every few, not for a long one."""
STEADY_JOB, STEADY_SERVICE = 0.6, 0.85
LEAST_WORK = 1200.0
STARVED, STARVED_FLOOR, STUCK_SHARE = 0.5, 0.015, 0.1
BURSTY, BUSY_UTIL, UTIL_PER_SM = 0.45, 0.75, 2.2
PINNED_SHARE, SATURATED = 0.5, 0.87
SATURATED_SERVICE = 0.965
SMALLER = 0.6
SHARED_LOAD = 0.7
QUARTER, LITTLE_MEMORY = 0.25, 0.2


@dataclass(frozen=True)
class Case:
    """What the rules look at. What not every rule asks for is read when one does."""

    usage: Usage

    @cached_property
    def lives(self) -> Sequence[Life]:
        """Runs of the processes."""
        return memory.lives(self.trace)

    @cached_property
    def out_of_memory(self) -> bool:
        """Whether memory ends its lives again and again."""
        return memory.runs_out(self.trace, self.lives)

    @cached_property
    def need(self) -> Need:
        """Memory and compute it was seen to need."""
        return sizing.need(self.trace, self.usage.signals)

    @cached_property
    def advice(self) -> Advice | None:
        """The smallest size that would do; None where there is none."""
        return sizing.advise(self.trace, self.need)

    @property
    def trace(self) -> Trace:
        """The samples."""
        return self.usage.trace

    @property
    def kind(self) -> str:
        """Notebook, job or service."""
        return self.trace.allocation.kind

    @property
    def window(self) -> float:
        """The policy's."""
        return self.trace.allocation.idle_window_s

    @property
    def abandoned(self) -> bool:
        """Idle at the end for longer than the policy allows."""
        return bool(self.usage.trailing)

    @cached_property
    def working(self) -> list[Signal]:
        """Samples in proven work, without its first minutes."""
        begin = self.usage.work[0][0] + 180.0 if self.usage.work else 0.0
        return [s for s in inside(self.usage.signals, self.usage.work) if s.ts >= begin]


def inside(timed: Sequence[Timed], spans: Sequence[Span]) -> list[Timed]:
    """What lies in one of the spans, ends included; all in order of time."""
    times = [each.ts for each in timed]
    found: list[Timed] = []
    for begin, end in spans:
        found += timed[bisect_left(times, begin) : bisect_right(times, end)]
    return found


def crash_loop(case: Case) -> bool:
    """Processes come and go: short lives with pauses between (the kubelet backs off 10 s to 5 min), no life
    worth the name since, and still going on. A sweep of short trials begins the next at once and works.
    """
    end, errors = case.trace.allocation.end, _errors(case.trace.samples)
    told = errors >= FEWEST_ERRORS or case.kind == SERVICE
    # A pause may be missed, of two lives of up to half an hour.
    recent = _since_long(case.lives, 2 * LONG_LIFE if told else LONG_LIFE)
    if len(recent) < FEWEST_CRASHES:
        return False
    rounds = [b.start - a.start for a, b in pairwise(recent)]
    goes_on = end - recent[-1].samples[-1].ts <= max(1800.0, 3 * max(rounds))
    if not goes_on or (errors == 0 and (_on_demand(case, recent) or case.out_of_memory)):
        return False
    if errors >= FEWEST_ERRORS or (case.kind == SERVICE and len(recent) >= MANY_LIVES):
        return True
    up = sum(life.seconds + case.trace.step for life in recent) / max(1.0, end - recent[0].start)
    short = median(life.seconds for life in recent) <= (LONG_LIFE if errors else CRASH_LIFE)
    return short and up <= UP_SHARE


def _since_long(lives: Sequence[Life], seconds: float) -> list[Life]:
    long = [life.start for life in lives if life.unbroken >= seconds]
    return [life for life in lives if life.start > (long[-1] if long else 0.0)]


def _errors(samples: Sequence[Sample]) -> int:
    """How often a new XID was seen: the field keeps the last one, be it that of whoever held it before."""
    codes = [s.xid for s in samples if s.xid is not None]
    return sum(b not in (0, a) for a, b in pairwise(codes))


def _on_demand(case: Case, lives: Sequence[Life]) -> bool:
    """A service whose model is loaded when it is asked, for real work: in pauses that requests make."""
    lasting = median(life.seconds for life in lives) >= ON_DEMAND_LIFE
    longer = median(memory.pauses(lives)) > BACKOFF + 1.5 * case.trace.step
    return case.kind == SERVICE and lasting and _works(lives) and longer


def _works(lives: Sequence[Life]) -> bool:
    return (
        median(max((max(s.sm or 0.0, s.dram or 0.0) for s in life.samples), default=0.0) for life in lives)
        >= 0.05
    )


def zombie(case: Case) -> bool:
    """Memory is held and no process is there. Nothing is a zombie where the process count cannot be
    believed.
    """
    trace, end = case.trace, case.trace.allocation.end
    if not memory.trusted_processes(trace):
        return False
    limit = memory.held_limit(trace.total_mib)
    counted = [s for s in trace.samples if s.processes is not None]
    tail: list[Sample] = []
    for sample in reversed(counted):
        if sample.processes:
            break
        tail.append(sample)
    if not tail or end - tail[-1].ts < min(case.window, ZOMBIE_SECONDS):
        return False
    levels = [s.memory for s in tail if s.memory is not None]
    holding = bool(levels) and sum(level >= limit for level in levels) >= HOLDING * len(levels)
    # Nothing runs without a process: what counters read then, short of work, they read by themselves.
    ran = any(end > tail[-1].ts + case.window for _, end in case.usage.work)
    return holding and not ran


def zombie_since(case: Case) -> float:
    """The last sample with a process."""
    alive = [s.ts for s in case.trace.samples if s.processes]
    return alive[-1] if alive else case.trace.samples[0].ts


def evasion(case: Case) -> bool:
    """Idle for longer than the policy allows while a machine keeps the counters moving: a spinning or
    sleeping block, a kernel every few seconds, a burst every few minutes.
    """
    if not case.abandoned or not case.usage.machine:
        return False
    begin = case.usage.trailing[0][0]
    moving = [(max(a, begin), b) for a, b in case.usage.machine if b > begin]
    recent = case.usage.machine[-1][1] >= case.trace.allocation.end - max(case.window, 1200.0)
    return recent and length(moving) >= 0.5 * case.window and not _is_probed(case, moving)


def _is_probed(case: Case, moving: Sequence[Span]) -> bool:
    """A service that sleeps is asked for its readiness by the clock, which takes hardly anything."""
    used = merged([*case.usage.work, *case.usage.touches], bridge=BRIDGED)
    if case.kind != SERVICE or (len(used) < SESSIONS and length(used) < LONG_USE):
        return False
    signals = inside(case.usage.signals, moving)
    utils = [s.util for s in signals if s.util is not None]
    light = not utils or fmean(utils) <= PROBED_UTIL
    met = [s.busiest for s in signals if s.busiest > 0.0] or [0.0]
    return light and fmean(s.busiest for s in signals) <= PROBED and median(met) <= ONE_PROBE


def scale_to_zero(case: Case) -> bool:
    """A service with real requests and spells without one that are longer than the policy's window, half of
    its time: it could have been stopped meanwhile. Requests now and then are use, a quiet night is a night.
    """
    if not _served(case) or length(case.usage.trailing) >= ABANDONED_SERVICE:
        return False
    return length(case.usage.idle) >= EMPTY_SHARE * (case.trace.allocation.end - case.usage.started)


def _served(case: Case) -> bool:
    """More than a trial: a quarter of an hour of requests, or requests after a pause."""
    sessions = len(case.usage.idle) + (not case.abandoned)
    return case.kind == SERVICE and (
        case.usage.worked >= 900.0 or (case.usage.worked > 60.0 and sessions > 1)
    )


def _left(case: Case) -> bool:
    """Idle at the end for longer than the policy allows, and for a service that served longer than a
    night.
    """
    return case.abandoned and (not _served(case) or length(case.usage.trailing) >= NIGHT)


def forgotten(case: Case) -> bool:
    """It was used, and then left."""
    return _left(case) and case.usage.worked >= FORGOTTEN_WORK


def hoarder(case: Case) -> bool:
    """It is held and does nothing: never worth the name, and not within the policy's window."""
    return _left(case)


def memory_leak(case: Case) -> bool:
    """Memory grows in a line until the ceiling, while the work goes on."""
    return memory.leaking(case.trace, case.lives) and bool(case.usage.work or case.usage.touches)


def undersized(case: Case) -> bool:
    """Memory pinned at the ceiling while the multiprocessors are saturated, a service whose requests wait for
    multiprocessors, or lives that end at the ceiling again and again. A full pool alone is how frameworks
    allocate.
    """
    trace, working = case.trace, case.working
    if case.out_of_memory:
        return True
    if not trace.total_mib or len(working) < 10:
        return False
    levels = [s.memory / trace.total_mib for s in inside(trace.samples, case.usage.work) if s.memory]
    pinned = sum(level >= memory.AT_CEILING for level in levels) >= PINNED_SHARE * max(1, len(levels))
    busy = median(max(s.sm, s.dram) for s in working)
    waits = case.kind == SERVICE and busy >= SATURATED_SERVICE
    return waits or (pinned and busy >= SATURATED)


def data_starved(case: Case) -> bool:
    """A job whose device works in bursts and waits between them: SM and DRAM low on average, and either
    uneven or with hardly more time in any kernel than SM active explains (a small job runs small kernels all
    the time). On an instance, where nobody measures the time in kernels: low although its memory fits no
    smaller one.
    """
    working = case.working
    # A board read as it begins to work has its watts before its counters; many such are stuck counters.
    stuck = sum(s.stuck for s in working) > STUCK_SHARE * len(working)
    if case.kind != JOB or len(working) * case.trace.step < LEAST_WORK or stuck:
        return False
    load = [max(s.sm, s.dram) for s in working]
    mean = fmean(load)
    if not STARVED_FLOOR <= mean <= STARVED or median(load) > STARVED:
        return False
    utils = [s.util for s in working if s.util is not None]
    if spread(load) >= BURSTY * mean and max(load) >= 1.6 * mean:
        return True
    if len(utils) >= 0.5 * len(working):
        if case.need.memory_mib <= LITTLE_MEMORY * case.trace.total_mib and oversized(case):
            # A smaller size ends the waste, whatever the rest of the time is spent on.
            return False
        util = fmean(utils)
        return util <= BUSY_UTIL and util <= UTIL_PER_SM * fmean(s.sm for s in working) + 0.05
    return case.advice is None


def steady(case: Case) -> bool:
    """Works most of the time: only then does its size say anything."""
    spent = case.trace.allocation.end - case.usage.started
    share = STEADY_JOB if case.kind == JOB else STEADY_SERVICE
    return length(case.usage.work) >= max(LEAST_WORK, share * spent)


def oversized(case: Case) -> bool:
    """A clearly smaller size would hold the peak of the memory and slow the work by at most a tenth; a job on
    a model that cannot be cut leaves three quarters of it unused.
    """
    advice = case.advice
    if not steady(case):
        return False
    if advice is None:
        # Where the model has no smaller size to cut, a quarter of it is one.
        return case.kind == JOB and not _cuttable(case) and _small(case)
    return advice.size.share <= SMALLER * case.trace.allocation.share and _peak_fits(case, advice)


def _cuttable(case: Case) -> bool:
    return bool(sizing.sizes(case.trace.allocation, case.trace.total_mib))


def _small(case: Case) -> bool:
    """Whether a quarter of a whole device would do."""
    if case.trace.allocation.sharing != WHOLE or not case.working:
        return False
    load = sorted(s.intensity for s in case.working)
    little = case.need.memory_mib <= QUARTER * case.trace.total_mib
    return little and load[int(0.95 * (len(load) - 1))] <= QUARTER


def _peak_fits(case: Case, advice: Advice) -> bool:
    """A service's peak is what its users wait for; one in a hundred samples may exceed the size."""
    if case.kind == JOB:
        return True
    load = sorted(s.sm for s in case.working)
    return load[int(0.99 * (len(load) - 1))] * case.trace.allocation.sms <= sizing.SLOWDOWN * advice.size.sms


def wrong_sharing_mode(case: Case) -> bool:
    """A whole device for something small and steady that many could share, or the full load of a job on a
    device that is shared in time, where neither memory nor latency is isolated.
    """
    allocation = case.trace.allocation
    if not steady(case):
        return False
    if allocation.sharing not in (WHOLE, "mig"):
        load = [max(s.sm, s.dram) for s in case.working]
        return case.kind == JOB and bool(load) and median(load) >= SHARED_LOAD
    return case.kind == SERVICE and _small(case) and (not _cuttable(case) or oversized(case))
