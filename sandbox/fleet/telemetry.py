"""What every device of a node does now: which pod holds it, its sample, and the board's power and energy.

Reads pods and claims from the cluster; keeps energy and the memory of ended zombies between readings. Formats
nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from sandbox.api.cluster.client import Client
from sandbox.api.meta.objects import Obj, dig, parse_time
from sandbox.fleet import behaviours, faults
from sandbox.fleet.behaviours import Behaviour, Truth
from sandbox.fleet.devices import Device, Gpu, node_gpus, present_devices
from sandbox.fleet.load import IDLE, Sample, device_watts, sample
from sandbox.fleet.nodes import SHARED_RESOURCE
from sandbox.fleet.spec import Fleet, SharingMode
from sandbox.fleet.walk import clamp

CLAIMS = "resourceclaims.resource.k8s.io"
_BASE_CELSIUS = 31.0
Seat = tuple[str, Obj, Obj | None]


@dataclass(frozen=True)
class Holder:
    """A pod on a device; `claim` is None where the device plugin gave the device."""

    pod: Obj
    container: str
    claim: Obj | None
    told: Truth
    started: datetime | None


class Reading(NamedTuple):
    """One device at one moment with one holder or none."""

    device: Device
    used: Sample
    holder: Holder | None


class Board(NamedTuple):
    """One physical GPU: its readings and what is measured for the board as a whole."""

    gpu: Gpu
    readings: tuple[Reading, ...]
    watts: float
    energy_mj: float
    celsius: float
    sm_clock: float
    xid: int


@dataclass
class _Ghost:
    device: str
    memory_share: float
    until: datetime


def watts_of(gpu: Gpu, used: Sequence[tuple[Device, Sample]]) -> float:
    """What a board draws while its devices do this."""
    return gpu.model.idle_watts + sum(device_watts(total, device) for device, total in used)


def board(
    gpu: Gpu,
    used: Sequence[tuple[Device, Sample]],
    readings: Sequence[Reading],
    *,
    watts: float,
    energy_mj: float,
    xid: int = 0,
) -> Board:
    """A board whose devices do this; temperature follows power, and clocks follow the busiest device."""
    share = clamp((watts - gpu.model.idle_watts) / (gpu.model.max_watts - gpu.model.idle_watts))
    clocked = max((total.clocked for _, total in used), default=0.0)
    return Board(
        gpu=gpu,
        readings=tuple(readings),
        watts=0.0 if xid else watts,
        energy_mj=energy_mj,
        celsius=_BASE_CELSIUS + 44.0 * share,
        sm_clock=gpu.model.sm_clock_mhz * (0.17 + 0.83 * clocked),
        xid=xid,
    )


class Telemetry:
    """Readings of a fleet's nodes."""

    def __init__(self, client: Client, fleet: Fleet, seed: int) -> None:
        self._client = client
        self._fleet = fleet
        self._seed = seed
        self._energy: dict[str, tuple[datetime, float]] = {}
        self._ghosts: dict[str, _Ghost] = {}
        self._seats: dict[str, int] = {}

    @property
    def fleet(self) -> Fleet:
        """The fleet that is read."""
        return self._fleet

    def boards(self, node: str, now: datetime) -> list[Board]:
        """All GPUs of a node. Empty for a node without GPUs."""
        pool = self._fleet.pool_of(node)
        stored = self._client.get("nodes", node)
        if pool is None or stored is None:
            return []
        holders = self._holders(node)
        broken = faults.xids(stored)
        shared = pool.sharing.mode is SharingMode.TIME_SLICING
        return [
            self._board(gpu, holders, now, xid=broken.get(gpu.minor, 0), shared=shared)
            for gpu in node_gpus(self._fleet, node, pool, self._seed)
        ]

    def _board(
        self, gpu: Gpu, holders: dict[str, list[Holder]], now: datetime, *, xid: int, shared: bool
    ) -> Board:
        readings: list[Reading] = []
        used: list[tuple[Device, Sample]] = []
        for device in present_devices(gpu, holders):
            held = [] if xid else holders.get(device.name, [])
            found = list(self._readings(device, held, now))
            total = _combined([r.used for r in found], device)
            used.append((device, total))
            if shared and len(found) > 1:
                found = [r._replace(used=_shared_view(r.used, total)) for r in found]
            # Of a silent pod's device nobody hears: zeros would say that it does nothing.
            readings += found or ([] if held else [Reading(device, self._haunted(device, now), None)])
        watts = watts_of(gpu, used)
        return board(gpu, used, readings, watts=watts, energy_mj=self._energy_of(gpu, watts, now), xid=xid)

    def _readings(self, device: Device, holders: list[Holder], now: datetime) -> Iterator[Reading]:
        for holder in holders:
            used: Sample | None = IDLE
            if holder.started is not None and now >= holder.started:
                age = (now - holder.started).total_seconds()
                hour = now.hour + now.minute / 60
                used = sample(holder.told, age, device, hour=hour)
                self._remember(device, holder, now, age)
            if used is not None:
                yield Reading(device, used, holder)

    def _remember(self, device: Device, holder: Holder, now: datetime, age: float) -> None:
        """A zombie's memory outlives its pod: note what will stay on the device and how long."""
        if holder.told.behaviour is Behaviour.ZOMBIE and age > holder.told["worked_for"]:
            key = f"{device.gpu.node}/{device.name}"
            until = now + timedelta(seconds=holder.told["held_for"])
            self._ghosts[key] = _Ghost(device.name, holder.told["memory"], until)

    def _haunted(self, device: Device, now: datetime) -> Sample:
        ghost = self._ghosts.get(f"{device.gpu.node}/{device.name}")
        if ghost is None or now >= ghost.until:
            return IDLE
        return IDLE._replace(memory_mib=ghost.memory_share * device.memory_mib)

    def _energy_of(self, gpu: Gpu, watts: float, now: datetime) -> float:
        """Millijoules since the first reading; between readings the present power is assumed."""
        last, total = self._energy.get(gpu.uuid, (now, 0.0))
        total += max(0.0, (now - last).total_seconds()) * watts * 1000.0
        self._energy[gpu.uuid] = (now, total)
        return total

    def _holders(self, node: str) -> dict[str, list[Holder]]:
        """Holders by device name: by claim, and on device-plugin nodes by the seat a pod took."""
        found: dict[str, list[Holder]] = {}
        by_uid = {}
        for pod in self._client.list("pods"):
            if pod["spec"].get("nodeName") == node and dig(pod, "status", "phase") in ("Pending", "Running"):
                by_uid[pod["metadata"]["uid"]] = pod
        for device, pod, claim in (*self._claimed(node, by_uid), *self._seated(node, by_uid)):
            found.setdefault(device, []).append(self._holder(pod, claim))
        return found

    def _claimed(self, node: str, by_uid: dict[str, Obj]) -> Iterator[Seat]:
        for claim in self._client.list(CLAIMS):
            consumers = [by_uid.get(c["uid"]) for c in dig(claim, "status", "reservedFor", default=[])]
            for result in dig(claim, "status", "allocation", "devices", "results", default=[]):
                if result["pool"] == node:
                    yield from ((result["device"], pod, claim) for pod in consumers if pod is not None)

    def _seated(self, node: str, by_uid: dict[str, Obj]) -> Iterator[Seat]:
        pool = self._fleet.pool_of(node)
        if pool is None or pool.sharing.mode is not SharingMode.TIME_SLICING:
            return
        wanting = [p for p in by_uid.values() if _asks_shared(p)]
        for pod in sorted(wanting, key=lambda p: (str(dig(p, "status", "startTime")), p["metadata"]["uid"])):
            uid = pod["metadata"]["uid"]
            if uid not in self._seats:
                taken = [self._seats[u] for u in by_uid if u in self._seats]
                self._seats[uid] = min(range(pool.gpus_per_node), key=lambda g: (taken.count(g), g))
            yield f"gpu-{self._seats[uid]}", pod, None

    def _holder(self, pod: Obj, claim: Obj | None) -> Holder:
        told = behaviours.truth_of(self._seed, pod)
        container = pod["spec"]["containers"][0]["name"]
        mappings = dig(pod, "status", "extendedResourceClaimStatus", "requestMappings", default=[])
        if mappings and claim is not None:
            container = mappings[0]["containerName"]
        statuses = dig(pod, "status", "containerStatuses", default=[])
        started = next(
            (dig(s, "state", "running", "startedAt") for s in statuses if s["name"] == container), None
        )
        return Holder(pod, container, claim, told, parse_time(started) if started else None)

    def truths(self) -> list[tuple[Obj, Truth]]:
        """Every bound pod with its truth, for scoring detectors."""
        pods = [p for p in self._client.list("pods") if p["spec"].get("nodeName")]
        return [(p, behaviours.truth_of(self._seed, p)) for p in pods]


def _asks_shared(pod: Obj) -> bool:
    return any(
        SHARED_RESOURCE in (dig(c, "resources", "limits", default={})) for c in pod["spec"]["containers"]
    )


def _combined(samples: list[Sample], device: Device) -> Sample:
    """Several holders of one device: activity adds up to the whole, memory to what there is."""
    if not samples:
        return IDLE
    if len(samples) == 1:
        return samples[0]

    def summed(name: str) -> float:
        return clamp(sum(getattr(s, name) for s in samples))

    names = ("sm", "occupancy", "tensor", "dram", "busy", "effort", "clocked")
    memory = min(device.memory_mib * 0.99, sum(s.memory_mib for s in samples))
    flow = {name: sum(getattr(s, name) for s in samples) for name in ("pcie_rx", "pcie_tx")}
    count = sum(s.processes for s in samples)
    return Sample(**{name: summed(name) for name in names}, memory_mib=memory, processes=count, **flow)


def _shared_view(own: Sample, total: Sample) -> Sample:
    """On a time-sliced GPU only busy time and memory are known per pod; the rest is the device's."""
    return total._replace(busy=own.busy, memory_mib=own.memory_mib)
