"""What a finding says to people: what, why in figures, what to do; no blame. Pure."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from apps.metering.specs import FindingKind
from apps.web.shapes.amounts import to_the_cent
from apps.web.shapes.durations import duration
from apps.workloads.opening.rules import ide_activity, shell_use
from apps.workloads.opening.rules.ide_activity import Activity

FEW = 0.995
SURE = 0.9
IDLE = frozenset({FindingKind.HOARDER, FindingKind.ZOMBIE, FindingKind.EVASION, FindingKind.FORGOTTEN})
"""Those that are about time in which nothing was done."""
MEANINGS = {
    FindingKind.HOARDER: "It holds devices and was never used for long.",
    FindingKind.ZOMBIE: "It holds memory that no process uses any more.",
    FindingKind.EVASION: "A machine keeps the counters moving; nothing is computed.",
    FindingKind.FORGOTTEN: "It was used, and then left.",
    FindingKind.OVERSIZED: "Less would be enough for the same work.",
    FindingKind.UNDERSIZED: "It runs at the limit of what it has.",
    FindingKind.DATA_STARVED: "Its devices wait for data most of the time.",
    FindingKind.MEMORY_LEAK: "Its device memory keeps growing.",
    FindingKind.CRASH_LOOP: "Its processes keep ending and starting again.",
    FindingKind.SCALE_TO_ZERO: "It gets no requests most of the time.",
    FindingKind.WRONG_SHARING_MODE: "Its devices are shared in a way that does not suit it.",
}
ADVICE = {
    FindingKind.HOARDER: "Stop it; its disks stay, and it can be started again.",
    FindingKind.ZOMBIE: "Stop it: nothing runs any more.",
    FindingKind.EVASION: "Stop it; moving counters do not make it used.",
    FindingKind.FORGOTTEN: "Stop it; its disks stay, and it can be started again.",
    FindingKind.OVERSIZED: "Take a smaller offer, or fewer devices.",
    FindingKind.UNDERSIZED: "Take an offer with more memory.",
    FindingKind.DATA_STARVED: "More loader workers, larger files or a cache on the node.",
    FindingKind.MEMORY_LEAK: "Look for kept tensors: losses, graphs, caches. It will run out of memory.",
    FindingKind.CRASH_LOOP: "Stop it and read the last lines of its log; it makes no progress.",
    FindingKind.SCALE_TO_ZERO: "Stop it while nobody uses it, and start it on demand.",
    FindingKind.WRONG_SHARING_MODE: "Take an offer with another sharing mode.",
}
NO_TELEMETRY = "no SM counter arrives, so nothing is stopped"


@dataclass(frozen=True)
class Said:
    """What the sentences are made of. `seconds` is how long it idled last."""

    name: str
    devices: int
    offer: str
    kind: FindingKind
    figures: Mapping[str, Any]
    seconds: float
    wasted: Decimal
    allocated: Decimal
    currency: str
    ide: Mapping[str, Any] | None = None
    """What the IDE said, as `evidence.KeptIde`; None: unknown, or there is none."""
    in_shell: bool = False
    """Whether somebody typed in a shell lately."""


def percent(ratio: float | None) -> str:
    """`81 %`; what is there but under a half is `< 1 %`."""
    if ratio is None:
        return "unknown"
    return "< 1 %" if 0 < ratio < 1 - FEW else f"{100 * ratio:.0f} %"


def reason(said: Said) -> str:
    """Why, in figures: `SM active < 1 % for 3 h, nvidia-smi says 98 %`; what its IDE does, and its people."""
    ide = ide_activity.work_words(Activity.of_json(said.ide)) if said.ide else ""
    shell = shell_use.IN_USE if said.in_shell else ""
    return ", ".join(filter(None, (_measured(said), ide, shell)))


def _measured(said: Said) -> str:
    span = duration(said.seconds)
    if said.kind is FindingKind.ZOMBIE:
        held = said.figures.get("memory_used_mib")
        memory = f", {held / 1024:.1f} GiB held" if held is not None else ""
        return f"no process for {span}{memory}"
    smi = said.figures.get("gpu_util")
    beside = f", nvidia-smi says {percent(smi)}" if smi is not None else ""
    return f"SM active {percent(said.figures.get('sm_active'))} for {span}{beside}"


def headline(said: Said) -> str:
    """As `asr-tune: 4 H100, SM active 1 % for 31 h, nvidia-smi says 100 %; 360.91 of 364.56 EUR wasted`."""
    held = f"{said.devices} {said.offer}" if said.devices > 1 else said.offer
    wasted, whole = map(to_the_cent, (said.wasted, max(said.wasted, said.allocated)))
    return f"{said.name}: {held}, {reason(said)}; {wasted} of {whole} {said.currency} wasted."


def will_stop(name: str, stops_at: datetime, why: str, *, extension: float, left: int) -> str:
    """As `rag-dev stops 18:40 UTC: SM active < 2 % for 3 h. Extend 2 h (2 left)`."""
    more = f" Extend {duration(extension)} ({left} left)." if left else ""
    return f"{name} stops {stops_at:%H:%M} UTC: {why}.{more}"


def stopped(name: str, at: datetime, seconds: float) -> str:
    """As `rag-dev: stopped 18:40 UTC after 3 h idle. Disks are kept; start it again when needed`."""
    span = duration(seconds)
    return f"{name}: stopped {at:%H:%M} UTC after {span} idle. Disks are kept; start it again when needed."


def ended_by(namespace: str, root: str) -> str:
    """How people end what was made with kubectl; `root` is what made its pod, if that is known."""
    how = (
        f": kubectl -n {namespace} delete {root}" if root else f" with kubectl in the namespace {namespace}."
    )
    return f"The portal never stops what was made with kubectl. Whoever made it can end it{how}"


def taken_back(name: str, why: str) -> str:
    """What who was warned reads when the warning no longer holds."""
    return f"{name} is not stopped: {why}."


def found(said: Said, suggestion: Mapping[str, Any], *, asks: bool) -> str:
    """What is told when a finding is sure: what, why in figures, what to do; and the question, if it asks."""
    what = headline(said) if said.kind in IDLE else f"{said.name}: {MEANINGS[said.kind]}"
    question = "Is it still needed? Answer on its page." if asks and said.kind in IDLE else ""
    return " ".join(filter(None, (what, suggestion.get("words", ""), question)))


def confidence(coverage: float | None, *, confirmed: bool) -> str:
    """How sure it is: seen twice, and over how much of the time."""
    if not confirmed:
        return "seen once"
    return "high" if (coverage or 0.0) >= SURE else "medium"


def figures(measured: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What was measured, in the words of the product; missing is unknown."""
    memory, watts = measured.get("memory_used_mib"), measured.get("power_w")
    return [
        ("SM active", percent(measured.get("sm_active"))),
        ("nvidia-smi says", percent(measured.get("gpu_util"))),
        ("Tensor active", percent(measured.get("tensor_active"))),
        ("DRAM active", percent(measured.get("dram_active"))),
        ("Memory", "unknown" if memory is None else f"{memory / 1024:.1f} GiB"),
        ("Power", "unknown" if watts is None else f"{watts:.0f} W"),
        ("Seen", percent(measured.get("coverage"))),
    ]


