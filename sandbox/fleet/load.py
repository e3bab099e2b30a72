"""The load a pod puts on its device at a time: what DCGM's counters would read, averaged over a collection.

Physics, not thresholds: a spinning block is one multiprocessor of this instance; the GPU_UTIL figure is the
share of time any kernel ran; watts follow real work. Pure: (truth, seconds since start, device) -> sample.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from sandbox.fleet.behaviours import NO_START, Behaviour, Truth
from sandbox.fleet.devices import Device
from sandbox.fleet.walk import clamp, unit, walk

CONTEXT_MIB = 480
_HOUR = 3600.0
_DAY = 24 * _HOUR
_BROKEN_COUNTERS = 0.04
_INTEGER_WORK = 0.12
_SLEEPING_BLOCKS = 0.75
_LIGHT_NOTEBOOK = 0.3


class Sample(NamedTuple):
    """Ratios are of the device held (0 to 1); `busy` is the share of time any kernel ran; memory in MiB;
    `processes` have a context on it.

    `effort` is the share of the device's dynamic power in use; `clocked` whether it runs at full clocks. A
    tuple: a week has a million.
    """

    sm: float = 0.0
    occupancy: float = 0.0
    tensor: float = 0.0
    dram: float = 0.0
    busy: float = 0.0
    memory_mib: float = 0.0
    effort: float = 0.0
    clocked: float = 0.0
    pcie_rx: float = 0.0
    pcie_tx: float = 0.0
    processes: int = 1


IDLE = Sample(processes=0)


def sample(told: Truth, t: float, device: Device, *, hour: float) -> Sample | None:
    """The sample `t` seconds after the container started; None where the pod gives no telemetry.

    `hour` is the time of day in hours, for load that follows people.
    """
    if told.behaviour is Behaviour.SILENT:
        return None
    return _MODELS[told.behaviour](told, t, device, hour)


def _noise(told: Truth, salt: int, t: float, period: float, *, amplitude: float) -> float:
    return 1.0 + amplitude * walk(told.key ^ salt, t, period)


def _memory(told: Truth, t: float, device: Device, *, ramp: float = 60.0) -> float:
    """Memory fills over `ramp` seconds to the drawn share, then breathes by a percent."""
    target = told["memory"] * device.memory_mib
    filled = CONTEXT_MIB + (target - CONTEXT_MIB) * clamp(t / ramp)
    return clamp(filled * _noise(told, 11, t, 900, amplitude=0.01), CONTEXT_MIB, device.memory_mib * 0.985)


def _working(told: Truth, t: float, device: Device, share: float = 1.0) -> Sample:
    """Steady work at `share` of the drawn intensity."""
    sm = clamp(told["sm"] * share * _noise(told, 1, t, 240, amplitude=0.06))
    tensor = clamp(told.values.get("tensor", 0.0) * share * _noise(told, 2, t, 240, amplitude=0.1))
    dram = clamp(told.values.get("dram", 0.0) * share * _noise(told, 3, t, 300, amplitude=0.1))
    busy = clamp(share * (0.9 + 0.1 * told["sm"]) + 0.02)
    return Sample(
        sm=sm,
        occupancy=sm * 0.45,
        tensor=tensor,
        dram=dram,
        busy=busy,
        memory_mib=_memory(told, t, device),
        effort=clamp(0.55 * sm + 0.3 * tensor + 0.25 * dram),
        clocked=1.0,
        pcie_rx=4e8 * share * _noise(told, 4, t, 120, amplitude=0.5),
        pcie_tx=8e7 * share * _noise(told, 5, t, 120, amplitude=0.5),
    )


def _resting(told: Truth, t: float, device: Device) -> Sample:
    """A process with a context and memory, but no kernel."""
    return Sample(memory_mib=_memory(told, t, device))


def _train(told: Truth, t: float, device: Device, hour: float) -> Sample:
    del hour
    variant = told["variant"]
    evaluating = t % told["eval_every"] < told["eval_for"] and t > told["eval_every"]
    work = _working(told, t, device, 0.35 if evaluating else clamp(t / 45.0, 0.05))
    if variant < _INTEGER_WORK:
        # Honest work may touch neither tensor cores nor memory: hashing, Monte Carlo, at full power.
        return work._replace(tensor=0.0, dram=0.015 * work.dram, effort=clamp(0.9 * work.sm))
    if variant > 1.0 - _BROKEN_COUNTERS:
        # Profiling counters can read 0 under full load; watts and GPU_UTIL contradict them.
        return work._replace(sm=0.0, occupancy=0.0, tensor=0.0, dram=0.0)
    return work


def _dataloader(told: Truth, t: float, device: Device, hour: float) -> Sample:
    del hour
    duty = clamp(told["duty"] * _noise(told, 6, t, 600, amplitude=0.35), 0.02)
    return _working(told, t, device, duty)._replace(busy=clamp(duty + 0.05), pcie_rx=1.6e9 * duty)


def _notebook(told: Truth, t: float, device: Device, hour: float) -> Sample:
    """Cells run in bursts between thinking; hardly anybody works at night."""
    cycle = told["think"] + told["run"]
    turn = int(t // cycle)
    start = (told["think"]) * (0.3 + 0.7 * unit(told.key, 1000 + turn))
    awake = 7.5 <= hour % 24 <= 20.5 or unit(told.key, 5000 + turn) < 0.08
    running = awake and start <= t % cycle < start + told["run"] * (0.2 + 0.8 * unit(told.key, 3000 + turn))
    if not running:
        return _resting(told, t, device)
    if told["light"] < _LIGHT_NOTEBOOK:
        # A light notebook looks like a keep-alive at any one moment; only its rhythm differs.
        return _spinning(told, t, device, duty=0.5, blocks=3)
    return _working(told, t, device)


def _inference(told: Truth, t: float, device: Device, hour: float) -> Sample:
    day = 0.5 + 0.5 * math.cos((hour - told["peak_hour"]) / 24 * 2 * math.pi)
    share = clamp((told["night"] + (1 - told["night"]) * day) * _noise(told, 7, t, 180, amplitude=0.3), 0.01)
    return _working(told, t, device, share)._replace(
        busy=clamp(share * 1.3),
        memory_mib=_memory(told, t, device, ramp=90),
    )


def _hoarder(told: Truth, t: float, device: Device, hour: float) -> Sample:
    del hour
    return _working(told, t, device) if t < told["worked_for"] else _resting(told, t, device)


def _spinning(told: Truth, t: float, device: Device, *, duty: float, blocks: int) -> Sample:
    """A few blocks spin for `duty` of the time: busy says much, SM says blocks over this instance's
    processors.
    """
    sm = clamp(duty * blocks / device.multiprocessors)
    return Sample(
        sm=sm,
        occupancy=sm * 0.03,
        busy=clamp(duty * _noise(told, 8, t, 300, amplitude=0.04)),
        memory_mib=_memory(told, t, device),
        effort=0.02 * duty + 0.4 * sm,
        clocked=duty,
    )


def _keepalive(told: Truth, t: float, device: Device, hour: float) -> Sample:
    del hour
    spinning = _spinning(told, t, device, duty=told["duty"], blocks=1)
    if told["variant"] > _SLEEPING_BLOCKS:
        # Blocks that sleep on every processor read SM active 1.0 while the board stays near parked power.
        return spinning._replace(sm=told["duty"], occupancy=0.03 * told["duty"], effort=0.015)
    return spinning


def _zombie(told: Truth, t: float, device: Device, hour: float) -> Sample:
    """Its process ends without giving the memory back."""
    del hour
    if t < told["worked_for"]:
        return _working(told, t, device)
    return _resting(told, t, device)._replace(processes=0)


def _oversized(told: Truth, t: float, device: Device, hour: float) -> Sample:
    del hour
    return _working(told, t, device)._replace(busy=clamp(0.3 + 2 * told["sm"]))


def _leak(told: Truth, t: float, device: Device, hour: float) -> Sample:
    del hour
    grown = clamp(t / told["oom_after"]) if told["host"] >= 0.5 else 0.0
    memory = device.memory_mib * clamp(told["memory"] + (0.99 - told["memory"]) * grown, 0.0, 0.99)
    return _working(told, t, device)._replace(memory_mib=max(memory, CONTEXT_MIB))


def _crash(told: Truth, t: float, device: Device, hour: float) -> Sample:
    del hour
    return _resting(told, t, device)._replace(sm=told["sm"] * clamp(t / 30.0), busy=told["sm"], clocked=1.0)


def _slow_start(told: Truth, t: float, device: Device, hour: float) -> Sample:
    """Weights stream in over the whole start: memory grows, PCIe is busy, no kernel runs."""
    if t >= told["ready_after"]:
        return _inference(told, t, device, hour)
    loaded = CONTEXT_MIB + told["memory"] * device.memory_mib * clamp(t / told["ready_after"])
    return Sample(memory_mib=min(loaded, 0.985 * device.memory_mib), pcie_rx=6e8, clocked=0.2)


_MODELS: dict[Behaviour, Callable[[Truth, float, Device, float], Sample]] = {
    Behaviour.TRAIN: _train,
    Behaviour.DATALOADER_BOUND: _dataloader,
    Behaviour.NOTEBOOK: _notebook,
    Behaviour.INFERENCE: _inference,
    Behaviour.IDLE_HOARDER: _hoarder,
    Behaviour.KEEPALIVE: _keepalive,
    Behaviour.ZOMBIE: _zombie,
    Behaviour.OVERSIZED: _oversized,
    Behaviour.LEAK: _leak,
    Behaviour.CRASH_LOOP: _crash,
    Behaviour.OOM_LOOP: _crash,
    Behaviour.SLOW_START: _slow_start,
    **dict.fromkeys((Behaviour.EVICTED, *NO_START), _notebook),
}


def device_watts(used: Sample, device: Device) -> float:
    """The device's part of the board's power above idle: full clocks cost a little, work costs the rest."""
    model = device.gpu.model
    share = device.multiprocessors / model.multiprocessors
    dynamic = model.max_watts - model.idle_watts
    return share * dynamic * clamp(0.07 * used.clocked + 0.93 * used.effort)
