"""Honest work, with the hours and the pauses that make it look like waste.

Parameters are drawn from ranges, never listed.
"""

import math
import random
from collections.abc import Iterator

from tests.metering.traces import ANY, DAY, HOUR, MONDAY, SMALL, WHOLE, Burst, Device, Level, Story


def drawn(
    rng: random.Random, label: str, *, devices: tuple[Device, ...] = ANY, kind: str = "job", hours: float = 8
) -> Story:
    start = MONDAY + rng.uniform(0, 4) * DAY + rng.uniform(0, 1) * HOUR
    window = rng.choice((1800.0, 3600.0, 3600.0, 7200.0))
    return Story(label, rng.choice(devices), kind, start, start + hours * HOUR, window)


def flat(level: float, *, start: float, ramp: float = 90.0) -> Level:
    return lambda t: 0.0 if t < start else level * min(1.0, 0.1 + (t - start) / ramp)


def work(rng: random.Random, spans: list[tuple[float, float]], **load: float) -> list[Burst]:
    """Minutes of work whose strength wanders by a few percent."""
    made, factor = [], 1.0
    for start, end in spans:
        at = start
        while at < end:
            factor = min(1.08, max(0.9, factor + rng.gauss(0, 0.02)))
            till = min(end, at + rng.uniform(40, 120))
            made.append(Burst(at, till, **{k: min(1.0, v * factor) for k, v in load.items()}))
            at = till
    return made


def training(rng: random.Random) -> dict[str, float]:
    return {"sm": rng.uniform(0.6, 0.97), "tensor": rng.uniform(0.2, 0.6), "dram": rng.uniform(0.2, 0.7)}


def dips(rng: random.Random, start: float, end: float) -> list[tuple[float, float]]:
    """Work with pauses for evaluation and checkpoints."""
    spans, at = [], start
    while at < end:
        till = min(end, at + rng.uniform(600, 3600))
        spans.append((at, till))
        at = till + rng.uniform(20, 400)
    return spans


def train(rng: random.Random) -> Story:
    story = drawn(rng, "healthy", hours=rng.uniform(2, 14))
    begin = story.start + rng.uniform(30, 900)
    story.bursts = work(rng, dips(rng, begin, story.end), **training(rng))
    story.memory = flat(rng.uniform(0.55, 0.95) * story.device.mib, start=begin - 20)
    return story


def integer_work(rng: random.Random) -> Story:
    story = drawn(rng, "healthy", hours=rng.uniform(2, 10))
    sm = rng.uniform(0.55, 1.0)
    spans = dips(rng, story.start + 60, story.end)
    story.bursts = work(rng, spans, sm=sm, dram=0.002, occupancy=0.3, effort=rng.uniform(0.45, 0.9) * sm)
    story.memory = flat(rng.uniform(0.01, 0.6) * story.device.mib + 500, start=story.start + 30)
    return story


def stuck_counters(rng: random.Random) -> Story:
    story = drawn(rng, "healthy", devices=WHOLE + SMALL, hours=rng.uniform(3, 10))
    story.bursts = work(rng, [(story.start + 60, story.end)], **training(rng))
    story.memory = flat(rng.uniform(0.4, 0.9) * story.device.mib, start=story.start + 30)
    story.stuck = True
    return story


def long_download(rng: random.Random) -> Story:
    story = drawn(rng, "healthy", hours=rng.uniform(4, 10))
    begin = story.start + rng.uniform(0.4, 1.6) * HOUR
    story.bursts = work(rng, [(begin, story.end)], **training(rng))
    story.memory = flat(rng.uniform(0.5, 0.9) * story.device.mib, start=begin - 60)
    story.processes = lambda t: float(t > begin - 60)
    return story


def just_finished(rng: random.Random) -> Story:
    story = train(rng)
    cut = story.end - rng.uniform(0.2, 0.75) * story.window
    story.bursts = [b for b in story.bursts if b.end < cut]
    return story


