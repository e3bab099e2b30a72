"""Values that arrive series by series, each with its times, put together into readings. Pure.

Nearly always all fields of a device have the same times; then whole columns are worked on at once.
"""

import sys
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from struct import pack
from typing import Any

from apps.metering.telemetry.rules.sources import exposition, fields
from apps.metering.telemetry.rules.sources.fields import Field, Raw
from apps.metering.telemetry.rules.sources.matrix import Many, Run
from apps.metering.telemetry.rules.sources.naming import LabelNames, Part, device_of, part_of, pod_of
from apps.metering.telemetry.rules.sources.reading import Block, DeviceLabels, Reading

Column = Sequence[int | None]
Told = Sequence[str] | Sequence[float]
"""The values of a series: all as text, or all as numbers."""
MANY = 8
"""Readings of a device from which on a block costs less than as many readings."""


@dataclass
class Rows:
    """What is known of one device and pod. `times` (unix seconds) go with `columns`; what has other times is
    in `loose`, by time in µs.
    """

    labels: Mapping[str, str]
    is_instance: bool = False
    times: Sequence[float] = ()
    names: dict[int, str] = field(default_factory=dict)
    columns: dict[int, Column] = field(default_factory=dict)
    loose: dict[int, Raw] = field(default_factory=dict)

    def takes(self, name: str, wanted: Field) -> bool:
        """Whether a series of this name is wanted: the second of two names for one thing says nothing new."""
        if wanted.column == fields.SMI and self.is_instance:
            return False
        return self.names.setdefault(wanted.column, name) == name

    def add(self, at: int, times: Sequence[float], column: Column) -> int:
        """The values of a column at these times; how many were told before."""
        if (times is self.times or times == self.times) and at not in self.columns:
            self.columns[at] = column
            return 0
        return self._scatter(at, times, column)

    def _scatter(self, at: int, times: Sequence[float], column: Column) -> int:
        """A series with other times than the first of its device, or a second one of the same field."""
        there, repeated = set(self.times) if at in self.columns else set(), 0
        for time, value in zip(times, column, strict=True):
            row = self.loose.setdefault(_micros(time), [None] * fields.WIDTH)
            if time in there or row[at] is not None:
                repeated += 1
            elif value is not None:
                row[at] = value
        return repeated


class Table:
    """Rows by device and pod.

    RULE: the first value of (series, time) stays; further ones are counted in `repeated`, but not what
    another container of the same pod says of the GPU that both have. GPU_UTIL of an instance is dropped: DCGM
    has none, so whoever sends one took the board's. `odd` counts values that are in no range and no marker of
    DCGM either, by field; `foreign` the series that name no GPU.
    """

    def __init__(self, names: LabelNames) -> None:
        self._names = names
        self._rows: dict[Part, Rows] = {}
        self._parts: dict[tuple[str | None, ...], Part | None] = {}
        self._micros: dict[int, tuple[Sequence[float], list[int]]] = {}
        self._runs: dict[int, tuple[Run, list[Rows | None]]] = {}
        self.repeated = 0
        self.foreign = 0
        self.odd: dict[str, int] = {}

    @property
    def devices_by_node(self) -> dict[str, int]:
        """How many devices each node speaks of."""
        found: dict[str, set[tuple[object, ...]]] = {}
        for part, rows in self._rows.items():
            found.setdefault(rows.labels.get("Hostname", ""), set()).add(part[:3])
        return {node: len(devices) for node, devices in found.items()}

    def add(self, name: str, labels: Mapping[str, str], times: Sequence[float], told: Told) -> None:
        """One series: its field's name, its labels, and its values at these times (unix seconds), at least
        one.
        """
        wanted = fields.FIELDS.get(name)
        if wanted is None:
            return
        rows = self._rows_of(labels, times)
        if rows is None:
            self.foreign += 1
        elif rows.takes(name, wanted):
            again = rows.add(wanted.column, times, self._column(name, wanted, told))
            self.repeated += again if again and self._is_same_container(rows, labels) else 0

    def add_many(self, name: str, run: Run, told: Sequence[float]) -> None:
        """The series of one field of a run."""
        wanted = fields.FIELDS.get(name)
        if wanted is None:
            return
        column = _whole(told, wanted)
        if column is None:
            for labels, times, values in Many(run, [*told]).series():
                self.add(name, labels, times, values)
            return
        at = 0
        for rows, labels, times in zip(self._rows_of_run(run), run.labels, run.times, strict=True):
            if rows is None:
                self.foreign += 1
            elif rows.takes(name, wanted):
                again = rows.add(wanted.column, times, column[at : at + len(times)])
                self.repeated += again if again and self._is_same_container(rows, labels) else 0
            at += len(times)

    def _is_same_container(self, rows: Rows, labels: Mapping[str, str]) -> bool:
        name = self._names.container
        return rows.labels.get(name, "") == labels.get(name, "")

    def readings(self) -> list[Reading]:
        """Everything so far, device by device, one reading per device and time."""
        return [reading for each in self._found() for reading in _one_by_one(each)]

    def sorted(self) -> tuple[list[Block], list[Reading]]:
        """The same, as blocks where a device has many readings with the same fields."""
        blocks, readings = list[Block](), list[Reading]()
        for each in self._found():
            if isinstance(each, Block) and len(each.times) >= MANY:
                blocks.append(each)
            else:
                readings += _one_by_one(each)
        return blocks, readings

    def _rows_of_run(self, run: Run) -> list[Rows | None]:
        found = self._runs.get(id(run))
        if found is None:
            pairs = zip(run.labels, run.times, strict=True)
            # Kept with the run, so that its id stays its own.
            found = self._runs[id(run)] = run, [self._rows_of(*each) for each in pairs]
        return found[1]

    def _rows_of(self, labels: Mapping[str, str], times: Sequence[float]) -> Rows | None:
        """The rows of a device and pod; None where the labels name no GPU. They are judged once."""
        get, names = labels.get, self._names
        key = get("UUID"), get("GPU_I_ID"), get("GPU_C_ID"), get(names.pod), get(names.namespace)
        if key not in self._parts:
            self._parts[key] = part_of(labels, names)
        part = self._parts[key]
        if part is None:
            return None
        rows = self._rows.get(part)
        if rows is None:
            rows = self._rows[part] = Rows(labels, part[1] >= 0, times)
        return rows

    def _column(self, name: str, wanted: Field, told: Told) -> Column:
        """RULE: all in range is worked on as a whole; anything else value by value, as `fields.put` does."""
        column = _whole(told, wanted)
        return column if column is not None else [self._put(name, wanted, value) for value in told]

    def _put(self, name: str, wanted: Field, told: str | float) -> int | None:
        row: Raw = [None] * fields.WIDTH
        value = exposition.number(told) if isinstance(told, str) else float(told)
        if not fields.put(row, wanted, value) and (value is None or not fields.is_blank(value)):
            self.odd[name] = self.odd.get(name, 0) + 1
        return row[wanted.column]

    def _devices(self) -> dict[tuple[str, int, int, str], list[Part]]:
        grouped: dict[tuple[str, int, int, str], list[Part]] = {}
        for part, rows in self._rows.items():
            profile = rows.labels.get("GPU_I_PROFILE", "")
            grouped.setdefault((*part[:3], profile), []).append(part)
        return grouped

    def _found(self) -> Iterator[Block | Iterator[Reading]]:
        for parts in self._devices().values():
            if len(parts) > 1:
                yield self._shared(parts)
                continue
            rows = self._rows[parts[0]]
            device = _device(parts, rows.labels)
            yield self._plain(device, rows) if not rows.loose else _sorted_out(device, rows)

    def _plain(self, device: DeviceLabels, rows: Rows) -> Block:
        fields.complete(rows.columns, len(rows.times))
        # The GPUs of a node were scraped at once: they share one list.
        times = rows.times
        if id(times) not in self._micros:
            self._micros[id(times)] = times, [_micros(time) for time in times]
        return Block(device, self._micros[id(times)][1], tuple(map(rows.columns.get, range(fields.FREE))))

    def _shared(self, parts: list[Part]) -> Iterator[Reading]:
        by_part = {part: _raw(self._rows[part]) for part in parts}
        for ts in sorted({ts for rows in by_part.values() for ts in rows}):
            there = [part for part in parts if ts in by_part[part]]
            row = fields.shared([by_part[part][ts] for part in there])
            yield Reading(_device(there, self._rows[there[0]].labels), ts, fields.values(row))


