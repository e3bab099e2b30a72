"""What a counter reads when nothing runs: how it is told from a little work, and how far it reaches.

Small readings are noise when they are independent from sample to sample, of the other counters and of the
time in which kernels ran: a loop evens out, cells cluster, requests move every counter.
"""

from collections.abc import Sequence
from statistics import fmean, median
from typing import NamedTuple

from apps.metering.detector.moments import correlation, means, spread

FLOOR = 0.0002
"""What counters read when nothing runs is at most this; most read exactly 0, noisy ones a tiny bit more."""
HUNDREDTHS, SMALL = 0.02, (0.006, 0.002)
NOISY_SHARE, NOISY_SPREAD, CLUSTERED = 0.3, 0.3, 1.5
MET, FEWEST = 0.02, 6
"""Of the samples in which multiprocessors read something by themselves now and then, the part in which
GPU_UTIL met a kernel, at most; and how many samples tell.
"""
TAIL, LONG_TAIL, HEAVY = 6.5, 12.0, 3.5
FURTHER, ABOVE = 1.5, 1.001
"""How many medians noise reaches: as a normal one does, or as an exponential one, whose twentieth lies over
so many; and how much further its largest reading may lie.
"""
COARSE, FINE = 0.01, 0.001
"""Noise that is rounded to hundredths or to thousandths is a step now and then, seldom two."""
STEADY_RATIO, DOUBLE_RATIO = 0.75, 0.8
"""Of the variation of chance arrivals, where there are very many groups to tell."""
GLIMPSE, VISIBLE, EXPECTED, STRAY = 1.0, 0.01, 3.0, 0.1
"""Seconds before a reading that GPU_UTIL speaks of; seconds of kernels that it rounds to a percent of them;
how often it must have met one by chance, had any run, before their absence tells (had each row one kernel on
every multiprocessor, it would miss three in one of twenty cases; few blocks it meets much more often); and
the part of them that it may have met all the same.
"""
BUSY = 0.1
"""SM active under which GPU_UTIL may miss kernels for long."""


class Reading(NamedTuple):
    """Of one sample: a counter, the sum of those beside it, and GPU_UTIL, None where nobody told; parts of
    the device.
    """

    value: float
    beside: float
    util: float | None


def floor(readings: Sequence[Reading], *, is_sm: bool = False, by_itself: bool = False) -> float:
    """What this exporter reads of a counter when nothing runs; `FLOOR` where nothing tells. Smaller readings
    are tried when larger ones hang together, and where most are larger kernels run.

    RULE: readings now and then are noise only of SM activity: whatever works reads memory, and what copies
    touches memory alone. What reads so much `by_itself`, before anybody could run anything, may be as even as
    a loop.
    """
    first = next((i for i, each in enumerate(readings) if each.value > 0), 0)
    coarse = [each for each in readings[first:] if each.value < HUNDREDTHS]
    if _rounded(coarse, COARSE):
        return _floor(coarse, is_sm=is_sm, by_itself=by_itself)
    for limit in SMALL:
        tiny = [each for each in readings[first:] if each.value < limit]
        found = _floor(tiny, is_sm=is_sm, by_itself=by_itself)
        # A smaller limit must not cut a cluster in two and condemn what lies above it.
        if FLOOR < found <= FURTHER * limit:
            return min(found, limit)
    return FLOOR


def _floor(tiny: Sequence[Reading], *, is_sm: bool, by_itself: bool) -> float:
    known = sorted(each.value for each in tiny if each.value > 0)
    if len(tiny) < 60 or len(known) < 2:
        return FLOOR
    rounded = _rounded(tiny, COARSE) or _rounded(tiny, FINE)
    often = len(known) >= NOISY_SHARE * len(tiny)
    if not (rounded or often or (is_sm and _without_kernels(tiny))):
        return FLOOR
    if _structured(tiny, even=not by_itself):
        return FLOOR
    if rounded:
        return 2.5 * COARSE if known[0] >= COARSE else 4.5 * FINE
    middle, most = median(known), known[-1]
    reach = middle * (LONG_TAIL if known[int(0.95 * len(known))] > HEAVY * middle else TAIL)
    if by_itself:
        reach = min(reach, middle + TAIL * spread(known))
    # The largest of thousands lies a little further.
    return max(FLOOR, reach, ABOVE * most if most <= FURTHER * reach else 0.0)


