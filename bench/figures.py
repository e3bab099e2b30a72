"""What a benchmark says: ratios of pairs, with the interval of 90 % of the resampled medians. Pure."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

RESAMPLES = 4000


@dataclass(frozen=True)
class Ratio:
    """The median of one ratio per round, and its 90 % interval by bootstrap over the rounds."""

    value: float
    low: float
    high: float
    rounds: int

    @classmethod
    def of(cls, ours: Sequence[float], reference: Sequence[float], *, seed: int = 1) -> "Ratio":
        """RULE: the two are paired round by round, so that a slow minute of the machine falls on both."""
        ratios = [mine / theirs for mine, theirs in zip(ours, reference, strict=True)]
        chance = random.Random(seed)
        medians = sorted(median(chance.choices(ratios, k=len(ratios))) for _ in range(RESAMPLES))
        low, high = medians[RESAMPLES // 20], medians[-RESAMPLES // 20]
        return cls(median(ratios), low, high, len(ratios))

    def shown(self) -> dict[str, Any]:
        """As a line of JSON holds it."""
        interval = [round(self.low, 3), round(self.high, 3)]
        return {"ratio": round(self.value, 3), "interval_90": interval, "rounds": self.rounds}


def milliseconds(seconds: Sequence[float]) -> float:
    """The median, in ms."""
    return round(median(seconds) * 1000, 1)
