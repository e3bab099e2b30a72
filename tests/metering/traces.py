"""Devices and an exporter for the detector's tests: activity in seconds goes in, the rows of a bad exporter
come out.

Written apart from the detector and from the sandbox: it averages what really ran over each collection, knows
where the watts of a board go, and then loses, repeats, delays and freezes rows as exporters do.
"""

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from apps.metering.detector.trace import Sample

Level = Callable[[float], float]
MONDAY = 1_767_571_200.0
"""2026-01-05 00:00 UTC."""
HOUR, DAY = 3600.0, 86_400.0


@dataclass(frozen=True)
class Device:
    model: str
    sharing: str
    profile: str
    share: float
    mib: int
    sms: int
    tdp: float
    parked: float


WHOLE = (
    Device("NVIDIA H100 80GB HBM3", "whole", "", 1, 81559, 132, 700, 0.11),
    Device("H100 80GB", "whole", "", 1, 81559, 132, 700, 0.17),
    Device("A100 80GB", "whole", "", 1, 81920, 108, 400, 0.15),
    Device("A100 40GB", "whole", "", 1, 40960, 108, 400, 0.14),
    Device("H200", "whole", "", 1, 143771, 132, 700, 0.12),
)
SMALL = (
    Device("L4", "whole", "", 1, 23034, 58, 72, 0.3),
    Device("Tesla T4", "whole", "", 1, 15360, 40, 70, 0.36),
)
SLICES = (
    Device("H100 80GB", "mig", "1g.10gb", 1 / 7, 9984, 16, 700, 0.13),
    Device("H100 80GB", "mig", "2g.20gb", 2 / 7, 20090, 32, 700, 0.13),
    Device("A100 40GB", "mig", "1g.5gb", 1 / 7, 4864, 14, 400, 0.15),
)
LARGE_SLICES = (
    Device("H100 80GB", "mig", "3g.40gb", 3 / 7, 40448, 60, 700, 0.13),
    Device("A100 80GB", "mig", "4g.40gb", 4 / 7, 40192, 56, 400, 0.15),
)
SHARED = (
    Device("Tesla T4", "time-slicing", "", 0.25, 15360, 40, 70, 0.36),
    Device("H100 80GB", "mps", "", 0.5, 81559, 132, 700, 0.13),
)
ANY = WHOLE + SMALL + SLICES + LARGE_SLICES


@dataclass(frozen=True)
class Burst:
    """Something that runs in [start, end): ratios of the device, and its part of the dynamic power."""

    start: float
    end: float
    sm: float
    tensor: float = 0.0
    dram: float = 0.0
    occupancy: float = 0.4
    busy: float = 1.0
    effort: float | None = None

    @property
    def power(self) -> float:
        return (
            min(1.0, 0.5 * self.sm + 0.3 * self.tensor + 0.25 * self.dram)
            if self.effort is None
            else self.effort
        )


@dataclass
class Story:
    """What really happened on a device. `label` first is the truth; `accepted` may be answered too."""

    label: str
    device: Device
    kind: str
    start: float
    end: float
    window: float
    bursts: list[Burst] = field(default_factory=list)
    memory: Level = lambda _t: 0.0
    processes: Level = lambda _t: 1.0
    xid: Level = lambda _t: 0.0
    idle_from: float | None = None
    offset: float = 0.0
    stuck: bool = False
    peak: float = 0.0
    faults: bool = True
    blind: str = ""

    @property
    def meta(self) -> dict[str, Any]:
        """The line of meta.jsonl."""
        d = self.device
        return {
            "id": self.label, "kind": self.kind, "model": d.model, "sharing": d.sharing, "profile": d.profile,
            "share": d.share, "total_mib": d.mib, "start": self.start, "end": self.end, "file": "rows.csv.gz",
            "sms": d.sms, "tdp_w": d.tdp, "utc_offset_h": self.offset, "office_hours": [9, 18],
            "idle_window_s": self.window,
        }  # fmt: skip


@dataclass(frozen=True)
class Exporter:
    """How one exporter measures: the same for all of its rows."""

    step: float
    span: float
    noise: float
    watt_noise: float
    floor: float
    util_on_mig: bool
    neighbours: float
    missing: frozenset[str]

    @classmethod
    def drawn(cls, rng: random.Random) -> "Exporter":
        names = ("occupancy", "processes", "xid", "total")
        return cls(
            step=rng.choice((30.0, 30.0, 30.0, 29.0, 31.0)),
            span=10.0 if rng.random() < 0.1 else 30.0,
            noise=rng.uniform(0.005, 0.05),
            watt_noise=rng.uniform(0.001, 0.01),
            floor=rng.choice((0.0, 0.0, 0.0, 0.0006)),
            util_on_mig=rng.random() < 0.3,
            neighbours=rng.choice((0.0, 0.0, 0.3, 0.7)),
            missing=frozenset(n for n in names if rng.random() < 0.03),
        )


class Used(NamedTuple):
    """Means over a span."""

    sm: float
    tensor: float
    dram: float
    occupancy: float
    busy: float
    power: float


