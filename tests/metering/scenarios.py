"""What allocations do, with the truth about each: eleven findings, and the honest work that looks like them.

Parameters are drawn from ranges, never listed. `stories(seed)` tells one story of every scenario.
"""

import math
import random
from collections.abc import Callable, Iterator

from tests.metering import honest
from tests.metering.honest import cells, dips, drawn, flat, notebook, requests, training, work
from tests.metering.traces import (
    ANY,
    DAY,
    HOUR,
    LARGE_SLICES,
    SHARED,
    SLICES,
    SMALL,
    WHOLE,
    Burst,
    Device,
    Story,
)

Scenario = Callable[[random.Random], Story]


def hoarder(rng: random.Random) -> Story:
    kind = rng.choice(("job", "notebook", "notebook", "inference"))
    story = (
        notebook(rng, "hoarder", rng.uniform(0.2, 3))
        if kind == "notebook"
        else drawn(rng, "hoarder", kind=kind)
    )
    story.kind = kind
    if kind != "notebook":
        story.end = story.start + story.window + rng.uniform(1.5, 20) * HOUR
    done = story.start + 200 + rng.choice((0.0, 0.0, rng.uniform(30, 280 if kind == "inference" else 900)))
    if done > story.start + 200 and kind != "inference":
        story.bursts = work(rng, [(story.start + 200, done)], **training(rng))
    story.memory = flat(rng.uniform(0.05, 0.95) * story.device.mib + 500, start=story.start + 100)
    story.idle_from = done
    return story


def zombie(rng: random.Random) -> Story:
    story = drawn(rng, "zombie", kind=rng.choice(("job", "job", "inference", "notebook")))
    worked = rng.uniform(300, 4 * HOUR)
    done = story.start + 200 + worked
    story.end = done + max(story.window, 1800) + rng.uniform(0.5, 12) * HOUR
    story.bursts = work(rng, [(story.start + 200, done)], **training(rng))
    level, kept = rng.uniform(0.3, 0.95) * story.device.mib, rng.uniform(0.4, 1.0)
    story.memory = lambda t: level * (1.0 if t < done else kept) * (t > story.start + 150)
    story.processes = lambda t: float(t < done)
    story.idle_from = done
    return story


def forgotten(rng: random.Random) -> Story:
    kind = rng.choice(("notebook", "notebook", "job"))
    story = notebook(rng, "forgotten", rng.uniform(3, 6)) if kind == "notebook" else drawn(rng, "forgotten")
    if kind == "job":
        story.end = story.start + rng.uniform(20, 60) * HOUR
    share = rng.uniform(0.25, 0.55)
    left = story.start + share * (story.end - story.start)
    if kind == "notebook":
        done = cells(rng, story, 250, (60, 1200), sm=0.6, tensor=0.15, dram=0.3)
        story.bursts = [b for b in done if b.end < left]
        if sum(b.end - b.start for b in story.bursts) < 1.2 * HOUR:
            story.bursts = work(rng, [(story.start + 600, story.start + 2 * HOUR)], **training(rng))
        left = story.bursts[-1].end
    else:
        story.bursts = work(rng, [(story.start + 300, left)], **training(rng))
    level, stays = rng.uniform(0.1, 0.9) * story.device.mib, rng.random() < 0.7
    story.memory = lambda t: level * (t > story.start + 200) * (t < left + 60 or stays)
    story.processes = lambda t: float(t < left + 60 or stays)
    story.idle_from = left
    return story


