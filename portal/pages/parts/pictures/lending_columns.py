"""The picture of what a tenant used, lent and borrowed of an offer over time. Pure: plain values in, SVG out.

One column a step: from below what ran within the guarantee, what others ran on (lent), what lay idle, what
has no known guarantee (hatched); above the guarantee what was borrowed. Places are in percent; colours come
by class.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby
from xml.etree.ElementTree import Element, SubElement, tostring
from xml.sax.saxutils import escape

from portal.pages.parts.pictures.charts import percent
from portal.pages.parts.pictures.usage_curves import round_up

HEIGHT = 120
LAYERS = ("own", "lent", "free", "unknown", "borrowed")


@dataclass(frozen=True)
class Column:
    """Devices in one step, each on top of the one before; None is unknown, and drawn as `unknown`."""

    at: datetime
    own: float | None
    lent: float | None
    free: float | None
    unknown: float
    borrowed: float | None

    def of(self, layer: str) -> float:
        """What is drawn of a layer."""
        return getattr(self, layer) or 0.0


def lending_chart(columns: Sequence[Column], words: str) -> str:
    """The columns under one scale, which ends at a round number of devices."""
    top = round_up(max((sum(map(each.of, LAYERS)) for each in columns), default=0.0))
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
    names = ("Used of the guarantee", "Lent", "Idle", "Unknown", "Borrowed")
    heads = "".join(f'<th scope="col" class="figure">{name}</th>' for name in names)
    form = "%-d %b" if step >= timedelta(days=1) else "%-d %b %H:%M"
    cells = [
        (layer, f'<td class="figure" data-label="{name}">') for name, layer in zip(names, LAYERS, strict=True)
    ]
    body = []
    for column in columns:
        at = f'<time datetime="{column.at.isoformat()}">{column.at:{form}}</time>'
        figures = "".join(f"{cell}{_figure(getattr(column, layer))}</td>" for layer, cell in cells)
        body.append(f'<tr><th scope="row">{at}</th>{figures}</tr>')
    return (
        f'<table class="cards"><caption class="visually-hidden">{escape(caption)}</caption>'
        f'<thead><tr><th scope="col">From</th>{heads}</tr></thead><tbody>{"".join(body)}</tbody></table>'
    )


def _figure(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.1f}"


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
    below = sum(map(column.of, LAYERS[: LAYERS.index(layer)]))
    return below / top, column.of(layer) / top


def _rect(svg: Element, kind: str, span: tuple[float, float], lane: tuple[float, float]) -> None:
    rect = SubElement(svg, "rect", {"class": kind, "x": percent(span[0], 1), "width": percent(span[1], 1)})
    rect.set("y", percent(1 - lane[0] - lane[1], 1))
    rect.set("height", percent(lane[1], 1))