class Averages:
    """Activity averaged over any past span; spans must be asked for in order of time."""

    def __init__(self, bursts: Sequence[Burst]) -> None:
        self._bursts = sorted(bursts, key=lambda b: b.start)
        self._next = 0
        self._open: list[Burst] = []

    def over(self, start: float, end: float) -> Used:
        while self._next < len(self._bursts) and self._bursts[self._next].start < end:
            self._open.append(self._bursts[self._next])
            self._next += 1
        # Something may be asked again for the last second of a span, so keep what ended just now.
        self._open = [b for b in self._open if b.end > start - 60.0]
        sm = tensor = dram = occupancy = busy = power = 0.0
        for burst in self._open:
            part = (min(burst.end, end) - max(burst.start, start)) / (end - start)
            if part > 0:
                sm += part * burst.sm
                tensor += part * burst.tensor
                dram += part * burst.dram
                occupancy += part * burst.sm * burst.occupancy
                busy += part * burst.busy
                power += part * burst.power
        return Used(*(min(1.0, value) for value in (sm, tensor, dram, occupancy, busy, power)))


def export(story: Story, rng: random.Random) -> list[Sample]:
    """The rows of an exporter, with its faults."""
    exporter = Exporter.drawn(rng)
    rows = (
        _bad(_measure(story, exporter, rng), story, rng) if story.faults else _measure(story, exporter, rng)
    )
    return _blinded(rows, story, rng)


def _measure(story: Story, exporter: Exporter, rng: random.Random) -> list[Sample]:
    averages = Averages(story.bursts)
    rows = []
    ts = story.start + rng.uniform(0, exporter.step)
    while ts < story.end:
        rows.append(_row(story, exporter, averages, ts, rng))
        ts += exporter.step + rng.uniform(-1.5, 1.5)
    return rows


def _row(story: Story, exporter: Exporter, averages: Averages, ts: float, rng: random.Random) -> Sample:
    device = story.device
    used = averages.over(ts - exporter.span, ts)
    now = averages.over(ts - 1.0, ts)

    def read(name: str) -> float | None:
        if name in exporter.missing:
            return None
        if story.stuck:
            return 0.0
        value: float = getattr(used, name) * rng.gauss(1.0, exporter.noise)
        value += rng.uniform(0, exporter.floor) if name == "sm" else 0.0
        return round(min(1.0, max(0.0, value)), 4)

    mig = device.sharing == "mig"
    around = exporter.neighbours * rng.uniform(0.9, 1.1) * (1 - device.share) if mig else 0.0
    effort = used.power * (device.share if mig else 1.0) + around
    watts = device.tdp * (device.parked + (1 - device.parked) * min(1.0, effort + 0.04 * (now.busy > 0)))
    util = None if mig and not exporter.util_on_mig else round(100 * now.busy) / 100
    memory = story.memory(ts)
    return Sample(
        ts=round(ts, 1), util=util, sm=read("sm"), occupancy=read("occupancy"), tensor=read("tensor"),
        dram=read("dram"), memory=round(min(memory, 0.995 * device.mib)),
        total=None if "total" in exporter.missing else float(device.mib),
        watts=round(watts + device.tdp * rng.gauss(0, exporter.watt_noise), 2),
        processes=None if "processes" in exporter.missing else int(story.processes(ts)),
        xid=None if "xid" in exporter.missing else int(story.xid(ts)),
    )  # fmt: skip


def _bad(rows: list[Sample], story: Story, rng: random.Random) -> list[Sample]:
    span = story.end - story.start
    for _ in range(rng.choice((0, 0, 1, 2))):
        at, length = story.start + rng.random() * span, rng.uniform(90, min(2400, 0.08 * span))
        rows = [r for r in rows if not at <= r.ts < at + length]
    for _ in range(rng.choice((0, 0, 1))):
        at, length = story.start + rng.random() * span, rng.uniform(240, min(3600, 0.08 * span))
        first = next((r for r in rows if r.ts >= at), None)
        if first is not None:
            rows = [first._replace(ts=r.ts) if at <= r.ts < at + length else r for r in rows]
    rows = [r for r in rows if rng.random() > 0.01]
    rows += [rng.choice(rows) for _ in range(len(rows) // 80)]
    for _ in range(len(rows) // 100):
        rows.append(rows.pop(rng.randrange(len(rows))))
    return rows


def _blinded(rows: list[Sample], story: Story, rng: random.Random) -> list[Sample]:
    """Telemetry that is missing as a whole: the truth of such a story is `unknown`."""
    span = story.end - story.start
    match story.blind:
        case "rows":
            return []
        case "counters":
            return [r._replace(sm=None, occupancy=None, tensor=None, dram=None) for r in rows]
        case "most":
            kept = rng.uniform(0.1, 0.4)
            return [r for r in rows if math.sin(r.ts / 600) > math.cos(math.pi * kept)]
        case "thinned":
            kept = rng.uniform(0.06, 0.35)
            return [r for r in rows if rng.random() < kept]
        case "silent":
            last = story.end - max(900.0, rng.uniform(0.3, 1.2) * story.window)
            return [r for r in rows if r.ts < last]
        case "frozen":
            at = story.start + rng.uniform(0.05, 0.3) * span
            stuck = next(r for r in rows if r.ts >= at)
            return [stuck._replace(ts=r.ts) if r.ts > at else r for r in rows]
        case _:
            return rows
