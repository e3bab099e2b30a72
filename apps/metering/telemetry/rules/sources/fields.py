"""DCGM's fields as columns of a sample: unit, range, and what a blank marker is. Pure.

Source: dcgm-exporter's counter file and `dcgm_fields.h`. DCGM writes large markers for "blank", "not found",
"not supported" and "not permitted" (2147483632.., 9223372036854775792.., 140737488355328.0..); every range
below ends before the marker of its type, so a marker is missing like anything else out of range.
"""

from array import array
from collections.abc import Sequence
from math import isnan
from operator import add
from typing import NamedTuple

from apps.metering.telemetry.rules.sources.reading import COLUMNS, Values

_MILLION = 1_000_000.0
_MOST_RATIO = 1_020_000.0
"""Hardware counters over unlike windows give a little more than 1; that is 1. More is no ratio."""
_INT2, _INT4 = 32_767.0, 2_147_483_000.0
_MOST_RATE = 1e13
_BLANK = 2.0**47


class Field(NamedTuple):
    """`column` of the raw row, the factor to its unit, and the range in that unit; `most` caps what is
    stored.
    """

    column: int
    scale: float = 1.0
    low: float = 0.0
    high: float = _INT4
    most: int = 2**62

    @property
    def code(self) -> str:
        """Of an array of its values, as wide as they are stored; without a sign where none is below 0."""
        code = "H" if self.high <= _INT2 else "I" if self.high <= _INT4 else "Q"
        return code.lower() if self.low < 0 else code


WIDTH = len(COLUMNS) + 4
FREE, RESERVED, TOTAL, NVLINK_RX = range(len(COLUMNS), WIDTH)
"""Columns of a raw row beyond those that are stored."""
_AT = {name: index for index, name in enumerate(COLUMNS)}
SMI, SM, DRAM, USED = _AT["smi"], _AT["sm_active"], _AT["dram_active"], _AT["memory_used_mib"]
_SHOWN_TOTAL, _NVLINK = _AT["memory_total_mib"], _AT["nvlink"]


def _ratio(column: str) -> Field:
    return Field(_AT[column], _MILLION, 0.0, _MOST_RATIO, 1_000_000)


def _rate(column: int) -> Field:
    return Field(column, 1.0, 0.0, _MOST_RATE)


FIELDS = {
    "DCGM_FI_DEV_GPU_UTIL": Field(_AT["smi"], 1.0, 0.0, 100.0),
    "DCGM_FI_PROF_SM_ACTIVE": _ratio("sm_active"),
    "DCGM_FI_PROF_SM_OCCUPANCY": _ratio("sm_occupancy"),
    "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": _ratio("tensor_active"),
    "DCGM_FI_PROF_PIPE_FP64_ACTIVE": _ratio("fp64_active"),
    "DCGM_FI_PROF_PIPE_FP32_ACTIVE": _ratio("fp32_active"),
    "DCGM_FI_PROF_PIPE_FP16_ACTIVE": _ratio("fp16_active"),
    "DCGM_FI_PROF_DRAM_ACTIVE": _ratio("dram_active"),
    "DCGM_FI_DEV_FB_USED": Field(USED, high=16_777_216.0),
    "DCGM_FI_DEV_FB_FREE": Field(FREE, high=16_777_216.0),
    "DCGM_FI_DEV_FB_RESERVED": Field(RESERVED, high=16_777_216.0),
    "DCGM_FI_DEV_FB_TOTAL": Field(TOTAL, high=16_777_216.0),
    "DCGM_FI_DEV_POWER_USAGE": Field(_AT["power_mw"], 1000.0, 0.0, 100_000_000.0),
    "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": Field(_AT["energy_mj"], high=_BLANK - 1),
    "DCGM_FI_PROF_PCIE_TX_BYTES": _rate(_AT["pcie_tx"]),
    "DCGM_FI_PROF_PCIE_RX_BYTES": _rate(_AT["pcie_rx"]),
    "DCGM_FI_PROF_NVLINK_TX_BYTES": _rate(_NVLINK),
    "DCGM_FI_PROF_NVLINK_RX_BYTES": _rate(NVLINK_RX),
    "DCGM_FI_DEV_SM_CLOCK": Field(_AT["sm_clock_mhz"], high=_INT2),
    "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS": Field(_AT["throttle"], high=2.0**40),
    "DCGM_FI_DEV_CLOCKS_EVENT_REASONS": Field(_AT["throttle"], high=2.0**40),
    "DCGM_FI_DEV_GPU_TEMP": Field(_AT["celsius"], 1.0, -50.0, 300.0),
    "DCGM_FI_DEV_XID_ERRORS": Field(_AT["xid"], high=100_000.0),
    "ALLOTMENT_GPU_PROCESSES": Field(_AT["processes"], high=_INT2),
}
PROFILED = ("DCGM_FI_PROF_SM_ACTIVE", "DCGM_FI_PROF_DRAM_ACTIVE")