def decode(rng: random.Random) -> Story:
    story = drawn(rng, "healthy", kind=rng.choice(("job", "inference")), hours=rng.uniform(3, 10))
    load = {"sm": rng.uniform(0.25, 0.6), "tensor": rng.uniform(0.01, 0.08), "dram": rng.uniform(0.6, 0.9)}
    story.bursts = work(rng, [(story.start + 200, story.end)], **load)
    story.memory = flat(rng.uniform(0.6, 0.93) * story.device.mib, start=story.start + 20, ramp=200)
    return story


def office(rng: random.Random, story: Story, leave: float = 18.0) -> Iterator[tuple[float, float]]:
    """Somebody's days: morning, lunch, afternoon, now and then an evening."""
    day = math.floor(story.start / DAY)
    while day * DAY < story.end:
        if (day + 3) % 7 < 5:
            base = day * DAY - story.offset * HOUR
            begin, lunch = base + rng.uniform(8.2, 9.4) * HOUR, base + rng.uniform(11.8, 12.8) * HOUR
            yield begin, lunch
            yield lunch + rng.uniform(0.4, 0.95) * HOUR, base + rng.uniform(leave - 1, leave + 0.5) * HOUR
        day += 1


def cells(
    rng: random.Random, story: Story, think: float, run: tuple[float, float], **load: float
) -> list[Burst]:
    made: list[Burst] = []
    for begin, end in office(rng, story):
        at = begin
        while at < min(end, story.end):
            last = min(at + math.exp(rng.uniform(math.log(run[0]), math.log(run[1]))), end)
            if at > story.start:
                strength = rng.uniform(0.4, 1.3)
                made.append(Burst(at, last, **{k: min(1.0, v * strength) for k, v in load.items()}))
            at = last + min(rng.expovariate(1 / think), 0.6 * story.window)
    return made


def notebook(rng: random.Random, label: str, days: float) -> Story:
    story = drawn(rng, label, kind="notebook", hours=days * 24)
    day = math.floor(story.start / DAY)
    story.offset = rng.choice((-8.0, 0.0, 1.0, 5.5))
    story.start = day * DAY + (9 - story.offset) * HOUR
    # Decided in the afternoon of a working day, with the user there.
    end_day = math.floor((story.start + days * DAY) / DAY)
    while (end_day + 3) % 7 >= 5:
        end_day += 1
    story.end = max(story.start + 3 * HOUR, end_day * DAY + (rng.uniform(15, 16.5) - story.offset) * HOUR)
    return story


def heavy_notebook(rng: random.Random) -> Story:
    story = notebook(rng, "healthy", rng.uniform(0, 4))
    load = {"sm": rng.uniform(0.2, 0.8), "tensor": rng.uniform(0.02, 0.3), "dram": rng.uniform(0.05, 0.4)}
    story.bursts = cells(rng, story, rng.uniform(200, 700), (10, 900), **load)
    story.memory = flat(rng.uniform(0.1, 0.7) * story.device.mib, start=story.start + 300)
    return story


def light_notebook(rng: random.Random) -> Story:
    story = notebook(rng, "healthy", rng.uniform(0, 4))
    block = 1 / story.device.sms
    sm = min(0.5, rng.uniform(0.5, 3) * block)
    story.bursts = cells(rng, story, rng.uniform(150, 600), (3, 500), sm=sm, occupancy=0.05, effort=0.3 * sm)
    story.memory = flat(rng.uniform(0.03, 0.4) * story.device.mib + 500, start=story.start + 300)
    return story


def friday_evening(rng: random.Random) -> Story:
    """Left late on Friday, judged on Sunday: the night and the weekend are inside the policy."""
    story = notebook(rng, "healthy", rng.uniform(0.1, 3))
    friday = math.floor(story.start / DAY)
    while (friday + 3) % 7 != 4:
        friday += 1
    story.end = (friday + 2) * DAY
    left = friday * DAY + (18 - story.offset) * HOUR - rng.uniform(0.0, 0.6) * story.window
    done = cells(rng, story, 400, (20, 900), sm=0.5, tensor=0.1, dram=0.2)
    story.bursts = [b for b in done if b.end < left - 600] + work(
        rng, [(left - 600, left)], sm=0.5, tensor=0.1, dram=0.2
    )
    story.memory = flat(rng.uniform(0.1, 0.7) * story.device.mib, start=story.start + 300)
    return story


