"""What a window of buckets comes to per group: exact sums, the highest, the 95th percentile. Reads only."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from fractions import Fraction
from typing import Any

from django.db.models import Max, QuerySet

from apps.metering.models import Bucket
from apps.metering.usage.selectors import aggregates
from apps.metering.usage.selectors.aggregates import Totals

TENTHS = 10
MILLION = 1_000_000
Key = tuple[Any, ...]


@dataclass
class Summary:
    """One group: its sums, the highest SM active (0 to 1) and memory, and time by tenth of SM active."""

    totals: Totals
    most: float | None = None
    memory_mib: int | None = None
    tenths: list[int] = field(default_factory=lambda: [0] * TENTHS)

    @property
    def p95(self) -> float | None:
        """Below what SM active was for 95 % of the time seen; None: nothing was.

        RULE: time within a tenth is taken to be spread evenly over it, and nothing is above the highest.
        """
        rest = Fraction(95 * sum(self.tenths), 100)
        for index, time in enumerate(self.tenths):
            if 0 < rest <= time:
                found = float((index + rest / time) / TENTHS)
                return found if self.most is None else min(found, self.most)
            rest -= time
        return None


def summaries(
    rows: QuerySet[Bucket], begins: datetime, ends: datetime, *, by: Sequence[str]
) -> Mapping[Key, Summary]:
    """Per group over [begins, ends); the edges are cut to whole buckets."""
    sums = aggregates.sums(rows, begins, ends, by=by)
    found = {key: Summary(totals) for key, totals in sums.items()}
    for level, first, last in aggregates.spans(begins, ends):
        taken = rows.filter(level=level, starts_at__gte=first, starts_at__lt=last).order_by()
        for key, summary in _highest(taken, by).items():
            _raise(found[key], *summary)
        weighed = taken.filter(held_us__gt=0).values_list(
            *by, "share_us", "held_us", "denominator", "histogram"
        )
        for *key, share, held, parts, tenths in weighed:
            _count(found[tuple(key)], tenths, share, held * parts)
    return found


def _highest(rows: QuerySet[Bucket], by: Sequence[str]) -> dict[Key, tuple[int | None, int | None]]:
    found = rows.values(*by).annotate(sm=Max("sm_max"), memory=Max("memory_max_mib"))
    return {tuple(row[name] for name in by): (row["sm"], row["memory"]) for row in found}


def _raise(summary: Summary, sm_max: int | None, memory: int | None) -> None:
    if sm_max is not None:
        summary.most = max(summary.most or 0.0, sm_max / MILLION)
    if memory is not None:
        summary.memory_mib = max(summary.memory_mib or 0, memory)


def _count(summary: Summary, tenths: Sequence[int], share: int, whole: int) -> None:
    """A slice's time counts as its part of the GPU."""
    for index, time in enumerate(tenths[:TENTHS]):
        summary.tenths[index] += time * share // whole