Raw = list[int | None]


def put(row: Raw, field: Field, value: float | None) -> bool:
    """Write a value into a raw row in the column's unit; False (and still missing) where it is out of range.

    NaN and the infinities are in no range.
    """
    if value is None:
        return False
    scaled = value * field.scale
    if not field.low <= scaled <= field.high:
        return False
    whole = round(scaled)
    row[field.column] = min(whole, field.most)
    return True


def values(row: Raw) -> Values:
    """The stored columns of a raw row.

    RULE: total memory is used + free + reserved (the exporter has no total), unless a total is told; NVLink
    is both directions, known only where one of them is.
    """
    used, free, reserved, total, received = row[USED], row[FREE], row[RESERVED], row[TOTAL], row[NVLINK_RX]
    if total is None and used is not None and free is not None:
        total = used + free + (reserved or 0)
    row[_SHOWN_TOTAL] = total
    if received is not None:
        row[_NVLINK] = received + (row[_NVLINK] or 0)
    return tuple(row[:FREE])


def complete(columns: dict[int, Sequence[int | None]], count: int) -> None:
    """`values` for whole columns of `count` rows: the total of the memory, and NVLink in both directions."""
    used, free = columns.get(USED), columns.get(FREE)
    if TOTAL in columns:
        columns[_SHOWN_TOTAL] = columns[TOTAL]
    elif used is not None and free is not None:
        reserved = columns.get(RESERVED) or [0] * count
        columns[_SHOWN_TOTAL] = _added(used, free, reserved)
    if NVLINK_RX in columns:
        sent = columns.get(_NVLINK) or [None] * count
        columns[_NVLINK] = [
            a if b is None else b + (a or 0) for a, b in zip(sent, columns[NVLINK_RX], strict=True)
        ]


def _added(
    used: Sequence[int | None], free: Sequence[int | None], reserved: Sequence[int | None]
) -> Sequence[int | None]:
    if isinstance(used, array) and isinstance(free, array) and isinstance(reserved, array):
        # Nothing is unknown.
        return array("I", map(add, map(add, used, free), reserved))
    return [
        None if a is None or b is None else a + b + (c or 0)
        for a, b, c in zip(used, free, reserved, strict=True)
    ]


def shared(rows: list[Raw]) -> Raw:
    """One row of a device from those of its pods (time-slicing).

    RULE: memory and busy time are the pods' own and add up, everything else is the device's and repeated.
    Where the sum is more than there is, the exporter repeats the device's memory, too: then the largest.
    """
    first = next((row for row in rows if row[SM] is not None), rows[0])[:]
    for column, most in ((SMI, 100), (USED, _room(rows))):
        known = [value for row in rows if (value := row[column]) is not None]
        if known:
            together = sum(known)
            first[column] = min(most, together) if column == SMI else _within(known, most)
    room = _room(rows)
    if first[USED] is not None and room:
        first[TOTAL] = room
    return first


def _within(known: list[int], room: int) -> int:
    return sum(known) if not room or sum(known) <= room else max(known)


def _room(rows: list[Raw]) -> int:
    rooms = [
        row[TOTAL] or (row[USED] or 0) + (row[FREE] or 0) + (row[RESERVED] or 0)
        for row in rows
        if row[TOTAL] is not None or row[FREE] is not None
    ]
    return max(rooms, default=0)


def is_blank(value: float) -> bool:
    """Whether DCGM wrote this to say that it has nothing: NaN, or a marker of 32, 64 or floating bits."""
    return isnan(value) or 0x7FFFFFF0 <= value <= 0x7FFFFFFF or value == 2.0**63 or 0 <= value - _BLANK < 16
