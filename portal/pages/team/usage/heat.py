"""Picture (d) on a page: which devices did what, half-hour by half-hour, with its table and its file."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import QuerySet
from django.http import HttpResponse

from apps.metering.findings.rules.messages import percent
from apps.metering.models import Bucket
from apps.metering.usage.rules.device_states import State, state_of
from apps.metering.usage.selectors import series
from apps.metering.usage.selectors.aggregates import Steps
from apps.metering.usage.selectors.series import Sums
from apps.metering.usage.selectors.state_cells import HEAD, cells, lines, spell
from apps.web.requests.sheets import csv_file
from portal.pages.parts.pictures.heat_map import HeatMap, HeatRow
from portal.pages.team.usage.use import Asked, hourly, is_heavy

CELLS = {
    "1h": (timedelta(minutes=5), 12),
    "24h": (timedelta(minutes=30), 48),
    "7d": (timedelta(hours=3), 56),
    "30d": (timedelta(hours=12), 60),
}
MOST = 50
HOUR = 3_600_000_000
"""In microseconds."""


@dataclass(frozen=True)
class Row:
    """A device's hours by state, as the table has them, and GPU-hours of waste."""

    name: str
    node: str
    hours: Mapping[State, float]
    wasted: float

    @property
    def used(self) -> float:
        """Hours in any of the used states."""
        return sum(value for state, value in self.hours.items() if state.is_used)

    def columns(self) -> list[tuple[str, float]]:
        """Name and hours of the columns of the table."""
        asleep = [(each.short.capitalize(), self.hours.get(each, 0.0)) for each in State if not each.is_used]
        return [("Used", self.used), *asleep]


@dataclass(frozen=True)
class Shown:
    """The picture, its table, and how many devices there are in all; without a map nothing was held."""

    heat: HeatMap | None = None
    rows: Sequence[Row] = ()
    total: int = 0
    skipped: int = 0
    most: int = MOST

    @property
    def more(self) -> int | None:
        """How many to skip for the next page; None on the last."""
        after = self.skipped + self.most
        return after if after < self.total else None


def shown(rows: QuerySet[Bucket], wanted: Asked, *, now: datetime, skip: int = 0) -> Shown:
    """The devices of these buckets, most waste first, a page of them."""
    cut = _steps(rows, wanted, now)
    if cut is None:
        return Shown()
    found = cells(rows, cut)
    wasted = {key: _wasted(sums.values()) for key, sums in found.items()}
    ordered = sorted(found, key=lambda key: (-wasted[key], key[1], key[0]))
    table, pictured = [], []
    for gpu, node in ordered[skip : skip + MOST]:
        states = _states(found[gpu, node], cut)
        pictured.append(HeatRow(short_name(gpu, node), states))
        hours = {state: n * cut.micros / HOUR for state, n in Counter(states).items()}
        table.append(Row(short_name(gpu, node), node, hours, wasted[gpu, node] / HOUR))
    if not table:
        return Shown(total=len(ordered), skipped=skip)
    heat = HeatMap(pictured, cut.begins, cut.step, words_of(table, len(ordered)))
    return Shown(heat, table, len(ordered), skip)


def csv_of(rows: QuerySet[Bucket], wanted: Asked, name: str, *, now: datetime) -> HttpResponse:
    """Every cell of every device."""
    cut = _steps(rows, wanted, now)
    return csv_file(f"{name}-{wanted.span}", HEAD, lines(cells(rows, cut), cut) if cut else iter(()))


def short_name(gpu: str, node: str) -> str:
    """`gpu-01 3f2a`: the node and the end of the UUID, since nobody reads more of one."""
    tail = gpu.rsplit("-", 1)[-1][-4:] if gpu.startswith("GPU-") else gpu.rsplit("/", 1)[-1]
    return f"{node} {tail}" if node else tail


def _steps(rows: QuerySet[Bucket], wanted: Asked, now: datetime) -> Steps | None:
    ends = series.as_of(now)
    if ends is None:
        return None
    cut = series.steps_until(ends, *CELLS[wanted.span])
    return hourly(cut) if is_heavy(rows, cut) else cut


def _wasted(sums: Iterable[Sums]) -> int:
    """GPU-microseconds that were seen and not effective."""
    return sum(each.seen - each.effective for each in sums)


def _states(sums: Mapping[int, Sums], cut: Steps) -> list[State]:
    return [state_of(spell(each, cut.micros)) for each in series.filled(sums, cut)]


def words_of(rows: Sequence[Row], total: int) -> str:
    """The conclusion: of the time held, the part of each state; a little is `< 1 %`, never 0."""
    hours: Counter[State] = Counter()
    for row in rows:
        hours.update(row.hours)
    held = sum(value for state, value in hours.items() if state is not State.FREE)
    if not held:
        return "Nothing was held."
    parts = [
        f"{word} {percent(part / held)}"
        for word, part in (
            ("used", sum(row.used for row in rows)),
            ("hoarded", hours[State.HOARDED]),
            ("idle", hours[State.IDLE]),
            ("unknown", hours[State.UNKNOWN]),
        )
        if part
    ]
    devices = f"{total} device{'s' if total != 1 else ''}"
    return f"{devices}: of the time they were held, {', '.join(parts)}"
