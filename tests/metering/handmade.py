"""Allocations made by hand: what a device reads at a moment, as rows of a healthy exporter, judged."""

import random
from collections.abc import Callable
from typing import Any

from apps.metering.detector.judge import Verdict, judge
from apps.metering.detector.trace import Allocation, Sample, read_allocation
from tests.metering.traces import HOUR, MONDAY

WINDOW = 3600.0
Values = dict[str, Any]
Read = Callable[[float], Values]


def allocation(hours: float = 8, **fields: Any) -> Allocation:
    start = MONDAY + 9 * HOUR
    base = {
        "id": "a", "kind": "job", "model": "H100 80GB", "sharing": "whole", "share": 1, "total_mib": 81559,
        "start": start, "end": start + hours * HOUR, "sms": 132, "tdp_w": 700, "idle_window_s": WINDOW,
    }  # fmt: skip
    return read_allocation(base | fields)


def rows(held: Allocation, read: Read, *, step: float = 30.0) -> list[Sample]:
    """Watts jitter as they do; everything else is what `read` says."""
    rng = random.Random(7)
    found = []
    ts = held.start + 10
    while ts < held.end:
        base: Values = dict.fromkeys(Sample._fields) | {
            "sm": 0.0,
            "tensor": 0.0,
            "dram": 0.0,
            "memory": 20_000.0,
            "processes": 1,
        }
        fields = base | {"total": held.total_mib, "util": 0.0, "watts": 80.0} | read(ts) | {"ts": ts}
        if fields["watts"] is not None:
            fields["watts"] += round(rng.gauss(0, 1), 3)
        found.append(Sample(**fields))
        ts += step
    return found


def verdict(held: Allocation, read: Read) -> Verdict:
    return judge(held, rows(held, read))


def label(held: Allocation, read: Read) -> str:
    return str(verdict(held, read).labels[0])


def training(ts: float) -> Values:
    return {
        "sm": 0.8 + 0.05 * (ts % 7) / 7,
        "tensor": 0.4,
        "dram": 0.4,
        "util": 1.0,
        "watts": 550.0,
        "memory": 60_000.0,
    }