def requests(
    rng: random.Random, story: Story, rate: Level, seconds: tuple[float, float], **load: float
) -> list[Burst]:
    """Requests by chance, each of its own length and weight."""
    made, at = [], story.start + 300
    while at < story.end:
        at += rng.expovariate(max(rate(at), 1e-5))
        weight = rng.uniform(0.5, 1.4)
        made.append(
            Burst(at, at + rng.uniform(*seconds), **{k: min(1.0, v * weight) for k, v in load.items()})
        )
    return made


def diurnal(rng: random.Random, peak: float, night: float) -> Level:
    hour = rng.uniform(10, 17)
    return lambda t: (
        peak * (night + (1 - night) * (0.5 + 0.5 * math.cos((t / HOUR - hour) / 24 * 2 * math.pi)))
    )


def busy_inference(rng: random.Random) -> Story:
    story = drawn(rng, "healthy", kind="inference", hours=rng.uniform(8, 40))
    rate = diurnal(rng, rng.uniform(0.2, 0.6), rng.uniform(0.1, 0.5))
    load = {"sm": rng.uniform(0.5, 0.8), "tensor": rng.uniform(0.1, 0.3), "dram": rng.uniform(0.3, 0.7)}
    story.bursts = requests(rng, story, rate, (0.8, 2.5), **load)
    story.memory = flat(rng.uniform(0.55, 0.93) * story.device.mib, start=story.start + 30, ramp=240)
    return story


def sparse_inference(rng: random.Random) -> Story:
    story = drawn(rng, "healthy", kind="inference", hours=rng.uniform(8, 40))
    rate = diurnal(rng, 1 / rng.uniform(30, 240), rng.uniform(0.5, 1.0))
    load = {"sm": rng.uniform(0.3, 0.8), "tensor": rng.uniform(0.05, 0.3), "dram": rng.uniform(0.2, 0.7)}
    story.bursts = requests(rng, story, rate, (0.3, 6), **load)
    story.memory = flat(rng.uniform(0.3, 0.93) * story.device.mib, start=story.start + 30, ramp=240)
    return story


def cache_warm_up(rng: random.Random) -> Story:
    story = drawn(rng, "healthy", kind=rng.choice(("job", "inference")), hours=rng.uniform(4, 14))
    story.bursts = work(rng, [(story.start + 100, story.end)], **training(rng))
    low, high = rng.uniform(0.2, 0.45), rng.uniform(0.65, 0.9)
    tau = rng.uniform(0.05, 0.33) * (story.end - story.start)
    mib, start = story.device.mib, story.start
    story.memory = lambda t: (
        mib * (low + (high - low) * (1 - math.exp(-(t - start) / tau))) * rng.gauss(1, 0.003)
    )
    return story


def big_pool(rng: random.Random) -> Story:
    story = train(rng)
    # A pool that the framework took, on multiprocessors that have room left.
    story.bursts = work(rng, [(story.start + 60, story.end)], sm=rng.uniform(0.5, 0.84), tensor=0.3, dram=0.4)
    story.memory = flat(rng.uniform(0.9, 0.985) * story.device.mib, start=story.start + 60)
    return story


def sweep(rng: random.Random) -> Story:
    """Short trials, one after the other."""
    story = drawn(rng, "healthy", hours=rng.uniform(3, 8))
    starts, at = [], story.start + 60
    while at < story.end:
        starts.append(at)
        at += rng.uniform(150, 900)
    ends = [*starts[1:], story.end]
    for begin, end in zip(starts, ends, strict=True):
        story.bursts += work(rng, [(begin + 15, end - 8)], **training(rng))
    level = rng.uniform(0.55, 0.9) * story.device.mib

    def inside(t: float) -> bool:
        return any(a <= t < b - 5 for a, b in zip(starts, ends, strict=True))

    story.memory = lambda t: level * inside(t)
    story.processes = lambda t: float(inside(t))
    return story
