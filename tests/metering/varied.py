"""What the issue of waste says in words, told once more with other numbers: `STORIES` by name.

Where two findings are as true, both are right.
"""

import math
import random
from collections.abc import Callable
from typing import Any

from tests.metering.variations import ANSWERS, BLOCK, BOARDS, CUT, DAY, GEMM, HOUR, TRAINS, Told

Story = Callable[[random.Random], Told]
KINDS = ("job", "notebook", "service")


def _held(rng: random.Random, right: str, kind: str | None = None, **given: Any) -> Told:
    """Held for hours beyond the policy; a notebook on a working day."""
    told = Told((right,), rng, kind or rng.choice(KINDS), hours=rng.uniform(5, 8.5), **given)
    level, at = rng.uniform(0.05, 0.9), told.begins + rng.uniform(30, 600)
    told.memory = lambda t: level if t > at else 0.0
    return told


def tiny_kernels(rng: random.Random) -> Told:
    """A kernel every 20 to 60 seconds."""
    told = _held(rng, "evasion")
    every, spread = rng.uniform(20, 55), rng.choice((0.0, 0.02, 0.3))
    length, sm = rng.uniform(0.03, 0.25), rng.choice((1.0, 0.3))
    at = told.begins + rng.uniform(60, 900)
    while at < told.ends:
        told.runs(at, at + length, BLOCK, sm=sm, dram=rng.choice((0.0, 0.1)), watts=0.3)
        at += every * rng.uniform(1 - spread, 1 + spread)
    told.averaged = True
    if length * sm < 0.0005 * every:
        # Below what the counters resolve: it reads as a device on which nothing runs.
        told.right = ("evasion", "hoarder")
    return told


def heavy_kernels_by_the_clock(rng: random.Random) -> Told:
    """A multiplication of most of a second, every 20 to 60: as much as requests do."""
    told = _held(rng, "evasion")
    told.averaged = True
    every, spread = rng.uniform(max(20.0, 0.6 * told.step), 60), rng.choice((0.02, 0.3))
    length, at = rng.uniform(0.2, 1.0), told.begins + rng.uniform(60, 900)
    while at < told.ends:
        told.runs(at, at + length, GEMM)
        at += every * rng.uniform(1 - spread, 1 + spread)
    return told


def sleeping_blocks_on_a_slice(rng: random.Random) -> Told:
    """Of any number of warps, on a board whose neighbours rest or work evenly."""
    told = _held(rng, "evasion", boards=[b for b in BOARDS if b[1] == "mig"])
    told.always, told.clocked = {"watts": rng.choice((0.0, 0.3))}, 0.0
    begin = told.begins + rng.uniform(15, 30) * told.step
    told.runs(begin, told.ends, BLOCK, sm=rng.uniform(0.6, 1.0), occupancy=rng.uniform(0.02, 0.9), watts=0.02)
    return told


def hashes_on_a_slice(rng: random.Random) -> Told:
    """Integer work beside neighbours, with pauses: paid for in watts."""
    told = Told(("healthy",), rng, hours=rng.uniform(3, 9), boards=[b for b in BOARDS if b[2][:1] == "1"])
    told.always, at = {"watts": rng.choice((0.0, 0.3))}, told.begins + rng.uniform(60, 1500)
    load = {**BLOCK, "sm": rng.uniform(0.7, 1.0), "occupancy": 0.5, "watts": rng.uniform(0.5, 0.9)}
    while at < told.ends:
        till = at + rng.uniform(600, 4000)
        told.runs(at, till, load)
        at = till + rng.uniform(20, 500)
    return told


def tiny_kernels_behind_a_full_util(rng: random.Random) -> Told:
    """The same, where nvidia-smi says 100 all the time."""
    told = _held(rng, "evasion")
    told.runs(told.begins + 300, told.ends, BLOCK, sm=rng.uniform(0.3, 1.0) * told.block)
    return told


def after_work(rng: random.Random) -> Told:
    """Honest for an hour or two, then one block that keeps the device."""
    told = _held(rng, "evasion", rng.choice(("job", "notebook")))
    left = told.begins + rng.uniform(0.5, 2.2) * HOUR
    told.runs(told.begins + 120, left, TRAINS)
    told.runs(left + rng.uniform(0, 900), told.ends, BLOCK, sm=told.block)
    return told


