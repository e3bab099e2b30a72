"""dcgm-exporter's text for one node: its counter list, units and label sets, MIG rows per GPU instance.

Pure: boards in, text out. GPU_UTIL and MEM_COPY_UTIL are left out on MIG instances, where DCGM has no value.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from sandbox.api.meta.objects import dig
from sandbox.fleet.load import Sample
from sandbox.fleet.slices import DRIVER
from sandbox.fleet.spec import Fleet, HostLabel, PodLabels
from sandbox.fleet.telemetry import Board, Holder, Reading

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@dataclass(frozen=True)
class Field:
    """A DCGM field of the exporter's counter file."""

    name: str
    kind: str
    help: str
    value: Callable[[Board, Reading], float | None]
    whole: bool = True
    of_board: bool = False
    plain: Callable[[Any], float] | None = None
    """`value` of the board, or else of the sample, where no XID hides it."""


def _of(read: Callable[[Sample], float]) -> Callable[[Board, Reading], float | None]:
    return lambda board, reading: None if board.xid else read(reading.used)


def _percent(read: Callable[[Sample], float]) -> Callable[[Board, Reading], float | None]:
    def value(board: Board, reading: Reading) -> float | None:
        return None if board.xid or reading.device.instance else 100 * read(reading.used)

    return value


def _free(board: Board, reading: Reading) -> float | None:
    return None if board.xid else max(0.0, _usable(reading) - reading.used.memory_mib)


def _usable(reading: Reading) -> float:
    return reading.device.memory_mib - _reserved(reading)


def _reserved(reading: Reading) -> float:
    return (
        reading.device.gpu.model.reserved_mib
        * reading.device.memory_mib
        / reading.device.gpu.model.memory_mib
    )


def _beside_tensor(used: Sample) -> float:
    return 0.25 * max(0.0, used.sm - used.tensor)


def _kept(board: Board, reading: Reading) -> float | None:
    return None if board.xid else _reserved(reading)


def _board(read: Callable[[Board], float]) -> Callable[[Board, Reading], float | None]:
    return lambda board, _: None if board.xid else read(board)


_BUS = "on the PCI bus - including both protocol headers and data payloads - in bytes per second."


def _device(
    name: str, text: str, value: Callable[[Board, Reading], float | None], *, whole: bool = True
) -> Field:
    return Field(f"DCGM_FI_DEV_{name}", "gauge", text, value, whole)


def _profiled(name: str, text: str, read: Callable[[Sample], float], *, whole: bool = False) -> Field:
    return Field(f"DCGM_FI_PROF_{name}", "gauge", text, _of(read), whole, plain=read)


def _boards(
    name: str, text: str, read: Callable[[Board], float], *, kind: str = "gauge", whole: bool = True
) -> Field:
    return Field(f"DCGM_FI_DEV_{name}", kind, text, _board(read), whole, of_board=True, plain=read)


FIELDS = (
    _boards("SM_CLOCK", "SM clock frequency (in MHz).", attrgetter("sm_clock")),
    _boards("MEM_CLOCK", "Memory clock frequency (in MHz).", lambda b: b.gpu.model.memory_clock_mhz),
    _boards("MEMORY_TEMP", "Memory temperature (in C).", lambda b: b.celsius + 8),
    _boards("GPU_TEMP", "GPU temperature (in C).", attrgetter("celsius")),
    _boards("POWER_USAGE", "Power draw (in W).", attrgetter("watts"), whole=False),
    _boards(
        "TOTAL_ENERGY_CONSUMPTION",
        "Total energy consumption since boot (in mJ).",
        attrgetter("energy_mj"),
        kind="counter",
    ),
    _boards("PCIE_REPLAY_COUNTER", "Total number of PCIe retries.", lambda _: 0, kind="counter"),
    _device("GPU_UTIL", "GPU utilization (in %).", _percent(lambda s: s.busy)),
    _device("MEM_COPY_UTIL", "Memory utilization (in %).", _percent(lambda s: s.dram)),
    Field(
        "DCGM_FI_DEV_XID_ERRORS",
        "gauge",
        "Value of the last XID error encountered.",
        lambda board, _: board.xid,
        of_board=True,
    ),
    _device("FB_FREE", "Framebuffer memory free (in MiB).", _free),
    _device("FB_USED", "Framebuffer memory used (in MiB).", _of(lambda s: s.memory_mib)),
    _device("FB_RESERVED", "Framebuffer memory reserved (in MiB).", _kept),
    _profiled("GR_ENGINE_ACTIVE", "Ratio of time the graphics engine is active.", attrgetter("busy")),
    _profiled("SM_ACTIVE", "The ratio of cycles an SM has at least 1 warp assigned.", attrgetter("sm")),
    _profiled("SM_OCCUPANCY", "The ratio of number of warps resident on an SM.", attrgetter("occupancy")),
    _profiled(
        "PIPE_TENSOR_ACTIVE", "Ratio of cycles the tensor (HMMA) pipe is active.", attrgetter("tensor")
    ),
    _profiled("PIPE_FP64_ACTIVE", "Ratio of cycles the fp64 pipes are active.", lambda _: 0.0),
    _profiled("PIPE_FP32_ACTIVE", "Ratio of cycles the fp32 pipes are active.", _beside_tensor),
    _profiled("PIPE_FP16_ACTIVE", "Ratio of cycles the fp16 pipes are active.", lambda _: 0.0),
    _profiled(
        "DRAM_ACTIVE",
        "Ratio of cycles the device memory interface is active sending or receiving data.",
        attrgetter("dram"),
    ),
    _profiled("PCIE_TX_BYTES", f"The rate of data transmitted {_BUS}", attrgetter("pcie_tx"), whole=True),
    _profiled("PCIE_RX_BYTES", f"The rate of data received {_BUS}", attrgetter("pcie_rx"), whole=True),
    # Not DCGM's, which has none: the name that the node agent gives it.
    Field(
        "ALLOTMENT_GPU_PROCESSES",
        "gauge",
        "Processes with a compute context on this device.",
        _of(lambda s: s.processes),
    ),
)


