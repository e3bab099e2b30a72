"""The verdict on an allocation: the order of the rules, and what follows from a finding.

An action is worse than a silence: what is not known is `unknown`, and idleness counts only where it was seen.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from apps.metering.detector import doubt, rules
from apps.metering.detector.rules import Case, Finding
from apps.metering.detector.trace import Allocation, Sample, Trace, clean, read_allocation, read_samples
from apps.metering.detector.usage import Span, length, merged, read_usage

IDLE_FINDINGS = frozenset(
    {Finding.HOARDER, Finding.ZOMBIE, Finding.EVASION, Finding.FORGOTTEN, Finding.SCALE_TO_ZERO}
)
RESIZED = frozenset({Finding.OVERSIZED, Finding.WRONG_SHARING_MODE})
_ORDER: tuple[tuple[Finding, Callable[[Case], bool]], ...] = (
    (Finding.CRASH_LOOP, rules.crash_loop),
    (Finding.ZOMBIE, rules.zombie),
    (Finding.EVASION, rules.evasion),
    (Finding.SCALE_TO_ZERO, rules.scale_to_zero),
    (Finding.FORGOTTEN, rules.forgotten),
    (Finding.HOARDER, rules.hoarder),
    (Finding.MEMORY_LEAK, rules.memory_leak),
    (Finding.UNDERSIZED, rules.undersized),
    (Finding.DATA_STARVED, rules.data_starved),
    (Finding.WRONG_SHARING_MODE, rules.wrong_sharing_mode),
    (Finding.OVERSIZED, rules.oversized),
)
"""Most specific first: the first that holds is the main finding."""


@dataclass(frozen=True)
class Verdict:
    """What an allocation is, since when it idled, and what that wasted in seconds of a physical device."""

    id: str
    labels: tuple[Finding, ...]
    idle: tuple[Span, ...]
    wasted_device_seconds: float
    recommended_mib: int | None
    evidence: Span

    def as_dict(self) -> dict[str, Any]:
        """The line of found.jsonl."""
        return {
            "id": self.id,
            "labels": [str(label) for label in self.labels],
            "idle": [[round(a, 3), round(b, 3)] for a, b in self.idle],
            "wasted_device_seconds": round(self.wasted_device_seconds, 3),
            "recommended_mib": self.recommended_mib,
            "evidence": [round(self.evidence[0], 3), round(self.evidence[1], 3)],
        }


def judge(allocation: Allocation, samples: Iterable[Sample]) -> Verdict:
    """RULE: unknown unless half of the time was seen; then the first rule that holds; then healthy. Idle time
    is counted by the policy (unix seconds, half open), waste is idle time x share of the device.
    """
    return judge_trace(clean(allocation, samples))


def judge_trace(trace: Trace) -> Verdict:
    """As `judge`, from the samples that can be trusted."""
    return judge_case(Case(read_usage(trace)))


def judge_case(case: Case) -> Verdict:
    """As `judge`, for whoever wants to see what the rules looked at."""
    allocation = case.trace.allocation
    if doubt.is_unknown(case):
        return _unknown(allocation)
    main = next((finding for finding, holds in _ORDER if holds(case)), Finding.HEALTHY)
    if main in IDLE_FINDINGS and doubt.blind_at_the_end(case):
        return _unknown(allocation)
    idle = _idle(case, main)
    labels = (main, *_also(case, main))
    wasted = length(idle) * allocation.share + _too_much(case, main)
    return Verdict(
        allocation.id, labels, tuple(idle), wasted, _recommended(case, labels), _evidence(case, main, idle)
    )


def _unknown(allocation: Allocation) -> Verdict:
    return Verdict(allocation.id, (Finding.UNKNOWN,), (), 0.0, None, (allocation.start, allocation.end))


def _also(case: Case, main: Finding) -> tuple[Finding, ...]:
    """A second finding that asks for another action: only of size, and only for what works."""
    if main in (Finding.WRONG_SHARING_MODE, Finding.DATA_STARVED) and rules.oversized(case):
        return (Finding.OVERSIZED,)
    return ()


def _idle(case: Case, main: Finding) -> list[Span]:
    if main is Finding.CRASH_LOOP:
        return [(case.lives[0].start, case.trace.allocation.end)]
    if main is Finding.ZOMBIE and not case.abandoned:
        return merged([*case.usage.idle, (rules.zombie_since(case), case.trace.allocation.end)])
    return list(case.usage.idle)


def _too_much(case: Case, main: Finding) -> float:
    """Device seconds that the advised size would not have taken."""
    if main not in RESIZED or case.advice is None:
        return 0.0
    allocation = case.trace.allocation
    return (allocation.end - case.usage.started) * max(0.0, allocation.share - case.advice.size.share)


def _recommended(case: Case, labels: tuple[Finding, ...]) -> int | None:
    if Finding.UNDERSIZED in labels:
        return int(max(case.need.memory_mib, 1.25 * case.trace.total_mib))
    if Finding.OVERSIZED in labels or Finding.WRONG_SHARING_MODE in labels:
        return int(min(case.need.memory_mib, case.trace.total_mib))
    return None


def _evidence(case: Case, main: Finding, idle: list[Span]) -> Span:
    """The time the finding rests on."""
    allocation = case.trace.allocation
    if main in IDLE_FINDINGS and idle:
        # Nothing was ever used: all idle runs count, not only the last.
        since = idle[0][0] if case.usage.last_used is None else min(case.usage.last_used, idle[-1][0])
        return (max(allocation.start, since), allocation.end)
    return (min(case.usage.started, allocation.end), allocation.end)


def judge_rows(meta: Mapping[str, Any], rows: Iterable[Mapping[str, str | None]]) -> Verdict:
    """As `judge`, from a line of meta.jsonl and the rows of its file."""
    return judge(read_allocation(meta), read_samples(rows))