def a_second_in_ten_minutes(rng: random.Random) -> Told:
    told = _held(rng, "evasion")
    every, spread = rng.uniform(570, 640), rng.choice((0.0, 5.0, 40.0))
    at = told.begins + rng.uniform(30, 600)
    while at < told.ends:
        # An exporter that does not average reads the second for all of its interval, or never meets it.
        told.runs(at, at + (rng.uniform(0.8, 1.3) if told.averaged else told.step), GEMM)
        at += every + rng.uniform(-spread, spread)
    return told


def sleeping_blocks(rng: random.Random) -> Told:
    told = _held(rng, "evasion", boards=[b for b in BOARDS if b[1] == "whole"])
    told.runs(told.begins + 300, told.ends, BLOCK, sm=rng.uniform(0.6, 1.0), occupancy=rng.uniform(0.02, 0.5))
    told.clocked = rng.uniform(0, 0.05)
    return told


def raised_clocks(rng: random.Random) -> Told:
    """Two blocks on a small board, whose clocks alone draw a quarter of its watts."""
    told = _held(rng, "evasion", boards=[b for b in BOARDS if b[6] < 160])
    told.runs(told.begins + rng.uniform(600, 1500), told.ends, BLOCK, sm=2 * told.block, watts=0.02)
    told.idle_watts, told.clocked = 0.15, 0.25
    return told


def hoarded(rng: random.Random) -> Told:
    told = _held(rng, "hoarder")
    if rng.random() < 0.4:
        told.runs(told.begins + 300, told.begins + 300 + rng.uniform(20, 500), TRAINS)
    if told.kind == "service":
        told.spans = []
    return told


def hoarded_with_a_context(rng: random.Random) -> Told:
    told = _held(rng, "hoarder", rng.choice(("job", "notebook")))
    told.memory = lambda _t: 520.0 / told.board[4]
    told.missing = rng.choice((frozenset[str](), frozenset({"processes"}), frozenset({"watts"})))
    return told


def undead(rng: random.Random) -> Told:
    """Processes gone, memory held."""
    told = Told(("zombie",), rng, rng.choice(KINDS), hours=rng.uniform(5, 8.5))
    died = told.begins + rng.uniform(0.3, 2) * HOUR
    told.runs(told.begins + 100, died, TRAINS)
    level = rng.uniform(0.2, 0.9)
    told.memory = lambda _t: level
    told.processes = lambda t: int(t < died)
    return told


def left_behind(rng: random.Random) -> Told:
    told = Told(("forgotten",), rng, rng.choice(("job", "notebook")), hours=rng.uniform(24, 56))
    left = told.begins + rng.uniform(1.2, 6) * HOUR
    told.runs(told.begins + 100, left, TRAINS)
    level, kept = rng.uniform(0.2, 0.9), rng.random() < 0.6
    told.memory = lambda t: level if t < left + 60 or kept else 0.0
    told.processes = lambda t: int(t < left + 60 or kept)
    return told


def trains(rng: random.Random) -> Told:
    """A download, then work with evaluations in which the device hardly does anything."""
    told = Told(("healthy",), rng, hours=rng.uniform(4, 10))
    at = begun = told.begins + rng.uniform(60, 3000)
    while at < told.ends:
        till = at + rng.uniform(1200, 5400)
        told.runs(at, min(till, told.ends), TRAINS)
        at = till + rng.uniform(60, 0.7 * told.window)
    told.memory = lambda t: 0.75 if t > begun - 30 else 0.0
    return told


def answers_now_and_then(rng: random.Random) -> Told:
    """Sparse but real: a request in three to fifteen minutes, by chance."""
    told = Told(("healthy",), rng, "service", hours=rng.uniform(8, 30))
    told.memory, told.averaged = (lambda _t: 0.8), True
    told.missing = rng.choice((frozenset[str](), frozenset({"tensor", "dram"})))
    mean, at = rng.uniform(180, 600), told.begins + 200
    while at < told.ends:
        told.runs(at, at + rng.uniform(0.4, 6), ANSWERS)
        at += rng.expovariate(1 / mean)
    return told


