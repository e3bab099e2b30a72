"""What the agent exports: DCGM's field names, kinds and units, so that either exporter gives the same rows.

Pure. Ratios are 0 to 1 as DCGM's profiling fields; the driver's GPM speaks in percent and MiB/s, and `scale`
turns that into DCGM's units.
"""

from dataclasses import dataclass

import pynvml


@dataclass(frozen=True)
class Field:
    """A metric of the exposition. `whole`: printed without decimals, as dcgm-exporter does."""

    name: str
    kind: str
    help: str
    whole: bool = True


@dataclass(frozen=True)
class Profiled(Field):
    """A field that GPM measures; the value is GPM's times `scale`, at most `limit`."""

    metric: int = 0
    scale: float = 0.01
    limit: float = 1.0


def _gauge(name: str, text: str, *, whole: bool = True) -> Field:
    return Field(f"DCGM_FI_DEV_{name}", "gauge", text, whole)


def _counter(name: str, text: str) -> Field:
    return Field(f"DCGM_FI_DEV_{name}", "counter", text)


def _ratio(name: str, text: str, metric: int) -> Profiled:
    return Profiled(f"DCGM_FI_PROF_{name}", "gauge", text, whole=False, metric=metric)


def _rate(name: str, text: str, metric: int) -> Profiled:
    return Profiled(
        f"DCGM_FI_PROF_{name}", "gauge", text, metric=metric, scale=1024.0 * 1024.0, limit=float("inf")
    )


SM_CLOCK = _gauge("SM_CLOCK", "SM clock frequency (in MHz).")
MEM_CLOCK = _gauge("MEM_CLOCK", "Memory clock frequency (in MHz).")
MEMORY_TEMP = _gauge("MEMORY_TEMP", "Memory temperature (in C).")
GPU_TEMP = _gauge("GPU_TEMP", "GPU temperature (in C).")
POWER_USAGE = _gauge("POWER_USAGE", "Power draw (in W).", whole=False)
ENERGY = _counter("TOTAL_ENERGY_CONSUMPTION", "Total energy consumption since boot (in mJ).")
PCIE_REPLAY = _counter("PCIE_REPLAY_COUNTER", "Total number of PCIe retries.")
GPU_UTIL = _gauge("GPU_UTIL", "GPU utilization (in %).")
MEM_COPY_UTIL = _gauge("MEM_COPY_UTIL", "Memory utilization (in %).")
ENC_UTIL = _gauge("ENC_UTIL", "Encoder utilization (in %).")
DEC_UTIL = _gauge("DEC_UTIL", "Decoder utilization (in %).")
XID_ERRORS = _gauge("XID_ERRORS", "Value of the last XID error encountered.")
CLOCK_REASONS = _gauge("CLOCKS_EVENT_REASONS", "Why clocks are held down (NVML's bit mask).")
FB_FREE = _gauge("FB_FREE", "Framebuffer memory free (in MiB).")
FB_USED = _gauge("FB_USED", "Framebuffer memory used (in MiB).")
FB_RESERVED = _gauge("FB_RESERVED", "Framebuffer memory reserved (in MiB).")
ECC_SINGLE = _counter("ECC_SBE_VOL_TOTAL", "Total number of single-bit volatile ECC errors.")
ECC_DOUBLE = _counter("ECC_DBE_VOL_TOTAL", "Total number of double-bit volatile ECC errors.")
REMAPPED_CORRECTABLE = _counter("CORRECTABLE_REMAPPED_ROWS", "Number of remapped rows for correctable errors")
REMAPPED_UNCORRECTABLE = _counter(
    "UNCORRECTABLE_REMAPPED_ROWS", "Number of remapped rows for uncorrectable errors"
)
REMAP_FAILURE = _gauge("ROW_REMAP_FAILURE", "Whether remapping of rows has failed")

