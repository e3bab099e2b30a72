"""The sandbox's behaviours as labelled traces: its physics, an exporter of 30 s, and the truth it was drawn
from.
"""

import random
from collections.abc import Iterator

from apps.metering.detector.trace import Sample
from sandbox.fleet.behaviours import Behaviour, Truth, life, truth
from sandbox.fleet.devices import Device, gpu_devices, node_gpus
from sandbox.fleet.load import device_watts, sample
from sandbox.fleet.spec import SharingMode, load_fleet
from tests.metering.traces import DAY, HOUR, MONDAY

STEP = 30.0
LABELS = {
    Behaviour.TRAIN: "healthy",
    Behaviour.DATALOADER_BOUND: "data-starved",
    Behaviour.NOTEBOOK: "healthy",
    Behaviour.INFERENCE: "healthy",
    Behaviour.IDLE_HOARDER: "hoarder",
    Behaviour.KEEPALIVE: "evasion",
    Behaviour.ZOMBIE: "zombie",
    Behaviour.OVERSIZED: "oversized",
    Behaviour.LEAK: "memory-leak",
    Behaviour.CRASH_LOOP: "crash-loop",
    Behaviour.SLOW_START: "healthy",
    Behaviour.SILENT: "unknown",
}
KINDS = {
    Behaviour.NOTEBOOK: "notebook",
    Behaviour.IDLE_HOARDER: "notebook",
    Behaviour.KEEPALIVE: "notebook",
    Behaviour.INFERENCE: "inference",
    Behaviour.SLOW_START: "inference",
}
HOURS = {
    Behaviour.NOTEBOOK: 7.0,
    Behaviour.IDLE_HOARDER: 8.0,
    Behaviour.KEEPALIVE: 8.0,
    Behaviour.ZOMBIE: 5.0,
}


def devices(seed: int) -> list[Device]:
    """The lab fleet's devices that are not shared in time."""
    fleet = load_fleet("lab")
    return [
        device
        for node, pool in fleet.node_pools()
        if pool.model and pool.sharing.mode is not SharingMode.TIME_SLICING
        for gpu in node_gpus(fleet, node, pool, seed)
        for device in gpu_devices(gpu)
    ]


def traces(seed: int) -> Iterator[tuple[str, str, dict[str, object], list[Sample]]]:
    """(scenario, truth, meta, rows) of every behaviour once."""
    fleet = devices(seed)
    for behaviour, label in LABELS.items():
        rng = random.Random(f"sandbox/{seed}/{behaviour}")
        # A small job on the smallest slice has the right size already.
        fits = [d for d in fleet if behaviour is not Behaviour.OVERSIZED or d.memory_mib > 39_000]
        device = rng.choice(fits)
        told = truth(seed, f"pod-{behaviour}", behaviour)
        if behaviour is Behaviour.LEAK:
            # A leak of the host's memory shows nothing on the device; this is the other one.
            told = Truth(behaviour, told.key, {**told.values, "host": 1.0})
        start = MONDAY + rng.randrange(4) * DAY + (9 + rng.random()) * HOUR
        seconds = HOURS.get(behaviour, 4.0) * HOUR
        rows = list(_rows(told, device, start, rng, seconds=seconds))
        yield behaviour.value, label, _meta(device, behaviour, start, start + seconds), rows


def _meta(device: Device, behaviour: Behaviour, start: float, end: float) -> dict[str, object]:
    profile = device.instance.placement.profile if device.instance else None
    return {
        "id": behaviour.value, "kind": KINDS.get(behaviour, "job"), "model": device.gpu.model.product_name,
        "sharing": "mig" if profile else "whole", "profile": profile.name if profile else "",
        "share": profile.compute_slices / 7 if profile else 1.0, "total_mib": device.memory_mib,
        "start": start, "end": end, "sms": device.multiprocessors, "tdp_w": device.gpu.model.max_watts,
        "utc_offset_h": 0, "office_hours": [9, 18], "idle_window_s": 3600,
    }  # fmt: skip


def _rows(
    told: Truth, device: Device, start: float, rng: random.Random, *, seconds: float
) -> Iterator[Sample]:
    ends = life(told, finite=False).ends_after
    pause, begun, at = 10.0, 0.0, rng.uniform(0, STEP)
    while at < seconds:
        if ends is not None and at > begun + ends + pause:
            begun, pause = begun + ends + pause, min(300.0, 2 * pause)
            continue
        alive = ends is None or at <= begun + ends
        yield from _row(told, device, (at - begun, start + at), rng, alive=alive)
        at += STEP


def _row(
    told: Truth, device: Device, at: tuple[float, float], rng: random.Random, *, alive: bool
) -> Iterator[Sample]:
    age, ts = at
    used = sample(told, age, device, hour=ts % DAY / HOUR)
    if used is None:
        return
    watts = device.gpu.model.idle_watts + (device_watts(used, device) if alive else 0.0) + rng.gauss(0, 1.0)
    on = 1.0 if alive else 0.0
    yield Sample(
        ts=round(ts, 1), util=None if device.instance else on * round(used.busy, 2),
        sm=on * round(used.sm, 4), occupancy=on * round(used.occupancy, 4),
        tensor=on * round(used.tensor, 4), dram=on * round(used.dram, 4),
        memory=on * round(used.memory_mib), total=float(device.memory_mib), watts=round(watts, 2),
        processes=used.processes if alive else 0, xid=0,
    )  # fmt: skip
