"""When too little was seen to say anything, or to say it now: what is not known is never idle. Pure."""

from apps.metering.detector import memory
from apps.metering.detector.rules import Case
from apps.metering.detector.signals import Proof
from apps.metering.detector.trace import BRIDGED
from apps.metering.detector.usage import length

LEAST_COVERAGE, LEAST_SAMPLES = 0.5, 5
SLOWEST = 60
"""Seconds: the widest step that is judged. Rhythms are told by single samples, and an exporter that reads a
moment instead of an average meets too few.
"""
RECENT = 3600.0
SETTLED = 3
"""Windows of idleness, or hours, after which holes of less than one do not make it unknown."""


def is_unknown(case: Case) -> bool:
    """Under half of the time seen, a step of over a minute, or counters that contradict the watts on a board
    that is shared.
    """
    trace = case.trace
    blind = sum(b.proof is Proof.UNKNOWN for b in case.usage.buckets)
    few = len(trace.samples) < LEAST_SAMPLES or trace.coverage < LEAST_COVERAGE
    return few or round(trace.step) > SLOWEST or blind > (1 - LEAST_COVERAGE) * len(case.usage.buckets)


def blind_at_the_end(case: Case) -> bool:
    """Silent since the last sample for longer than a hole that is bridged; or under half seen or told of what
    came since the last use, or of the last hour, unless it goes on after a hole: it may have worked since.
    """
    held = case.trace.allocation
    since = {a for a, _ in case.usage.trailing[:1]}
    if not _goes_on(case):
        since.add(max(held.start, held.end - max(case.window, RECENT)))
    return case.trace.silent > BRIDGED or any(_is_blind_since(case, at) for at in since)


def _goes_on(case: Case) -> bool:
    """RULE: what idled for three windows (hours, where the window is shorter) that were seen, and was seen
    again for ten minutes after holes of less than one with the memory it held before, has not worked in them.
    A countdown waits all the same.
    """
    held, span = case.trace.allocation, max(case.window, RECENT)
    hidden = [hole for hole in case.trace.holes if hole[1] > held.end - span]
    if not hidden or length(case.usage.trailing) < SETTLED * span or length(hidden) >= span:
        return False
    begins, ends = hidden[0][0], hidden[-1][1]
    since = [b.proof for b in case.usage.buckets if b.start >= ends and b.end <= held.end]
    seen = held.end - ends >= BRIDGED and case.trace.seen(ends, held.end) >= LEAST_COVERAGE
    return Proof.UNKNOWN not in since and seen and memory.is_kept(case.trace, begins, ends)


def _is_blind_since(case: Case, since: float) -> bool:
    proofs = [bucket.proof for bucket in case.usage.buckets if bucket.end > since]
    untold = proofs.count(Proof.UNKNOWN) > (1 - LEAST_COVERAGE) * len(proofs)
    return untold or case.trace.seen(since, case.trace.allocation.end) < LEAST_COVERAGE
