"""A snapshot as a table for a person: `python -m agent --once`. Pure."""

from agent import fields
from agent.exposition import gap_lines
from agent.fields import Field
from agent.snapshot import Holder, Row, Snapshot

_UNKNOWN = "?"
_HEAD = (
    "device",
    "model",
    "SM",
    "occup.",
    "tensor",
    "DRAM",
    "GPU_UTIL",
    "memory MiB",
    "W",
    "C",
    "MHz",
    "XID",
    "held by",
)
_TEXT = (0, 1, len(_HEAD) - 1)


def table(snapshot: Snapshot) -> str:
    """Rows of devices, their processes, and what is unknown and why. `?` is unknown, which is not 0."""
    span = max((row.span for row in snapshot.rows), default=0.0)
    lines = [f"{snapshot.host}, driver {snapshot.driver or _UNKNOWN}; ratios over the last {span:.1f} s", ""]
    lines += _aligned([_HEAD, *(_cells(row) for row in snapshot.rows)])
    held = [line for row in snapshot.rows for line in _processes(row)]
    lines += ["", "processes", *held] if held else []
    gaps = gap_lines(snapshot.gaps)
    lines += ["", "unknown", *(f"  {line}" for line in gaps)] if gaps else []
    return "\n".join(lines) + "\n"


def _cells(row: Row) -> tuple[str, ...]:
    return (
        row.name,
        f"{row.gpu.model} {row.instance.profile}" if row.instance else row.gpu.model,
        _ratio(row, fields.SM_ACTIVE),
        _ratio(row, fields.SM_OCCUPANCY),
        _ratio(row, fields.TENSOR_ACTIVE),
        _ratio(row, fields.DRAM_ACTIVE),
        _whole(row, fields.GPU_UTIL, "%"),
        _memory(row),
        _whole(row, fields.POWER_USAGE),
        _whole(row, fields.GPU_TEMP),
        _whole(row, fields.SM_CLOCK),
        _whole(row, fields.XID_ERRORS),
        ", ".join(map(_holder, row.holders)) or "-",
    )


def _ratio(row: Row, field: Field) -> str:
    value = row.values.get(field.name)
    return _UNKNOWN if value is None else f"{100 * value:.1f}%"


def _whole(row: Row, field: Field, unit: str = "") -> str:
    value = row.values.get(field.name)
    return _UNKNOWN if value is None else f"{value:.0f}{unit}"


def _memory(row: Row) -> str:
    used, free = row.values.get(fields.FB_USED.name), row.values.get(fields.FB_FREE.name)
    if used is None or free is None:
        return _UNKNOWN
    return f"{used:.0f}/{used + free + row.values.get(fields.FB_RESERVED.name, 0.0):.0f}"


def _holder(holder: Holder) -> str:
    return f"{holder.namespace}/{holder.pod}/{holder.container}"


def _processes(row: Row) -> list[str]:
    return [f"  {row.name}: {found.pid}, {_mebibytes(found.memory_mib)}" for found in row.processes]


def _mebibytes(value: float | None) -> str:
    return f"{_UNKNOWN if value is None else round(value)} MiB"


def _aligned(rows: list[tuple[str, ...]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if at in _TEXT else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
