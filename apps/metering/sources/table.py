"""Values that arrive series by series, each with its times, put together into readings. Pure.

Nearly always all fields of a device have the same times; then whole columns are worked on at once.
"""

from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from apps.metering.sources import exposition, fields
from apps.metering.sources.fields import Field, Raw
from apps.metering.sources.naming import LabelNames, Part, device_of, part_of, pod_of
from apps.metering.sources.reading import Block, DeviceLabels, Reading

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
    times: Sequence[float] = ()
    names: dict[int, str] = field(default_factory=dict)
    columns: dict[int, Column] = field(default_factory=dict)
    loose: dict[int, Raw] = field(default_factory=dict)


class Table:
    """Rows by device and pod.

    RULE: the first value of (series, time) stays; further ones are counted in `repeated`. GPU_UTIL of an
    instance is dropped: DCGM has none, so whoever sends one took the board's. `odd` counts values that are in
    no range and no marker of DCGM either, by field; `foreign` the series that name no GPU.
    """

    def __init__(self, names: LabelNames) -> None:
        self._names = names
        self._rows: dict[Part, Rows] = {}
        self._parts: dict[tuple[str | None, ...], Part | None] = {}
        self._micros: dict[tuple[float, ...], list[int]] = {}
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
        part = self._part(labels)
        if part is None:
            self.foreign += 1
            return
        if wanted.column == fields.SMI and part[1] >= 0:
            return
        rows = self._rows.get(part)
        if rows is None:
            rows = self._rows[part] = Rows(labels, times)
        if rows.names.setdefault(wanted.column, name) != name:
            # The second of two names for one thing says nothing new.
            return
        column = self._column(name, wanted, told)
        if (times is rows.times or times == rows.times) and wanted.column not in rows.columns:
            rows.columns[wanted.column] = column
        else:
            self._scatter(rows, wanted.column, times, column)

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

    def _part(self, labels: Mapping[str, str]) -> Part | None:
        """Each device has some twenty series: its labels are judged once."""
        get, names = labels.get, self._names
        key = get("UUID"), get("GPU_I_ID"), get("GPU_C_ID"), get(names.pod), get(names.namespace)
        if key not in self._parts:
            self._parts[key] = part_of(labels, names)
        return self._parts[key]

    def _column(self, name: str, wanted: Field, told: Told) -> Column:
        """RULE: all in range is worked on as a whole; anything else value by value, as `fields.put` does."""
        try:
            column, most = _scaled(told, wanted)
            if most <= wanted.high:
                return column if most <= wanted.most else [min(value, wanted.most) for value in column]
        except (ValueError, OverflowError, TypeError):
            # NaN, an infinity, or decimals of a field that has whole numbers nearly always.
            pass
        return [self._put(name, wanted, value) for value in told]

    def _put(self, name: str, wanted: Field, told: str | float) -> int | None:
        row: Raw = [None] * fields.WIDTH
        value = exposition.number(told) if isinstance(told, str) else float(told)
        if not fields.put(row, wanted, value) and (value is None or not fields.is_blank(value)):
            self.odd[name] = self.odd.get(name, 0) + 1
        return row[wanted.column]

    def _scatter(self, rows: Rows, at: int, times: Sequence[float], column: Column) -> None:
        """A series with other times than the first of its device, or a second one of the same field."""
        there = set(rows.times) if at in rows.columns else set()
        for time, value in zip(times, column, strict=True):
            row = rows.loose.setdefault(_micros(time), [None] * fields.WIDTH)
            if time in there or row[at] is not None:
                self.repeated += 1
            elif value is not None:
                row[at] = value

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
        key = tuple(rows.times)
        times = self._micros.get(key)
        if times is None:
            times = self._micros[key] = [_micros(time) for time in key]
        return Block(device, times, tuple(map(rows.columns.get, range(fields.FREE))))

    def _shared(self, parts: list[Part]) -> Iterator[Reading]:
        by_part = {part: _raw(self._rows[part]) for part in parts}
        for ts in sorted({ts for rows in by_part.values() for ts in rows}):
            there = [part for part in parts if ts in by_part[part]]
            row = fields.shared([by_part[part][ts] for part in there])
            yield Reading(_device(there, self._rows[there[0]].labels), ts, fields.values(row))


def _one_by_one(found: Block | Iterator[Reading]) -> Iterator[Reading]:
    return found.readings() if isinstance(found, Block) else found


def _scaled(told: Told, wanted: Field) -> tuple["array[int]", int]:
    """In the column's unit, and the most of it; raises where one has decimals though the field has none, or
    is too low.
    """
    values: Any = told
    scale = wanted.scale
    if isinstance(told[0], str):
        values = list(map(int if scale == 1.0 else float, told))
    if scale != 1.0:
        values = [round(each * scale) for each in values]
    column = array("q" if wanted.low else "Q", values)
    if wanted.low and min(column) < wanted.low:
        raise ValueError("too low")
    return column, max(values)


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