def answers_busily(rng: random.Random) -> Told:
    told = Told(("healthy",), rng, "service", hours=rng.uniform(8, 30))
    told.memory = lambda _t: 0.9
    middle = rng.uniform(10, 15)

    def load(t: float) -> float:
        return 0.25 + 0.6 * max(0.0, math.cos((t % DAY / HOUR - middle) / 24 * 2 * math.pi))

    at = told.begins + 200
    while at < told.ends:
        share = load(at) * rng.uniform(0.8, 1.2)
        told.runs(at, at + 120, {k: v * share for k, v in ANSWERS.items()}, sm=0.9 * share)
        at += 120
    return told


def sits_at_a_notebook(rng: random.Random) -> Told:
    """Cells between thoughts, a lunch, the nights off; judged in the afternoon of a working day."""
    told = Told(("healthy",), rng, "notebook", hours=6.5)
    days = rng.randrange(3)
    day = (told.begins + told.offset * HOUR) // DAY
    while (day + days + 3) % 7 >= 5:
        days += 1
    told.hours = 24 * days + 6.5
    light, level = rng.random() < 0.4, rng.uniform(0.03, 0.6)
    sm = rng.uniform(0.6, 3.5) * told.block if light else rng.uniform(0.15, 0.8)
    for each in range(days + 1):
        midnight = (day + each) * DAY - told.offset * HOUR
        if (day + each + 3) % 7 >= 5:
            continue
        for begin, end in ((9.2, rng.uniform(11.7, 12.4)), (13.1, rng.uniform(16.6, 18.3))):
            at = midnight + begin * HOUR
            while at < midnight + end * HOUR:
                till = at + math.exp(rng.uniform(math.log(8), math.log(700)))
                told.runs(at, till, BLOCK if light else TRAINS, sm=sm * rng.uniform(0.5, 1.2))
                at = till + min(0.6 * told.window, rng.expovariate(1 / 400))
    told.memory = lambda _t: level
    return told


def starved(rng: random.Random) -> Told:
    told = Told(
        ("data-starved",), rng, hours=rng.uniform(3, 8), boards=[b for b in BOARDS if b[1] == "whole"]
    )
    step, at = rng.uniform(4, 120), told.begins + 100
    duty = rng.uniform(0.12, 0.4)
    while at < told.ends:
        told.runs(at, at + duty * step * rng.uniform(0.8, 1.2), TRAINS)
        at += step * rng.uniform(0.7, 1.3)
    told.memory = lambda _t: 0.7
    return told


def leaks(rng: random.Random) -> Told:
    told = Told(("memory-leak",), rng, rng.choice(("job", "service")), hours=rng.uniform(3, 12))
    told.runs(told.begins + 60, told.ends, TRAINS)
    low, high = rng.uniform(0.1, 0.5), rng.uniform(0.7, 0.96)
    told.memory = lambda t: low + (high - low) * (t - told.begins) / (told.ends - told.begins)
    return told


def crashes(rng: random.Random) -> Told:
    told = Told(("crash-loop",), rng, rng.choice(("job", "service")), hours=rng.uniform(2, 8))
    life, pause, at, lives = rng.uniform(20, 200), rng.uniform(10, 40), told.begins + 20, []
    while at < told.ends:
        lives.append((at, at + life * rng.uniform(0.8, 1.2)))
        at = lives[-1][1] + pause
        pause = min(300.0, 2 * pause)
    for a, b in lives:
        told.runs(a + 0.5 * (b - a), b, TRAINS, sm=rng.uniform(0, 0.5))
    code = rng.choice((31, 43, 79))

    def alive(t: float) -> int:
        return int(any(a <= t < b for a, b in lives))

    told.memory, told.processes = (lambda t: 0.3 * alive(t)), alive
    told.xid = lambda t: code if any(b <= t < b + 60 for _, b in lives) else 0
    return told


def two_sessions_a_day(rng: random.Random) -> Told:
    told = Told(("scale-to-zero",), rng, "service", hours=rng.uniform(24, 60))
    told.memory = lambda _t: 0.6
    at = told.begins + rng.uniform(0, HOUR)
    while at < told.ends:
        for _ in range(rng.randrange(60, 200)):
            told.runs(at, at + rng.uniform(0.5, 4), ANSWERS)
            at += rng.expovariate(1 / 25)
        at += rng.uniform(4, 9) * HOUR
    return told


