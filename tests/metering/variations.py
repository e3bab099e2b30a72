"""Allocations as the words of the findings describe them, on other boards and at other intervals than
`scenarios` knows.

A third hand: counters may be averaged over the interval or read at a moment, GPU_UTIL may say 100 for any
kernel, watts are a line in the load. What failed here led to changes of the rules: no independent score.
"""

import random
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from apps.metering.detector.trace import Sample

HOUR, DAY = 3600.0, 86_400.0
MONDAY = 1_773_014_400.0
"""2026-03-09 00:00 UTC."""
Span = tuple[float, float]
Load = Mapping[str, float]

BOARDS: tuple[tuple[str, str, str, float, int, int, float], ...] = (
    # model, sharing, profile, share, MiB, multiprocessors of the instance, watts of the board
    ("NVIDIA H100 PCIe", "whole", "", 1.0, 81_559, 114, 350.0),
    ("NVIDIA H100 NVL", "whole", "", 1.0, 95_830, 132, 400.0),
    ("NVIDIA B200", "whole", "", 1.0, 183_359, 148, 1000.0),
    ("NVIDIA A100-SXM4-80GB", "whole", "", 1.0, 81_920, 108, 400.0),
    ("Tesla V100-SXM2-32GB", "whole", "", 1.0, 32_768, 80, 300.0),
    ("NVIDIA L40S", "whole", "", 1.0, 46_068, 142, 350.0),
    ("NVIDIA A10", "whole", "", 1.0, 23_028, 72, 150.0),
    ("NVIDIA L4", "whole", "", 1.0, 23_034, 58, 72.0),
    ("NVIDIA H200", "mig", "1g.18gb", 1 / 7, 16_384, 16, 700.0),
    ("NVIDIA H200", "mig", "3g.71gb", 3 / 7, 71_168, 60, 700.0),
    ("NVIDIA A100-SXM4-40GB", "mig", "2g.10gb", 2 / 7, 9_856, 28, 400.0),
    ("NVIDIA H100 80GB HBM3", "mig", "4g.40gb", 4 / 7, 40_448, 64, 700.0),
)
CUT = tuple(b for b in BOARDS if b[0].split()[-1] in ("PCIe", "NVL", "B200") or "A100-SXM4-80" in b[0])
TRAINS = {"sm": 0.85, "tensor": 0.4, "dram": 0.45, "occupancy": 0.4, "util": 0.97, "watts": 0.75}
ANSWERS = {"sm": 0.6, "tensor": 0.12, "dram": 0.6, "occupancy": 0.3, "util": 0.9, "watts": 0.5}
GEMM = {"sm": 0.97, "tensor": 0.8, "dram": 0.35, "occupancy": 0.2, "util": 1.0, "watts": 0.95}
BLOCK = {"occupancy": 0.01, "util": 1.0, "watts": 0.06}


@dataclass
class Told:
    """What happens in an allocation, and which main findings are right about it."""

    right: tuple[str, ...]
    rng: random.Random
    kind: str = "job"
    hours: float = 8.0
    boards: Sequence[tuple[str, str, str, float, int, int, float]] = BOARDS
    window: float = 3600.0
    step: float = 30.0
    offset: float = 0.0
    begins: float = MONDAY
    averaged: bool = True
    spans: list[tuple[float, float, Load]] = field(default_factory=list)
    memory: Callable[[float], float] = lambda _t: 0.4
    processes: Callable[[float], int] = lambda _t: 1
    xid: Callable[[float], int] = lambda _t: 0
    always: Load = field(default_factory=dict)
    missing: frozenset[str] = frozenset()
    idle_watts: float = 0.12
    clocked: float = 0.0

    def __post_init__(self) -> None:
        rng = self.rng
        self.board = rng.choice(self.boards)
        self.window = rng.choice((1800.0, 2700.0, 3600.0, 5400.0))
        self.step = rng.choice((15.0, 20.0, 30.0, 45.0, 60.0))
        self.offset = rng.choice((-5.0, 0.0, 2.0, 5.75)) if self.kind == "notebook" else 0.0
        self.begins = MONDAY + rng.randrange(4) * DAY + (9 - self.offset) * HOUR + rng.uniform(0, 1800)
        self.averaged = rng.random() < 0.7
        self.idle_watts = rng.uniform(0.08, 0.18)
        self.clocked = rng.uniform(0.0, 0.08)

    @property
    def ends(self) -> float:
        return self.begins + self.hours * HOUR

    @property
    def block(self) -> float:
        return 1.0 / self.board[5]

    @property
    def meta(self) -> dict[str, Any]:
        model, sharing, profile, share, mib, sms, watts = self.board
        return {
            "id": self.right[0], "kind": self.kind, "model": model, "sharing": sharing, "profile": profile,
            "share": share, "total_mib": mib, "start": self.begins, "end": self.ends, "sms": sms,
            "tdp_w": watts, "utc_offset_h": self.offset, "office_hours": [9, 18],
            "idle_window_s": self.window,
        }  # fmt: skip

    def runs(self, begin: float, end: float, load: Load, **other: float) -> None:
        """Something runs over [begin, end)."""
        if end > begin:
            self.spans.append((begin, end, {**load, **other}))


