"""An allocation as a list shows it, whatever made the work. Reads only; a part of the selectors' floor."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction

from django.db.models import QuerySet

from apps.accounts.specs import Actor
from apps.errors import Conflict
from apps.metering.allocations.rules import intervals
from apps.metering.allocations.rules.intervals import Interval
from apps.metering.allocations.selectors import allocations
from apps.metering.models import Allocation
from apps.metering.specs import Attribution, Confidence, Origin
from apps.workloads.models import Workload

SORTS = ("started_at", "created_at")
"""By what the list may be sorted: `started_at` as observed, which no correction moves."""


@dataclass(frozen=True)
class Line:
    """One device held in an interval: `interval` is what counts, by the newest correction."""

    row: Allocation
    origin: Origin
    interval: tuple[datetime, datetime | None]
    attribution: Attribution
    confidence: Confidence

    def held(self, now: datetime) -> Interval:
        """What counts, an open one up to now."""
        begins, ends = self.interval
        return Interval(begins, max(begins, ends or now))

    def gpu_seconds(self, now: datetime) -> Fraction:
        """Time x the part of the physical GPU."""
        held = self.held(now)
        share = Fraction(self.row.share_numerator, self.row.share_denominator)
        return intervals.seconds_of(held.ended_at - held.started_at) * share

    def device_seconds(self, begins: datetime, ends: datetime, now: datetime) -> Fraction:
        """Time of the device, of a part of one as such, or of the cores together, inside [begins, ends): what
        a line of the bill counts.
        """
        part = intervals.clipped(self.held(now), begins, ends)
        time = intervals.seconds_of(part.ended_at - part.started_at) if part else Fraction(0)
        return self.row.priced * time

    @property
    def share(self) -> str:
        """What of a GPU it is, such as `1/7`, or how many cores."""
        row = self.row
        if row.is_cores:
            return f"{row.units} cores" if row.units > 1 else "1 core"
        return f"{row.share_numerator}/{row.share_denominator}"


def shares_now(workload: Workload) -> list[str]:
    """What a workload holds at this moment of devices that others may hold too, such as `1/4 of H100`."""
    rows = Allocation.objects.filter(workload=workload, ended_at=None, in_shares=True)
    return sorted(row.charged_as for row in rows.select_related("offer"))


def only(rows: QuerySet[Allocation], origins: Sequence[str] | None) -> QuerySet[Allocation]:
    """Those of some origins; None: of all."""
    return rows if origins is None else rows.filter(origin__in=origins)


def line_of(row: Allocation) -> Line:
    """A row; prefetch `corrections`."""
    how, sure = allocations.attribution(row), allocations.confidence(row)
    return Line(row, Origin(row.origin), row.interval, how, sure)


def correctable(actor: Actor, pk: str) -> Allocation:
    """An allocation of a workload; raises NotFound, and Conflict for what was made with kubectl."""
    row = allocations.allocation_for(actor, pk)
    if row.workload is None:
        words = "It was made with kubectl: it counts as it was observed."
        raise Conflict(words, hint="Only allocations of workloads are corrected.")
    return row
