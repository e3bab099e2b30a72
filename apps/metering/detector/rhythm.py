"""Whether faint activity is a person's, a machine's, or none at all. Judges rhythm, never amount.

A light notebook and an evasion may read the same at any one moment. What differs:
- a loop is *steady*: ten-minute means hardly vary, and vary less than chance arrivals of the same size would
  (requests and people are at best Poisson: their variance does not average out faster than 1/n);
- a timer is *periodic*: bursts of one size at multiples of one interval;
- a machine does not sleep: a notebook that is as busy at three in the morning as at noon is not used by a
  person.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from itertools import pairwise
from math import sqrt
from statistics import fmean, median
from typing import NamedTuple

from apps.metering.detector.moments import correlation, means, spread
from apps.metering.detector.noise import FLOOR, regular
from apps.metering.detector.signals import BUCKET, UTIL_SEEN, Signal
from apps.metering.detector.trace import BRIDGED

Night = Callable[[float], bool]


class Rhythm(Enum):
    """Who makes the faint activity of a stretch."""

    NOTHING = "nothing"
    PERSON = "person"
    MACHINE = "machine"


TINY_SAMPLE, TINY_MEAN = 0.01, 0.0015
"""Most samples read something, all of them under a hundredth of the device: nobody works so evenly on so
little."""
NOISE_PEAK, NOISE_MEAN, NOISE_RATIO = 0.01, 0.002, 1.5
FEWEST_BUCKETS = 4
SPINNING, TURNING, LOOPING = 0.2, 0.45, 0.3
"""Variation of bucket means and of samples that is a spin or a loop as fast as the samples: as even as eleven
chance arrivals in each; and of bucket means that may be a slower loop.
"""
FEWEST_BURSTS, MANY_BURSTS, PERIODIC, TOLERANCE, SAME_SIZE = 6, 10, 0.7, 0.15, 0.35
"""Bursts that make a rhythm, and a fast one; the share of intervals that must be a multiple of one, within
the tolerance: of chance intervals a fifth to a half are. Requests and cells differ in size, a timer's bursts
do not.
"""
BY_CHANCE, BEYOND_CHANCE = 0.25, 3.5
"""Of few intervals more must fit: what chance makes fit, and so many standard deviations. Every day of sparse
requests is many stretches, and each is looked at more than once.
"""
PIPES_OF_SM, EVEN_GROUPS, EVEN = 0.15, 36, 1.3
"""Pipe activity per SM active of work that reads something; three hours in groups of ten samples; and the
variation of groups against that of chance.
"""
THIN, RARELY, RESOLVED = 0.05, 0.2, 0.25
"""The part of the device that a clock's kernels take at most (a second in twenty), the time in which any ran,
and the variation of samples by which single ones are told from an even load.
"""
ASLEEP = 0.8
"""Of the active samples: nothing honest sleeps on every multiprocessor."""
NIGHT_RATE = 0.5
SEEN_HOURS = 0.9


class Sight(NamedTuple):
    """What the exporter sees: `pipes` whether it measures tensor cores or memory, `moments` whether its
    counters miss work that GPU_UTIL meets.
    """

    pipes: bool = True
    moments: bool = False


ALL = Sight()


def rhythm(
    signals: Sequence[Signal], step: float, *, night: Night | None = None, sight: Sight = ALL
) -> Rhythm:
    """Who is active in this stretch without proven work. `night` tells a notebook's hours of sleep.

    RULE: kernels that GPU_UTIL alone met are too small for the counters, and a loop's, only where counters
    see what it meets.
    """
    active = [s for s in signals if s.active]
    if len(active) < 2:
        return Rhythm.PERSON if active and not active[0].asleep else Rhythm.NOTHING
    stretch = _without_start(signals, active[0])
    values = _values(stretch)
    if values is None:
        small = not sight.moments
        return Rhythm.MACHINE if small and _is_loop_by_util(stretch, night) else Rhythm.PERSON
    if _is_asleep(active) or _steady([s.ts for s in stretch], values) or _periodic(stretch, values, step):
        return Rhythm.MACHINE
    if _noise(stretch, values):
        return Rhythm.NOTHING
    kept_up = _sleepless(stretch, night) if night else sight.pipes and _everywhere(stretch, values)
    return Rhythm.MACHINE if kept_up else Rhythm.PERSON


def _without_start(signals: Sequence[Signal], first: Signal) -> Sequence[Signal]:
    """What begins within minutes of a stretch is judged from its begin: start-up is no part of the rhythm."""
    return signals[signals.index(first) :] if first.ts - signals[0].ts <= BUCKET else signals


def _is_loop_by_util(signals: Sequence[Signal], night: Night | None) -> bool:
    """Of kernels that GPU_UTIL alone met: they come at night, too, or evenly, or in nearly every hour."""
    if night is None:
        return _even([s.util or 0.0 for s in signals], 10) or _all_day(signals)
    return _sleepless(signals, night) or _all_day(signals)


def _is_asleep(active: Sequence[Signal]) -> bool:
    return sum(s.asleep for s in active) >= ASLEEP * len(active)


def _values(signals: Sequence[Signal]) -> list[float] | None:
    """The counter that shows the activity; None where only GPU_UTIL met a kernel now and then."""
    for values in ([s.token for s in signals], [max(s.tensor, s.dram) for s in signals]):
        if sum(v > FLOOR for v in values) >= 2:
            return values
    return None


def _noise(signals: Sequence[Signal], values: Sequence[float]) -> bool:
    """A counter that reads a little more than 0 by itself: small, independent from sample to sample, and
    unrelated to what the pipes read. Cells cluster, and requests move every counter at once.
    """
    seen = sum(s.util is not None and s.util >= UTIL_SEEN for s in signals)
    if seen > 0.02 * len(signals) or max(values) > NOISE_PEAK or fmean(values) > NOISE_MEAN:
        return False
    if sum(v > 0 for v in values) < 0.3 * len(values):
        return False
    if max(values) < TINY_SAMPLE and fmean(values) < TINY_MEAN:
        return True
    groups = means(values, 10)
    if len(groups) < 6 or spread(groups) > NOISE_RATIO * spread(values) / 10**0.5:
        return False
    others = ([s.tensor + s.dram for s in signals], [s.util or 0.0 for s in signals])
    return all(correlation(values, other) < 0.5 for other in others)


def _steady(times: Sequence[float], values: Sequence[float]) -> bool:
    grouped: dict[int, list[float]] = {}
    for ts, value in zip(times, values, strict=True):
        grouped.setdefault(int(ts // BUCKET), []).append(value)
    size = median(len(v) for v in grouped.values())
    averages = [fmean(v) for v in grouped.values() if len(v) >= 0.6 * size]
    if len(averages) < FEWEST_BUCKETS or sum(m > FLOOR / 2 for m in averages) < 0.9 * len(averages):
        return False
    varied = _variation(averages)
    spinning = varied <= SPINNING and _variation(values) <= TURNING
    return spinning or (varied <= LOOPING and regular(values, max(10, round(size / 2))))


def _variation(values: Sequence[float]) -> float:
    mean = fmean(values)
    return spread(values) / mean if mean > 0 else 0.0


def bursts(
    signals: Sequence[Signal], values: Sequence[float], step: float
) -> list[tuple[float, float, float]]:
    """(time, seconds, amount) of each run of samples well above the quiet of the stretch."""
    ordered = sorted(values)
    quiet, top = ordered[len(ordered) // 2], ordered[-1]
    limit = quiet + max(FLOOR, 0.2 * (top - quiet))
    found: list[tuple[float, float, float]] = []
    last = None
    for signal, value in zip(signals, values, strict=True):
        if value <= limit:
            continue
        if last is not None and signal.ts - last <= 1.6 * step:
            at, _, amount = found.pop()
            found.append((at, signal.ts - at + step, amount + value))
        else:
            found.append((signal.ts, step, value))
        last = signal.ts
    return found


def _periodic(signals: Sequence[Signal], values: Sequence[float], step: float) -> bool:
    found = bursts(signals, values, step)
    if len(found) < FEWEST_BURSTS or median(seconds for _, seconds, _ in found) > 2 * step + 1:
        return False
    gaps = [b[0] - a[0] for a, b in pairwise(found)]
    period = median(gaps)
    if period < 1.8 * step or (period < 5 * step and len(found) < MANY_BURSTS):
        return False
    slack = max(TOLERANCE, 0.5 * step / period)
    fitting = sum(abs(g / period - max(1, round(g / period))) <= slack for g in gaps if g < 4.5 * period)
    amounts = [amount for _, _, amount in found]
    middle = median(amounts)
    spread = median(abs(a - middle) for a in amounts)
    return fitting >= _by_design(len(gaps)) and spread <= SAME_SIZE * middle


def _by_design(count: int) -> float:
    """How many of so many intervals fit only where a clock makes them."""
    chance = count * BY_CHANCE + BEYOND_CHANCE * sqrt(count * BY_CHANCE * (1 - BY_CHANCE))
    return max(PERIODIC * count, min(float(count), chance))


def _sleepless(signals: Sequence[Signal], night: Night) -> bool:
    """Active at night as by day, over at least three hours of each."""
    dark = [s.active for s in signals if night(s.ts)]
    light = [s.active for s in signals if not night(s.ts)]
    hours = 3 * 3600 / 30
    if len(dark) < hours or len(light) < hours:
        return False
    return sum(dark) / len(dark) >= NIGHT_RATE * sum(light) / len(light) and sum(dark) >= 6


def _everywhere(signals: Sequence[Signal], values: Sequence[float]) -> bool:
    """Spread over hours as evenly as chance alone would, and without reading memory: kernels that an exporter
    meets now and then. Requests read weights, and people's work comes in clusters.
    """
    pipes, tokens = fmean(max(s.tensor, s.dram) for s in signals), fmean(s.token for s in signals)
    return pipes < PIPES_OF_SM * tokens and _even(values, 30)


def _even(values: Sequence[float], least: int) -> bool:
    """At least so many readings, in groups that vary hardly more than chance makes them."""
    groups = means(values, 10)
    if len(groups) < EVEN_GROUPS or sum(v > FLOOR for v in values) < least:
        return False
    return spread(groups) <= EVEN * spread(values) / 10**0.5


def _all_day(signals: Sequence[Signal]) -> bool:
    """Kernels too small for the counters, met by GPU_UTIL in nearly every hour: a loop, for nobody's work is
    so small for so long.
    """
    hours: dict[int, bool] = {}
    for signal in signals:
        hour = int(signal.ts // 3600)
        hours[hour] = hours.get(hour, False) or signal.active
    return len(hours) >= 3 and sum(hours.values()) >= SEEN_HOURS * len(hours)


def machine_since(
    signals: Sequence[Signal], step: float, *, night: Night | None, least: float, sight: Sight
) -> float | None:
    """Since when the end of a stretch is a machine's, None when it is not: the longest of its last parts.

    Somebody who works by hand and then leaves a loop behind makes one stretch of both.
    """
    for tail in _tails(signals, least):
        if rhythm(tail, step, night=night, sight=sight) is Rhythm.MACHINE:
            return tail[0].ts
    return None


def ticking_since(signals: Sequence[Signal], step: float, least: float) -> float | None:
    """Since when the end of a stretch of thin work is a clock's, None when it is not: single kernels whose
    number is evened out, as that of requests never is, or that keep to one interval, however much each does.
    """
    return next((tail[0].ts for tail in _tails(signals, least) if _ticks(tail, step)), None)


def _tails(signals: Sequence[Signal], least: float) -> Iterator[Sequence[Signal]]:
    """A stretch, and its last parts as long as they are worth judging; longest first."""
    times = [s.ts for s in signals]
    span = times[-1] - times[0] if times else 0.0
    for part in (1.0, 0.75, 0.5, 0.35, 0.25) if times else ():
        if part == 1.0 or span * part >= max(least, FEWEST_BUCKETS * BRIDGED):
            yield signals[bisect_left(times, times[-1] - span * part) :]


def _ticks(signals: Sequence[Signal], step: float) -> bool:
    active = [index for index, signal in enumerate(signals) if signal.active]
    among = signals[active[0] : active[-1] + 1] if active else ()
    values = [s.busiest for s in among]
    utils = [s.util for s in among if s.util is not None]
    if not values or fmean(values) > THIN or (utils and fmean(utils) > RARELY):
        return False
    evened = _variation(values) >= RESOLVED and regular(values, 10)
    return evened or _periodic(among, values, step)