def exposition(fleet: Fleet, boards: list[Board]) -> str:
    """The whole /metrics text of a node's exporter."""
    lines: list[str] = []
    rows = [(board, reading, _labels(fleet, reading)) for board in boards for reading in board.readings]
    for field in FIELDS:
        lines += [f"# HELP {field.name} {field.help}", f"# TYPE {field.name} {field.kind}"]
        for board, reading, labels in rows:
            value = field.value(board, reading)
            if value is not None:
                lines.append(f"{field.name}{{{labels}}} {_number(value, whole=field.whole)}")
    return "\n".join(lines) + "\n"


def columns(
    boards: Sequence[Board], readings: Sequence[Reading], *, of_board: bool
) -> dict[str, list[float] | float]:
    """The same fields as numbers, for files: those of boards, or of devices; one of each per moment.

    What is the same all the time is one number.
    """
    found: dict[str, list[float] | float] = {}
    of = boards if of_board else [reading.used for reading in readings]
    is_plain = not any(board.xid for board in boards)
    for field in FIELDS:
        if field.of_board is not of_board:
            continue
        # A week has millions: what an attribute says needs no function for each.
        asked = map(field.plain, of) if is_plain and field.plain else map(field.value, boards, readings)
        told, digits = list(asked), None if field.whole else 6
        if told[0] is None:
            continue
        if told.count(told[0]) == len(told):
            found[field.name] = round(told[0], digits)
            continue
        column: list[float] = [round(value or 0.0, digits) for value in told]
        found[field.name] = column[0] if column.count(column[0]) == len(column) else column
    return found


def _number(value: float, *, whole: bool) -> str:
    return str(round(value)) if whole else f"{value:.6f}"


def _host(fleet: Fleet, node: str) -> str:
    pod = f"nvidia-dcgm-exporter-{zlib.crc32(node.encode()):08x}"
    return {HostLabel.FQDN: f"{node}.sandbox.internal", HostLabel.POD: pod}.get(fleet.host_label, node)


def device_labels(fleet: Fleet, reading: Reading) -> dict[str, str]:
    """The labels that name the device, in the exporter's order."""
    gpu = reading.device.gpu
    labels = {
        "gpu": str(gpu.minor),
        "UUID": gpu.uuid,
        "pci_bus_id": f"0000{gpu.pci_bus_id.upper()}",
        "device": f"nvidia{gpu.minor}",
        "modelName": gpu.model.product_name,
    }
    instance = reading.device.instance
    if instance is not None:
        labels["GPU_I_PROFILE"] = instance.placement.profile.name
        labels["GPU_I_ID"] = str(instance.placement.instance_id)
    return {**labels, "Hostname": _host(fleet, gpu.node), "DCGM_FI_DRIVER_VERSION": gpu.driver}


def holder_labels(fleet: Fleet, reading: Reading) -> dict[str, str]:
    """The labels that name the pod and its claim; none where the exporter maps no pods."""
    holder = reading.holder
    if holder is None or fleet.pod_labels is PodLabels.NONE:
        return {}
    meta = holder.pod["metadata"]
    labels = {"container": holder.container, "namespace": meta["namespace"], "pod": meta["name"]}
    return {**labels, **_claim_labels(holder, reading)}


def _claim_labels(holder: Holder, reading: Reading) -> dict[str, str]:
    if holder.claim is None:
        return {}
    labels = {
        "dra_claim_name": holder.claim["metadata"]["name"],
        "dra_claim_namespace": holder.claim["metadata"]["namespace"],
        "dra_driver_name": DRIVER,
        "dra_pool_name": str(
            dig(holder.claim, "status", "allocation", "devices", "results", 0, "pool", default="")
        ),
        "dra_device_name": reading.device.name,
    }
    instance = reading.device.instance
    if instance is not None:
        labels["dra_mig_profile"] = instance.placement.profile.name
        labels["dra_mig_device_uuid"] = instance.uuid
    return labels


def _labels(fleet: Fleet, reading: Reading) -> str:
    labels = {**device_labels(fleet, reading), **holder_labels(fleet, reading)}
    return ",".join(f'{name}="{_escape(value)}"' for name, value in labels.items())


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