def far_too_large(rng: random.Random) -> Told:
    told = Told(("oversized",), rng, hours=rng.uniform(3, 8), boards=CUT)
    sm = rng.uniform(0.03, 0.1)
    told.runs(told.begins + 60, told.ends, BLOCK, sm=sm, util=rng.uniform(0.5, 1.0), dram=0.4 * sm, watts=sm,
              tensor=rng.choice((0.0, 0.3 * sm)), occupancy=0.2)  # fmt: skip
    level = rng.uniform(0.02, 0.09)
    told.memory = lambda _t: level
    return told


def small_on_what_cannot_be_cut(rng: random.Random) -> Told:
    told = far_too_large(rng)
    told.board = rng.choice([b for b in BOARDS if "V100" in b[0] or "L40S" in b[0]])
    return told


def far_too_small(rng: random.Random) -> Told:
    told = Told(("undersized",), rng, rng.choice(("job", "service")), hours=rng.uniform(2, 6),
                boards=[b for b in BOARDS if b[4] < 50_000])  # fmt: skip
    told.runs(told.begins + 60, told.ends, TRAINS, sm=rng.uniform(0.95, 1.0))
    level = rng.uniform(0.975, 0.995)
    told.memory = lambda _t: level
    return told


def alone_on_a_whole_one(rng: random.Random) -> Told:
    """A small service that a quarter of the device would serve as well."""
    told = Told(("wrong-sharing-mode",), rng, "service", hours=rng.uniform(6, 20),
                boards=[b for b in BOARDS if b[1] == "whole" and b[4] > 40_000])  # fmt: skip
    sm = rng.uniform(0.03, 0.08)
    told.runs(told.begins + 60, told.ends, ANSWERS, sm=sm, tensor=0.2 * sm, dram=0.5 * sm, watts=sm, util=0.5)
    level = rng.uniform(0.04, 0.1)
    told.memory = lambda _t: level
    return told


def unseen(rng: random.Random) -> Told:
    told = rng.choice((trains, hoarded, tiny_kernels, far_too_large))(rng)
    told.right = ("unknown",)
    told.missing = frozenset({"sm", "tensor", "dram", "occupancy"})
    return told


def hashes(rng: random.Random) -> Told:
    """Integer work: watts, and no pipe."""
    told = Told(("healthy",), rng, hours=rng.uniform(3, 9), boards=[b for b in BOARDS if b[1] == "whole"])
    told.runs(
        told.begins + 60,
        told.ends,
        BLOCK,
        sm=rng.uniform(0.7, 1.0),
        occupancy=0.5,
        watts=rng.uniform(0.5, 0.9),
    )
    told.memory = lambda _t: 0.3
    return told


def counts_nothing(rng: random.Random) -> Told:
    """The profiling counters stick at 0 under full load."""
    told = hashes(rng)
    told.spans = []
    told.runs(told.begins + 60, told.ends, {"util": 0.98, "watts": rng.uniform(0.5, 0.9)})
    return told


def searches(rng: random.Random) -> Told:
    """Trials of some minutes, one after the other."""
    told = Told(("healthy",), rng, hours=rng.uniform(3, 7))
    at, ends = told.begins + 100, []
    while at < told.ends:
        till = at + rng.uniform(200, 1200)
        told.runs(at + 20, till, TRAINS)
        ends.append(till)
        at = till + rng.uniform(2, 10)
    told.memory = lambda t: 0.7 if not any(e <= t < e + 8 for e in ends) else 0.0
    return told


STORIES: dict[str, Story] = {
    story.__name__: story
    for story in (
        tiny_kernels, heavy_kernels_by_the_clock, sleeping_blocks_on_a_slice, hashes_on_a_slice,
        tiny_kernels_behind_a_full_util, after_work, a_second_in_ten_minutes, sleeping_blocks,
        raised_clocks, small_on_what_cannot_be_cut,
        hoarded, hoarded_with_a_context, undead, left_behind, trains, answers_now_and_then, answers_busily,
        sits_at_a_notebook, starved, leaks, crashes, two_sessions_a_day, far_too_large, far_too_small,
        alone_on_a_whole_one, unseen, hashes, counts_nothing, searches,
    )
}  # fmt: skip
