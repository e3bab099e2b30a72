"""Spread and correlation of readings in floating point, correctly summed.

`statistics` computes the first in exact fractions, which costs twenty times as much: four days of samples are
judged for every device every few minutes.
"""

from collections.abc import Sequence
from math import fsum, sqrt


def spread(values: Sequence[float]) -> float:
    """The standard deviation of the whole; exactly 0 where all are equal."""
    if min(values) == max(values):
        return 0.0
    mean = fsum(values) / len(values)
    return sqrt(fsum([(value - mean) ** 2 for value in values]) / len(values))


def correlation(first: Sequence[float], second: Sequence[float]) -> float:
    """Pearson's; 0 where one of them does not vary. Both are equally long and not empty."""
    of_first, of_second = spread(first), spread(second)
    if not of_first or not of_second:
        return 0.0
    mean_first, mean_second = fsum(first) / len(first), fsum(second) / len(second)
    common = fsum([(a - mean_first) * (b - mean_second) for a, b in zip(first, second, strict=True)])
    return common / len(first) / (of_first * of_second)


def means(values: Sequence[float], size: int) -> list[float]:
    """Of each full group of `size` neighbours."""
    return [fsum(values[i : i + size]) / size for i in range(0, len(values) - size + 1, size)]
