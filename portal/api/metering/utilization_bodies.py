"""How utilization looks in REST: in steps, in sum, and in states of devices. Ratios are 0 to 1."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, NotRequired, TypedDict

from apps.metering.usage.rules.device_states import State
from apps.metering.usage.selectors import summing
from apps.web.shapes.bodies import Id
from portal.api.metering.balance_bodies import Span

RATIOS = {"sm_active": "sm", "tensor_active": "tensor", "dram_active": "dram", "gpu_util": "smi"}


class UseGroup(TypedDict):
    """The member that `group_by` names says which group; null is time with no known holder."""

    tenant: NotRequired[str | None]
    department: NotRequired[str | None]
    workload: NotRequired[Id | None]
    offer: NotRequired[str | None]
    device: NotRequired[str | None]


class UseValuesBody(TypedDict):
    """Value i speaks of [from + i x step_seconds, + step_seconds); null is unknown."""

    allocated: Annotated[list[float | None], "Whole GPUs."]
    sm_active: list[float | None]
    tensor_active: list[float | None]
    dram_active: list[float | None]
    gpu_util: Annotated[list[float | None], "What nvidia-smi says."]
    memory_used_bytes: Annotated[list[int | None], "The highest."]
    coverage: Annotated[list[float | None], "The part of what was allocated that was seen."]


class UseSeriesBody(UseGroup):
    """The series of one group."""

    values: UseValuesBody


class UtilizationBody(Span):
    """What was allocated and what the silicon did, step by step."""

    step_seconds: int
    series: list[UseSeriesBody]


class UseMeanBody(TypedDict):
    """Sums divided once; null is unknown."""

    sm_active: float | None
    tensor_active: float | None
    dram_active: float | None
    gpu_util: float | None


class UseP95Body(TypedDict):
    """What it was below for 95 % of the time seen."""

    sm_active: Annotated[float | None, "To a tenth."]


class UseMostBody(TypedDict):
    """The highest."""

    sm_active: float | None
    memory_used_bytes: int | None


class UseSumBody(TypedDict):
    """One group over the whole period."""

    gpu_hours: float
    mean: UseMeanBody
    p95: UseP95Body
    max: UseMostBody
    coverage: float | None


class UseGroupSumBody(UseGroup, UseSumBody):
    """The sums of one group."""


class UtilizationSummaryBody(Span):
    """Utilization in one line per group."""

    items: list[UseGroupSumBody]


Cell = TypedDict("Cell", {"device": str, "node": str, "from": datetime})


class DeviceStateBody(Cell):
    """What a device did in one step."""

    state: State
    allocated: Annotated[float, "The part of the GPU that was held."]
    sm_active: float | None
    coverage: float | None


class DeviceStatesBody(Span):
    """What each device did, step by step."""

    step_seconds: int
    items: list[DeviceStateBody]


def state_body(row: Sequence[Any]) -> DeviceStateBody:
    """One row of `pages.heat.lines`."""
    device, node, at, state, allocated, sm_active, coverage = row
    return {
        "device": device,
        "node": node,
        "from": at,
        "state": State(state),
        "allocated": allocated,
        "sm_active": sm_active,
        "coverage": coverage,
    }


def sum_body(found: summing.Summary) -> UseSumBody:
    """The figures of one group."""
    totals = found.totals
    return {
        "gpu_hours": round(float(totals.gpu) / 3_600_000_000, 6),
        "mean": {
            "sm_active": rounded(totals.ratio(RATIOS["sm_active"])),
            "tensor_active": rounded(totals.ratio(RATIOS["tensor_active"])),
            "dram_active": rounded(totals.ratio(RATIOS["dram_active"])),
            "gpu_util": rounded(totals.ratio(RATIOS["gpu_util"])),
        },
        "p95": {"sm_active": rounded(found.p95)},
        "max": {"sm_active": rounded(found.most), "memory_used_bytes": as_bytes(found.memory_mib)},
        "coverage": rounded(totals.coverage),
    }


def rounded(value: float | None) -> float | None:
    """To the millionth; None is unknown."""
    return None if value is None else round(value, 6)


def as_bytes(mib: int | None) -> int | None:
    """Of MiB; None is unknown."""
    return None if mib is None else mib * 1024 * 1024
