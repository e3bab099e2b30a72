"""Who had which device when, in days that nobody saw: arrivals wait in line for a device and live on it.

Pure, and without an API server: what a week on 64 GPUs needs of it is who ran where, from when to when. The
line of each offer is first come, first served; how long work runs is known when it starts.
"""

from __future__ import annotations

import heapq
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from sandbox.fleet import behaviours
from sandbox.fleet.behaviours import Behaviour, Truth
from sandbox.fleet.devices import Device

_NAMESPACE = uuid.uuid5(uuid.NAMESPACE_DNS, "past.sandbox.allotment.dev")
_LASTING = frozenset(
    {
        Behaviour.NOTEBOOK,
        Behaviour.IDLE_HOARDER,
        Behaviour.KEEPALIVE,
        Behaviour.ZOMBIE,
        Behaviour.INFERENCE,
        Behaviour.SLOW_START,
        Behaviour.CRASH_LOOP,
    }
)
_TO_START = timedelta(seconds=1)
_RETRIES = 1
"""A Job's `backoffLimit`."""
_FIRST_WAIT, _LONGEST_WAIT = 10.0, 300.0
"""The kubelet's wait between two lives of a container doubles from one to the other."""


@dataclass(frozen=True)
class Offer:
    """A kind of device of the fleet, and the devices of that kind."""

    resource: str
    devices: tuple[Device, ...]

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self.devices)


@dataclass(frozen=True)
class Arrival:
    """Work that somebody submits; `hours` is how long a notebook is kept, `person` a username."""

    at: datetime
    tenant: str
    offer: Offer
    behaviour: Behaviour
    number: int
    hours: float
    name: str
    person: str = ""

    @property
    def is_lasting(self) -> bool:
        """Whether it goes on until somebody stops it: a StatefulSet, not a Job."""
        return self.behaviour in _LASTING

    @property
    def key(self) -> str:
        """What it is known by to whatever is drawn for it: another name is no other work."""
        return f"{self.tenant}/{self.behaviour.value}-{self.offer.resource}-{self.number}"


class End(StrEnum):
    """How a pod went."""

    COMPLETED = "Completed"
    FAILED = "Failed"
    STOPPED = "Stopped"


@dataclass(frozen=True)
class Life:
    """One run of a container, from the one moment to the other, and how it ended."""

    begins: datetime
    ends: datetime
    exit_code: int
    reason: str


@dataclass(frozen=True)
class Run:
    """One pod on its device, in [placed, ended), with the lives of its container."""

    arrival: Arrival
    name: str
    uid: str
    device: Device
    told: Truth
    placed: datetime
    ended: datetime
    end: End
    lives: tuple[Life, ...]

    @property
    def container(self) -> str:
        """The only one."""
        return "main"

    def age(self, now: datetime) -> float | None:
        """Seconds since the life of this moment began; None between two lives."""
        for life in self.lives:
            if life.begins <= now < life.ends:
                return (now - life.begins).total_seconds()
        return None


@dataclass(frozen=True)
class Work:
    """What became of an arrival: its pods, one after another; none where it was stopped while it waited."""

    arrival: Arrival
    uid: str
    runs: tuple[Run, ...]


def live(seed: int, arrivals: Sequence[Arrival]) -> Iterator[Work]:
    """The work of arrivals, which come in order of time."""
    free: dict[str, list[tuple[datetime, int]]] = {}
    for arrival in arrivals:
        line = free.setdefault(
            arrival.offer.resource, [(arrival.at, index) for index in range(arrival.offer.count)]
        )
        since, index = line[0]
        work = _work(seed, arrival, arrival.offer.devices[index], max(since, arrival.at))
        if work.runs:
            heapq.heapreplace(line, (work.runs[-1].ended, index))
        yield work


def _work(seed: int, arrival: Arrival, device: Device, placed: datetime) -> Work:
    uid = str(uuid.uuid5(_NAMESPACE, f"{seed}/{arrival.key}"))
    stop = arrival.at + timedelta(hours=arrival.hours)
    if not arrival.is_lasting:
        return Work(arrival, uid, tuple(_tries(seed, arrival, device, placed)))
    if placed + _TO_START >= stop:
        return Work(arrival, uid, ())
    told = _told(seed, arrival, 0)
    lives = tuple(_lives(told, placed + _TO_START, stop))
    name, uid_of_pod = f"{arrival.name}-0", _uid(seed, arrival, 0)
    run = Run(arrival, name, uid_of_pod, device, told, placed, stop, End.STOPPED, lives)
    return Work(arrival, uid, (run,))


def _tries(seed: int, arrival: Arrival, device: Device, placed: datetime) -> Iterator[Run]:
    """The pods of a Job: another one where the first failed."""
    for index in range(1 + _RETRIES):
        pod = _uid(seed, arrival, index)
        name, told = f"{arrival.name}-{pod[:5]}", _told(seed, arrival, index)
        life = behaviours.life(told, finite=True)
        begins = placed + _TO_START
        ends = begins + timedelta(seconds=round(life.ends_after or 0.0))
        end = End.FAILED if life.exit_code else End.COMPLETED
        lives = (Life(begins, ends, life.exit_code, life.reason),)
        yield Run(arrival, name, pod, device, told, placed, ends, end, lives)
        if end is End.COMPLETED:
            return
        placed = ends + timedelta(seconds=_FIRST_WAIT)


def _lives(told: Truth, begins: datetime, stop: datetime) -> Iterator[Life]:
    """The lives of a container that is started again whenever it ends."""
    life, wait = behaviours.life(told, finite=False), _FIRST_WAIT
    while begins < stop:
        if life.ends_after is None:
            yield Life(begins, stop, 0, "")
            return
        ends = min(stop, begins + timedelta(seconds=round(life.ends_after)))
        yield Life(begins, ends, life.exit_code, life.reason)
        begins, wait = ends + timedelta(seconds=wait), min(_LONGEST_WAIT, 2 * wait)


def _uid(seed: int, arrival: Arrival, index: int) -> str:
    """Of its pod of that number."""
    return str(uuid.uuid5(_NAMESPACE, f"{seed}/{arrival.key}/{index}"))


def _told(seed: int, arrival: Arrival, index: int) -> Truth:
    return behaviours.truth(seed, _uid(seed, arrival, index), arrival.behaviour)


def by_device(work: Sequence[Work]) -> Mapping[tuple[str, str], list[Run]]:
    """The pods of each device (node, name), in order of time."""
    found: dict[tuple[str, str], list[Run]] = {}
    for run in sorted((run for each in work for run in each.runs), key=lambda run: run.placed):
        found.setdefault((run.device.gpu.node, run.device.name), []).append(run)
    return found
