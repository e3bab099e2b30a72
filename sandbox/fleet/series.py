"""What the exporter of a GPU would have said during a piece of the past, as columns. Pure.

The same physics as `telemetry`: a device's load is `load.sample` of who holds it, a board's watts are those
of its devices, and a zombie's memory outlives its pod.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby

from sandbox.fleet import dcgm, telemetry
from sandbox.fleet.behaviours import Behaviour
from sandbox.fleet.devices import Device, Gpu, gpu_devices
from sandbox.fleet.load import IDLE, Sample, sample
from sandbox.fleet.past import Run
from sandbox.fleet.telemetry import Board, Reading

_DAY, _HOUR = 86_400, 3600
Columns = Mapping[str, Sequence[float] | float]
"""A field's values; one number where it was the same all the time."""


@dataclass(frozen=True)
class Span:
    """`count` moments, the first at `first`, `step` seconds apart."""

    first: datetime
    step: int
    count: int

    def at(self, index: int) -> datetime:
        """A moment."""
        return self.first + timedelta(seconds=self.step * index)

    def index(self, at: datetime) -> int:
        """The first moment that is not before this time, or the end."""
        return min(self.count, max(0, -((self.first - at) // timedelta(seconds=self.step))))


@dataclass(frozen=True)
class Line:
    """One device, with one holder or none, over a span."""

    span: Span
    device: Device
    run: Run | None
    columns: Columns


@dataclass
class _Seats:
    """Who holds a device at each moment, and what it does then; None: nobody hears of it."""

    device: Device
    holders: list[Run | None]
    used: list[Sample | None]


class GpuSeries:
    """The series of one GPU, piece after piece; it keeps the energy between them."""

    def __init__(self, gpu: Gpu, runs: Mapping[tuple[str, str], Sequence[Run]]) -> None:
        self.gpu = gpu
        self._runs = [(device, runs.get((gpu.node, device.name), ())) for device in gpu_devices(gpu)]
        self._energy = 0.0

    def lines(self, span: Span) -> Iterator[Line]:
        """All its devices over the next piece."""
        every = [_seats(device, runs, span) for device, runs in self._runs]
        boards = self._boards(every, span)
        nothing = [Reading(every[0].device, IDLE, None)] * span.count
        shared = dcgm.columns(boards, nothing, of_board=True)
        for seats in every:
            begins = 0
            for run, group in groupby(seats.holders):
                ends = begins + sum(1 for _ in group)
                used = _heard(seats.used[begins:ends])
                if used:
                    readings = [Reading(seats.device, each, None) for each in used]
                    own = dcgm.columns(boards[begins:ends], readings, of_board=False)
                    part = Span(span.at(begins), span.step, ends - begins)
                    yield Line(part, seats.device, run, {**_cut(shared, begins, ends), **own})
                begins = ends

    def _boards(self, every: Sequence[_Seats], span: Span) -> list[Board]:
        found, before, watts = list[Board](), None, 0.0
        for moment in zip(*(seats.used for seats in every), strict=True):
            if is_new := moment != before:
                used = [(seats.device, each or IDLE) for seats, each in zip(every, moment, strict=True)]
                before, watts = moment, telemetry.watts_of(self.gpu, used)
            self._energy += span.step * watts * 1000.0
            # Most moments are like the one before, but for the energy.
            found.append(
                telemetry.board(self.gpu, used, (), watts=watts, energy_mj=self._energy)
                if is_new
                else found[-1]._replace(energy_mj=self._energy)
            )
        return found


def _heard(used: Sequence[Sample | None]) -> list[Sample]:
    """What is said of the moments: once where it is the same all the time."""
    heard = [each for each in used if each is not None]
    return heard[:1] if heard and all(each is heard[0] for each in heard) else heard


def _cut(columns: Columns, begins: int, ends: int) -> Columns:
    return {
        name: column if isinstance(column, (int, float)) else column[begins:ends]
        for name, column in columns.items()
    }


def _seats(device: Device, runs: Sequence[Run], span: Span) -> _Seats:
    seats = _Seats(device, [None] * span.count, [IDLE] * span.count)
    for run in runs:
        begins, ends = span.index(run.placed), span.index(run.ended)
        seats.holders[begins:ends] = [run] * (ends - begins)
        # Of a silent pod's device nobody hears: zeros would say that it does nothing.
        still = None if run.told.behaviour is Behaviour.SILENT else IDLE
        seats.used[begins:ends] = [still] * (ends - begins)
        if still is not None:
            _act(seats, run, span)
        _haunt(seats, run, span)
    return seats


def _act(seats: _Seats, run: Run, span: Span) -> None:
    midnight = span.first.hour * _HOUR + span.first.minute * 60 + span.first.second
    for life in run.lives:
        born = (span.first - life.begins).total_seconds()
        for index in range(span.index(life.begins), span.index(life.ends)):
            passed = index * span.step
            hour = (midnight + passed) % _DAY / _HOUR
            seats.used[index] = sample(run.told, born + passed, seats.device, hour=hour)


def _haunt(seats: _Seats, run: Run, span: Span) -> None:
    """A zombie's memory stays on the device when its pod is gone."""
    told = run.told
    if told.behaviour is Behaviour.ZOMBIE and (run.ended - run.placed).total_seconds() > told["worked_for"]:
        begins, ends = span.index(run.ended), span.index(run.ended + timedelta(seconds=told["held_for"]))
        left = Sample(memory_mib=told["memory"] * seats.device.memory_mib)
        seats.used[begins:ends] = [left] * (ends - begins)