def ide_facts(kept: Mapping[str, Any] | None) -> list[tuple[str, str]]:
    """What the IDE said when it was judged; missing is unknown."""
    if kept is None:
        return [("Kernels", "unknown")]
    found = Activity.of_json(kept)
    kernels = ("Kernels", f"{found.kernels}, {found.running} of them running code")
    if not found.terminals:
        return [kernels]
    use = "in use" if found.uses_terminal else "not in use"
    return [kernels, ("Terminals", f"{found.terminals}, {use}")]


def limits(kind: FindingKind, thresholds: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What it was held against: idleness for what is idle, and what its kind has of its own."""
    told = []
    if kind in IDLE or kind is FindingKind.SCALE_TO_ZERO:
        below = percent(thresholds.get("sm_active_below"))
        told = [
            ("Idle means", f"SM active < {below}, and pipes and watts show no more"),
            ("For", duration(float(thresholds.get("idle_seconds", 0)))),
        ]
    told += [(name, sentence(thresholds)) for key, (name, sentence) in _LIMITS.items() if key in thresholds]
    return [*told, ("Seen at least", percent(thresholds.get("least_coverage")))]


def _ratio(key: str) -> Callable[[Mapping[str, Any]], str]:
    return lambda limits: f"{100 * limits[key]:g} %"


def _span(key: str) -> Callable[[Mapping[str, Any]], str]:
    return lambda limits: duration(float(limits[key]))


_LIMITS: Mapping[str, tuple[str, Callable[[Mapping[str, Any]], str]]] = {
    "no_process_seconds": ("No process for", _span("no_process_seconds")),
    "empty_at_least": ("Of its time, at least", _ratio("empty_at_least")),
    "runs_at_least": ("Runs, with pauses between", lambda limits: f"{limits['runs_at_least']} or more"),
    "run_seconds_at_most": ("Each at most", _span("run_seconds_at_most")),
    "growth_seconds_at_least": ("Memory grows steadily for", _span("growth_seconds_at_least")),
    "growth_at_least": ("By at least this share of the device", _ratio("growth_at_least")),
    "late_growth_at_least": ("Last third against the first", _ratio("late_growth_at_least")),
    "memory_at_least": ("Memory in use at least", _ratio("memory_at_least")),
    "busy_at_least": ("SM or DRAM active at least", _ratio("busy_at_least")),
    "busy_at_most": ("SM and DRAM active at most", _ratio("busy_at_most")),
    "price_share_at_most": ("Price at most, of this one", _ratio("price_share_at_most")),
    "memory_margin": (
        "Memory needed",
        lambda limits: f"p99.9 × {limits['memory_margin']:g}, highest × {limits['peak_margin']:g}",
    ),
    "slowdown_at_most": (
        "Slower by at most",
        lambda limits: f"{100 * (limits['slowdown_at_most'] - 1):.0f} %",
    ),
    "part_at_most": ("Needs at most this share of a whole device", _ratio("part_at_most")),
    "shared_load_at_least": ("Or, time-sliced, busy at least", _ratio("shared_load_at_least")),
}
"""By the name of a threshold, in the order in which they are told."""