def rows(told: Told) -> list[Sample]:
    """With a few gaps, duplicates, late and frozen rows."""
    rng, made = told.rng, list(_measured(told))
    for _ in range(rng.randrange(3)):
        at = rng.uniform(told.begins, told.ends)
        made = [s for s in made if not at <= s.ts < at + rng.uniform(60, 500)]
    frozen = rng.randrange(len(made) - 25)
    if rng.random() < 0.5:
        made[frozen : frozen + 20] = [made[frozen]._replace(ts=s.ts) for s in made[frozen : frozen + 20]]
    made += rng.sample(made, len(made) // 50)
    for _ in range(len(made) // 60):
        at = rng.randrange(len(made) - 5)
        made.insert(at + 4, made.pop(at))
    return made


def _measured(told: Told) -> Iterator[Sample]:
    rng, mib, tdp = told.rng, told.board[4], told.board[6]
    share = told.board[3] if told.board[1] == "mig" else 1.0
    spans = sorted(told.spans, key=lambda span: span[0])
    ends = [max(span[1] for span in spans[: i + 1]) for i in range(len(spans))] if len(spans) < 400 else None
    at = told.begins + rng.uniform(1, told.step)
    while at < told.ends:
        first = (
            bisect_left(ends, at - told.step) if ends else bisect_left(spans, at - 900.0, key=lambda s: s[0])
        )
        now = _over(spans, first, (at - (told.step if told.averaged else 1.0), at))
        now = {name: min(1.0, now.get(name, 0.0) + told.always.get(name, 0.0)) for name in TRAINS}
        watts = told.idle_watts + (1 - told.idle_watts) * share * now["watts"]
        watts += told.clocked * (now["util"] > 0)
        seen = {k: round(v * max(0.0, rng.gauss(1, 0.04)), 4) for k, v in now.items()}
        values: dict[str, Any] = {
            "util": round(min(1.0, now["util"]), 2), "sm": min(1.0, seen["sm"]), "tensor": seen["tensor"],
            "occupancy": min(1.0, seen["occupancy"] * seen["sm"]), "dram": min(1.0, seen["dram"]),
            "memory": round(min(0.995, told.memory(at)) * mib), "total": float(mib),
            "watts": round(tdp * watts + rng.gauss(0, 0.004 * tdp), 1), "processes": told.processes(at),
            "xid": told.xid(at),
        }  # fmt: skip
        yield Sample(ts=round(at), **{k: None if k in told.missing else v for k, v in values.items()})
        at += told.step + rng.uniform(-1, 1)


def _over(spans: Sequence[tuple[float, float, Load]], first: int, window: Span) -> dict[str, float]:
    """The mean over a window."""
    begin, end = window
    found: dict[str, float] = {}
    for index in range(first, len(spans)):
        a, b, load = spans[index]
        if a >= end:
            break
        part = (min(b, end) - max(a, begin)) / (end - begin)
        if part > 0:
            for name, value in load.items():
                found[name] = found.get(name, 0.0) + part * value
    return found
