"""The rows of a list of workloads: each with what its devices did lately, read for all of them at once."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from apps.accounts.specs import Actor
from apps.metering.usage.selectors import series
from apps.metering.usage.selectors.series import Sums
from apps.workloads.models import Workload
from apps.workloads.opening.selectors.access import openable
from apps.workloads.selectors.reading import standing_of
from apps.workloads.specs import Kind
from apps.workloads.status.arrays import Standing
from apps.workloads.status.scheduling import is_unschedulable
from apps.workloads.templates.selectors.catalogue import names_of
from apps.workloads.waiting.selectors import waiting

STEP, COUNT = timedelta(minutes=15), 24
"""Six hours: long enough to show a habit, short enough that what was caught a minute ago is seen."""


@dataclass(frozen=True)
class Lately:
    """SM active of what one workload held, by step and over all of them; None: unknown."""

    ratios: Sequence[float | None]
    mean: float | None

    @property
    def percent(self) -> str:
        """The figure beside the curve."""
        return "unknown" if self.mean is None else f"{100 * self.mean:.0f} %"


@dataclass(frozen=True)
class Line:
    """One row: what its devices did lately, None where it held none; what the viewer may do; how far an array
    is, from which template it was made, and what keeps it from every node.
    """

    workload: Workload
    lately: Lately | None = None
    may_open: bool = False
    may_stop: bool = False
    array: Standing | None = None
    made_from: str = ""
    unplaced: str = ""

    @property
    def what(self) -> str:
        """The template it was made from, else its kind."""
        return self.made_from or Kind(self.workload.kind).label


def lines(
    actor: Actor,
    rows: Sequence[Workload],
    *,
    now: datetime,
    may_stop: Callable[[Workload], bool] | None = None,
) -> list[Line]:
    """The same few queries for one row and for a page of them."""
    lately, opens = _by_workload(actor, rows, now), openable(actor, rows)
    names, unplaced = names_of(row.template for row in rows), _unplaced(actor, rows, now)
    return [
        Line(
            row,
            lately.get(row.pk),
            row.pk in opens,
            may_stop is not None and may_stop(row),
            standing_of(row),
            f"{names.get(row.template, row.template)} v{row.template_version}" if row.template else "",
            unplaced.get(row.pk, ""),
        )
        for row in rows
    ]


def _unplaced(actor: Actor, rows: Sequence[Workload], now: datetime) -> dict[UUID, str]:
    """Why what Kueue let in does not start. It is rare, so each is explained by itself."""
    stuck = [row for row in rows if is_unschedulable(row.conditions)]
    queues = waiting.queues_of({row.cluster_id for row in stuck}) if stuck else None
    found = ((row.pk, waiting.explanation_for(actor, row, now, queues)) for row in stuck)
    return {pk: why.sentences[0] for pk, why in found if why}


def _by_workload(actor: Actor, rows: Sequence[Workload], now: datetime) -> dict[UUID, Lately]:
    ends = series.as_of(now) if rows else None
    if ends is None:
        return {}
    steps = series.steps_until(ends, STEP, COUNT)
    held = series.held_for(actor).filter(workload__in=[row.pk for row in rows])
    found = series.series(held, steps, "workload", of=("sm_seen", "sm"))
    return {key: _lately(series.filled(sums, steps)) for (key,), sums in found.items()}


def _lately(sums: Sequence[Sums]) -> Lately:
    return Lately([each.told("sm") for each in sums], series.together(sums).told("sm"))