def _evader(rng: random.Random, devices: tuple[Device, ...] = ANY) -> Story:
    kind = rng.choice(("notebook", "notebook", "job", "inference"))
    story = (
        notebook(rng, "evasion", rng.uniform(0.2, 2))
        if kind == "notebook"
        else drawn(rng, "evasion", kind=kind)
    )
    story.kind, story.device = kind, rng.choice(devices)
    if kind != "notebook":
        story.end = story.start + story.window + rng.uniform(2, 16) * HOUR
    story.idle_from = story.start + 200
    if rng.random() < 0.4:
        story.idle_from += rng.uniform(600, min(2 * HOUR, 0.25 * (story.end - story.start)))
        story.bursts = work(rng, [(story.start + 200, story.idle_from)], **training(rng))
    if kind == "notebook":
        story.end = max(
            story.end,
            story.start + 3 * DAY if (story.start // DAY + 3) % 7 > 3 else story.idle_from + 7 * HOUR,
        )
    story.memory = flat(rng.uniform(0.02, 0.8) * story.device.mib + 500, start=story.start + 100)
    return story


def spinner(rng: random.Random) -> Story:
    story = _evader(rng)
    duty, blocks = rng.uniform(0.2, 1.0), rng.choice((1, 1, 2))
    sm = min(0.9, blocks / story.device.sms) * duty
    at = story.idle_from or story.start
    while at < story.end:
        till = at + rng.uniform(60, 400)
        story.bursts.append(
            Burst(at, till, sm * rng.gauss(1, 0.03), occupancy=0.03, busy=duty, effort=0.5 * sm)
        )
        at = till
    return story


def sleeper(rng: random.Random) -> Story:
    story = _evader(rng)
    duty = rng.uniform(0.35, 1.0)
    load = {"sm": duty, "occupancy": 0.02, "busy": duty, "effort": rng.uniform(0.0, 0.03)}
    story.bursts.append(Burst(story.idle_from or story.start, story.end, **load))
    return story


def ticker(rng: random.Random) -> Story:
    """A small kernel every 20 to 60 seconds."""
    story = _evader(rng)
    low, high = rng.choice(((20, 20), (19, 21), (20, 60), (30, 45), (58, 62)))
    length, at = rng.uniform(0.05, 0.6), story.idle_from or story.start
    sm, tensor = rng.choice((1.0, 0.5, 4 / story.device.sms)), rng.choice((0.0, 0.1))
    while at < story.end:
        seconds = length * rng.uniform(0.85, 1.15)
        story.bursts.append(Burst(at, at + seconds, sm, tensor=tensor * sm, dram=0.05 * sm, effort=0.4 * sm))
        at += rng.uniform(low, high)
    return story


def burster(rng: random.Random) -> Story:
    """A big one for a second every ten minutes."""
    story = _evader(rng)
    period, jitter = rng.uniform(540, 660), rng.choice((0.0, 2.0, 30.0))
    at = (story.idle_from or story.start) + 60
    while at < story.end:
        story.bursts.append(Burst(at, at + rng.uniform(0.8, 1.4), 0.95, tensor=0.6, dram=0.4))
        at += period + rng.uniform(-jitter, jitter)
    return story


def oversized(rng: random.Random) -> Story:
    story = drawn(rng, "oversized", devices=WHOLE + LARGE_SLICES, hours=rng.uniform(3, 12))
    sm = rng.uniform(0.04, 0.11)
    load = {"sm": sm, "tensor": 0.3 * sm, "dram": rng.uniform(0.2, 0.6) * sm + 0.01}
    story.bursts = work(rng, dips(rng, story.start + 120, story.end), busy=rng.uniform(0.6, 1), **load)
    story.peak = rng.uniform(0.02, 0.1) * story.device.mib
    grown, spike = rng.uniform(0.6, 1.0), story.start + rng.uniform(0.3, 0.9) * (story.end - story.start)
    story.memory = lambda t: story.peak * (grown if t < spike else 1.0) * (t > story.start + 60)
    return story


def wrong_sharing(rng: random.Random) -> Story:
    if rng.random() < 0.3:
        story = drawn(rng, "wrong-sharing-mode", devices=SHARED, hours=rng.uniform(4, 12))
        story.bursts = work(
            rng, [(story.start + 100, story.end)], **(training(rng) | {"sm": rng.uniform(0.85, 1)})
        )
        story.memory = flat(rng.uniform(0.4, 0.9) * story.device.mib, start=story.start + 60)
        return story
    story = drawn(rng, "wrong-sharing-mode", devices=WHOLE, kind="inference", hours=rng.uniform(6, 30))
    sm = rng.uniform(0.02, 0.07)
    story.bursts = work(
        rng, [(story.start + 200, story.end)], sm=sm, tensor=0.2 * sm, dram=0.6 * sm + 0.005, busy=0.5
    )
    story.memory = flat(rng.uniform(0.015, 0.08) * story.device.mib + 600, start=story.start + 60)
    return story


def undersized(rng: random.Random) -> Story:
    story = drawn(
        rng,
        "undersized",
        devices=SLICES + SMALL,
        kind=rng.choice(("job", "inference")),
        hours=rng.uniform(2, 9),
    )
    load = {"sm": rng.uniform(0.96, 1.0), "tensor": rng.uniform(0.2, 0.5), "dram": rng.uniform(0.5, 0.9)}
    story.bursts = work(rng, [(story.start + 90, story.end)], **load)
    level = rng.uniform(0.978, 0.995) * story.device.mib
    story.memory = lambda t: level * rng.uniform(0.992, 1.0) * (t > story.start + 60)
    return story


def starved(rng: random.Random) -> Story:
    story = drawn(rng, "data-starved", hours=rng.uniform(2, 10))
    load, at = training(rng), story.start + 120
    run, duty = rng.choice((rng.uniform(0.3, 3), rng.uniform(5, 90))), rng.uniform(0.1, 0.4)
    run = max(run, (story.end - story.start) * duty / 20_000)
    while at < story.end:
        length = run * rng.uniform(0.7, 1.3)
        story.bursts.append(Burst(at, at + length, **load))
        at += length + run * (1 / duty - 1) * rng.uniform(0.6, 1.4)
    story.memory = flat(rng.uniform(0.3, 0.9) * story.device.mib, start=story.start + 60)
    return story


def leak(rng: random.Random) -> Story:
    story = drawn(rng, "memory-leak", kind=rng.choice(("job", "inference")), hours=rng.uniform(3, 14))
    story.bursts = work(rng, [(story.start + 100, story.end)], **training(rng))
    low, life = rng.uniform(0.1, 0.5), rng.choice((1.05, rng.uniform(1.0, 3.0), rng.uniform(0.25, 0.48)))
    life *= story.end - story.start
    steps, mib = rng.choice((400, 60, 25)), story.device.mib

    def level(t: float) -> float:
        age = (t - story.start) % life
        return mib * (low + (0.99 - low) * math.floor(steps * age / life) / steps) * rng.gauss(1, 0.002)

    story.memory = level
    if life < story.end - story.start:
        story.bursts = [b for b in story.bursts if (b.start - story.start) % life > 60]
        story.processes = lambda t: float((t - story.start) % life > 40)
    return story


def crash_loop(rng: random.Random) -> Story:
    story = drawn(
        rng, "crash-loop", kind=rng.choice(("job", "inference", "notebook")), hours=rng.uniform(1.5, 10)
    )
    life, pause, at = rng.uniform(8, 120), 10.0, story.start + 20
    lives = []
    while at < story.end:
        length = life * rng.uniform(0.8, 1.2)
        lives.append((at, at + length))
        at += length + pause * rng.uniform(0.95, 1.05)
        pause = min(300.0, 2 * pause)
    level, code = rng.uniform(0.05, 0.5) * story.device.mib + 500, rng.choice((0, 0, 13, 31))
    story.memory = lambda t: level * any(a <= t < b for a, b in lives)
    story.processes = lambda t: float(any(a <= t < b for a, b in lives))
    story.xid = lambda t: float(code if t > lives[0][1] else 0)
    story.bursts = [Burst(a + 0.6 * (b - a), b, rng.uniform(0, 0.4), dram=0.1) for a, b in lives]
    return story


def scale_to_zero(rng: random.Random) -> Story:
    """Requests in a few sessions, hours apart."""
    story = drawn(rng, "scale-to-zero", kind="inference", hours=rng.uniform(24, 60))
    sessions, at = [], story.start + rng.uniform(0.2, 2) * HOUR
    while at < story.end - 2 * story.window:
        sessions.append((at, at + rng.uniform(0.3, 1.5) * HOUR))
        at = sessions[-1][1] + story.window + rng.uniform(1.5, 8) * HOUR
    rate = 1 / rng.uniform(5, 60)
    load = {"sm": rng.uniform(0.3, 0.8), "tensor": rng.uniform(0.05, 0.3), "dram": rng.uniform(0.2, 0.7)}
    found = requests(rng, story, lambda _t: rate, (0.4, 5), **load)
    story.bursts = [b for b in found if any(s <= b.start < e for s, e in sessions)]
    story.memory = flat(rng.uniform(0.2, 0.9) * story.device.mib, start=story.start + 30, ramp=240)
    return story


def unknown(rng: random.Random) -> Story:
    story = rng.choice((honest.train, hoarder, spinner, oversized))(rng)
    story.label, story.idle_from = "unknown", None
    story.blind = rng.choice(("rows", "counters", "most", "thinned", "frozen"))
    return story


def fell_silent(rng: random.Random) -> Story:
    """It does nothing, as far as anybody saw: the exporter ended before the policy's window did."""
    story = rng.choice((hoarder, zombie, forgotten, spinner, ticker))(rng)
    story.label, story.idle_from, story.blind = "unknown", None, "silent"
    return story


def _lives(rng: random.Random, story: Story, seconds: tuple[float, float]) -> list[tuple[float, float]]:
    """Processes that end and are started anew after the kubelet's pauses; work in each after its loading."""
    found, at, pause, load = [], story.start + 20, 10.0, training(rng)
    while at < story.end:
        found.append((at, at + rng.uniform(*seconds)))
        at = found[-1][1] + pause * rng.uniform(0.95, 1.05)
        pause = min(300.0, 2 * pause)
    story.bursts = [burst for a, b in found for burst in work(rng, [(a + 40, b)], **load)]
    story.processes = lambda t: float(any(a <= t < b for a, b in found))
    return found


def crashes_with_xids(rng: random.Random) -> Story:
    """Lives of many minutes; the exporter shows each XID for a minute, or the last for ever."""
    story = drawn(rng, "crash-loop", kind=rng.choice(("job", "inference")), hours=rng.uniform(4, 12))
    lives = _lives(rng, story, (400, 1500))
    level, keeps = rng.uniform(0.2, 0.9) * story.device.mib, rng.random() < 0.5
    codes = [rng.choice((13, 31, 43, 79)) for _ in lives]
    story.memory = lambda t: level * story.processes(t)

    def xid(t: float) -> float:
        told = [
            code for (_, b), code in zip(lives, codes, strict=True) if b <= t < (b + 1e9 if keeps else b + 60)
        ]
        return float(told[-1]) if told else 0.0

    story.xid = xid
    return story


def crashing_service(rng: random.Random) -> Story:
    """It answers for minutes, dies and is started again, a hundred times a day; nobody writes an XID."""
    story = drawn(rng, "crash-loop", kind="inference", hours=rng.uniform(8, 30))
    _lives(rng, story, (300, 1200))
    level = rng.uniform(0.2, 0.85) * story.device.mib
    story.memory = lambda t: level * story.processes(t)
    return story


def out_of_memory(rng: random.Random) -> Story:
    """A large batch comes by and ends it; it does not grow, it jumps."""
    story = drawn(rng, "undersized", kind=rng.choice(("job", "inference")), hours=rng.uniform(3, 12))
    lives = _lives(rng, story, (300, 2400))
    level, top = (rng.uniform(*span) * story.device.mib for span in ((0.55, 0.85), (0.96, 0.995)))
    jumps = [b - rng.uniform(30, 90) for _, b in lives]

    def memory(t: float) -> float:
        inside = next((jump for (a, b), jump in zip(lives, jumps, strict=True) if a <= t < b), None)
        return 0.0 if inside is None else top if t >= inside else level

    story.memory = memory
    return story


def probed(rng: random.Random) -> Story:
    """A service that is asked in sessions, and for its readiness by the clock."""
    story = scale_to_zero(rng)
    every, seconds, at = rng.choice((10.0, 15.0, 30.0)), rng.uniform(0.01, 0.06), story.start + 300
    while at < story.end:
        story.bursts.append(Burst(at, at + seconds, sm=0.5, tensor=0.05, dram=0.2, effort=0.2))
        at += every
    return story


SCENARIOS: tuple[Scenario, ...] = (
    honest.train, honest.integer_work, honest.stuck_counters, honest.long_download,
    honest.just_finished, honest.decode, honest.heavy_notebook, honest.light_notebook,
    honest.friday_evening, honest.busy_inference, honest.sparse_inference, honest.cache_warm_up,
    honest.big_pool, honest.sweep, hoarder, hoarder, zombie, forgotten, spinner, sleeper, ticker,
    burster, oversized, wrong_sharing, undersized, starved, leak, crash_loop, scale_to_zero, unknown,
    fell_silent, crashes_with_xids, crashing_service, out_of_memory, probed,
)  # fmt: skip


def stories(seed: int) -> Iterator[tuple[str, Story, random.Random]]:
    """One story of every scenario, with the randomness its exporter draws from."""
    for index, scenario in enumerate(SCENARIOS):
        rng = random.Random(f"{seed}/{index}/{scenario.__name__}")
        yield scenario.__name__, scenario(rng), rng
