"""Picture (d): devices by time, each cell the first state that holds. Pure: sums in, markup out."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby
from xml.etree.ElementTree import Element, SubElement, tostring

from apps.metering.usage.rules.device_states import State
from portal.pages.parts.pictures.charts import percent
from portal.pages.parts.pictures.usage_curves import ticks

ROW, BAND = 20, 16
AXIS = 24


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