def _rounded(tiny: Sequence[Reading], step: float) -> bool:
    """Whether readings are one step of this size, seldom two, and the rest 0."""
    known = sorted(each.value for each in tiny if each.value > 0)
    steps = [known[0] / step, known[int(0.95 * len(known))] / step] if known else [0.0]
    return all(abs(each - round(each)) < 1e-6 and 1 <= round(each) <= 2 for each in steps)


def _without_kernels(tiny: Sequence[Reading]) -> bool:
    """Whether GPU_UTIL met hardly a kernel where the counter read something."""
    read = [each.util or 0.0 for each in tiny if each.value > 0]
    return len(read) >= FEWEST and sum(util > 0 for util in read) <= MET * len(read)


def alone(readings: Sequence[Reading], step: float) -> float:
    """Up to which SM activity alone is read by itself though it comes in spells, as a person's does; 0 where
    nothing tells. `step` is the seconds that a reading is averaged over.

    RULE: GPU_UTIL is the witness. Few blocks take long for so little, and a kernel on every multiprocessor is
    met as often as chance has it. Without GPU_UTIL nobody knows: small tensors stay in the cache, and cells
    that touch no memory read the same.
    """
    beside = [0.0, *(each.beside for each in readings), 0.0]
    # Not all fields are read at once: GPU_UTIL may meet what the row before or after averages.
    apart = [not (a or b or c) for a, b, c in zip(beside, beside[1:], beside[2:], strict=False)]
    small = [each for each, quiet in zip(readings, apart, strict=True) if quiet and 0 < each.value < SMALL[0]]
    asked = [each for each in small if each.util is not None]
    if len(asked) < len(small) / 2 or _is_blind(readings):
        return 0.0
    met = sum(bool(each.util) for each in asked)
    expected = sum(each.value * step >= VISIBLE for each in asked) * GLIMPSE / step
    if expected < EXPECTED or met > STRAY * expected:
        return 0.0
    return min(SMALL[0], TAIL * median(each.value for each in small))


def _is_blind(readings: Sequence[Reading]) -> bool:
    """Whether GPU_UTIL met no kernel where kernels must have run."""
    busy = [each.util for each in readings if each.value >= BUSY and each.util is not None]
    return len(busy) >= FEWEST and not any(busy)


def _structured(tiny: Sequence[Reading], *, even: bool) -> bool:
    """Whether readings hang together, in time, with the pipes or with the time in which kernels ran; `even`
    whether those that hardly vary do.
    """
    values = [each.value for each in tiny]
    varied = spread(values)
    if even and varied <= NOISY_SPREAD * fmean(values):
        return True
    if spread(means(values, 10)) > CLUSTERED * varied / 10**0.5:
        return True
    # A counter that reads something by itself knows of no kernel.
    others = ([each.beside for each in tiny], [each.util or 0.0 for each in tiny])
    return any(correlation(values, other) >= 0.5 for other in others) or regular(values, 10)


def regular(values: Sequence[float], size: int) -> bool:
    """Whether means of `size` values vary clearly less than means of as many independent ones would: chance
    arrivals and noise are independent, a loop makes up for what it missed. Two and a half standard errors,
    and means of twice as many must not contradict.
    """
    if len(values) < 6 * size or fmean(values) <= 0:
        return False
    groups = len(values) // size
    limit = min(STEADY_RATIO, 1.0 - 2.5 / (2 * groups) ** 0.5)
    return _of_chance(values, size) <= limit and _of_chance(values, 2 * size) <= DOUBLE_RATIO


def _of_chance(values: Sequence[float], size: int) -> float:
    """Variation of means of `size` values over that of independent ones."""
    chance = spread(values) / size**0.5
    return spread(means(values, size)) / chance if chance > 0 else 0.0
