"""From one start of the driver to its end: boards found and lost, MIG devices as they are cut, XIDs."""

import logging
from dataclasses import dataclass
from pathlib import Path

from agent import devices, fields, nvml
from agent.activity import NOTHING, Activities, Activity, supported
from agent.devices import Board, Part, Parts
from agent.nvml import Lost, NvmlError, Unavailable
from agent.readings import Gaps, Reader
from agent.snapshot import Gap, Gpu, Instance, Row

log = logging.getLogger("agent")
# Boards are looked for, and lasting refusals asked again, this often; MIG devices at every collection.
_LOOK_SECONDS, _LOOK_AGAIN_SECONDS = 60.0, 5.0
_PROFILED = tuple(field.name for field in fields.PROFILED_FIELDS)
_NO_GPM = Unavailable("this card has no GPM, which begins with Hopper; a DCGM exporter can measure it")
_SHARED_COUNTERS = Unavailable("its GPU instance has several compute instances, which share the counters")
_OTHER_PIDS = Unavailable("the agent does not share the host's process ids (hostPID)")


@dataclass(frozen=True)
class Settings:
    """What a collector is told; times in seconds. Without a `socket` nobody is asked who holds what."""

    host: str
    window: float = 30.0
    socket: Path | None = None
    pods_every: float = 5.0
    counts_processes: bool = True


class Session:
    """What is known from one start of the driver to its end. Every method may raise DriverGone."""

    def __init__(self, settings: Settings) -> None:
        self.driver = nvml.start()
        self._settings = settings
        self._gaps = Gaps()
        self._activity = Activity(settings.window)
        self._boards: dict[int, Board] = {}
        self._parts: dict[int, Parts] = {}
        self._seen: dict[int, Gpu] = {}
        self._xids: dict[tuple[str, int | None], int] = {}
        self._unheard: dict[str, NvmlError] = {}
        self._events: nvml.Events | None = None
        self._lost: dict[int, NvmlError] = {}
        self._look_at = float("-inf")

    def close(self) -> None:
        """Give samples and library back."""
        self._activity.close()
        nvml.stop()

    def collect(self, now: float) -> tuple[list[Row], tuple[Gap, ...]]:
        """Every device's row, in the driver's order, and what could not be read."""
        if now >= self._look_at:
            self._look(now)
        self._hear()
        rows = [row for index in sorted(self._seen) for row in self._rows(index, now)]
        for index, why in self._lost.items():
            self._gaps.note(("everything",), f"GPU {index}", why)
        # A lost GPU's counters may begin anew.
        self._activity.forget({_key(row.gpu, row.instance) for row in rows if row.values[fields.GPU_UP.name]})
        return rows, self._gaps.taken()

    def _look(self, now: float) -> None:
        """Find the boards; one that does not answer is looked for again sooner than the rest."""
        self._gaps.again()
        for index in range(devices.count()):
            if index in self._boards:
                continue
            try:
                found = devices.board(index)
            except (Lost, Unavailable) as refusal:
                self._lost[index] = refusal
                continue
            self._lost.pop(index, None)
            self._boards[index], self._seen[index] = found, found.gpu
            self._parts[index] = Parts(found.handle)
            self._register(found)
        self._look_at = now + (_LOOK_AGAIN_SECONDS if self._lost else _LOOK_SECONDS)

    def _register(self, board: Board) -> None:
        try:
            self._events = self._events or nvml.Events()
            self._events.register(board.handle, board.gpu.uuid)
            self._unheard.pop(board.gpu.uuid, None)
        except (Lost, Unavailable) as refusal:
            self._unheard[board.gpu.uuid] = refusal

    def _hear(self) -> None:
        for xid in self._events.drain() if self._events else ():
            log.warning("XID %s on %s", xid.code, xid.uuid)
            self._xids[xid.uuid, xid.gpu_instance] = xid.code

    def _rows(self, index: int, now: float) -> list[Row]:
        board = self._boards.get(index)
        if board is not None:
            try:
                return self._answered(board, now)
            except Lost as lost:
                del self._boards[index], self._parts[index]
                self._lost[index] = lost
                self._look_at = now + _LOOK_AGAIN_SECONDS
        gpu = self._seen[index]
        return [Row(gpu, None, {fields.GPU_UP.name: 0.0, **self._last_xid(gpu, None)})]

    def _answered(self, board: Board, now: float) -> list[Row]:
        sliced = devices.sliced(board.handle)
        where = f"GPU {board.gpu.index}"
        reader = Reader(board.handle, where, self._gaps)
        reader.board(sliced=sliced)
        reader.values[fields.GPU_UP.name] = 1.0
        parts = self._parts[board.gpu.index].now() if sliced else []
        if not parts:
            return [self._row(board, None, reader.values, now)]
        return [self._row(board, part, reader.values, now) for part in parts]

    def _row(self, board: Board, part: Part | None, values: dict[str, float], now: float) -> Row:
        instance = part.instance if part else None
        row = Row(board.gpu, instance, {})
        reader = Reader(part.handle if part else board.handle, row.name, self._gaps)
        reader.memory()
        processes = self._processes(reader, row.name)
        active = self._profiled(board, instance, row.name, now)
        reader.values.update(active.values)
        if board.gpu.uuid in self._unheard:
            self._gaps.note((fields.XID_ERRORS.name,), row.name, self._unheard[board.gpu.uuid])
        reader.values.update(self._last_xid(board.gpu, instance))
        return Row(board.gpu, instance, {**values, **reader.values}, processes, span=active.span)

    def _processes(self, reader: Reader, where: str) -> tuple[nvml.Process, ...]:
        if self._settings.counts_processes:
            return reader.processes()
        self._gaps.note((fields.PROCESSES.name,), where, _OTHER_PIDS)
        return ()

    def _profiled(self, board: Board, instance: Instance | None, where: str, now: float) -> Activities:
        if board.gpm is None:
            board.gpm = supported(board.handle)
        if not board.gpm or (instance and not instance.whole):
            self._gaps.note(_PROFILED, where, _SHARED_COUNTERS if board.gpm else _NO_GPM)
            return NOTHING
        if self._gaps.refused(_PROFILED, where):
            return NOTHING
        owner = instance.gpu_instance if instance else None
        try:
            found = self._activity.read(_key(board.gpu, instance), board.handle, owner, now)
        except Unavailable as unavailable:
            self._gaps.note(_PROFILED, where, unavailable)
            return NOTHING
        for name, why in found.missing.items():
            self._gaps.note((name,), where, why)
        return found

    def _last_xid(self, gpu: Gpu, instance: Instance | None) -> dict[str, float]:
        """The last XID of the whole GPU or of this instance since the agent started; 0 for none."""
        if gpu.uuid in self._unheard:
            return {}
        own = self._xids.get((gpu.uuid, instance.gpu_instance)) if instance else None
        return {fields.XID_ERRORS.name: float(own or self._xids.get((gpu.uuid, None), 0))}


def _key(gpu: Gpu, instance: Instance | None) -> tuple[str, str]:
    return gpu.uuid, instance.uuid if instance else ""
