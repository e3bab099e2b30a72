"""What a finding rests on: window, thresholds, figures by device. Reads only."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, NotRequired, TypedDict
from urllib.parse import urlencode

from apps.metering.detector import doubt, memory, rules, sizing, usage
from apps.metering.findings.rules.idle_policy import Policy
from apps.metering.findings.selectors.verdicts import DeviceVerdict, Figures, Judged
from apps.metering.models import Finding
from apps.metering.specs import FindingKind
from apps.web.shapes.typed import keywords
from apps.workloads.opening.rules import shell_use
from apps.workloads.opening.selectors import ide_use

SM_BELOW = 0.02
"""Share of multiprocessors under which, with no pipe busy, nothing is computed (detector.signals)."""


class FiguresBody(TypedDict):
    """Means over the window, 0 to 1, MiB and watts; null is unknown."""

    sm_active: float | None
    gpu_util: Annotated[float | None, "What nvidia-smi says."]
    tensor_active: float | None
    dram_active: float | None
    memory_used_mib: float | None
    power_w: float | None


class SeenFiguresBody(FiguresBody):
    """The same over all devices."""

    coverage: Annotated[float, "The part of the window that was seen: of the device least seen."]


class Device(FiguresBody):
    """What is the same of a device wherever it is kept."""

    device: str
    node: str
    label: Annotated[rules.Finding, "What the detector says of this device."]
    idle_seconds: int
    coverage: float


class IdeFigures(TypedDict):
    """What the notebook's IDE said when it was judged."""

    kernels: int
    running: Annotated[int, "Kernels that run code."]
    tabs: Annotated[int, "Connections of browsers to its kernels."]


class KeptIde(IdeFigures):
    """As it is stored."""

    answered_at: str
    last_activity: str | None
    terminals: NotRequired[int]
    """Absent, with the next, from what was found before terminals were asked."""
    terminal_activity: NotRequired[str | None]


class KeptDevice(Device):
    """As it is stored."""

    seen_until: str | None


class Evidence(TypedDict):
    """What is the same of it stored and shown."""

    thresholds: Annotated[Mapping[str, float], "What it is held against: seconds, ratios 0 to 1, factors."]
    figures: SeenFiguresBody
    idle_seconds: int
    chart: Annotated[str, "Its utilization.", keywords(format="uri-reference")]


Window = TypedDict("Window", {"from": str, "to": str})


class KeptEvidence(Evidence):
    """As it is stored: times and money as text."""

    window: Window
    devices: list[KeptDevice]
    allocated: str
    effective: NotRequired[str]
    """What of it did work; absent from what was stored before that was asked."""
    ide: NotRequired[KeptIde | None]
    """Absent from what was stored before IDEs were asked."""
    in_shell: NotRequired[bool]
    """Whether somebody typed in a shell lately; absent from what was stored before that was noted."""


_SMALLER: Mapping[str, float] = {
    "price_share_at_most": rules.SMALLER,
    "memory_margin": sizing.MARGIN,
    "peak_margin": sizing.PEAK_MARGIN,
    "slowdown_at_most": sizing.SLOWDOWN,
}
_OWN: Mapping[FindingKind, Mapping[str, float]] = {
    FindingKind.ZOMBIE: {"no_process_seconds": rules.ZOMBIE_SECONDS},
    FindingKind.SCALE_TO_ZERO: {"empty_at_least": rules.EMPTY_SHARE},
    FindingKind.CRASH_LOOP: {"runs_at_least": rules.FEWEST_CRASHES, "run_seconds_at_most": rules.CRASH_LIFE},
    FindingKind.MEMORY_LEAK: {
        "growth_seconds_at_least": memory.LEAST_LEAK_SECONDS,
        "growth_at_least": memory.LEAST_GROWTH,
        "late_growth_at_least": memory.LATE,
    },
    FindingKind.UNDERSIZED: {"memory_at_least": memory.AT_CEILING, "busy_at_least": rules.SATURATED},
    FindingKind.DATA_STARVED: {"busy_at_most": rules.STARVED},
    FindingKind.OVERSIZED: _SMALLER,
    FindingKind.WRONG_SHARING_MODE: {
        "part_at_most": rules.QUARTER, "shared_load_at_least": rules.SHARED_LOAD
    },
}  # fmt: skip
"""What each kind is held against beside idleness, in words in `finding_words.limits`."""