DEVICE_FIELDS = (
    SM_CLOCK,
    MEM_CLOCK,
    MEMORY_TEMP,
    GPU_TEMP,
    POWER_USAGE,
    ENERGY,
    PCIE_REPLAY,
    GPU_UTIL,
    MEM_COPY_UTIL,
    ENC_UTIL,
    DEC_UTIL,
    XID_ERRORS,
    CLOCK_REASONS,
    FB_FREE,
    FB_USED,
    FB_RESERVED,
    ECC_SINGLE,
    ECC_DOUBLE,
    REMAPPED_CORRECTABLE,
    REMAPPED_UNCORRECTABLE,
    REMAP_FAILURE,
)

_BUS = "on the PCI bus - including both protocol headers and data payloads - in bytes per second."
_LINK = "over NVLink, all links, in bytes per second."

SM_ACTIVE = _ratio(
    "SM_ACTIVE", "The ratio of cycles an SM has at least 1 warp assigned.", pynvml.NVML_GPM_METRIC_SM_UTIL
)
TENSOR_ACTIVE = _ratio(
    "PIPE_TENSOR_ACTIVE",
    "Ratio of cycles the tensor (HMMA) pipe is active.",
    pynvml.NVML_GPM_METRIC_ANY_TENSOR_UTIL,
)
DRAM_ACTIVE = _ratio(
    "DRAM_ACTIVE",
    "Ratio of cycles the device memory interface is active sending or receiving data.",
    pynvml.NVML_GPM_METRIC_DRAM_BW_UTIL,
)
SM_OCCUPANCY = _ratio(
    "SM_OCCUPANCY",
    "The ratio of number of warps resident on an SM.",
    pynvml.NVML_GPM_METRIC_SM_OCCUPANCY,
)

PROFILED_FIELDS = (
    _ratio(
        "GR_ENGINE_ACTIVE",
        "Ratio of time the graphics engine is active.",
        pynvml.NVML_GPM_METRIC_GRAPHICS_UTIL,
    ),
    SM_ACTIVE,
    SM_OCCUPANCY,
    TENSOR_ACTIVE,
    _ratio(
        "PIPE_FP64_ACTIVE", "Ratio of cycles the fp64 pipes are active.", pynvml.NVML_GPM_METRIC_FP64_UTIL
    ),
    _ratio(
        "PIPE_FP32_ACTIVE", "Ratio of cycles the fp32 pipes are active.", pynvml.NVML_GPM_METRIC_FP32_UTIL
    ),
    _ratio(
        "PIPE_FP16_ACTIVE", "Ratio of cycles the fp16 pipes are active.", pynvml.NVML_GPM_METRIC_FP16_UTIL
    ),
    DRAM_ACTIVE,
    _rate("PCIE_TX_BYTES", f"The rate of data transmitted {_BUS}", pynvml.NVML_GPM_METRIC_PCIE_TX_PER_SEC),
    _rate("PCIE_RX_BYTES", f"The rate of data received {_BUS}", pynvml.NVML_GPM_METRIC_PCIE_RX_PER_SEC),
    _rate(
        "NVLINK_TX_BYTES",
        f"The rate of data transmitted {_LINK}",
        pynvml.NVML_GPM_METRIC_NVLINK_TOTAL_TX_PER_SEC,
    ),
    _rate(
        "NVLINK_RX_BYTES",
        f"The rate of data received {_LINK}",
        pynvml.NVML_GPM_METRIC_NVLINK_TOTAL_RX_PER_SEC,
    ),
)

# Not DCGM's: what DCGM has no field for.
PROCESSES = Field("ALLOTMENT_GPU_PROCESSES", "gauge", "Processes with a compute context on this device.")
GPU_UP = Field("ALLOTMENT_GPU_UP", "gauge", "1 when the GPU answers, 0 when it is lost or waits for a reset.")

FIELDS = (*DEVICE_FIELDS, *PROFILED_FIELDS, PROCESSES, GPU_UP)