def _one_by_one(found: Block | Iterator[Reading]) -> Iterator[Reading]:
    return found.readings() if isinstance(found, Block) else found


def _whole(told: Told, wanted: Field) -> "array[int] | None":
    """In the column's unit; None where one is out of range, or has decimals though the field has none."""
    try:
        column, most = _scaled(told, wanted)
    except (ValueError, OverflowError, TypeError):
        # NaN, an infinity, or decimals of a field that has whole numbers nearly always.
        return None
    if most > wanted.high:
        return None
    return (
        column if most <= wanted.most else array(wanted.code, [min(value, wanted.most) for value in column])
    )


def _scaled(told: Told, wanted: Field) -> tuple["array[int]", int]:
    """In the column's unit, and the most of it; raises where one has decimals though the field has none, or
    is too low.
    """
    values: Any = told
    scale = wanted.scale
    if isinstance(told[0], str):
        values = list(map(int if scale == 1.0 else float, told))
    if scale != 1.0:
        return _rounded([each * scale + _HALVES for each in values])
    column = array(wanted.code, values)
    if wanted.low and min(column) < wanted.low:
        raise ValueError("too low")
    return column, max(values)


_HALVES = 1.5 * 2.0**52
"""Added to a number, it leaves no bits for fractions: the processor rounds, halves to even, as `round` does,
and the whole number is in the lowest bits. `round` takes half as long again.
"""
_LOW = 0 if sys.byteorder == "little" else 1
_HIGH = array("I", pack("d", _HALVES))[1 - _LOW]


def _rounded(raised: list[float]) -> tuple["array[int]", int]:
    """What was told with `_HALVES` added, and the most of it; raises where one is below 0, or needs more than
    32 bits.
    """
    words = array("I", pack(f"{len(raised)}d", *raised))
    if words[1 - _LOW :: 2] != array("I", [_HIGH]) * len(raised):
        raise ValueError("below 0, or too high")
    return words[_LOW::2], int(max(raised) - _HALVES)


def _device(parts: list[Part], labels: Mapping[str, str]) -> DeviceLabels:
    return device_of(parts[0], labels, tuple(pod for part in parts if (pod := pod_of(part))))


def _sorted_out(device: DeviceLabels, rows: Rows) -> Iterator[Reading]:
    return (Reading(device, ts, fields.values(row)) for ts, row in _raw(rows).items())


def _raw(rows: Rows) -> dict[int, Raw]:
    found = {ts: row[:] for ts, row in rows.loose.items()}
    for index, time in enumerate(rows.times):
        row = found.setdefault(_micros(time), [None] * fields.WIDTH)
        for at, column in rows.columns.items():
            if row[at] is None:
                row[at] = column[index]
    return found


def _micros(time: float) -> int:
    """Sources tell milliseconds."""
    return round(time * 1000) * 1000