def since(row: Finding, judged: Judged) -> datetime:
    """Where the evidence begins: with the idle time, else with the detector's window."""
    if row.idle:
        return _moment(row.idle[-1][0])
    return _moment(min(each.verdict.evidence[0] for each in judged.devices))


def of(row: Finding, judged: Judged, policy: Policy, now: datetime) -> KeptEvidence:
    """As it is stored: ratios 0 to 1, seconds, MiB, watts. Money is the ledger's to tell."""
    begins = min(each.verdict.evidence[0] for each in judged.devices)
    ends = max(each.verdict.evidence[1] for each in judged.devices)
    last = row.idle[-1] if row.idle else None
    window: Window = {"from": _moment(begins).isoformat(), "to": _moment(ends).isoformat()}
    asked = {**_whose(row, judged), "from": window["from"], "to": window["to"]}
    return {
        "window": window,
        "thresholds": thresholds(FindingKind(row.kind), policy),
        "figures": {
            **_figures([each.figures for each in judged.devices]),
            "coverage": round(min(each.coverage for each in judged.devices), 4),
        },
        "devices": [_device(each) for each in judged.devices],
        "idle_seconds": int(last[1] - last[0]) if last else int(ends - begins),
        "allocated": "0",
        "ide": _ide(row, now),
        "in_shell": _in_shell(row, now),
        "chart": f"/api/v1/utilization?{urlencode(asked)}",
    }


def _ide(row: Finding, now: datetime) -> KeptIde | None:
    """None: unknown, or there is none. RULE: what VS Code says is none: an open tab is no work."""
    found = ide_use.activity_of(row.workload, now) if row.workload else None
    return found.as_json() if found and not found.is_vs_code else None


def _in_shell(row: Finding, now: datetime) -> bool:
    work = row.workload
    return work is not None and shell_use.is_in_use(work.shell_used_at, work.started_at, now)


def _whose(row: Finding, judged: Judged) -> Mapping[str, str]:
    """What narrows `utilization` to it; of what was made with kubectl to its tenant's part of its GPUs."""
    if row.made is None:
        return {"workload": str(row.workload_id)}
    gpus = {each.held.gpu for each in judged.devices}
    return {"tenant": row.tenant.slug, "device": ",".join(sorted(gpus))}


def thresholds(kind: FindingKind, policy: Policy) -> Mapping[str, float]:
    """What a kind is held against: seconds, ratios 0 to 1, factors. No process need be missed for longer than
    the policy's window.
    """
    own = dict(_OWN.get(kind, {}))
    if "no_process_seconds" in own:
        own["no_process_seconds"] = min(own["no_process_seconds"], policy.idle_seconds)
    return {
        "idle_seconds": policy.idle_seconds,
        "sm_active_below": SM_BELOW,
        "least_coverage": doubt.LEAST_COVERAGE,
        **own,
    }


def of_countdown(row: Finding) -> dict[str, Any]:
    """As a workload's countdown tells it."""
    told, figures = row.evidence.get("thresholds", {}), row.evidence.get("figures", {})
    return {
        "metric": "sm_active",
        "below": told.get("sm_active_below"),
        "for_seconds": row.evidence.get("idle_seconds"),
        "observed": figures.get("sm_active"),
        "coverage": figures.get("coverage"),
    }


def _device(each: DeviceVerdict) -> KeptDevice:
    idle = usage.length(each.verdict.idle)
    return {
        "device": each.held.device_uuid or each.held.device,
        "node": each.held.node,
        "label": each.label,
        "idle_seconds": int(idle),
        "coverage": round(each.coverage, 4),
        "seen_until": each.seen_until.isoformat() if each.seen_until else None,
        **_figures([each.figures]),
    }


def _figures(found: Sequence[Figures]) -> FiguresBody:
    return {
        "sm_active": _mean((each.sm for each in found), 6),
        "gpu_util": _mean((each.smi for each in found), 6),
        "tensor_active": _mean((each.tensor for each in found), 6),
        "dram_active": _mean((each.dram for each in found), 6),
        "memory_used_mib": _mean((each.memory_mib for each in found), 1),
        "power_w": _mean((each.watts for each in found), 1),
    }


def _mean(values: Iterable[float | None], digits: int) -> float | None:
    """Of the devices of one workload over one window: each counts alike."""
    known = [value for value in values if value is not None]
    return round(sum(known) / len(known), digits) if known else None


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
