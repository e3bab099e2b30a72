"""The picture of what a tenant used, lent and borrowed of an offer over time. Pure: plain values in, SVG out.

One column a step: from below what ran within the guarantee, what others ran on (lent), what lay idle; above
the guarantee what was borrowed. Places are in percent; colours come by class.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby
from xml.etree.ElementTree import Element, SubElement, tostring

from apps.web.charts import percent
from apps.web.pictures_usage import round_up

HEIGHT = 120
LAYERS = ("own", "lent", "free", "borrowed")


@dataclass(frozen=True)
class Column:
    """Devices in one step, each on top of the one before."""

    at: datetime
    own: float
    lent: float
    free: float
    borrowed: float


def lending_chart(columns: Sequence[Column], words: str) -> str:
    """The columns under one scale, which ends at a round number of devices."""
    top = round_up(max((c.own + c.lent + c.free + c.borrowed for c in columns), default=0.0))
    svg = Element("svg", {"class": "picture", "width": "100%", "height": str(HEIGHT), "role": "img"})
    svg.set("aria-label", words)
    for part in (0.5, 1.0):
        y = percent(1 - part, 1)
        SubElement(svg, "line", {"class": "u-grid", "x1": "0", "x2": "100%", "y1": y, "y2": y})
    for layer in LAYERS:
        for first, count, lane in _runs(columns, layer, top):
            _rect(svg, f"p-{layer}", (first / len(columns), count / len(columns)), lane)
    return tostring(svg, encoding="unicode")


def lending_table(columns: Sequence[Column], caption: str, step: timedelta) -> str:
    """The same figures in words."""
    table = Element("table", {"class": "cards"})
    SubElement(table, "caption", {"class": "visually-hidden"}).text = caption
    head = SubElement(SubElement(table, "thead"), "tr")
    names = ("Used of the guarantee", "Lent", "Idle", "Borrowed")
    SubElement(head, "th", {"scope": "col"}).text = "From"
    for name in names:
        SubElement(head, "th", {"scope": "col", "class": "figure"}).text = name
    body = SubElement(table, "tbody")
    for column in columns:
        row = SubElement(body, "tr")
        first = SubElement(row, "th", {"scope": "row"})
        moment = SubElement(first, "time", {"datetime": column.at.isoformat()})
        moment.text = f"{column.at:%-d %b}" if step >= timedelta(days=1) else f"{column.at:%-d %b %H:%M}"
        for name, layer in zip(names, LAYERS, strict=True):
            cell = SubElement(row, "td", {"class": "figure", "data-label": name})
            cell.text = f"{getattr(column, layer):.1f}"
    return tostring(table, encoding="unicode")


def _runs(
    columns: Sequence[Column], layer: str, top: float
) -> Iterator[tuple[int, int, tuple[float, float]]]:
    """Neighbours that are alike as one: the first, how many, and (below, size) as parts of the height.

    Else the outline of what is free would draw a line between any two steps.
    """
    first = 0
    lanes = [_lane(column, layer, top) for column in columns]
    for lane, alike in groupby(lanes):
        count = len(list(alike))
        if lane[1] > 0:
            yield first, count, lane
        first += count


def _lane(column: Column, layer: str, top: float) -> tuple[float, float]:
    below = sum(getattr(column, each) for each in LAYERS[: LAYERS.index(layer)])
    return below / top, getattr(column, layer) / top


def _rect(svg: Element, kind: str, span: tuple[float, float], lane: tuple[float, float]) -> None:
    rect = SubElement(svg, "rect", {"class": kind, "x": percent(span[0], 1), "width": percent(span[1], 1)})
    rect.set("y", percent(1 - lane[0] - lane[1], 1))
    rect.set("height", percent(lane[1], 1))
