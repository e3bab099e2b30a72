"""Picture (d): devices by time, each cell the first state that holds. Pure: sums in, markup out."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby
from typing import NamedTuple
from xml.etree.ElementTree import Element, SubElement, tostring

from apps.web.charts import percent
from apps.web.pictures_usage import ticks
from apps.words import Word

ROW, BAND = 20, 16
AXIS = 24
SPARSE = 0.5
"""Below this share of what was held, a device's time is unknown."""


class State(Word):
    """What a device did, in the order in which the states are asked."""

    MAINTENANCE = "maintenance", "in maintenance"
    UNKNOWN = "unknown", "unknown: no telemetry"
    FREE = "free", "free"
    HOARDED = "hoarded", "hoarded"
    IDLE = "idle", "idle"
    USED_25 = "used-25", "used, SM active to 25 %"
    USED_50 = "used-50", "to 50 %"
    USED_75 = "used-75", "to 75 %"
    USED_100 = "used-100", "to 100 %"

    @property
    def short(self) -> str:
        """The word alone, for the head of a column."""
        return self.value

    @property
    def is_used(self) -> bool:
        """Held, and at work."""
        return self.value.startswith("used-")


class Spell(NamedTuple):
    """What one device did in one cell, as device-time in any one unit. A tuple, because a picture has a
    thousand.

    `whole` is the cell, `apart` maintenance, `held` what somebody held, `seen` what telemetry tells of that;
    of what was seen, `hoarded`, `idle`, and `sm`, the time x SM active.
    """

    whole: float
    apart: float = 0.0
    held: float = 0.0
    seen: float = 0.0
    hoarded: float = 0.0
    idle: float = 0.0
    sm: float = 0.0


_LIMITS = (0.25, 0.5, 0.75)
_LEVELS = (State.USED_25, State.USED_50, State.USED_75, State.USED_100)


def state_of(spell: Spell) -> State:
    """RULE: the first that holds: maintenance for most of the cell; unknown: less than half of what was held
    is seen; free: nobody held it; hoarded, idle: most of what was seen; else used, by SM active.
    """
    if spell.apart * 2 > spell.whole:
        return State.MAINTENANCE
    if spell.held <= spell.whole * 0.001:
        return State.FREE
    if spell.seen < spell.held * SPARSE:
        return State.UNKNOWN
    if spell.hoarded * 2 > spell.seen:
        return State.HOARDED
    if (spell.hoarded + spell.idle) * 2 > spell.seen:
        return State.IDLE
    return _used(spell.sm / spell.seen)


def _used(active: float) -> State:
    return _LEVELS[bisect_left(_LIMITS, active)]


@dataclass(frozen=True)
class HeatRow:
    """One device: its name and its cells from the first moment on."""

    name: str
    cells: Sequence[State]


@dataclass(frozen=True)
class HeatMap:
    """Rows of equally many cells of `step` from `begins` on."""

    rows: Sequence[HeatRow]
    begins: datetime
    step: timedelta
    words: str

    @property
    def columns(self) -> int:
        """Cells of a row."""
        return len(self.rows[0].cells) if self.rows else 0

    @property
    def ends(self) -> datetime:
        """The end of the last cell."""
        return self.begins + self.step * self.columns


def heat_map(heat: HeatMap) -> str:
    """Picture (d): a row of runs per device; neighbours in the same state are one rectangle."""
    height = ROW * len(heat.rows) + AXIS
    frame = Element("div", {"class": "heat-plot"})
    names = SubElement(frame, "svg", {"class": "heat-names", "height": str(height), "aria-hidden": "true"})
    svg = SubElement(frame, "svg", {"class": "heat", "width": "100%", "height": str(height), "role": "img"})
    svg.set("aria-label", heat.words)
    svg.set("data-begins", heat.begins.isoformat())
    svg.set("data-step", f"{heat.step.total_seconds():.0f}")
    svg.set("data-columns", str(heat.columns))
    for index, row in enumerate(heat.rows):
        name = SubElement(names, "text", {"x": "0", "y": str(index * ROW + 12)})
        name.text = row.name
    SubElement(svg, "g")
    _axis(svg, heat, ROW * len(heat.rows))
    # As text: there may be a thousand, and an element costs more than its few numbers.
    bands = "".join(_band(row, index * ROW, heat.columns) for index, row in enumerate(heat.rows))
    return tostring(frame, encoding="unicode").replace("<g />", f"<g>{bands}</g>")


def _band(row: HeatRow, top: int, columns: int) -> str:
    """Nothing but our own words and numbers is in it."""
    drawn, place = [], 0
    for state, run in groupby(row.cells):
        size = len(list(run))
        x, width = percent(place, columns, digits=2), percent(size, columns, digits=2)
        drawn.append(f'<rect class="h-{state}" x="{x}" y="{top}" width="{width}" height="{BAND}"/>')
        place += size
    return "".join(drawn)


def _axis(svg: Element, heat: HeatMap, top: int) -> None:
    for at, words in ticks(heat.begins, heat.ends):
        part = (at - heat.begins) / (heat.ends - heat.begins)
        x = percent(part, 1, digits=2)
        SubElement(svg, "line", {"class": "u-tick", "x1": x, "x2": x, "y1": str(top), "y2": str(top + 4)})
        anchor = "start" if part < 0.04 else "end" if part > 0.96 else "middle"
        label = SubElement(svg, "text", {"x": x, "y": str(top + 18), "text-anchor": anchor})
        label.text = words


def heat_key() -> list[tuple[str, str]]:
    """Class and words of every state, in order."""
    return [(f"h-{state}", state.label) for state in State]
